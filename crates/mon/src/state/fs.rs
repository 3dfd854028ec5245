//! The map of file systems, and facts about metadata servers.

use super::data::Key;
use super::values::{decoded, json, set};
use crate::keys::VersionGroup;

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "fsmap",
        group: Some(VersionGroup::FS),
        apply: |state, _, value| {
            state.fs.map = decoded("file system map", value)?.unwrap_or_default();
            Ok(())
        },
    },
    Key {
        name: "fs",
        group: Some(VersionGroup::FS),
        apply: |state, rest, value| {
            if let Some(("metadata", gid)) = rest.split_once('/') {
                let gid = gid.parse().map_err(|_| None)?;
                set(&mut state.fs.metadata, gid, value.map(json).transpose()?);
            }
            Ok(())
        },
    },
];
