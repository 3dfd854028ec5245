//! Bounds of the memory of requests: their messages, and beyond.

use super::lone::Lone;
use super::{append, failed};
use crate::limits;
use bytes::Bytes;
use codec::Writer;
use engine::ConnId;
use std::collections::BTreeMap;
use types::Errno;
use wire::OsdOp;
use wire::op::OpCode;

/// `EMSGSIZE`
const TOO_BIG: Errno = Errno(90);
const LARGEST: u64 = limits::OBJECT_SIZE_MAX;

fn write_same(offset: u64, length: u64) -> OsdOp {
    let mut op = OsdOp::new(OpCode::WRITESAME).with_input(Bytes::from_static(b"0123"));
    for (at, value) in [(0, offset), (8, length), (16, 4)] {
        op.arguments[at..at + 8].copy_from_slice(&u64::to_le_bytes(value));
    }
    op
}

fn read_all() -> OsdOp {
    OsdOp::read(0, LARGEST)
}

/// An OSD with objects that consist of one large hole, and whose store answers no read.
fn with_holes(objects: &[&str]) -> (Lone, ConnId) {
    let mut lone = Lone::new();
    let client = lone.client("allow *");
    for object in objects {
        let ops = vec![OsdOp::create(false), OsdOp::truncate(LARGEST - 1)];
        assert_eq!(lone.call(client, object, ops), Some(0));
    }
    lone.held = Some(Default::default());
    (lone, client)
}

#[test]
fn a_vector_that_can_never_fit_is_refused_before_anything_is_allocated() {
    let (mut lone, client) = with_holes(&["a"]);
    let same: Vec<OsdOp> = (0..1024).map(|_| write_same(0, LARGEST)).collect();
    assert_eq!(lone.call(client, "a", same), failed(TOO_BIG));
    // A length that can never be written is refused with that error, as by Ceph.
    for (length, why) in [(u64::MAX, Errno::INVAL), (!3, Errno::FBIG)] {
        assert_eq!(lone.call(client, "a", vec![write_same(0, length); 2]), failed(why));
    }
    let none = OsdOp { input: Bytes::new(), ..write_same(0, u64::MAX) };
    assert_eq!(lone.call(client, "a", vec![none]), failed(Errno::INVAL));
    assert_eq!(lone.call(client, "a", vec![read_all(); 3]), failed(Errno::TOOBIG));
    let sparse = vec![OsdOp::sparse_read(0, LARGEST); 2];
    assert_eq!(lone.call(client, "a", sparse), failed(Errno::TOOBIG));
    // Eight bytes of checksum for each byte.
    let mut checksums = OsdOp::new(OpCode::CHECKSUM).with_input(Bytes::from_static(&[0; 8]));
    checksums.arguments[8..16].copy_from_slice(&(LARGEST - 1).to_le_bytes());
    checksums.arguments[16] = 1;
    checksums.arguments[20] = wire::op::checksum_kind::XXHASH64;
    assert_eq!(lone.call(client, "a", vec![checksums]), failed(Errno::TOOBIG));
    assert_eq!(lone.held_bytes(), 0);
    // The largest operation of each kind fits on its own.
    lone.send(client, "a", vec![OsdOp::sparse_read(0, LARGEST)], 0);
    assert_eq!(lone.held_bytes(), LARGEST - 1);
}

#[test]
fn answers_of_all_clients_share_one_budget_and_wait_in_order() {
    let names: Vec<String> = (0..8).map(|number| format!("object{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (mut lone, first) = with_holes(&names);
    let second = lone.client("allow *");
    let tids: Vec<u64> = names
        .iter()
        .zip([first, second].into_iter().cycle())
        .map(|(name, conn)| lone.send(conn, name, vec![read_all()], 0))
        .collect();
    let mut most = 0;
    while lone.held_bytes() > 0 {
        most = most.max(lone.held_bytes());
        assert!(lone.answer_held());
    }
    assert!((1..=limits::EXPANSION_BYTES_MAX).contains(&most), "{most} were asked for at once");
    let answered: Vec<u64> = lone.replies.iter().map(|(tid, _)| *tid).collect();
    assert_eq!(answered, tids);
}

#[test]
fn repeated_data_waits_for_room_and_small_requests_to_other_objects_do_not_starve() {
    let (mut lone, client) = with_holes(&["a", "b", "c"]);
    for name in ["a", "b"] {
        lone.send(client, name, vec![read_all()], 0);
    }
    let repeated = lone.send(client, "c", vec![write_same(0, 32 << 20)], 0);
    assert!(lone.replies.is_empty());
    // It needs no memory besides its message.
    assert_eq!(lone.call(client, "d", append(10)), Some(0));
    assert!(lone.answer_held());
    assert!(lone.replies.iter().any(|(tid, reply)| *tid == repeated && reply.result == 0));
}

#[test]
fn requests_that_wait_for_room_end_with_their_session_and_give_back_nothing_twice() {
    let (mut lone, client) = with_holes(&["a", "b", "c"]);
    let other = lone.client("allow *");
    for name in ["a", "b"] {
        lone.send(client, name, vec![read_all()], 0);
    }
    lone.send(other, "c", vec![read_all()], 0);
    lone.close(other);
    lone.send(client, "c", vec![read_all()], 0);
    while lone.answer_held() {}
    assert_eq!(lone.replies.len(), 3);
}

/// Requests with a newer map wait: they hold their messages.
fn park(lone: &mut Lone, conn: ConnId, data: &Bytes, count: usize) {
    for _ in 0..count {
        if lone.paused.contains(&conn) {
            return;
        }
        lone.send(conn, "a", vec![OsdOp::write_full(data.clone())], 0);
    }
}

#[test]
fn all_clients_together_are_bounded_and_the_modest_go_on_longest() {
    let mut lone = Lone::new();
    let data = Bytes::from(vec![0; 4 << 20]);
    let next = lone.map.epoch.next();
    let ahead = std::mem::replace(&mut lone.map.epoch, next);
    let greedy: Vec<ConnId> = (0..12).map(|_| lone.client("allow *")).collect();
    let modest = lone.client("allow *");
    lone.send(modest, "a", append(1), 0);
    for conn in &greedy {
        park(&mut lone, *conn, &data, 100);
    }
    let (requests, bytes) = lone.in_flight();
    assert!(bytes <= limits::REQUESTS_BYTES_MAX + data.len() + 1000, "{bytes} in {requests}");
    assert!(greedy.iter().all(|conn| lone.paused.contains(conn)));
    assert!(!lone.paused.contains(&modest), "it has less than its share");
    // With so many sessions that shares do not bound them, all are paused.
    let many: Vec<ConnId> = (0..200).map(|_| lone.client("allow *")).collect();
    for conn in &many {
        park(&mut lone, *conn, &data, 1);
    }
    let (_, bytes) = lone.in_flight();
    assert!(bytes <= limits::REQUESTS_BYTES_MAX + data.len() + 1000, "{bytes}");
    assert!(lone.paused.contains(&modest));
    let late = lone.client("allow *");
    assert!(lone.paused.contains(&late), "nor does a new session make more room");
    lone.map.epoch = ahead;
    lone.publish(|_| {});
    assert_eq!(lone.in_flight(), (0, 0));
    assert_eq!(lone.paused.len(), 0, "all are read from again");
    assert!(lone.replies.iter().all(|(_, reply)| reply.result == 0));
}

/// Each image may have a status of each site; all are listed, and their lengths are not known in advance.
#[test]
fn a_method_that_looks_at_very_many_images_fits_in() {
    let mut lone = Lone::new();
    let client = lone.client("allow *");
    let image = |number: u32| {
        let mut w = Writer::new();
        w.versioned(2, 1, |w| {
            w.string(&format!("global{number}"));
            w.u8(1);
            w.u8(0);
        });
        (Bytes::from(format!("image_{number:04}")), w.into_bytes())
    };
    let images: BTreeMap<Bytes, Bytes> = (0..500).map(image).collect();
    let input = codec::encode_to_bytes(&images);
    let set = OsdOp::new(OpCode::OMAPSETVALS).with_input(input);
    assert_eq!(lone.call(client, "rbd_mirroring", vec![set]), Some(0));
    let mut asked = Writer::new();
    asked.string("");
    asked.u64(1000);
    let list = OsdOp::call("rbd", "mirror_image_status_list", &asked.into_bytes());
    let tid = lone.send(client, "rbd_mirroring", vec![list], 0);
    let reply = lone.replies.iter().find(|(answered, _)| *answered == tid).map(|(_, reply)| reply);
    let reply = reply.expect("nothing is held back");
    assert_eq!(reply.result, 0);
    assert_eq!(reply.ops[0].output[..4], 500u32.to_le_bytes());
}
