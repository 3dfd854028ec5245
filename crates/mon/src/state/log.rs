//! The cluster log, and muted health checks.

use super::data::Key;
use super::values::{decoded, json, set};
use crate::keys::VersionGroup;

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "log",
        group: Some(VersionGroup::LOG),
        apply: |state, rest, value| {
            let sequence = rest.parse().map_err(|_| None)?;
            set(&mut state.log, sequence, decoded("log entry", value)?);
            Ok(())
        },
    },
    Key {
        name: "health",
        group: Some(VersionGroup::HEALTH),
        apply: |state, _, value| {
            state.mutes = value.map(json).transpose()?.unwrap_or_default();
            Ok(())
        },
    },
];
