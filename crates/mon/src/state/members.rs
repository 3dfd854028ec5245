//! Membership of the monitors: which exist, which are alive, which one leads.

use super::config::Overrides;
use super::data::{Applied, Key, State};
use super::values::{decoded, json, set};
use crate::control::Revision;
use crate::keys::{self, Group};
use bytes::Bytes;
use maps::MonMap;

impl Group {
    pub const MONMAP: Group = Group::named("monmap");
}

/// Keys that go with the lease of a monitor, and the clock, are written without a version.
pub(super) const KEYS: &[Key] = &[
    Key { name: "monmap", group: Some(Group::MONMAP), apply: apply_map },
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

impl State {
    /// Clock skew in seconds beyond which health warns.
    pub fn clock_drift_allowed(&self, running: &Overrides) -> f64 {
        self.options(running).real("mon_clock_drift_allowed")
    }

    /// Ranks and names of the live monitors; of all monitors if none has published its presence yet.
    pub fn quorum(&self) -> Vec<(usize, &str)> {
        let all = || self.monmap.ranks.iter().map(String::as_str).enumerate();
        let alive: Vec<_> =
            all().filter(|(_, name)| self.members.present.contains_key(*name)).collect();
        if alive.is_empty() { all().collect() } else { alive }
    }

    /// The revision at which the current leader was elected.
    pub(crate) fn leader_revision(&self) -> Option<Revision> {
        self.members.leader.as_ref().and_then(|_| self.loose.get(keys::LEADER).copied())
    }

    /// A number that grows with each change of the leader; odd, as after an election.
    pub fn election_epoch(&self) -> u32 {
        self.leader_revision().unwrap_or(1) as u32 * 2 + 1
    }

    /// The name of the leader, or of the first monitor in rank order if there is none.
    pub fn leader_name(&self) -> &str {
        let first = || self.monmap.ranks.first().map_or("", String::as_str);
        self.members.leader.as_ref().map_or_else(first, |leader| leader.name.as_str())
    }

    /// Monitors of the map that are not alive.
    pub fn absent_monitors(&self) -> Vec<&str> {
        let alive = self.quorum();
        let names = self.monmap.ranks.iter().map(String::as_str);
        names.filter(|name| alive.iter().all(|(_, alive)| alive != name)).collect()
    }
}
