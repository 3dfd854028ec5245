//! The manager map.

use super::data::Key;
use super::values::decoded;
use crate::keys::VersionGroup;

pub(super) const KEYS: &[Key] = &[Key {
    name: "mgrmap",
    group: Some(VersionGroup::MGRMAP),
    apply: |state, _, value| {
        state.mgrmap = decoded("manager map", value)?.unwrap_or_default();
        Ok(())
    },
}];
