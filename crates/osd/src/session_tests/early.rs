//! Inputs for newer maps than the OSD has.

use super::lone::Lone;
use super::{append, failed};
use crate::limits;
use engine::ConnId;
use pg::message::{Body, Header};
use types::{EntityAddrVec, Epoch, Errno, OsdId, PgId};

/// An OSD whose clients have a map that is newer by one epoch.
fn ahead() -> Lone {
    let mut lone = Lone::new();
    lone.map.epoch = lone.map.epoch.next();
    lone
}

/// Publishes that map.
fn catch_up(lone: &mut Lone) {
    lone.map.epoch = Epoch(lone.map.epoch.0 - 1);
    lone.publish(|_| {});
}

fn peer(lone: &mut Lone) -> ConnId {
    lone.peer(OsdId(1), &EntityAddrVec::one("v2:10.0.0.1:6801/1".parse().unwrap()))
}

/// Delivers a group message of another OSD.
fn say(lone: &mut Lone, conn: ConnId) {
    let pg = PgId { pool: super::lone::POOL, seed: 0 };
    let header = Header::replicated(pg, lone.map.epoch, lone.map.epoch);
    lone.deliver(conn, Body::Query.encode(&header));
}

#[test]
fn a_client_without_capabilities_is_refused_at_once() {
    let mut lone = ahead();
    let client = lone.client("");
    assert_eq!(lone.call(client, "a", append(1)), failed(Errno::PERM));
    assert_eq!(lone.osd.hosted().waiting_len(), 0);
}

#[test]
fn requests_from_ahead_of_the_map_go_with_their_session() {
    let mut lone = ahead();
    let (client, other) = (lone.client("allow *"), lone.client("allow *"));
    assert_eq!(lone.call(client, "a", append(1)), None);
    assert_eq!(lone.call(other, "a", append(1)), None);
    lone.close(client);
    assert_eq!((lone.osd.hosted().waiting_len(), lone.in_flight().0), (1, 1));
    catch_up(&mut lone);
    assert_eq!(
        (lone.osd.hosted().waiting_len(), lone.in_flight().0, lone.replies.len()),
        (0, 0, 1)
    );
}

#[test]
fn an_osd_that_is_far_ahead_waits_and_nothing_that_it_said_is_dropped() {
    let mut lone = ahead();
    let (first, second) = (peer(&mut lone), peer(&mut lone));
    say(&mut lone, second);
    for count in 0..limits::EARLY_MESSAGES_MAX {
        assert!(!lone.paused.contains(&first), "after {count}");
        say(&mut lone, first);
    }
    assert!(lone.paused.contains(&first) && !lone.paused.contains(&second));
    // Messages already in flight are handled nevertheless.
    say(&mut lone, first);
    assert_eq!(lone.osd.hosted().waiting_len(), limits::EARLY_MESSAGES_MAX + 2);
    catch_up(&mut lone);
    assert_eq!((lone.osd.hosted().waiting_len(), lone.paused.len()), (0, 0));
}

/// A scan must not overtake the message that says what is committed.
#[test]
fn a_message_of_a_scrub_waits_for_the_map_behind_others_of_its_sender() {
    let mut lone = ahead();
    let conn = peer(&mut lone);
    say(&mut lone, conn);
    let pg = PgId { pool: super::lone::POOL, seed: 0 };
    let header = Header::replicated(pg, lone.map.epoch, lone.map.epoch);
    lone.deliver(conn, pg::scrub::message::Body::Reserve.encode(&header));
    assert_eq!(lone.osd.hosted().waiting_len(), 2);
    catch_up(&mut lone);
    assert_eq!(lone.osd.hosted().waiting_len(), 0);
}

#[test]
fn what_an_osd_said_from_ahead_of_the_map_goes_with_its_session() {
    let mut lone = ahead();
    let (first, second) = (peer(&mut lone), peer(&mut lone));
    say(&mut lone, first);
    say(&mut lone, second);
    lone.close(first);
    assert_eq!(lone.osd.hosted().waiting_len(), 1);
}

/// Its sender never resends it, and later messages must not be handled as if it had been.
#[test]
fn a_message_of_a_group_that_does_not_decode_ends_its_session() {
    let mut lone = Lone::new();
    lone.closed = Some(Vec::new());
    let conn = peer(&mut lone);
    let pg = PgId { pool: super::lone::POOL, seed: 0 };
    let header = Header::replicated(pg, lone.map.epoch, lone.map.epoch);
    let mut message = Body::Replicated(types::EVersion::new(1, 1)).encode(&header);
    message.front.truncate(message.front.len() - 1);
    lone.deliver(conn, message);
    assert_eq!(lone.closed, Some(vec![conn]));
}
