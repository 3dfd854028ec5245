//! Inputs for groups: messages of clients and members, and completions of the store.

use super::work::awaited;
use super::{HostedGroups, scrubbing, stored_map, trimming};
use crate::cx::cx;
use crate::faults::{Handled, undecodable};
use crate::inbox::waiting_for_map::WaitingInput;
use crate::operations::request::Request;
use crate::operations::{admission, copying, listing, loads};
use crate::shared::Shared;
use crate::tokens::Token;
use crate::work::Work;
use engine::{ConnId, Duration, Message};
use pg::message::{Body, Header};
use store::{Outcome, StoreError};
use types::{OsdId, PgShard};
use wire::{OsdReply, decode_from_peer};

/// Handles a client's request. Fails if it does not decode, which ends the session.
pub(crate) fn handle_request(
    hosted: &mut HostedGroups,
    shared: &mut Shared,
    conn: ConnId,
    message: &Message,
) -> Handled {
    let received = admission::receive(&mut hosted.operations, cx!(shared), conn, message)?;
    let Some((key, map_epoch)) = received else { return Ok(()) };
    shared.peers.note_offered(&mut shared.clients, conn, Some(map_epoch));
    shared.maps.share(&mut shared.clients, &mut shared.outbox, conn, map_epoch);
    hosted.admit(shared, key);
    Ok(())
}

/// A reply from another OSD to a request of ours.
pub(crate) fn handle_reply(
    hosted: &mut HostedGroups,
    shared: &mut Shared,
    conn: ConnId,
    message: &Message,
) -> Handled {
    if shared.peers.at(&shared.clients, conn).is_some() {
        let (reply, tid) = (decode_from_peer::<OsdReply>(message)?, message.tid);
        let (cx, peers) = (cx!(shared), &mut shared.peers);
        copying::replied(&mut hosted.operations, cx, peers, tid, &reply);
    }
    Ok(())
}

/// Handles a message of a member. Fails if it does not decode, which ends the session.
pub(crate) fn handle_group_message(
    hosted: &mut HostedGroups,
    shared: &mut Shared,
    conn: ConnId,
    message: Message,
) -> Handled {
    match shared.peers.group_sender(&mut shared.clients, conn, &message) {
        Some(from) => deliver(hosted, shared, conn, from, message),
        // Messages of a session that has ended meanwhile are dropped.
        None => {
            if shared.clients.contains(conn) {
                tracing::warn!(?conn, "only OSDs may speak as members of a group");
            }
            Ok(())
        }
    }
}

/// Delivers the messages that shards of one group on this OSD have sent to each other, and those that follow.
/// Call when all groups have handled the newest map.
pub(crate) fn deliver_local(hosted: &mut HostedGroups, shared: &mut Shared) {
    let own = shared.env.whoami();
    while let Some(message) = shared.outbox.poll_local(shared.is_up()) {
        if pg::scrub::message::is_scrub_message(message.kind) {
            scrubbing::handle_message(hosted, shared, own, &message);
            hosted.settle(shared);
            continue;
        }
        let (header, body) = Body::decode(&message).expect("this OSD has encoded it");
        deliver_to_group(hosted, shared, own, &header, body);
    }
}

/// Delivers a message of a member, or makes it wait for its map: messages of scrubs, too, as they must not
/// overtake others. Fails if it does not decode: its sender never resends it.
pub(crate) fn deliver(
    hosted: &mut HostedGroups,
    shared: &mut Shared,
    conn: ConnId,
    from: OsdId,
    message: Message,
) -> Handled {
    let kind = message.kind;
    let epoch = pg::message::sender_epoch(&message).map_err(undecodable(kind))?;
    if let Some(awaited) = awaited(shared, epoch) {
        charge(hosted, shared, conn, message.len());
        hosted.waiting_for_map.push_message(awaited, conn, from, message);
        return Ok(());
    }
    if pg::scrub::message::is_scrub_message(kind) {
        scrubbing::handle_message(hosted, shared, from, &message);
        return Ok(());
    }
    let (header, body) = Body::decode(&message).map_err(undecodable(kind))?;
    deliver_to_group(hosted, shared, from, &header, body);
    Ok(())
}

/// Delivers a message of the present map or an earlier one to the group that it names.
fn deliver_to_group(
    hosted: &mut HostedGroups,
    shared: &mut Shared,
    from: OsdId,
    header: &Header,
    body: Body,
) {
    let pg = PgShard { pg: header.pg, shard: header.to };
    let Some(group) = hosted.groups.get_mut(pg) else {
        if body == Body::Query {
            let back = Header { to: header.from, from: header.to, ..*header };
            let nothing = Body::Info(None).encode(&back);
            shared.peers.send(cx!(shared), from, nothing);
        }
        return;
    };
    if !group.pg.is_serving() {
        group.tell_time(&hosted.leases, shared.env.now);
    }
    group.pg.handle_message(from, header, body);
    hosted.settle_group(shared, pg);
}

/// Counts a held message of a member for its session, and pauses the session at its bound.
pub(crate) fn charge(hosted: &mut HostedGroups, shared: &mut Shared, conn: ConnId, bytes: usize) {
    let budgets = &shared.env.config.sizes.budgets;
    hosted.waiting_for_map.charge(conn, bytes, budgets, &mut shared.outbox);
}

/// Counts a held message of a member no more.
pub(crate) fn uncharge(hosted: &mut HostedGroups, conn: ConnId, bytes: usize) {
    hosted.waiting_for_map.uncharge(conn, bytes);
}

/// Resumes the session of a member that is below its bound.
pub(crate) fn resume_member(hosted: &mut HostedGroups, shared: &mut Shared, conn: ConnId) {
    let budgets = &shared.env.config.sizes.budgets;
    hosted.waiting_for_map.resume(conn, budgets, &mut shared.outbox);
}

/// Handles the next of the inputs that waited for the present map; `None` if there is none. Fails with the
/// session that must end, as its message does not decode.
pub(crate) fn handle_waiting(
    hosted: &mut HostedGroups,
    shared: &mut Shared,
) -> Option<Result<(), (ConnId, wire::PeerFault)>> {
    match hosted.waiting_for_map.pop_ready()? {
        WaitingInput::Request(key) => {
            hosted.admit(shared, key);
            hosted.settle(shared);
        }
        WaitingInput::Group { conn, from, message } => {
            uncharge(hosted, conn, message.len());
            resume_member(hosted, shared, conn);
            if let Err(fault) = deliver(hosted, shared, conn, from, message) {
                return Some(Err((conn, fault)));
            }
        }
    }
    Some(Ok(()))
}

/// Handles a request for a lease, or a grant: then reads that waited for it go on. `silence` is the time for
/// which nothing was heard of the sender. Fails if the message does not decode.
pub(crate) fn handle_lease_message(
    hosted: &mut HostedGroups,
    shared: &mut Shared,
    from: (OsdId, Duration),
    message: &Message,
) -> Handled {
    let (cx, peers) = (cx!(shared), &mut shared.peers);
    let outcome = hosted.leases.handle_message(cx, peers, from, message);
    if outcome.map_err(undecodable(message.kind))? {
        resume_reads(hosted, shared);
    }
    Ok(())
}

/// Lets the reads go on that waited for a lease, in all groups where it is held now.
fn resume_reads(hosted: &mut HostedGroups, shared: &mut Shared) {
    let (now, own) = (shared.env.now, shared.env.whoami());
    for pg in hosted.leases.waiting() {
        let mut keys = Vec::new();
        if let Some(group) = hosted.groups.get_mut(pg) {
            if !hosted.leases.may_read(now, &group.pg, own, &mut group.lease) {
                continue;
            }
            keys = std::mem::take(&mut group.queues.waiting_for_readable);
        }
        hosted.leases.end_wait(pg);
        for key in keys {
            // If it restarted meanwhile, it is in the queue of its object.
            let waits = |request: &Request| request.pg == pg && request.waits_outside();
            if hosted.operations.get(key).is_some_and(waits) {
                shared.work.push(Work::Continue(key));
                hosted.settle(shared);
            }
        }
    }
}

/// Handles the completion of a request to the store for a group or one of its requests. Ones for groups,
/// objects or attempts that are gone are ignored.
pub(crate) fn handle_completion(
    hosted: &mut HostedGroups,
    shared: &mut Shared,
    token: Token,
    outcome: Result<Outcome, StoreError>,
) {
    match token {
        Token::Group { pg, serial, tag, bytes } => {
            note_commit(shared, bytes, &outcome);
            if let Some(group) = hosted.groups.get_same(pg, serial) {
                if !group.pg.is_serving() {
                    group.tell_time(&hosted.leases, shared.env.now);
                }
                group.pg.handle_completion(tag, outcome);
                hosted.settle_group(shared, pg);
            }
            stored_map::note_stored(hosted, shared, pg);
        }
        Token::State { object } => {
            hosted.serve_at(shared, object, |s| loads::state_loaded(s, object, outcome));
        }
        Token::Need { request, attempt, need } => {
            hosted.serve_of(shared, request, |s| {
                loads::need_loaded(s, request, attempt, need, outcome);
            });
        }
        Token::Listing { request, attempt } => {
            hosted.serve_of(shared, request, |s| listing::listed(s, request, attempt, outcome));
        }
        Token::Listed { request, attempt, object } => hosted.serve_of(shared, request, |s| {
            listing::listed_object(s, request, attempt, &object, outcome);
        }),
        Token::Trim { pg, generation } => {
            trimming::listed(hosted, shared, pg, generation, outcome);
        }
        Token::Scrub { pg, serial, tag } => {
            scrubbing::handle_completion(hosted, shared, (pg, serial), tag, outcome);
        }
        Token::Collections
        | Token::Usage
        | Token::MapLoaded
        | Token::MapStored
        | Token::Bench { .. } => unreachable!("it is not of a group: {token:?}"),
    }
}

/// A commit of a group is no longer in flight.
fn note_commit(shared: &mut Shared, bytes: u64, outcome: &Result<Outcome, StoreError>) {
    shared.usage.end_commit(bytes);
    if matches!(outcome, Err(StoreError::NoSpace { .. })) {
        shared.usage.note_refusal();
        shared.request_report();
    }
}
