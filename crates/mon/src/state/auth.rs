//! Entities with their keys and capabilities, rotating secrets, and global ids.

use super::data::Key;
use super::values::{decoded, number, set};
use crate::keys::VersionGroup;

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "auth",
        group: Some(VersionGroup::AUTH),
        apply: |state, rest, value| {
            let entity = rest.parse().map_err(|()| None)?;
            set(&mut state.entities, entity, decoded("entity", value)?);
            Ok(())
        },
    },
    Key {
        name: "secrets",
        group: Some(VersionGroup::AUTH),
        apply: |state, _, value| {
            state.secrets = decoded("secrets", value)?.unwrap_or_default();
            Ok(())
        },
    },
    Key {
        name: "meta",
        group: Some(VersionGroup::META),
        apply: |state, _, value| {
            state.global_id_next = value.map(number).transpose()?.unwrap_or(0);
            Ok(())
        },
    },
];
