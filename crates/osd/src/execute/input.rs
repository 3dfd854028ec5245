//! The inputs of an execution.

use super::pool::PoolRules;
use super::view::{Loaded, ObjectState};
use classes::Caller;
use maps::SnapIntervals;
use pg::WatcherKey;
use pg::snaps::{At, SnapSet};
use types::{EVersion, HObject, SnapId, UTime};
use wire::OsdOp;

/// All inputs of an execution.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    pub object: &'a HObject,
    pub ops: &'a [OsdOp],
    pub pool: PoolRules,
    /// Whether any operation may write: then absence of the object is no error by itself.
    pub may_write: bool,
    pub state: &'a ObjectState,
    pub loaded: &'a Loaded,
    pub caller: &'a Caller,
    pub now: UTime,
    /// The client's time of the request, which becomes the object's mtime.
    pub mtime: UTime,
    /// The version for the next change, and the newest user version in the placement group.
    pub version: EVersion,
    pub last_user_version: u64,
    /// The snapshots that a write must preserve, and that reads and rollbacks refer to.
    pub snapshots: Snapshots<'a>,
    /// The first free id for a notification.
    pub notify_id: u64,
    /// Bytes of memory that it may take.
    pub allowance: u64,
    /// Whether a watcher's session is connected.
    pub is_connected: &'a dyn Fn(&WatcherKey) -> bool,
}

/// Snapshots as they apply to a request.
#[derive(Debug, Clone, Copy, Default)]
pub struct Snapshots<'a> {
    /// The newest snapshot that the writer knows of, and those to preserve, newest first.
    pub seq: SnapId,
    pub snaps: &'a [SnapId],
    /// The write must fail if the object knows of a newer snapshot.
    pub is_ordered: bool,
    /// Snapshots of the pool whose removal has begun.
    pub removed: Option<&'a SnapIntervals>,
}

impl Snapshots<'_> {
    /// The place of an object's state at a snapshot.
    pub fn find(&self, set: Option<&SnapSet>, snap: SnapId) -> At {
        match set.map_or(At::Head, |set| set.at(snap)) {
            At::Clone(_) if self.removed.is_some_and(|removed| removed.contains(snap)) => {
                At::Nowhere
            }
            at => at,
        }
    }
}
