//! Membership of the monitors: which exist, which are alive, which one leads.

use super::State;
use crate::control::Revision;
use crate::keys;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The owner of the timers, as long as its lease lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leader {
    pub name: String,
    /// Distinguishes the runs of a monitor.
    pub incarnation: u64,
}

/// Facts that a live monitor publishes about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Presence {
    pub incarnation: u64,
    pub hostname: String,
    /// Name of the manager that it stands in for when it leads.
    pub manager: String,
    /// Facts about its host; empty for a monitor of an older release.
    #[serde(default)]
    pub host_facts: BTreeMap<String, String>,
}

impl State {
    /// Ranks and names of the live monitors; of all monitors if none has published its presence yet.
    pub fn quorum(&self) -> Vec<(usize, &str)> {
        let all = || self.monmap.ranks.iter().map(String::as_str).enumerate();
        let alive: Vec<_> = all().filter(|(_, name)| self.present.contains_key(*name)).collect();
        if alive.is_empty() { all().collect() } else { alive }
    }

    /// The revision at which the current leader was elected.
    pub(crate) fn leader_revision(&self) -> Option<Revision> {
        self.leader.as_ref().and_then(|_| self.loose.get(keys::LEADER).copied())
    }

    /// A number that grows with each change of the leader; odd, as after an election.
    pub fn election_epoch(&self) -> u32 {
        self.leader_revision().unwrap_or(1) as u32 * 2 + 1
    }

    /// The name of the leader, or of the first monitor in rank order if there is none.
    pub fn leader_name(&self) -> &str {
        let first = || self.monmap.ranks.first().map_or("", String::as_str);
        self.leader.as_ref().map_or_else(first, |leader| leader.name.as_str())
    }

    /// Monitors of the map that are not alive.
    pub fn absent_monitors(&self) -> Vec<&str> {
        let alive = self.quorum();
        let names = self.monmap.ranks.iter().map(String::as_str);
        names.filter(|name| alive.iter().all(|(_, alive)| alive != name)).collect()
    }
}
