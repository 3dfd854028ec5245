//! What commands may know of the running monitor beside its durable state.

use super::Settings;
use super::balance::BalancerStatus;
use super::liveness::SilentOsd;
use crate::control::Revision;
use crate::progress::Progress;
use crate::services::ServiceMap;
use engine::Time;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use types::{EntityAddr, EntityAddrVec, EntityName, EntityType, Epoch, OsdId};

/// Operations that are remembered when they are done.
pub const OPERATIONS_KEPT: usize = 20;

#[derive(Debug, Clone, Default)]
pub struct Overview {
    pub mon_name: String,
    pub mgr_name: String,
    pub hostname: String,
    /// What metadata says of this machine.
    pub host_facts: BTreeMap<String, String>,
    pub started: Time,
    /// Open sessions by number, for `features` and `sessions`.
    pub peers: BTreeMap<u64, PeerSummary>,
    /// OSDs that may not boot for a while because they flap.
    pub kept_down: Vec<OsdId>,
    /// OSDs that are up although they are silent.
    pub silent: Vec<SilentOsd>,
    pub progress: Progress,
    pub balancer: BalancerStatus,
    /// Daemons that clients run; known to the leader alone.
    pub services: ServiceMap,
    /// Why and since when the control store does not answer this monitor.
    pub store_trouble: Option<StoreTrouble>,
    /// Why and since when it takes no writes, although it may answer otherwise.
    pub store_refusal: Option<StoreTrouble>,
    /// Why and since when it cannot be read, although it answers otherwise.
    pub store_unread: Option<StoreTrouble>,
    /// The last change of the monitor's own that it will never take.
    pub refused_change: Option<RefusedChange>,
    /// The entry of the control store that this monitor cannot read, and since when.
    pub store_unreadable: Option<StoreTrouble>,
    /// Why the control store must be one that was restored.
    pub went_back: Option<WentBack>,
    /// How far the clocks of other monitors are from the leader's, by name.
    pub skews: BTreeMap<String, Skew>,
    pub operations: Operations,
}

/// Work that clients asked for.
#[derive(Debug, Clone, Default)]
pub struct Operations {
    waiting: Vec<Operation>,
    done: VecDeque<Operation>,
    count: u64,
}

#[derive(Debug, Clone)]
pub struct Operation {
    pub sequence: u64,
    pub description: String,
    pub source: String,
    pub asked: Time,
    pub done: Option<Time>,
}

impl Operation {
    pub fn duration(&self) -> Duration {
        self.done.map(|done| done.since(self.asked)).unwrap_or_default()
    }
}

impl Operations {
    /// All of them, each time.
    pub(super) fn take_waiting(&mut self, waiting: impl Iterator<Item = Operation>) {
        self.waiting = waiting.collect();
    }

    pub(super) fn note_done(&mut self, now: Time, operation: Operation) {
        self.count += 1;
        let sequence = self.count;
        self.done.push_back(Operation { sequence, done: Some(now), ..operation });
        if self.done.len() > OPERATIONS_KEPT {
            self.done.pop_front();
        }
    }

    pub fn in_flight(&self) -> impl Iterator<Item = &Operation> {
        self.waiting.iter()
    }

    /// The last ones, oldest first.
    pub fn done(&self) -> impl Iterator<Item = &Operation> {
        self.done.iter()
    }
}

/// How a control store showed that it is an older one than the cluster has had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WentBack {
    /// An OSD has a map that the store does not know.
    Map { osd: OsdId, epoch: Epoch },
    /// This monitor has seen a newer map.
    Seen { epoch: Epoch },
    /// It had counted further before.
    Revision { known: Revision, found: Revision },
}

/// How far another monitor's clock is from this one's, in seconds; ahead is positive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Skew {
    pub seconds: f64,
    /// What the measurement may be wrong by.
    pub latency: f64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreTrouble {
    pub since: Time,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedChange {
    pub when: Time,
    pub reason: String,
}

#[derive(Debug, Clone)]
pub struct PeerSummary {
    pub kind: EntityType,
    pub name: EntityName,
    pub addrs: EntityAddrVec,
    pub features: u64,
    pub global_id: u64,
    pub seen_addr: EntityAddr,
    /// Its capabilities, as they are written.
    pub caps: String,
}

impl Skew {
    /// Whether the clocks are certainly further apart than that.
    pub fn is_beyond(&self, allowed: f64) -> bool {
        self.seconds.abs() > allowed + self.latency
    }
}

impl Overview {
    pub fn new(settings: &Settings) -> Self {
        Overview {
            mon_name: settings.mon_name.clone(),
            mgr_name: settings.mgr_name.clone(),
            hostname: settings.hostname.clone(),
            ..Overview::default()
        }
    }
}
