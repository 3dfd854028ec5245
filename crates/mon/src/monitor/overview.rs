//! The running monitor's volatile state as commands and health checks see it.

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

/// Bound of the completed operations that are remembered.
pub const OPERATIONS_KEPT: usize = 20;

/// See the module. Most of it is complete at the leader only.
#[derive(Debug, Clone, Default)]
pub struct Overview {
    pub mon_name: String,
    pub mgr_name: String,
    pub hostname: String,
    /// Facts of this host for the metadata.
    pub host_facts: BTreeMap<String, String>,
    /// Start of this run: the time of the first load.
    pub started: Time,
    /// Open sessions by number, for `features` and `sessions`.
    pub peers: BTreeMap<u64, PeerSummary>,
    /// OSDs that are kept down for a while because they flap.
    pub kept_down: Vec<OsdId>,
    /// OSDs that are up although they are silent.
    pub silent: Vec<SilentOsd>,
    pub progress: Progress,
    pub balancer: BalancerStatus,
    /// Daemons outside of the cluster; known at the leader only.
    pub services: ServiceMap,
    /// Set while the control store does not answer this monitor.
    pub store_trouble: Option<StoreTrouble>,
    /// Set while the store refuses writes, although it may answer otherwise.
    pub store_refusal: Option<StoreTrouble>,
    /// Set while the store cannot be read, although it answers otherwise.
    pub store_unread: Option<StoreTrouble>,
    /// The last change of the monitor's own that the store refused for good.
    pub refused_change: Option<RefusedChange>,
    /// Set while the store has an entry that this monitor cannot decode.
    pub store_unreadable: Option<StoreTrouble>,
    /// The evidence that the control store is older than the cluster.
    pub went_back: Option<WentBack>,
    /// Clock skews of other monitors relative to the leader, by name.
    pub skews: BTreeMap<String, Skew>,
    pub operations: Operations,
}

/// Requests of clients, waiting and completed.
#[derive(Debug, Clone, Default)]
pub struct Operations {
    waiting: Vec<Operation>,
    done: VecDeque<Operation>,
    count: u64,
}

/// One request of a client.
#[derive(Debug, Clone)]
pub struct Operation {
    /// Number of completion; zero while it waits.
    pub sequence: u64,
    pub description: String,
    /// The session, for `dump_ops_in_flight`.
    pub source: String,
    /// Time of arrival.
    pub asked: Time,
    /// Time of completion; `None` while it waits.
    pub done: Option<Time>,
}

impl Operation {
    /// From arrival to completion; zero while it waits.
    pub fn duration(&self) -> Duration {
        self.done.map(|done| done.since(self.asked)).unwrap_or_default()
    }
}

impl Operations {
    /// Replaces the list of waiting operations.
    pub(super) fn take_waiting(&mut self, waiting: impl Iterator<Item = Operation>) {
        self.waiting = waiting.collect();
    }

    /// Adds a completed operation, and drops the oldest one beyond [`OPERATIONS_KEPT`].
    pub(super) fn note_done(&mut self, now: Time, operation: Operation) {
        self.count += 1;
        let sequence = self.count;
        self.done.push_back(Operation { sequence, done: Some(now), ..operation });
        if self.done.len() > OPERATIONS_KEPT {
            self.done.pop_front();
        }
    }

    /// The waiting operations as of the last `take_waiting`.
    pub fn in_flight(&self) -> impl Iterator<Item = &Operation> {
        self.waiting.iter()
    }

    /// The completed operations, oldest first.
    pub fn done(&self) -> impl Iterator<Item = &Operation> {
        self.done.iter()
    }
}

/// The evidence that a control store is older than the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WentBack {
    /// An OSD has a map that the store does not contain.
    Map { osd: OsdId, epoch: Epoch },
    /// This monitor has seen a newer map.
    Seen { epoch: Epoch },
    /// The store's revision was greater before.
    Revision { known: Revision, found: Revision },
}

/// The clock skew of another monitor in seconds; positive if it is ahead.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Skew {
    pub seconds: f64,
    /// Uncertainty of the measurement, in seconds.
    pub latency: f64,
}

/// A failure of the control store, and when it began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreTrouble {
    pub since: Time,
    pub reason: String,
}

/// A change that the store will never take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedChange {
    pub when: Time,
    pub reason: String,
}

/// An open session, for `features` and `sessions`.
#[derive(Debug, Clone)]
pub struct PeerSummary {
    pub kind: EntityType,
    pub name: EntityName,
    pub addrs: EntityAddrVec,
    pub features: u64,
    pub global_id: u64,
    /// The address that the peer was seen to connect from.
    pub seen_addr: EntityAddr,
    /// Its capabilities as text.
    pub caps: String,
}

impl Skew {
    /// Whether the skew certainly exceeds `allowed` seconds.
    pub fn is_beyond(&self, allowed: f64) -> bool {
        self.seconds.abs() > allowed + self.latency
    }
}

impl Overview {
    /// The overview of a monitor that has just started.
    pub fn new(settings: &Settings) -> Self {
        Overview {
            mon_name: settings.mon_name.clone(),
            mgr_name: settings.mgr_name.clone(),
            hostname: settings.hostname.clone(),
            ..Overview::default()
        }
    }
}
