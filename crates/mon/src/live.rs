//! State of the running monitor that is known and not stored, as commands and health checks read it.
//!
//! Each structure has one owner among the parts of the monitor. Most is complete at the leader only.

mod mds;
#[cfg(test)]
pub(crate) mod testing;

pub use mds::{MdsActivity, MdsWatch};

use crate::failures::Reported;
use crate::progress::Progress;
use crate::service_map::ServiceMap;
use crate::state::Overrides;
use crate::statistics::Statistics;
use crate::volume_work::VolumeWork;
use control::Revision;
use engine::Time;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use types::{EntityAddr, EntityAddrVec, EntityName, EntityType, Epoch, OsdId};

/// Bound of the completed operations that are remembered.
pub const OPERATIONS_KEPT: usize = 20;

/// Everything that commands and health checks read besides the durable state.
#[derive(Clone, Copy)]
pub struct Live<'a> {
    pub identity: &'a Identity,
    /// Options that are set on this monitor only.
    pub running: &'a Overrides,
    /// Reports of OSDs.
    pub stats: &'a Statistics,
    pub osds: &'a OsdWatch,
    /// Reports of metadata servers; known at the leader only.
    pub mds: &'a MdsWatch,
    /// Work on volumes; known at the leader only.
    pub volumes: &'a VolumeWork,
    /// Daemons outside of the cluster; known at the leader only.
    pub daemons: &'a ServiceMap,
    /// Clock skews of other monitors relative to the leader, by name.
    pub clocks: &'a BTreeMap<String, Skew>,
    /// Open sessions by number, for `features` and `sessions`.
    pub peers: &'a BTreeMap<u64, PeerSummary>,
    pub store: &'a StoreTroubles,
    pub operations: &'a Operations,
}

/// Names of this monitor and of its host.
#[derive(Debug, Clone, Default)]
pub struct Identity {
    pub mon_name: String,
    /// The manager that the monitor stands in for when it leads.
    pub mgr_name: String,
    pub hostname: String,
    /// Facts of this host for the metadata.
    pub host_facts: BTreeMap<String, String>,
    /// Start of this run: the time of the first load.
    pub started: Time,
    /// SHA-256 of the certificate of its console, if it serves one.
    pub console_fingerprint: Option<String>,
    /// Space of the file system with its directory, if the host tells.
    pub disk: Option<DiskSpace>,
}

/// Space of a file system, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    pub total: u64,
    /// Bytes that can still be written.
    pub available: u64,
}

/// Conclusions of the leader about OSDs.
#[derive(Debug, Clone, Default)]
pub struct OsdWatch {
    /// OSDs that are kept down for a while because they flap.
    pub kept_down: Vec<OsdId>,
    /// OSDs that are up although they are silent.
    pub silent: Vec<SilentOsd>,
    pub progress: Progress,
    pub balancer: BalancerStatus,
}

/// An OSD that is up although it is silent.
#[derive(Debug, Clone)]
pub struct SilentOsd {
    pub osd: OsdId,
    /// Time since its last report, if that is long ago.
    pub silent_for: Option<Duration>,
    /// Failure reports about it.
    pub reported: Option<Reported>,
    /// Why neither marks it down, if the reason is not lack of time or reporters.
    pub hold: Option<Hold>,
}

/// The reasons why silent OSDs stay up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// The flag `nodown`.
    NoDown,
    /// `mon_osd_min_up_ratio`.
    FewAreUp,
}

/// The balancer's last step, for `balancer status`.
#[derive(Debug, Clone, Default)]
pub struct BalancerStatus {
    /// Time at which the last step was queued.
    pub last: Option<Time>,
    /// Time at which the last step ran.
    pub started: Option<Time>,
    /// A sentence about the last step, in the words of Ceph's balancer.
    pub result: String,
    /// Whether the last step found nothing to improve.
    pub is_even: bool,
}

/// Present failures of the control store, as this monitor sees them.
#[derive(Debug, Clone, Default)]
pub struct StoreTroubles {
    /// Set while the store does not answer this monitor.
    pub unreachable: Option<StoreTrouble>,
    /// Set while the store refuses writes, although it may answer otherwise.
    pub unwritable: Option<StoreTrouble>,
    /// Set while the store cannot be read, although it answers otherwise.
    pub unread: Option<StoreTrouble>,
    /// Set while the store has an entry that this monitor cannot decode.
    pub undecodable: Option<StoreTrouble>,
    /// The last change of the monitor's own that the store refused for good.
    pub refused_change: Option<RefusedChange>,
    /// The evidence that the store is older than the cluster.
    pub went_back: Option<WentBack>,
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

impl Skew {
    /// Whether the skew certainly exceeds `allowed` seconds.
    pub fn is_beyond(&self, allowed: f64) -> bool {
        self.seconds.abs() > allowed + self.latency
    }
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
    pub fn set_waiting(&mut self, waiting: impl Iterator<Item = Operation>) {
        self.waiting = waiting.collect();
    }

    /// Adds a completed operation, and drops the oldest one beyond [`OPERATIONS_KEPT`].
    pub fn note_done(&mut self, now: Time, operation: Operation) {
        self.count += 1;
        let sequence = self.count;
        self.done.push_back(Operation { sequence, done: Some(now), ..operation });
        if self.done.len() > OPERATIONS_KEPT {
            self.done.pop_front();
        }
    }

    /// The waiting operations as of the last [`Operations::set_waiting`].
    pub fn in_flight(&self) -> impl Iterator<Item = &Operation> {
        self.waiting.iter()
    }

    /// The completed operations, oldest first.
    pub fn done(&self) -> impl Iterator<Item = &Operation> {
        self.done.iter()
    }
}
