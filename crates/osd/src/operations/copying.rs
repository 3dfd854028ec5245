//! Reads of whole objects for `COPY_FROM`, from this OSD or another, as a client of the source's primary.

use crate::cx::Cx;
use crate::execute::{Answer, CopyRequest, Need};
use crate::limits;
use crate::operations::Operations;
use crate::operations::checks::Checks;
use crate::operations::copies::{Copy, Target};
use crate::operations::request::{Origin, Request};
use crate::sessions::peers::Peers;
use crate::work::Work;
use classes::Caller;
use engine::Time;
use maps::{OsdMap, OsdMapFlags};
use types::features::SUPPORTED;
use types::{Errno, HObject, PgId};
use wire::copy::CopyData;
use wire::{MessageBody, OsdReply};

/// Begins to copy an object for an attempt of a request, which gets the outcome as a loaded need.
pub(super) fn begin(
    ops: &mut Operations,
    cx: &mut Cx<'_>,
    peers: &mut Peers,
    (key, attempt): (u64, u32),
    wanted: CopyRequest,
) {
    let source = wanted.source.clone();
    let pool = cx.map.pool(source.pool);
    let hash = pool.map(|pool| pool.object_hash(&source.namespace, &source.key, &source.name));
    let source = HObject { hash: hash.unwrap_or_default(), ..source };
    let reserved = cx.env.config.sizes.copy_chunk_max;
    let copy = Copy::new((key, attempt), wanted, source, reserved, cx.env.now);
    let id = ops.copies.insert(copy);
    match hash {
        Some(_) => ask_for_piece(ops, cx, peers, id),
        None => end(ops, cx, id, Err(Errno::NOENT.negative())),
    }
}

/// Requests the next piece from the source's primary. If there is none, or the map tells clients to
/// wait, a later map leads to another attempt.
fn ask_for_piece(ops: &mut Operations, cx: &mut Cx<'_>, peers: &mut Peers, id: u64) {
    let chunk_max = cx.env.config.sizes.copy_chunk_max;
    let Some(mut copy) = ops.copies.active.remove(&id) else { return };
    let target = target_of(cx.map, &copy);
    let is_there = cx.map.pool(copy.source.pool).is_some();
    let wait = limits::COPY_RETRY * (1 << copy.tries.min(limits::COPY_RETRY_DOUBLINGS));
    (copy.asked, copy.retry_at) = (target, cx.env.now + wait);
    let pg = target.map_or(PgId::default(), |to| to.pg);
    let request = copy.question(cx.map.epoch, pg, chunk_max);
    let id = ops.copies.insert(copy);
    match target {
        _ if !is_there => end(ops, cx, id, Err(Errno::NOENT.negative())),
        Some(Target { osd, .. }) if osd == cx.env.whoami() => {
            let caller = Caller { features: SUPPORTED, ..Caller::default() };
            let request = Request::new(Origin::Copy { copy: id }, request, id, caller);
            cx.work.push(Work::Admit(ops.insert(request)));
        }
        Some(Target { osd, .. }) => {
            peers.send(cx, osd, request.encode(SUPPORTED).with_tid(id));
        }
        None => {}
    }
}

/// The OSD to ask for a piece, if one would answer.
fn target_of(map: &OsdMap, copy: &Copy) -> Option<Target> {
    if map.flags.contains(OsdMapFlags::PAUSERD) {
        return None;
    }
    let pool = map.pool(copy.source.pool)?;
    let pg = pool.pg_of_hash(copy.source.pool, copy.source.hash);
    let osd = map.pg_to_osds(pg).acting_primary?;
    let up_from = map.osd(osd)?.info.up_from;
    Some(Target { osd, up_from, pg })
}

/// Handles the reply to the request for a piece.
pub(crate) fn replied(
    ops: &mut Operations,
    cx: &mut Cx<'_>,
    peers: &mut Peers,
    id: u64,
    reply: &OsdReply,
) {
    let Some(copy) = ops.copies.active.get_mut(&id) else { return };
    if reply.result == Errno::AGAIN.negative() {
        return ops.copies.interrupt(id, cx.env.now);
    }
    copy.tries = 0;
    if reply.result < 0 {
        return end(ops, cx, id, Err(reply.result));
    }
    let output = reply.ops.last().map(|op| op.output.clone()).unwrap_or_default();
    let piece = codec::decode_all::<CopyData>("copy", &output);
    let size = piece.as_ref().map_or(0, |piece| piece.size);
    match piece.and_then(|piece| copy.take(piece, reply.user_version)) {
        Err(error) => {
            tracing::error!(%error, "a piece of a copy does not decode");
            end(ops, cx, id, Err(Errno::IO.negative()));
        }
        Ok(is_last) => match make_room(ops, cx, id, size, is_last) {
            Err(errno) => end(ops, cx, id, Err(errno.negative())),
            Ok(false) => {}
            Ok(true) if is_last => end(ops, cx, id, Ok(())),
            Ok(true) => ask_for_piece(ops, cx, peers, id),
        },
    }
}

/// Reserves memory for all that a copy has and will have. False if its request must wait for
/// memory: it restarts then, and this copy ends.
fn make_room(
    ops: &mut Operations,
    cx: &Cx<'_>,
    id: u64,
    size: u64,
    is_last: bool,
) -> Result<bool, Errno> {
    let sizes = &cx.env.config.sizes;
    let copy = ops.copies.active.get_mut(&id).expect("the caller has it");
    let next = if is_last { 0 } else { sizes.copy_chunk_max };
    let needed = copy.needed(next, size);
    let (key, more) = (copy.request, needed - copy.reserved);
    let request = ops.requests.get(key).filter(|request| request.attempt == copy.attempt);
    let Some(request) = request else {
        ops.copies.active.remove(&id);
        return Ok(false);
    };
    copy.reserved = needed;
    let all = request.memory.reserved + more;
    let has_memory = ops.reserve(&sizes.budgets, key, all)?;
    if !has_memory {
        ops.requests.get_mut(key).expect("it waits").memory.expected = all;
        ops.copies.active.retain(|_, copy| copy.request != key);
    }
    Ok(has_memory)
}

fn end(ops: &mut Operations, cx: &mut Cx<'_>, id: u64, outcome: Result<(), i32>) {
    let Some(copy) = ops.copies.active.remove(&id) else { return };
    let need = Need::Copy(Box::new(copy.wanted));
    let answer = match outcome {
        Ok(()) => Answer::Copied(Box::new(copy.copied)),
        Err(code) => Answer::Failed(code),
    };
    if ops.need_loaded(copy.request, copy.attempt, need, answer) {
        cx.work.push(Work::Continue(copy.request));
    }
}

/// Requests pieces again after a new map, if their target has changed or may have dropped the request.
pub(crate) fn resend(ops: &mut Operations, cx: &mut Cx<'_>, peers: &mut Peers) {
    let (map, epoch) = (cx.map, cx.map.epoch);
    let is_gap = epoch != ops.copies.epoch.next();
    ops.copies.epoch = epoch;
    let is_forced = |copy: &Copy| {
        let pool = map.pool(copy.source.pool);
        pool.is_none_or(|pool| pool.last_force_op_resend == epoch)
    };
    let active = ops.copies.active.iter();
    let moved = active.filter(|(_, copy)| {
        let target = target_of(map, copy);
        is_gap || is_forced(copy) || copy.asked != target
    });
    let moved: Vec<u64> = moved.map(|(id, ..)| *id).collect();
    moved.into_iter().for_each(|id| ask_for_piece(ops, cx, peers, id));
}

/// Requests pieces again whose replies are overdue: the request may be lost.
pub(crate) fn retry_if_due(ops: &mut Operations, cx: &mut Cx<'_>, peers: &mut Peers, now: Time) {
    let late = ops.copies.active.iter().filter(|(_, copy)| copy.retry_at <= now);
    let late: Vec<u64> = late.map(|(id, _)| *id).collect();
    for id in late {
        let Some(copy) = ops.copies.active.get_mut(&id) else { continue };
        copy.tries += 1;
        ask_for_piece(ops, cx, peers, id);
    }
}

/// Ends copies whose requests have restarted, were abandoned, or are of blocklisted clients.
pub(crate) fn end_vain(ops: &mut Operations, cx: &mut Cx<'_>) {
    let checks = Checks { map: cx.map, clients: &*cx.clients };
    let is_vain = |copy: &Copy| match ops.requests.get(copy.request) {
        Some(request) if request.attempt == copy.attempt => {
            ops.is_orphaned(request, checks.clients) || checks.check_blocklist(request).is_err()
        }
        _ => true,
    };
    let vain = ops.copies.active.iter().filter(|(_, copy)| is_vain(copy));
    let vain: Vec<u64> = vain.map(|(id, _)| *id).collect();
    vain.into_iter().for_each(|id| end(ops, cx, id, Err(Errno::IO.negative())));
}
