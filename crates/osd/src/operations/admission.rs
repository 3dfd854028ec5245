//! Admission of requests: from a message to a request in the queue of its object.

use crate::cx::Cx;
use crate::operations::Operations;
use crate::operations::checks::Checks;
use crate::operations::queue;
use crate::operations::request::{Class, OpFlags, Origin, Request, is_member};
use crate::operations::service::Service;
use crate::sessions::clients::Clients;
use classes::Caller;
use engine::{ConnId, Message};
use maps::OsdMap;
use pg::Pg;
use types::{Epoch, OsdId, PgId, PgShard};
use wire::{OsdRequest, PeerFault, decode_from_peer};

/// Adds a client's request, and charges it to its session, if that is still open. Returns its key, and the
/// epoch of its client's map. Fails if it does not decode, which ends the session.
pub(crate) fn receive(
    ops: &mut Operations,
    cx: &mut Cx<'_>,
    conn: ConnId,
    message: &Message,
) -> Result<Option<(u64, Epoch)>, PeerFault> {
    let request = decode_from_peer::<OsdRequest>(message)?;
    let Some(session) = cx.clients.get(conn) else { return Ok(None) };
    let (bytes, is_from_osd) = (message.len(), session.osd.is_some());
    let id = request.id(session.peer.participant, message.tid);
    let (addr, features) = (session.addr(), session.peer.features);
    let caller = Caller { request: id, addr, features };
    let map_epoch = request.map_epoch;
    let origin = Origin::Client { conn };
    let mut request = Request::new(origin, request, message.tid, caller);
    (request.bytes, request.times.arrived) = (bytes, cx.env.now);
    request.memory.class = Class::of(&request, is_from_osd);
    let key = ops.insert(request);
    cx.charge(conn, bytes);
    Ok(Some((key, map_epoch)))
}

/// Whether the client of a request has any capability here.
pub(crate) fn may_anything(map: &OsdMap, clients: &Clients, request: &Request) -> bool {
    Checks { map, clients }.may_anything(request)
}

/// The group of this OSD that should serve the request; `None` if its client has to resend it. `find` looks
/// up the copy of a group that serves requests, in a replicated pool or not, with the epoch since which this
/// OSD is its primary.
pub(crate) fn route<'a>(
    ops: &mut Operations,
    (map, own): (&OsdMap, OsdId),
    key: u64,
    find: impl FnOnce(PgId, bool) -> Option<(&'a Pg, Epoch)>,
) -> Option<PgShard> {
    let request = ops.requests.get(key)?;
    let pool = map.pool(request.message.pg.pg.pool)?;
    // Requests sent before groups were merged are resent by their clients, and in order.
    if request.is_of_client() && request.message.map_epoch < pool.last_force_op_resend {
        return None;
    }
    let pg = pool.raw_pg_to_pg(request.message.pg.pg);
    let is_replicated = pool.is_replicated();
    let request = ops.requests.get_mut(key).expect("it was just there");
    request.message.object.pool = pg.pool;
    let is_listing = request.message.ops.iter().any(|op| op.code.is_pg());
    if !is_listing && pool.pg_of_hash(pg.pool, request.message.object.hash) != pg {
        return None;
    }
    let (copy, since) = find(pg, is_replicated)?;
    let is_here = match copy.is_primary() {
        // Requests sent to an earlier primary are resent to this one.
        true => request.message.map_epoch >= since,
        false => is_member(own, &copy.members().acting),
    };
    ops.requests.assign(key, copy.pg_shard());
    is_here.then(|| copy.pg_shard())
}

/// Refuses an invalid or forbidden request, drops one that the map tells clients to hold, and
/// starts others.
pub(crate) fn enter(s: &mut Service<'_>, key: u64) {
    let request = s.ops.requests.get(key).expect("it was just routed");
    assert_eq!(request.pg, s.group.id, "a request enters the group that serves it");
    let (op_flags, calls) = match OpFlags::of(&request.message) {
        Ok(known) => known,
        Err(errno) => return s.reply_error(key, errno),
    };
    s.ops.requests.get_mut(key).expect("it was just there").op_flags = op_flags;
    let request = s.ops.requests.get(key).expect("it was just there");
    if !s.group.pg.is_primary() && !request.allows_replica() {
        return s.ops.forget(&mut s.cx, key);
    }
    if let Err(errno) = s.checks().check(request, &calls) {
        return s.reply_error(key, errno);
    }
    if s.checks().must_hold(request, &s.group.queues.held_back) {
        return s.hold_back(key);
    }
    queue::start(s, key);
}
