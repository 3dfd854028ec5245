//! The service of one group's requests: the parts that a call may touch, and short answers about them.

use crate::cx::Cx;
use crate::leases::{GroupLease, Leases};
use crate::maps::Maps;
use crate::operations::Operations;
use crate::operations::checks::Checks;
use crate::operations::keys::ObjectKey;
use crate::operations::object::{Availability, Progress};
use crate::operations::queues::{Counters, GroupQueues};
use crate::operations::request::{Origin, Request};
use crate::operations::snapshots::PoolSnapshots;
use crate::premerge::Premerge;
use crate::report::usage::DiskUsage;
use crate::scrub::GroupScrub;
use crate::sessions::peers::Peers;
use crate::watches::{GroupWatches, Watches};
use maps::Pool;
use pg::Pg;
use types::{Errno, HObject, PgShard};

/// The parts of a group that the service of its requests touches.
pub(crate) struct Served<'a> {
    pub id: PgShard,
    pub pg: &'a mut Pg,
    pub queues: &'a mut GroupQueues,
    pub snapshots: &'a PoolSnapshots,
    pub counters: &'a mut Counters,
    pub watches: &'a mut GroupWatches,
    pub lease: &'a mut GroupLease,
    pub scrub: &'a GroupScrub,
    pub premerge: &'a mut Premerge,
}

/// One call into the operations on a group, with the components below them.
pub(crate) struct Service<'a> {
    pub cx: Cx<'a>,
    pub ops: &'a mut Operations,
    pub group: Served<'a>,
    pub maps: &'a Maps,
    pub peers: &'a mut Peers,
    pub watches: &'a mut Watches,
    pub leases: &'a mut Leases,
    pub usage: &'a DiskUsage,
    /// Objects that the group may keep in memory while they are idle.
    pub objects_share: usize,
}

impl Served<'_> {
    /// Whether the group takes no more requests: it is about to be merged, and was clean since the
    /// map said so.
    pub fn check_premerge(&mut self) -> bool {
        self.premerge.check_premerge(self.pg)
    }
}

impl Service<'_> {
    pub(super) fn checks(&self) -> Checks<'_> {
        Checks { map: self.cx.map, clients: &*self.cx.clients }
    }

    /// The context of a request's object, if that has one.
    pub fn object_of(&self, key: u64) -> Option<ObjectKey> {
        let request = self.ops.requests.get(key)?;
        self.group.queues.find(&HObject::head_of(request.object()))
    }

    /// Whether the origin of the request does not wait for it any more.
    pub(super) fn is_abandoned(&self, request: &Request) -> bool {
        match request.origin {
            Origin::SnapTrim { .. } => !self.group.pg.is_clean(),
            _ => self.ops.is_orphaned(request, self.cx.clients),
        }
    }

    /// Whether the group may have clones. After a split or merge, the count of a part is an estimate.
    pub(super) fn may_have_clones(&self) -> bool {
        let pool = self.cx.map.pool(self.group.id.pg.pool);
        self.group.pg.info().clones > 0 || pool.is_some_and(Pool::may_have_clones)
    }

    /// Whether a request may run, as far as recovery of its object is concerned.
    pub(super) fn availability_of(&self, object: ObjectKey, key: u64) -> Availability {
        let (context, request) = (self.ops.contexts.get(object), self.ops.requests.get(key));
        let (Some(context), Some(request)) = (context, request) else { return Availability::Runs };
        context.availability(self.group.pg, self.group.snapshots, request)
    }

    /// The error for an object that cannot be read here: `EAGAIN` on a replica, so that the client
    /// turns to the primary, which may have another copy.
    pub(super) fn unreadable_errno(&self, errno: Errno) -> Errno {
        if self.group.pg.is_primary() { errno } else { Errno::AGAIN }
    }

    /// Refuses a request with an error, once all earlier ones of its client on the object are answered.
    pub(super) fn reject(&mut self, object: ObjectKey, key: u64, errno: Errno) -> Progress {
        if let Some(waits) = self.ops.wait_for_turn(object, key) {
            return waits;
        }
        self.ops.reply_error(&mut self.cx, key, errno);
        Progress::Ran
    }

    /// Drops a request that its client should have held. The client resends it, together with all
    /// writes that it sent before it saw this map.
    pub(super) fn hold_back(&mut self, key: u64) {
        let request = self.ops.requests.get(key).expect("the caller has it");
        self.group.queues.held_back.note(self.cx.map, request);
        self.ops.forget(&mut self.cx, key);
    }

    /// Ends a request with an error.
    pub(super) fn reply_error(&mut self, key: u64, errno: Errno) {
        self.ops.reply_error(&mut self.cx, key, errno);
    }
}
