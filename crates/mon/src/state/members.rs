//! The monitors: which exist, which are alive, which one leads.

use super::State;
use crate::control::Revision;
use crate::keys;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Who owns the timers, as long as its lease lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leader {
    pub name: String,
    /// Tells the runs of a monitor apart.
    pub incarnation: u64,
}

/// What a monitor says of itself while it is alive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Presence {
    pub incarnation: u64,
    pub hostname: String,
    /// The manager that it plays when it leads.
    pub manager: String,
    /// Of its machine; a monitor of an older build tells none.
    #[serde(default)]
    pub host_facts: BTreeMap<String, String>,
}

impl State {
    /// Ranks and names of the monitors that are alive. All, when nobody has said so yet.
    pub fn quorum(&self) -> Vec<(usize, &str)> {
        let all = || self.monmap.ranks.iter().map(String::as_str).enumerate();
        let alive: Vec<_> = all().filter(|(_, name)| self.present.contains_key(*name)).collect();
        if alive.is_empty() { all().collect() } else { alive }
    }

    /// Since which transaction the leader leads.
    pub(crate) fn leader_revision(&self) -> Option<Revision> {
        self.leader.as_ref().and_then(|_| self.loose.get(keys::LEADER).copied())
    }

    /// A number that grows with each change of the leader; odd, as after an election.
    pub fn election_epoch(&self) -> u32 {
        self.leader_revision().unwrap_or(1) as u32 * 2 + 1
    }

    /// The name of the leader, or of the one that comes first.
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
