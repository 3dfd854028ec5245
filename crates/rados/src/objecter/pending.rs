//! One operation in flight.

use crate::listing::ListRequest;
use crate::locate::Target;
use crate::names::{OpId, WatchId};
use crate::operation::Operation;
use engine::ConnId;
use maps::OsdMap;
use types::{Epoch, HObject, OsdId, PgShard, RequestId, UTime, features};
use wire::OsdRequest;
use wire::op::request_flags;

/// Any member of the acting set may answer such a request, or redirect it to the primary.
pub(super) const REPLICA_READS: u32 = request_flags::BALANCE_READS | request_flags::LOCALIZE_READS;

/// Consumer of the reply to an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Purpose {
    Submitted,
    Listing(ListRequest),
    /// First registration of a watch; the user waits for [`first_operation`].
    Watch(WatchId),
    Rewatch(WatchId),
    Ping(WatchId),
    /// Completes with the notification's outcome, not with its reply.
    Notify,
    /// The reply is dropped.
    Acknowledgement,
}

#[derive(Debug)]
pub(super) struct Pending {
    /// The operation as submitted; a redirect changes its place.
    pub operation: Operation,
    /// Consumer of the reply.
    pub purpose: Purpose,
    /// `CEPH_OSD_FLAG_*` of the next attempt.
    pub flags: u32,
    /// Wall-clock time of the submission, which objects keep as their modification time.
    pub mtime: UTime,
    /// OSD and placement of the last attempt, or of the next one if it waits for a session.
    pub target: Option<(OsdId, Target)>,
    /// Session on which the request was sent to its current target.
    pub sent_on: Option<ConnId>,
    /// Requests sent under the current id.
    pub attempts: i32,
    /// The newest epoch at the monitor: if the pool is missing in that map, it does not exist.
    pub newest_epoch: Option<Epoch>,
    /// The newest epoch was requested from the monitor.
    pub has_asked: bool,
}

impl Purpose {
    /// The watch that waits for the operation.
    pub fn watch(&self) -> Option<WatchId> {
        match self {
            Purpose::Watch(watch) | Purpose::Rewatch(watch) | Purpose::Ping(watch) => Some(*watch),
            _ => None,
        }
    }
}

/// Id of the operation that a user who watches waits for, whatever requests it takes.
pub(super) fn first_operation(watch: WatchId) -> OpId {
    OpId(watch.0)
}

impl Pending {
    /// An operation that was not sent yet.
    pub fn new(operation: Operation, purpose: Purpose, mtime: UTime) -> Self {
        Pending {
            flags: operation.request_flags(),
            operation,
            purpose,
            mtime,
            target: None,
            sent_on: None,
            attempts: 0,
            newest_epoch: None,
            has_asked: false,
        }
    }

    /// Listings are placed by their starting position.
    pub fn hash(&self) -> Option<u32> {
        match &self.purpose {
            Purpose::Listing(request) => Some(request.start().hash),
            _ => None,
        }
    }

    /// The replica that serves a balanced read; spread by operation id.
    pub fn replica(&self, id: OpId, target: &Target) -> Option<OsdId> {
        let may = self.flags & REPLICA_READS != 0 && self.flags & request_flags::WRITE == 0;
        let acting = &target.mapping.acting;
        let index = id.0.checked_rem(acting.len() as u64)? as usize;
        acting.get(index).copied().filter(|_| may)
    }

    /// Full name of the object in a request.
    pub fn object(&self, hash: u32) -> HObject {
        let place = &self.operation.place;
        let (namespace, key) = (place.namespace.clone(), place.key.clone());
        let head = HObject::head(place.pool, namespace, key, place.object.clone(), hash);
        HObject { snap: self.operation.snap, ..head }
    }

    /// The request of the next attempt.
    pub fn request(&self, map: &OsdMap, pg: PgShard, object: HObject) -> OsdRequest {
        let retry = if self.attempts > 0 { request_flags::RETRY } else { 0 };
        OsdRequest {
            pg,
            map_epoch: map.epoch,
            flags: self.flags | retry,
            request_id: RequestId::default(),
            client_incarnation: 0,
            mtime: self.mtime,
            object,
            ops: self.operation.ops.clone(),
            snap_context: self.operation.snap_context.clone(),
            retry_attempt: self.attempts,
            features: features::SUPPORTED,
        }
    }

    /// The next attempt was sent.
    pub fn sent(&mut self, conn: ConnId) {
        assert!(self.target.is_some(), "a request is sent to a target");
        self.attempts += 1;
        self.sent_on = Some(conn);
    }
}
