//! Requests that wait for other OSDs, and watches while OSDs come and go.

use super::client::payload;
use super::world::World;
use maps::OsdMapFlags;
use wire::OsdOp;
use wire::op::{request_flags, watch_op};
use wire::osd_op::WatchArguments;

#[test]
fn a_copy_survives_a_pause_of_reads() {
    for seed in 0..5 {
        let mut world = World::started(seed);
        world.call("source", vec![OsdOp::write_full(payload("content"))]);
        let home = world.primary_of("source");
        let targets = (0..20).map(|number| format!("target{number}"));
        let target = targets.into_iter().find(|name| world.primary_of(name) != home).unwrap();
        let before = world.monitor.map.flags;
        let (copy, later) = (world.next_tid(), world.next_tid());
        let ops = vec![world.copy_from("source")];
        world.send(None, &target, ops, request_flags::WRITE, copy);
        world.set_flags(OsdMapFlags(before.0 | OsdMapFlags::PAUSERD.0));
        world.settle();
        world.set_flags(before);
        // It waits behind the copy.
        world.send(None, &target, vec![OsdOp::append(payload("x"))], request_flags::WRITE, later);
        assert_eq!(world.await_reply(copy).result, 0);
        assert_eq!(world.await_reply(later).result, 0);
        assert_eq!(world.call(&target, vec![OsdOp::read(0, 0)]).ops[0].output, "contentx");
    }
}

#[test]
fn objects_that_are_copied_from_each_other_at_once_do_not_wait_for_each_other() {
    for seed in 0..20 {
        let mut world = World::started(seed);
        let names = ["a", "b", "c", "d"];
        for name in names {
            world.call(name, vec![OsdOp::write_full(payload("content"))]);
        }
        // In pairs, each followed by reads and writes.
        let mut tids = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let source = names[index ^ 1];
            let copy = vec![world.copy_from(source)];
            for (ops, flags) in [
                (copy, request_flags::WRITE),
                (vec![OsdOp::read(0, 0)], request_flags::READ),
                (vec![OsdOp::append(payload("x"))], request_flags::WRITE),
            ] {
                let tid = world.next_tid();
                world.send(None, name, ops, flags, tid);
                tids.push(tid);
            }
        }
        for tid in tids {
            assert_eq!(world.await_reply(tid).result, 0);
        }
    }
}

#[test]
fn every_osd_copies_from_every_other_whoever_opened_the_session() {
    let mut world = World::started(7);
    let names: Vec<String> = (0..8).map(|number| format!("object{number}")).collect();
    for name in &names {
        world.call(name, vec![OsdOp::write_full(payload(name))]);
    }
    // After its restart, an OSD is reached over sessions that others opened.
    world.crash(types::OsdId(0));
    world.wait(5);
    world.restart(types::OsdId(0));
    world.finish();
    for source in &names {
        for target in names.iter().map(|name| format!("{name}.copy.{source}")) {
            let copy = vec![world.copy_from(source)];
            let tid = world.next_tid();
            world.send(None, &target, copy, request_flags::WRITE, tid);
            world.wait(5);
            let answered = world.replies.iter().find(|(known, _)| *known == tid);
            assert_eq!(answered.map(|(_, reply)| reply.result), Some(0), "{target}");
        }
    }
}

fn watch(op: u8) -> Vec<OsdOp> {
    let watch = WatchArguments { cookie: 7, op, timeout_seconds: 30, ..Default::default() };
    vec![OsdOp::watch(watch)]
}

#[test]
fn a_watch_stays_connected_when_another_member_goes_down() {
    for seed in 0..10 {
        let mut world = World::started(seed);
        world.call("a", vec![OsdOp::write_full(payload("content"))]);
        assert_eq!(world.call("a", watch(watch_op::WATCH)).result, 0);
        let replica = world.replicas_of("a")[0];
        world.crash(replica);
        world.wait(2);
        assert_eq!(world.call("a", watch(watch_op::PING)).result, 0, "seed {seed}");
        world.restart(replica);
        world.wait(5);
        assert_eq!(world.call("a", watch(watch_op::PING)).result, 0, "seed {seed}");
    }
}

/// The watch was executed by a primary that has crashed: the log has it, but no session is connected.
#[test]
fn a_watch_that_is_asked_for_again_is_connected_by_whoever_answers() {
    let mut world = World::started(3);
    world.call("a", vec![OsdOp::write_full(payload("content"))]);
    assert_eq!(world.call_with_tid("a", watch(watch_op::WATCH), 77).result, 0);
    let primary = world.primary_of("a");
    world.crash(primary);
    world.wait(5);
    assert_eq!(world.call_with_tid("a", watch(watch_op::WATCH), 77).result, 0);
    assert_eq!(world.call("a", watch(watch_op::PING)).result, 0);
}
