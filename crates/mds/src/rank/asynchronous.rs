//! Creates and unlinks on which a client has acted before it asks: inode numbers for them, directories in
//! which they are possible, and their place among requests.
//!
//! A client is told a number only when the record that delegates it is durable, and the number is then used
//! by that client or by none. A directory's layout changes only while no client may create in it, or below
//! it, unseen.

use super::waiting::Waiting;
use super::{Rank, client_sessions};
use crate::caps;
use crate::change::Change;
use crate::delegated;
use crate::plan::Plan;
use crate::purges::Purge;
use crate::quotas;
use crate::replies::snap_context;
use crate::sessions;
use bytes::Bytes;
use fscaps::{Access, Admission, DIRECTORY_OPERATIONS, Demand, InodeId, RequestId};
use namespace::{AttributeChange, Ino, Inode, Operation, Tree, realms};
use std::collections::BTreeSet;
use types::{Errno, features};
use wire::{ClientOp, ClientReply, ClientRequest, FilePath, MessageBody};

/// Directories that one demand asks clients to stop creating in; the request demands again for others.
const STOPPED_AT_ONCE: usize = 32;

/// Whether a client creates with a number that is not one of its own.
pub(super) fn has_foreign_number(rank: &Rank, client: u64, request: &ClientRequest) -> bool {
    let is_create = request.op == ClientOp::CREATE && request.is_asynchronous();
    is_create && request.ino != 0 && !has_number(rank, client, Ino(request.ino))
}

/// Whether a number is delegated to a client, and unused.
pub(super) fn has_number(rank: &Rank, client: u64, ino: Ino) -> bool {
    rank.sessions.get(client).is_some_and(|session| session.image().delegated.has(ino.0))
}

/// Whether a number is delegated to any client.
pub(super) fn is_number_delegated(rank: &Rank, ino: Ino) -> bool {
    rank.sessions.iter().any(|(_, session)| session.image().delegated.has(ino.0))
}

/// Ends the session of a client that uses a number of another one: what it has in memory is wrong.
pub(super) fn refuse_number(rank: &mut Rank, client: u64, ino: u64) {
    tracing::warn!(client, ino, "a client creates with an inode number that it was not given");
    client_sessions::drop_unheard(rank, client);
}

/// Whether a client may create and unlink in a directory asynchronously: such a change must not be
/// refused.
pub(super) fn may_delegate(rank: &Rank, client: u64, inode: &Inode) -> bool {
    let session = rank.sessions.get(client);
    inode.is_directory()
        && session.is_some_and(|session| session.is_asynchronous())
        && rank.permissions.is_unrestricted(client)
        && !rank.map.pools.is_short
        && realms::quotas_above(&rank.tree, inode.ino)
            .into_iter()
            .all(|ino| !is_quota_near(&rank.tree, ino))
}

/// The metadata pool is nearly full: no client creates asynchronously any more.
pub(super) fn stop_acting(rank: &mut Rank) {
    for ino in rank.caps.delegating().collect::<Vec<_>>() {
        rank.caps.set_delegation(rank.now, ino, false);
    }
}

/// A plan may change the layout of files in directories where clients, also its own, create
/// asynchronously by the layout that they know: it also needs that they stop. Whether there are such
/// directories.
pub(super) fn demand_stop(rank: &Rank, plan: &mut Plan) -> bool {
    let Some(top) = plan.operations.iter().find_map(|operation| relaid(&rank.tree, operation))
    else {
        return false;
    };
    let creates = |ino: &InodeId| rank.caps.holders(*ino).any(|client| may_act(rank, client, *ino));
    let stopped = rank.caps.delegating().filter(creates);
    let stopped = stopped.filter(|ino| is_below(&rank.tree, Ino(ino.0), top));
    let stopped: Vec<_> =
        stopped.take(STOPPED_AT_ONCE).map(|ino| (ino, Access::look_up())).collect();
    let any = !stopped.is_empty();
    plan.demand.accesses.extend(stopped);
    any
}

/// A request fails by the names that the server knows, of which other clients may have made or removed
/// some: it needs to know all. Whether it must wait for that.
pub(super) fn waits_for_names(rank: &mut Rank, id: RequestId, request: &ClientRequest) -> bool {
    let paths = [&request.path, &request.path2].into_iter();
    let directories = paths.flat_map(|path| directories_on(&rank.tree, path)).map(caps::inode_id);
    let others_act = |ino: &InodeId| {
        let mut holders = rank.caps.holders(*ino);
        holders.any(|client| client != id.client && may_act(rank, client, *ino))
    };
    let accesses = directories.filter(others_act).map(|ino| (ino, Access::look_up())).collect();
    let demand = Demand { accesses, entries: Vec::new() };
    !demand.accesses.is_empty()
        && rank.caps.handle_request(rank.now, id, demand) == Admission::Waits
}

/// The inodes that an asynchronous request concerns: its directory and its target; and the target of an
/// unlink. Nothing for others.
fn concerned_by(tree: &Tree, request: &ClientRequest) -> (Vec<Ino>, Option<Ino>) {
    if !request.is_asynchronous() {
        return (Vec::new(), None);
    }
    let (directory, target) = ends_of(tree, &request.path);
    let created = Some(Ino(request.ino)).filter(|ino| ino.0 != 0);
    let concerned = [Some(directory), target, created].into_iter().flatten();
    let concerned: BTreeSet<Ino> = concerned.collect();
    let is_unlink = request.op == ClientOp::UNLINK;
    (concerned.into_iter().collect(), target.filter(|_| is_unlink))
}

/// Whether the name of an asynchronous unlink leads to another inode than when it came. Its client does not
/// say which one it means, and after a take-over nothing hinders others to replace the file while it waits.
fn means_another(tree: &Tree, waiting: &Waiting) -> bool {
    waiting.meant.is_some_and(|meant| ends_of(tree, &waiting.request.path).1 != Some(meant))
}

/// A request is to be executed: returns it, unless it is asynchronous and its client has too many in
/// progress, so that it waits, or the name that it unlinks leads elsewhere, so that it fails.
pub(super) fn admit(rank: &mut Rank, id: RequestId, waiting: Waiting) -> Option<Waiting> {
    if waiting.request.is_asynchronous() && !rank.caps.has_room(id) {
        rank.waiting.insert_held(id, waiting);
        return None;
    }
    if means_another(&rank.tree, &waiting) {
        rank.finish(id, &waiting.request, Err(Errno::NOENT));
        return None;
    }
    Some(waiting)
}

/// Keeps a request while asynchronous ones of its client wait that came before and concern its inodes: its
/// client sees their effects already. Returns it if there are none; it is refused if too many wait.
pub(super) fn keep_order(rank: &mut Rank, id: RequestId, waiting: Waiting) -> Option<Waiting> {
    let client = id.client;
    let (concerned, meant) = concerned_by(&rank.tree, &waiting.request);
    let waiting = Waiting { concerned, meant, ..waiting };
    if !rank.waiting.has_room(client) {
        if waiting.request.is_asynchronous() {
            // Its client has acted, so a refusal would lose what it has done without a word.
            tracing::warn!(client, "too many asynchronous requests of a client wait");
            client_sessions::drop_unheard(rank, client);
        } else {
            rank.finish(id, &waiting.request, Err(Errno::AGAIN));
        }
        return None;
    }
    if waiting.request.is_asynchronous() {
        if rank.waiting.first_held(client).is_none() {
            return Some(waiting);
        }
        rank.waiting.insert_held(id, waiting);
        return None;
    }
    if !is_behind(rank, client, &waiting.request) {
        return Some(waiting);
    }
    if let Some(refused) = rank.waiting.insert_behind(id, waiting) {
        rank.finish(id, &refused.request, Err(Errno::AGAIN));
    }
    None
}

/// Whether a request must wait for asynchronous ones of its client.
fn is_behind(rank: &Rank, client: u64, request: &ClientRequest) -> bool {
    if !rank.waiting.has_asynchronous(client) {
        return false;
    }
    // A snapshot shows the whole tree below it.
    if matches!(request.op, ClientOp::MKSNAP) {
        return true;
    }
    let ends = [&request.path, &request.path2].map(|path| ends_of(&rank.tree, path));
    let inodes = ends.into_iter().flat_map(|(directory, target)| [Some(directory), target]);
    inodes.flatten().any(|ino| rank.waiting.concerns(client, ino))
}

/// A request was executed: those of its client may go on that came behind it, or that waited until fewer are
/// in progress.
pub(super) fn let_next_go(rank: &mut Rank, client: u64, request: &ClientRequest) {
    if let Some(id) = rank.waiting.first_held(client) {
        rank.waiting.let_go(id);
        rank.ready.push_back(id);
    }
    if !request.is_asynchronous() {
        return;
    }
    let behind = rank.waiting.behind(client);
    let free = behind.filter(|(_, waiting)| !is_behind(rank, client, &waiting.request));
    for id in free.map(|(id, _)| id).collect::<Vec<_>>() {
        rank.waiting.let_go(id);
        rank.ready.push_back(id);
    }
}

/// Notes that an asynchronous request has failed: its client may send it again to a successor, where it might
/// succeed behind what others have done since.
pub(super) fn note_failed(rank: &mut Rank, id: RequestId, request: &ClientRequest, error: Errno) {
    let RequestId { client, tid } = id;
    let (created, oldest) = (sessions::failure(error), request.oldest_client_tid);
    let Some(session) = rank.sessions.get_mut(client) else { return };
    session.complete(tid, created, oldest);
    rank.log.set_author(Some(client));
    rank.log.change_session(client, &Change::Completed { client, tid, created, oldest });
}

/// Answers a request again that has failed.
pub(super) fn answer_failed(rank: &mut Rank, id: RequestId, request: &ClientRequest, error: Errno) {
    rank.sessions.counted.replies += 1;
    let reply = ClientReply::plain(request.op, error.negative(), rank.map.epoch);
    rank.send(id.client, reply.encode(features::SUPPORTED).with_tid(id.tid));
}

// --- numbers ---

/// Ranges of numbers that a reply is going to delegate. It is held back until that is durable.
pub(super) fn delegate(rank: &mut Rank, client: u64) -> Vec<(u64, u64)> {
    let session = rank.sessions.get_mut(client).filter(|session| session.needs_numbers());
    let Some(session) = session else { return Vec::new() };
    let (first, count) = (rank.next_ino.0, delegated::AT_ONCE);
    session.delegate(first, count);
    rank.next_ino.0 += count;
    rank.reserve_numbers();
    rank.log.change_session(client, &Change::Delegated { client, first, count });
    let lsn = rank.log.close();
    rank.outbox.hold_back(client, lsn);
    vec![(first, count)]
}

/// Ranges of numbers that a client may have used for files of which the server has not heard: first and
/// length.
pub(super) fn unused_numbers(rank: &Rank, client: u64) -> Vec<(u64, u64)> {
    let session = rank.sessions.get(client).filter(|session| session.is_asynchronous());
    let ranges = session.map(|session| session.image().delegated.ranges().collect());
    ranges.unwrap_or_default()
}

/// A client was shut out. It may have written files of which the server has not heard: the first objects of
/// its unused numbers are removed, by the layout of files below directories without one.
pub(super) fn abandon_numbers(rank: &mut Rank, ranges: Vec<(u64, u64)>) {
    let layout = rank.map.layout.clone();
    let snaps = snap_context(&rank.tree, Ino::ROOT);
    for (first, count) in ranges {
        let purge = Purge::of_numbers(layout.clone(), count, snaps.clone());
        rank.note_purge(first, Some(purge));
        // Too many for one frame do not belong together.
        rank.log.close();
    }
}

// --- directories ---

fn is_quota_near(tree: &Tree, ino: Ino) -> bool {
    let quota = tree.get(ino).map(|inode| &inode.policy.quota);
    quota.is_some_and(|quota| quotas::is_near(quota, &tree.statistics(ino)))
}

/// Quotas have changed, or their use: where little is left now, and was not before, no client creates
/// asynchronously any more.
pub(super) fn stop_near_quotas(rank: &mut Rank, changed: &BTreeSet<Ino>) {
    let mut near = Vec::new();
    for ino in changed {
        let is_near = is_quota_near(&rank.tree, *ino);
        near.extend(rank.sessions.quotas.set_near(*ino, is_near).then_some(*ino));
    }
    if near.is_empty() {
        return;
    }
    let is_within =
        |ino: &InodeId| near.iter().any(|above| is_below(&rank.tree, Ino(ino.0), *above));
    for ino in rank.caps.delegating().filter(is_within).collect::<Vec<_>>() {
        rank.caps.set_delegation(rank.now, ino, false);
    }
}

/// Whether a directory is another one or below it.
fn is_below(tree: &Tree, ino: Ino, above: Ino) -> bool {
    let mut next = Some(ino);
    while let Some(ino) = next.filter(|ino| *ino != above) {
        next = tree.home(ino).map(|link| link.0);
    }
    next.is_some()
}

/// The directory of which an operation changes the layout of new files.
fn relaid(tree: &Tree, operation: &Operation) -> Option<Ino> {
    let directory = match operation {
        Operation::Change { ino, change } => {
            matches!(&**change, AttributeChange::Layout(_)).then_some(*ino)
        }
        Operation::Rename { from, to } if tree.layout_of(from.0) != tree.layout_of(to.0) => {
            tree.entry(from.0, &from.1).map(|entry| entry.ino)
        }
        _ => None,
    };
    directory.filter(|ino| tree.get(*ino).is_some_and(Inode::is_directory))
}

/// Inodes on a path, as far as its names are known.
fn directories_on(tree: &Tree, path: &FilePath) -> Vec<Ino> {
    let mut found = vec![if path.ino == 0 { Ino::ROOT } else { Ino(path.ino) }];
    for name in path.names() {
        let last = *found.last().expect("it begins with an inode");
        match tree.entry(last, &Bytes::copy_from_slice(name)) {
            Some(entry) if found.len() < STOPPED_AT_ONCE / 2 => found.push(entry.ino),
            _ => break,
        }
    }
    found
}

/// The directory of a path's last name, and the inode that it leads to. A path without names is that of an
/// inode itself.
fn ends_of(tree: &Tree, path: &FilePath) -> (Ino, Option<Ino>) {
    let first = if path.ino == 0 { Ino::ROOT } else { Ino(path.ino) };
    let (mut directory, mut target) = (first, None);
    for name in path.names() {
        directory = target.unwrap_or(directory);
        target = tree.entry(directory, &Bytes::copy_from_slice(name)).map(|entry| entry.ino);
        if target.is_none() {
            break;
        }
    }
    (directory, target)
}

/// Whether a client may have acted in a directory unseen.
fn may_act(rank: &Rank, client: u64, ino: InodeId) -> bool {
    rank.caps.issued(ino, client).intersects(DIRECTORY_OPERATIONS)
        && rank.tree.get(Ino(ino.0)).is_some_and(Inode::is_directory)
}
