//! The beginning of a rank that another server has served: its clients come back with their capabilities.
//!
//! Until all have come back or were given up, nothing is executed. Requests and capability messages that come
//! meanwhile wait, in the order of each client.

use super::realms as told_realms;
use super::{Rank, client_sessions, cutting, messages, replay, snapshots};
use crate::awaited::{Awaited, KnownRealms};
use crate::caps;
use crate::log::Opened;
use crate::peer::ClientPeer;
use crate::sessions::Sessions;
use engine::{Duration, Message, Time};
use fscaps::{InodeId, RequestId};
use namespace::{Ino, realms};
use std::collections::BTreeSet;
use types::{PoolId, features};
use wire::{
    CapBits, ClaimedCap, ClientCaps, ClientReconnect, ClientRequest, ClientSession, FeatureBits,
    MessageBody, PeerFault, SessionOp, decode_from_peer,
};

/// A rank as it was opened. Its clients are awaited until [`activate`].
pub(crate) fn opened(now: Time, opened: Opened, data_pool: PoolId) -> Rank {
    let Opened { tree, sessions, purges, log, numbers, epoch } = opened;
    let clients: BTreeSet<u64> = sessions.keys().copied().collect();
    let mut rank = Rank {
        tree,
        sessions: Sessions::restored(now, sessions),
        purges,
        next_ino: Ino(numbers),
        inherited: Ino(numbers),
        log,
        numbers: Ino(numbers),
        // A predecessor may have evicted clients by any map up to this one.
        barrier: epoch,
        ..Rank::new(now, data_pool)
    };
    clients.iter().for_each(|client| rank.caps.open_session(now, *client));
    rank.caps.begin_claims();
    rank.awaited = Some(Awaited::new(clients));
    adopt_ranges(&mut rank);
    for ino in rank.tree.pending_cuts() {
        if cutting::get(&rank, ino.0).is_some() {
            rank.cuts.restore(ino.0);
        }
    }
    rank.reserve_numbers();
    snapshots::restore(&mut rank);
    rank
}

/// Ranges up to which clients write are recorded; those that no client has a use for end by [`activate`].
/// Ranges of evicted clients stay.
fn adopt_ranges(rank: &mut Rank) {
    for ino in rank.tree.written() {
        let inode = rank.tree.get(ino).expect("it was listed");
        let ranges = inode.write_ranges.iter();
        for (client, range) in ranges.filter(|(client, _)| rank.sessions.get(**client).is_some()) {
            rank.caps.adopt_range(caps::inode_id(ino), *client, range.end);
        }
    }
}

/// A client that does not come back for so long is evicted.
pub(crate) fn set_timeout(rank: &mut Rank, timeout: Duration) {
    if let Some(awaited) = &mut rank.awaited {
        awaited.set_timeout(timeout);
    }
}

/// The map shows that clients are awaited.
pub(crate) fn begin(rank: &mut Rank, now: Time) {
    if let Some(awaited) = &mut rank.awaited {
        awaited.begin(now);
    }
}

/// See [`Awaited::note_lease`].
pub(crate) fn note_lease(rank: &mut Rank, now: Time, has_lease: bool) {
    if let Some(awaited) = &mut rank.awaited {
        awaited.note_lease(now, has_lease);
    }
}

/// Whether all clients are back or given up, and have seen that they were awaited.
pub(crate) fn is_reconnected(rank: &Rank, now: Time) -> bool {
    rank.awaited.as_ref().is_none_or(|awaited| awaited.is_over(now))
}

/// When [`is_reconnected`] or [`overdue`] may change without a message.
pub(crate) fn poll_timeout(rank: &Rank) -> Option<Time> {
    rank.awaited.as_ref()?.poll_timeout()
}

/// A client that must be evicted, since it has not come back in time.
pub(crate) fn overdue(rank: &Rank, now: Time) -> Option<u64> {
    rank.awaited.as_ref()?.overdue(now)
}

/// A client has a new connection. A lost one is resumed without a word to the server, so where a client that
/// has a session comes by a new one, messages may be lost: it must open a new session. A client that is
/// awaited comes by a new one; one that is back already, while others are awaited, has lost that.
pub(crate) fn connected_anew(rank: &mut Rank, peer: &ClientPeer) {
    let client = peer.client;
    let is_awaited = rank.awaited.as_ref().is_some_and(|awaited| awaited.has(client));
    if is_awaited {
        return rank.permissions.replace(peer);
    }
    if rank.sessions.get(client).is_none() {
        return;
    }
    tracing::info!(client, "a client has lost its connection and must open a new session");
    rank.log.set_author(None);
    client_sessions::drop_unheard(rank, client);
    if rank.awaited.is_none() {
        rank.settle();
    }
}

/// Begins to execute: first requests that the predecessor had answered early, then all others.
pub(crate) fn activate(rank: &mut Rank, now: Time) {
    let Some(awaited) = &mut rank.awaited else { return };
    rank.now = now;
    let mut parked = awaited.take_parked();
    parked.retain(|(peer, message)| !replay_parked(rank, peer, message));
    let mut awaited = rank.awaited.take().expect("it was seen");
    let realms = awaited.take_realms();
    for ((ino, client), claimed) in awaited.into_early_claims() {
        adopt(rank, client, ino, &claimed);
    }
    for (peer, message) in &parked {
        adopt_dirty(rank, peer.client, message);
    }
    rank.caps.handle_claims_complete(now);
    rank.log.set_author(None);
    for ino in rank.tree.orphans() {
        rank.forget_unused(ino);
        rank.log.close();
    }
    let (first, rest): (Vec<_>, Vec<_>) =
        parked.into_iter().partition(|(_, message)| was_executed(message));
    for (peer, message) in first.iter().chain(&rest) {
        if let Err(fault) = messages::handle(rank, now, peer, message) {
            tracing::warn!(client = peer.client, %fault, "a message is dropped");
        }
    }
    adopt_ranges(rank);
    rank.caps.remove_unclaimed_ranges();
    for (client, known) in realms {
        told_realms::correct(rank, client, &known.inodes, &known.realms);
    }
    rank.settle();
}

/// Handles a message of a client, also while clients are awaited.
///
/// # Errors
///
/// See [`messages::handle`].
pub(crate) fn handle_message(
    rank: &mut Rank,
    now: Time,
    peer: &ClientPeer,
    message: &Message,
) -> Result<(), PeerFault> {
    if rank.awaited.is_none() {
        return messages::handle(rank, now, peer, message);
    }
    let client = peer.client;
    if rank.unheard.contains(&client) {
        return Ok(());
    }
    rank.now = now;
    rank.permissions.learn(peer);
    match message.kind {
        ClientReconnect::KIND => handle_reconnect(rank, client, decode_from_peer(message)?),
        ClientSession::KIND => {
            let body: ClientSession = decode_from_peer(message)?;
            match body.op {
                SessionOp::REQUEST_OPEN => begin_anew(rank, peer, message),
                _ => client_sessions::handle(rank, peer, body),
            }
        }
        _ if rank.sessions.get(client).is_some() => park(rank, peer, message),
        _ => rank.send(client, ClientSession::new(SessionOp::CLOSE, 0).encode(0)),
    }
    messages::forget_peer(rank, client);
    Ok(())
}

/// A client opens a session, and waits until others have come back. One that is awaited claims nothing: it
/// never learned of the session that it has, or has lost it. That ends at once, unless data may be on its way
/// to the OSDs: a client writes within its ranges only, so one without any sends none.
fn begin_anew(rank: &mut Rank, peer: &ClientPeer, message: &Message) {
    let client = peer.client;
    if rank.awaited.as_ref().is_some_and(|awaited| awaited.has(client)) {
        rank.log.set_author(None);
        if rank.caps.has_range(client) {
            return client_sessions::drop_unheard(rank, client);
        }
        tracing::info!(client, "a client claims nothing and opens a new session");
        client_sessions::end(rank, client, 0);
    }
    park(rank, peer, message);
}

fn park(rank: &mut Rank, peer: &ClientPeer, message: &Message) {
    let awaited = rank.awaited.as_mut().expect("clients are awaited");
    if !awaited.park(peer, message) {
        client_sessions::drop_unheard(rank, peer.client);
    }
}

fn handle_reconnect(rank: &mut Rank, client: u64, message: ClientReconnect) {
    if !rank.awaited.as_ref().is_some_and(|awaited| awaited.has(client)) {
        return client_sessions::drop_unheard(rank, client);
    }
    rank.caps.handle_renewal(rank.now, client);
    for (ino, claimed) in &message.caps {
        adopt(rank, client, Ino(*ino), claimed);
        // It may have claimed too much.
        if rank.sessions.get(client).is_none() || rank.unheard.contains(&client) {
            return;
        }
    }
    note_realms(rank, client, &message);
    if message.more {
        return;
    }
    rank.awaited.as_mut().expect("clients are awaited").remove(client);
    let session = rank.sessions.get(client).expect("sessions are awaited");
    let features = FeatureBits(session.features());
    let open = ClientSession { features, ..ClientSession::new(SessionOp::OPEN, 0) };
    rank.send(client, open.encode(0));
    rank.take_cap_outputs();
}

/// Notes the realms that a client knows: messages about changes may be lost with the predecessor.
fn note_realms(rank: &mut Rank, client: u64, message: &ClientReconnect) {
    let tree = &rank.tree;
    let is_elsewhere = |(ino, cap): &&(u64, ClaimedCap)| {
        cap.realm != 0 && cap.realm != realms::realm_of(tree, Ino(*ino)).0
    };
    let inodes = message.caps.iter().filter(is_elsewhere).map(|(ino, _)| Ino(*ino)).collect();
    let known = KnownRealms { inodes, realms: message.realms.clone() };
    rank.awaited.as_mut().expect("clients are awaited").note_realms(client, known);
}

/// Executes a request that the predecessor had answered early, or on which the client has acted before it
/// asked, before any other: the client, and no other one, has seen its effect. One without an answer is
/// answered when all clients have claimed what they had. False if it is not such a request, has to be
/// answered, or others have capabilities that contradict it; then it was not answered, whatever the client
/// says.
fn replay_parked(rank: &mut Rank, peer: &ClientPeer, message: &Message) -> bool {
    let client = peer.client;
    let is_heard = rank.sessions.get(client).is_some() && !rank.unheard.contains(&client);
    if message.kind != ClientRequest::KIND || !is_heard {
        return false;
    }
    let Ok(request) = ClientRequest::decode(message) else { return false };
    let id = RequestId { client, tid: message.tid };
    if request.is_asynchronous() && !request.has_early_reply() {
        return replay::execute_unanswered(rank, id, &request);
    }
    request.has_early_reply() && replay::execute(rank, id, &request)
}

fn adopt(rank: &mut Rank, client: u64, ino: Ino, claimed: &ClaimedCap) {
    if let Some(awaited) = &mut rank.awaited
        && rank.tree.get(ino).is_none()
    {
        if !awaited.claim_early(client, ino, claimed.clone()) {
            client_sessions::drop_unheard(rank, client);
        }
        return;
    }
    let is_reached = rank.permissions.reaches(&rank.tree, client, ino);
    let Some(inode) = rank.tree.get(ino).filter(|_| is_reached) else {
        let export = caps::export(ino, claimed.cap_id, 1);
        return rank.send(client, export.encode(features::SUPPORTED));
    };
    // An open for writing that was allowed was recorded.
    let range = inode.write_ranges.get(&client);
    let wanted = range.map_or(CapBits::NONE, |_| CapBits::FILE_WRITE);
    if let Some(range) = range {
        rank.caps.adopt_range(caps::inode_id(ino), client, range.end);
    }
    let claim = caps::claim_of(inode, client, claimed, rank.allowed(client, ino, wanted));
    if !rank.caps.handle_claim(&claim) {
        let ClaimedCap { issued, .. } = claimed;
        tracing::warn!(client, %ino, %issued, "a client claims what another one has, or what it may not have");
    }
    if let Err(error) = rank.locks.reclaim(client, ino, &claimed.locks) {
        tracing::warn!(client, %ino, %error, "file locks are lost that a client claims");
    }
}

/// Bits of a flush that was sent again before its client's claims.
fn adopt_dirty(rank: &mut Rank, client: u64, message: &Message) {
    if message.kind == ClientCaps::KIND
        && let Ok(caps) = ClientCaps::decode(message)
    {
        rank.caps.handle_claimed_flush(client, InodeId(caps.ino), caps.cap_id, caps.dirty);
    }
}

/// Whether a parked message is a request that the predecessor has executed or that changes nothing for
/// others.
fn was_executed(message: &Message) -> bool {
    message.kind == ClientRequest::KIND
        && ClientRequest::decode(message).is_ok_and(|request| request.is_replayed())
}
