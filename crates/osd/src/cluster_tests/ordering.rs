//! The order of replies: a client's requests on one object over one session are answered in order,
//! even if some are resent.

use super::client::payload;
use super::world::World;
use engine::ConnId;
use std::collections::BTreeMap;
use types::{Errno, HObject};
use wire::op::{OpCode, request_flags};
use wire::{OsdOp, OsdReply};

/// Tracks all requests and replies of a client. A resend may be answered as early as its original,
/// but the first replies come in the order of the first submissions; and of two requests of which
/// one was first and last sent before the other, it also has its last reply earlier.
#[derive(Debug, Default)]
pub struct Order(BTreeMap<(ConnId, HObject), Line>, BTreeMap<(ConnId, u64), HObject>);

/// Requests on one object over one session.
#[derive(Debug, Default)]
struct Line {
    sent: usize,
    asked: BTreeMap<u64, Asked>,
    /// The latest first submission of all answered requests.
    answered: Option<usize>,
}

#[derive(Debug, Clone, Copy)]
struct Asked {
    first: usize,
    last: usize,
    times: usize,
    answers: usize,
}

impl Order {
    pub fn sent(&mut self, conn: ConnId, object: &HObject, tid: u64) {
        self.1.insert((conn, tid), object.clone());
        let line = self.0.entry((conn, object.clone())).or_default();
        let at = line.sent;
        line.sent += 1;
        let new = Asked { first: at, last: at, times: 0, answers: 0 };
        let asked = line.asked.entry(tid).or_insert(new);
        (asked.last, asked.times) = (at, asked.times + 1);
    }

    pub fn replied(&mut self, conn: ConnId, tid: u64) {
        let object = self.1.get(&(conn, tid)).expect("what is answered was asked");
        let line = self.0.get_mut(&(conn, object.clone())).expect("it was sent over this session");
        let asked = line.asked.get_mut(&tid).expect("it is about this object");
        asked.answers += 1;
        if asked.answers == 1 {
            let is_next = line.answered < Some(asked.first);
            assert!(is_next, "{tid} is answered behind a later request for {object}");
            line.answered = Some(asked.first);
        }
        // If a submission was dropped, it is not known which one was answered.
        let asked = *asked;
        let is_done = |asked: &Asked| asked.answers == asked.times;
        if is_done(&asked) {
            let is_later = |o: &Asked| o.first > asked.first && o.last > asked.last;
            let later = line.asked.iter().find(|(_, other)| is_done(other) && is_later(other));
            assert!(later.is_none(), "{tid} is answered again behind {later:?} for {object}");
        }
    }
}

fn append(text: &str) -> Vec<OsdOp> {
    vec![OsdOp::append(payload(text))]
}

fn read() -> Vec<OsdOp> {
    vec![OsdOp::read(0, 0)]
}

/// The same requests, with events in an order that depends on the seed.
fn send_all(seed: u64, requests: &[(u64, Vec<OsdOp>, u32)]) -> Vec<(u64, OsdReply)> {
    let mut world = World::started(seed);
    let name = OsdOp::xattr(OpCode::SETXATTR, b"name", &[b'x'; 100]);
    world.call("a", vec![OsdOp::append(payload("x")), name]);
    world.call("a", read());
    world.replies.clear();
    for (tid, ops, flags) in requests {
        world.send(None, "a", ops.clone(), *flags, *tid);
    }
    world.settle();
    std::mem::take(&mut world.replies)
}

const WRITE: u32 = request_flags::WRITE;
const READ: u32 = request_flags::READ;

#[test]
fn writes_that_are_sent_again_are_answered_in_their_order() {
    for seed in 0..60 {
        let replies = send_all(
            seed,
            &[
                (5001, append("y"), WRITE),
                (5002, append("y"), WRITE),
                (5001, append("y"), WRITE),
                (5002, append("y"), WRITE),
                (5003, read(), READ),
            ],
        );
        let order: Vec<u64> = replies.iter().map(|(tid, _)| *tid).collect();
        assert_eq!(order, [5001, 5001, 5002, 5002, 5003], "seed {seed}");
        assert_eq!(replies[0].1.version, replies[1].1.version);
        assert_eq!(replies[4].1.ops[0].output, "xyy");
    }
}

#[test]
fn later_writes_are_answered_behind_one_that_is_sent_again() {
    for seed in 0..60 {
        let mut requests = vec![(5001, append("y"), WRITE); 2];
        requests.extend((5002..5005).map(|tid| (tid, append("y"), WRITE)));
        requests.push((5005, read(), READ));
        let order: Vec<u64> = send_all(seed, &requests).iter().map(|(tid, _)| *tid).collect();
        assert_eq!(order, [5001, 5001, 5002, 5003, 5004, 5005], "seed {seed}");
    }
}

#[test]
fn reads_are_answered_in_their_order_whatever_they_must_load() {
    for seed in 0..20 {
        let requests = [
            (5001, read(), READ),
            (5002, vec![OsdOp::stat()], READ),
            (5003, read(), READ),
            (5004, vec![OsdOp::xattr(OpCode::GETXATTR, b"none", b"")], READ),
        ];
        let order: Vec<u64> = send_all(seed, &requests).iter().map(|(tid, _)| *tid).collect();
        assert_eq!(order, [5001, 5002, 5003, 5004], "seed {seed}");
    }
}

/// The error depends on the object's state, which is true only when earlier writes are durable.
#[test]
fn an_error_is_answered_behind_the_writes_before_it() {
    let too_long = || {
        let get = OsdOp::xattr(OpCode::GETXATTR, b"name", b"");
        vec![get, OsdOp::append(payload("z"))]
    };
    for seed in 0..20 {
        let flags = WRITE | READ | request_flags::RETURNVEC;
        let requests = [
            (5001, append("y"), WRITE),
            (5002, too_long(), flags),
            (5003, append("w"), WRITE),
            (5004, read(), READ),
        ];
        let replies = send_all(seed, &requests);
        let order: Vec<u64> = replies.iter().map(|(tid, _)| *tid).collect();
        assert_eq!(order, [5001, 5002, 5003, 5004], "seed {seed}");
        assert_eq!(replies[1].1.result, Errno::OVERFLOW.negative());
        assert_eq!(replies[3].1.ops[0].output, "xyw");
    }
}

#[test]
fn a_read_that_waits_for_a_lease_is_not_overtaken_by_a_write() {
    for seed in 0..20 {
        for flags in [READ, READ | request_flags::RWORDERED] {
            let mut world = World::started(seed);
            world.call("a", append("x"));
            // Longer than all leases last.
            world.wait(30);
            world.replies.clear();
            world.send(None, "a", read(), flags, 5001);
            world.send(None, "a", append("y"), WRITE, 5002);
            world.send(None, "a", read(), flags, 5003);
            world.settle();
            let told: Vec<(u64, &[u8])> =
                world.replies.iter().map(|(tid, r)| (*tid, &r.ops[0].output[..])).collect();
            assert_eq!(told, [(5001, &b"x"[..]), (5002, b""), (5003, b"xy")], "seed {seed}");
        }
    }
}

/// As in Ceph: only the error for a removed object has a version, one that its next version will exceed.
#[test]
fn a_read_that_fails_names_no_version() {
    let mut world = World::started(1);
    let written = world.call("a", append("x"));
    assert!(written.user_version > 0);
    let get = || vec![OsdOp::xattr(OpCode::GETXATTR, b"none", b"")];
    let reply = world.call("a", get());
    assert!(reply.result < 0);
    assert_eq!((reply.user_version, reply.version.version), (0, 0));
    assert_eq!(world.call("a", read()).user_version, written.user_version);
    world.call("a", vec![OsdOp::remove()]);
    assert!(world.call("a", read()).user_version >= written.user_version);
    let (group, _) = world.object("a");
    let beside = (0..).map(|number| format!("never{number}"));
    let mut beside = beside.filter(|name| world.object(name).0 == group);
    let never = beside.next().expect("one of them lies in the same group");
    let reply = world.call(&never, read());
    assert_eq!((reply.result, reply.user_version), (Errno::NOENT.negative(), 0));
    assert_eq!(reply.version.version, 0);
}
