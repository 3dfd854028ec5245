//! Copies that wait, and the events that end the wait; sessions between OSDs that carry no group messages.

use super::failed;
use super::lone::{CLIENT_ADDR, Lone, POOL};
use super::{append, read};
use bytes::Bytes;
use engine::ConnId;
use maps::{OsdMapFlags, Pool, PoolType};
use types::{AddrType, EntityAddr, EntityAddrVec, Errno, OsdId, PgId, PoolId, UTime};
use wire::copy::{CopyCursor, CopySource};
use wire::op::{OpCode, watch_op};
use wire::osd_op::{CopyFromArguments, WatchArguments};
use wire::watch::WatcherListing;
use wire::{MessageBody, ObjectLocator, OsdOp, OsdReply};

const OTHER: OsdId = OsdId(1);
const OTHER_POOL: PoolId = PoolId(2);

fn copy_from(pool: PoolId, name: &str) -> Vec<OsdOp> {
    let object = Bytes::copy_from_slice(name.as_bytes());
    let source = CopySource { object, locator: ObjectLocator::pool(pool), truncate: None };
    let arguments = CopyFromArguments { snap: types::SnapId::HEAD, ..Default::default() };
    vec![OsdOp::copy_from(arguments, &source)]
}

fn set_pause(lone: &mut Lone, is_paused: bool) {
    let flags = lone.map.flags.0 & !OsdMapFlags::PAUSERD.0;
    let pause = if is_paused { OsdMapFlags::PAUSERD.0 } else { 0 };
    lone.publish(|increment| increment.new_flags = Some(OsdMapFlags(flags | pause)));
}

/// A copy that waits, and the tid of its request.
fn with_waiting_copy() -> (Lone, ConnId, u64) {
    let mut lone = Lone::new();
    let client = lone.client("allow *");
    assert_eq!(lone.call(client, "source", append(4)), Some(0));
    set_pause(&mut lone, true);
    let copy = lone.send(client, "target", copy_from(POOL, "source"), 0);
    assert!(lone.replies.is_empty());
    (lone, client, copy)
}

#[test]
fn a_copy_goes_on_when_reads_are_no_longer_paused() {
    let (mut lone, client, copy) = with_waiting_copy();
    set_pause(&mut lone, false);
    let (tid, reply) = lone.replies.pop_front().expect("the copy is made");
    assert_eq!((tid, reply.result), (copy, 0));
    assert_eq!(lone.call(client, "target", read()), Some(0));
}

#[test]
fn a_copy_ends_with_the_session_that_asked_for_it() {
    let (mut lone, client, _) = with_waiting_copy();
    lone.close(client);
    let other = lone.client("allow *");
    assert_eq!(lone.call(other, "target", append(4)), Some(0));
}

#[test]
fn a_copy_ends_when_its_client_is_blocklisted_or_its_source_is_removed() {
    let (mut lone, _, copy) = with_waiting_copy();
    let addr = EntityAddr { kind: AddrType::Any, ..CLIENT_ADDR.parse().unwrap() };
    let until = UTime { seconds: 2_000_000_000, nanoseconds: 0 };
    lone.publish(|increment| {
        increment.new_blocklist.insert(addr, until);
    });
    let (tid, reply) = lone.replies.pop_front().expect("it is told");
    assert_eq!((tid, Some(reply.result)), (copy, failed(Errno::BLOCKLISTED)));

    let (mut lone, client) = with_other_osd();
    let copy = lone.send(client, "target", copy_from(OTHER_POOL, "source"), 0);
    lone.publish(|increment| increment.old_pools = vec![OTHER_POOL].into_iter().collect());
    let (tid, reply) = lone.replies.pop_front().expect("it is told");
    assert_eq!((tid, Some(reply.result)), (copy, failed(Errno::NOENT)));
}

/// An OSD beside another one with which it shares no group.
fn with_other_osd() -> (Lone, ConnId) {
    let mut lone = Lone::new();
    let client = lone.client("allow *");
    let addrs = other_addrs();
    lone.publish(|increment| {
        increment.new_max_osd = Some(2);
        increment.new_pool_max = Some(OTHER_POOL);
        increment.new_pools.insert(OTHER_POOL, Pool::new(PoolType::Replicated, 1, 1, 0));
        increment.new_pool_names.insert(OTHER_POOL, "other".to_owned());
        increment.new_pg_upmap.insert(PgId { pool: OTHER_POOL, seed: 0 }, vec![OTHER]);
        increment.mark_up(OTHER, addrs.clone(), addrs.clone(), addrs.clone(), addrs);
        increment.new_weight.insert(OTHER, maps::WEIGHT_IN);
    });
    (lone, client)
}

fn other_addrs() -> EntityAddrVec {
    EntityAddrVec::one("v2:10.0.0.1:6801/1".parse().unwrap())
}

#[test]
fn a_session_without_groups_that_is_replaced_is_no_failure_and_the_copy_goes_on() {
    let (mut lone, client) = with_other_osd();
    lone.send(client, "target", copy_from(OTHER_POOL, "source"), 0);
    let [link] = lone.asked[..] else { panic!("{:?}", lone.asked) };
    // The other OSD has opened a session, which has replaced ours.
    let theirs = lone.peer(OTHER, &other_addrs());
    lone.close(link);
    let mut w = codec::Writer::new();
    w.value(&CopyCursor::default());
    w.u64(1 << 20);
    let piece = OsdOp::new(OpCode::COPY_GET).with_input(w.into_bytes());
    lone.send(theirs, "absent", vec![piece], 0);
    lone.wait(3);
    assert_eq!(lone.reported, []);
    assert_eq!(lone.asked, [link, theirs], "it asks again, over the session that is there");
}

/// It uses the existing session, although this end opened it.
#[test]
fn another_osd_may_ask_over_the_session_that_we_opened_to_it() {
    let (mut lone, client) = with_other_osd();
    lone.send(client, "target", copy_from(OTHER_POOL, "source"), 0);
    let [link] = lone.asked[..] else { panic!("{:?}", lone.asked) };
    lone.link_opened(link, OTHER, &other_addrs());
    assert_eq!(lone.call(link, "absent", vec![OsdOp::stat()]), failed(Errno::NOENT));
}

#[test]
fn a_lost_question_for_a_piece_is_asked_again_and_a_late_answer_is_not_taken_for_another() {
    let (mut lone, client) = with_other_osd();
    lone.send(client, "target", copy_from(OTHER_POOL, "source"), 0);
    lone.wait(20);
    let [first, again] = lone.asked[..] else { panic!("{:?}", lone.asked) };
    assert_eq!(first, again);
    // A reply to the first request.
    let late = OsdReply { result: Errno::NOENT.negative(), ..OsdReply::default() };
    let message = late.encode(types::features::SUPPORTED);
    lone.deliver(first, message.clone().with_tid(1));
    assert_eq!(lone.replies.iter().filter(|(_, reply)| reply.result < 0).count(), 0);
    let present = lone.copy_questions();
    assert_eq!(present.len(), 1);
    lone.deliver(first, message.with_tid(present[0]));
    assert_eq!(lone.replies.pop_front().map(|(_, reply)| reply.result), failed(Errno::NOENT));
}

fn watchers(lone: &mut Lone, conn: ConnId) -> usize {
    let tid = lone.send(conn, "header", vec![OsdOp::new(OpCode::LIST_WATCHERS)], 0);
    let at = lone.replies.iter().position(|(known, _)| *known == tid).expect("it is answered");
    let (_, reply) = lone.replies.remove(at).unwrap();
    let listing: WatcherListing = codec::decode_all("watchers", &reply.ops[0].output).unwrap();
    listing.entries.len()
}

#[test]
fn watches_of_blocklisted_clients_end_with_the_map_that_says_so() {
    for is_forgotten in [false, true] {
        let mut lone = Lone::new();
        let fenced = "v2:10.0.0.3:4000/5";
        let (watcher, other) = (lone.client_at(fenced), lone.client("allow *"));
        assert_eq!(lone.call(watcher, "header", append(1)), Some(0));
        let op = watch_op::WATCH;
        let watch = WatchArguments { cookie: 1, op, timeout_seconds: 30, ..Default::default() };
        assert_eq!(lone.call(watcher, "header", vec![OsdOp::watch(watch)]), Some(0));
        assert_eq!(watchers(&mut lone, other), 1);
        if is_forgotten {
            // The object context is evicted, and with it the watch.
            lone.forget_objects();
        }
        let addr = EntityAddr { kind: AddrType::Any, ..fenced.parse().unwrap() };
        let until = UTime { seconds: 2_000_000_000, nanoseconds: 0 };
        lone.publish(|increment| {
            increment.new_blocklist.insert(addr, until);
        });
        assert_eq!(watchers(&mut lone, other), 0, "forgotten: {is_forgotten}");
    }
}
