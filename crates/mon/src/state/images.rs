//! Background work on images: tasks and schedules.

use super::data::Key;
use super::values::{json, set};
use crate::keys::VersionGroup;

/// They share the group of the users' key-value store.
pub(super) const KEYS: &[Key] = &[
    Key {
        name: "image-task",
        group: Some(VersionGroup::CONFIG_KEY),
        apply: |state, rest, value| {
            let sequence = rest.parse().map_err(|_| None)?;
            set(&mut state.images.tasks, sequence, value.map(json).transpose()?);
            Ok(())
        },
    },
    Key {
        name: "image-schedule",
        group: Some(VersionGroup::CONFIG_KEY),
        apply: |state, rest, value| {
            let (kind, level) = rest.split_once('/').unwrap_or((rest, ""));
            let key = (kind.to_owned(), level.to_owned());
            set(&mut state.images.schedules, key, value.map(json).transpose()?);
            Ok(())
        },
    },
];
