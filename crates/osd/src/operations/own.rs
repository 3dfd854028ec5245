//! Requests that this OSD makes itself, to change objects as a client would.

use crate::operations::request::{OpFlags, Origin, Request};
use classes::Caller;
use pg::WatcherKey;
use types::{Epoch, HObject, PgId, PgShard, RequestId, SnapId, UTime};
use wire::op::watch_op;
use wire::osd_op::WatchArguments;
use wire::{OsdOp, OsdRequest};

/// The request that takes a removed snapshot off a clone.
pub(crate) fn trimming(pg: PgShard, snap: SnapId, clone: &HObject, epoch: Epoch) -> Request {
    let message = OsdRequest {
        pg,
        map_epoch: epoch,
        flags: 0,
        request_id: Default::default(),
        client_incarnation: 0,
        mtime: Default::default(),
        object: clone.at(SnapId::HEAD),
        ops: Vec::new(),
        snap_context: Default::default(),
        retry_attempt: 0,
        features: 0,
    };
    let origin = Origin::SnapTrim { snap, clone: clone.snap };
    let mut request = Request::new(origin, message, 0, Caller::default());
    request.op_flags = OpFlags { may_write: true, ..OpFlags::default() };
    request
}

/// The request that removes a lost object, of the command with this number.
pub(crate) fn giving_up(
    pg: PgShard,
    object: &HObject,
    command: u64,
    epoch: Epoch,
    mtime: UTime,
) -> Request {
    let is_head = object.snap == SnapId::HEAD;
    let message = OsdRequest {
        pg,
        map_epoch: epoch,
        flags: 0,
        request_id: Default::default(),
        client_incarnation: 0,
        mtime,
        object: HObject::head_of(object),
        ops: if is_head { vec![OsdOp::remove()] } else { Vec::new() },
        snap_context: Default::default(),
        retry_attempt: 0,
        features: 0,
    };
    let origin = Origin::Lost { clone: object.snap, command };
    let mut request = Request::new(origin, message, 0, Caller::default());
    request.op_flags = OpFlags { may_write: true, ..OpFlags::default() };
    request
}

/// The request that removes a watcher from its object.
pub(crate) fn unwatching(pg: PgShard, object: HObject, key: WatcherKey, epoch: Epoch) -> Request {
    let op =
        WatchArguments { cookie: key.cookie, op: watch_op::UNWATCH, ..WatchArguments::default() };
    let request = RequestId { name: key.name, ..RequestId::default() };
    let caller = Caller { request, ..Caller::default() };
    let message = OsdRequest {
        pg: PgShard { pg: PgId { pool: pg.pg.pool, seed: object.hash }, ..pg },
        map_epoch: epoch,
        flags: 0,
        request_id: request,
        client_incarnation: 0,
        mtime: types::UTime::ZERO,
        object,
        ops: vec![OsdOp::watch(op)],
        snap_context: Default::default(),
        retry_attempt: 0,
        features: 0,
    };
    Request::new(Origin::WatchTimeout, message, 0, caller)
}
