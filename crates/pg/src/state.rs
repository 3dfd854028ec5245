//! The state of a copy for all others, and the part of a map that it depends on.

use crate::Osds;
use std::sync::Arc;
use types::Epoch;

/// The state of a copy. The primary's states follow [`State::GetInfo`] in the order of peering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Reads its info and log from the store.
    Loading,
    /// Not a member, or no longer one.
    Stray,
    /// A replica that waits for its primary to activate it.
    Replica,
    /// A replica that takes part in writes.
    ReplicaActive,
    /// The primary collects the infos of the prior set.
    GetInfo,
    /// The primary fetches the authoritative log.
    GetLog,
    /// The primary asks members for their missing sets.
    GetMissing,
    /// The primary has asked the monitor for another acting set.
    WaitActingChange,
    /// The primary waits for a map that has its `up_thru` in this interval.
    WaitUpThru,
    /// The primary waits until all members have stored that they follow its log.
    Activating,
    /// All members are activated, but a read lease of an earlier primary may still hold.
    WaitReadable,
    /// The primary serves requests.
    Active,
    /// All members are activated, but they are fewer than `min_size`: recovers, serves no requests.
    Inactive,
    /// OSDs that may have accepted writes without the present members are down.
    Down,
    /// No reachable copy is both complete and new enough.
    Incomplete,
    /// The store refused a transaction; the completions of all others are awaited.
    Refused,
    /// The store of a member refused a transaction, or a write was lost: waits for another interval.
    Stalled,
    /// Stopped until the store has split or merged it.
    SplitMerge,
    /// The store failed: this copy serves nothing; the other members still have theirs.
    Failed,
}

/// The part of a map that a group depends on.
#[derive(Debug, Clone)]
pub struct MapChange {
    /// The epoch of the map. Each map is passed once, in order.
    pub epoch: Epoch,
    /// All OSDs of the map.
    pub osds: Arc<Osds>,
    /// Whether the map shows this OSD up, in its present incarnation.
    pub is_up: bool,
    /// Whether maps before this one were not available.
    pub is_gap: bool,
    /// Whether the group is certain to be created with this map.
    pub is_new: bool,
}
