//! The manager map.

use super::data::Key;
use super::values::decoded;
use crate::keys::Group;

impl Group {
    pub const MGRMAP: Group = Group::named("mgrmap");
}

pub(super) const KEYS: &[Key] = &[Key {
    name: "mgrmap",
    group: Some(Group::MGRMAP),
    apply: |state, _, value| {
        state.mgrmap = decoded("manager map", value)?.unwrap_or_default();
        Ok(())
    },
}];
