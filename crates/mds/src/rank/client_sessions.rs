//! Sessions of clients: they begin, are renewed, and end.

use super::Rank;
use crate::change::Change;
use crate::peer::{ClientPeer, is_of_one_client};
use crate::sessions::{NEEDED_FEATURES, Session, SessionImage};
use namespace::Ino;
use types::{EntityAddrVec, Errno};
use wire::{ClientReclaim, ClientReclaimReply, ClientSession, FeatureBits, MessageBody, SessionOp};

/// The fact by which a client names itself to later ones.
const UUID: &str = "uuid";
/// Bytes of the facts that a client tells about itself. A client with more is rejected.
const METADATA_MAX_BYTES: usize = 16 << 10;

pub(super) fn handle(rank: &mut Rank, peer: &ClientPeer, message: ClientSession) {
    let client = peer.client;
    match message.op {
        SessionOp::REQUEST_OPEN => open(rank, peer, message),
        SessionOp::REQUEST_RENEWCAPS if rank.sessions.get(client).is_some() => {
            rank.caps.handle_renewal(rank.now, client);
            let answer = ClientSession::new(SessionOp::RENEWCAPS, message.sequence);
            rank.send(client, answer.encode(0));
        }
        SessionOp::REQUEST_CLOSE => {
            let session = rank.sessions.get(client);
            // A close that has not seen all capabilities is repeated by the client when it has.
            if session.is_none_or(|session| session.has_seen_all(message.sequence)) {
                close(rank, client, message.sequence);
            }
        }
        SessionOp::REQUEST_FLUSH_MDLOG => {
            let lsn = rank.log.close();
            rank.outbox.expect(lsn);
        }
        _ => {}
    }
}

fn open(rank: &mut Rank, peer: &ClientPeer, message: ClientSession) {
    let features = message.features.0;
    if features & NEEDED_FEATURES != NEEDED_FEATURES {
        let reason = "the client is too old: it must read replies in their versioned encoding";
        return reject(rank, peer.client, reason);
    }
    let facts = message.metadata.iter().map(|(name, fact)| name.len() + fact.len());
    if facts.sum::<usize>() > METADATA_MAX_BYTES {
        let reason = "the client tells more than 16 KiB about itself; shorten its metadata";
        return reject(rank, peer.client, reason);
    }
    let addrs = &peer.addrs.0;
    if addrs.is_empty() || !addrs.iter().all(is_of_one_client) {
        let reason =
            "the client could not be evicted: each of its addresses needs a socket and a nonce";
        tracing::info!(client = peer.client, addrs = ?peer.addrs, "a session is rejected: {reason}");
        return reject(rank, peer.client, reason);
    }
    let root = message.metadata.get("root").map(String::as_str);
    if let Err(reason) = rank.permissions.check_mount(peer.client, root) {
        tracing::info!(client = peer.client, reason, "a session is rejected");
        return reject(rank, peer.client, &reason);
    }
    let image = SessionImage {
        name: peer.name.clone(),
        addrs: peer.addrs.clone(),
        metadata: message.metadata,
        features,
        ..SessionImage::default()
    };
    let image = rank.sessions.open(rank.now, peer.client, image).image().clone();
    tracing::info!(client = peer.client, name = %image.name, facts = ?image.metadata,
        "a client has opened a session");
    let features = FeatureBits(image.features);
    rank.log.change_session(peer.client, &Change::Session(peer.client, image));
    rank.caps.open_session(rank.now, peer.client);
    rank.sessions.counted.sessions += 1;
    let open = ClientSession { features, ..ClientSession::new(SessionOp::OPEN, 0) };
    rank.send(peer.client, open.encode(0));
}

fn reject(rank: &mut Rank, client: u64, reason: &str) {
    let metadata = [("error_string".to_owned(), reason.to_owned())].into();
    let reject = ClientSession { metadata, ..ClientSession::new(SessionOp::REJECT, 0) };
    rank.send(client, reject.encode(0));
}

pub(super) fn close(rank: &mut Rank, client: u64, sequence: u64) {
    for ino in end(rank, client, sequence) {
        rank.forget_unused(ino);
        rank.log.close();
    }
}

/// Ends the session of a client of which messages may be lost. One that may have writes on their way is
/// shut out before others get its capabilities, and not heard until then.
pub(super) fn drop_unheard(rank: &mut Rank, client: u64) {
    // One that is awaited may have anything.
    let is_awaited = rank.awaited.as_ref().is_some_and(|awaited| awaited.has(client));
    let may_write = is_awaited || rank.caps.holds_data_to_write(client);
    if rank.log.is_stored() && may_write {
        tracing::warn!(client, "messages of a client are lost while it may write: it is evicted");
        rank.waiting.remove_client(client);
        rank.map.behind.retain(|id| id.client != client);
        rank.evicting.insert(client);
        rank.unheard.insert(client);
        return;
    }
    // A file without a name that it has open stays until another server takes over and no client claims
    // it.
    rank.caps.leave_ranges(client);
    end(rank, client, 0);
}

/// Ends a session; returns the inodes on which the client had capabilities.
pub(super) fn end(rank: &mut Rank, client: u64, sequence: u64) -> Vec<Ino> {
    if let Some(awaited) = &mut rank.awaited {
        awaited.close(client);
    }
    rank.evicting.remove(&client);
    rank.unheard.remove(&client);
    rank.permissions.forget(client);
    let mut released = Vec::new();
    let session = rank.sessions.get(client);
    let addrs = session.map(|session| session.image().addrs.clone()).unwrap_or_default();
    if rank.sessions.close(client) {
        rank.log.change_session(client, &Change::SessionGone(client));
        released = release_all(rank, client);
    }
    rank.outbox.end_session(client);
    rank.sessions.latencies.forget(client);
    rank.send(client, ClientSession::new(SessionOp::CLOSE, sequence).encode(0));
    answer_reclaims(rank, client, &addrs);
    released
}

/// Ends the requests of a client whose session has ended, and takes its capabilities.
fn release_all(rank: &mut Rank, client: u64) -> Vec<Ino> {
    rank.waiting.remove_client(client);
    rank.map.behind.retain(|id| id.client != client);
    let answers = rank.locks.remove_client(client);
    rank.answer_lock_requests(answers);
    let released = rank.caps.close_session(rank.now, client);
    rank.take_cap_outputs();
    released.into_iter().map(|ino| Ino(ino.0)).collect()
}

/// A client ends the session of another one, of which it knows the name: a server of another protocol that
/// starts again does so with what its former run has left.
pub(super) fn reclaim(rank: &mut Rank, client: u64, message: &ClientReclaim) {
    if message.flags == ClientReclaim::FINISH {
        return;
    }
    if message.flags != ClientReclaim::RESET {
        return refuse_reclaim(rank, client, Errno::NOTSUPP);
    }
    let Some(other) = named(rank, client, &message.uuid) else {
        return answer_reclaim(rank, client, &ClientReclaimReply::default());
    };
    let name = |id| rank.sessions.get(id).map(|session| &session.image().name);
    if name(client) != name(other) {
        return refuse_reclaim(rank, client, Errno::PERM);
    }
    rank.sessions.await_end(client, other);
    tracing::info!(client, other, uuid = message.uuid, "a client ends the session of another one");
    if rank.log.is_stored() {
        rank.evicting.insert(other);
    } else {
        close(rank, other, 0);
    }
}

/// Another client with this name.
fn named(rank: &Rank, client: u64, uuid: &str) -> Option<u64> {
    let mut others = rank.sessions.iter().filter(|(id, _)| *id != client);
    let is_named =
        |session: &Session| session.image().metadata.get(UUID).is_some_and(|own| own == uuid);
    others.find(|(_, session)| is_named(session)).map(|(id, _)| id)
}

/// A session has ended, of a client with these addresses: those that have ended it may go on.
fn answer_reclaims(rank: &mut Rank, client: u64, addrs: &EntityAddrVec) {
    for waiting in rank.sessions.take_awaiting(client) {
        let (epoch, addrs) = (rank.barrier.0, addrs.clone());
        answer_reclaim(rank, waiting, &ClientReclaimReply { result: 0, epoch, addrs });
    }
}

fn refuse_reclaim(rank: &mut Rank, client: u64, error: Errno) {
    let result = error.negative();
    answer_reclaim(rank, client, &ClientReclaimReply { result, ..Default::default() });
}

fn answer_reclaim(rank: &mut Rank, client: u64, reply: &ClientReclaimReply) {
    rank.send(client, reply.encode(types::features::SUPPORTED));
}
