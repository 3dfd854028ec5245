//! Membership of the monitors: which exist, which are alive, which one leads.

use super::data::{Applied, Key, State};
use super::values::{decoded, json, set};
use crate::keys::VersionGroup;
use bytes::Bytes;
use maps::MonMap;

/// Keys that go with the lease of a monitor, and the clock, are written without a version.
pub(super) const KEYS: &[Key] = &[
    Key { name: "monmap", group: Some(VersionGroup::MONMAP), apply: apply_map },
    Key {
        name: "leader",
        group: None,
        apply: |state, _, value| {
            state.members.leader = value.map(json).transpose()?;
            Ok(())
        },
    },
    Key {
        name: "clock",
        group: None,
        apply: |state, _, value| {
            state.members.clock = value.map(json).transpose()?;
            Ok(())
        },
    },
    Key {
        name: "present",
        group: None,
        apply: |state, rest, value| {
            set(&mut state.members.present, rest.to_owned(), value.map(json).transpose()?);
            Ok(())
        },
    },
];

fn apply_map(state: &mut State, _: &str, value: Option<&Bytes>) -> Applied {
    if let Some(map) = decoded::<MonMap>("monitor map", value)?
        && map.epoch >= state.monmap.epoch
    {
        state.monmap = map;
    }
    Ok(())
}
