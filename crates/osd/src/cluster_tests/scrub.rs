//! Bad copies: found by scrubs and by reads, and repaired.

use super::client::payload;
use super::world::World;
use bytes::Bytes;
use pg::scrub::{Level, Order, Stamps};
use std::collections::BTreeMap;
use store::Change;
use types::{Errno, HObject, OsdId, SnapId, UTime};
use wire::op::OpCode;
use wire::{OsdOp, SnapContext};

const OBJECTS: u64 = 40;

fn world_with_objects(seed: u64, size: u8) -> World {
    let mut world = World::with_size(seed, size);
    for number in 0..OBJECTS {
        let name = format!("object{number}");
        assert_eq!(world.call(&name, vec![OsdOp::write_full(payload(&name))]).result, 0);
    }
    world
}

fn assert_readable(world: &mut World) {
    for number in 0..OBJECTS {
        let name = format!("object{number}");
        let reply = world.call(&name, vec![OsdOp::read(0, 0)]);
        assert_eq!((reply.result, &reply.ops[0].output[..]), (0, name.as_bytes()));
    }
}

#[test]
fn a_deep_scrub_of_sound_copies_finds_nothing_and_all_members_remember_it() {
    let mut world = world_with_objects(31, 3);
    world.order_scrub(Level::Deep, false);
    world.wait(30);
    let stamps = world.scrub_stamps();
    assert_eq!(stamps.len(), 3 * super::monitor::PG_NUM as usize);
    for stamps in stamps {
        assert!(stamps.last_deep.seconds > 0 && stamps.errors.total() == 0);
    }
}

#[test]
fn a_deep_scrub_counts_omaps_that_are_too_large_until_one_finds_them_small() {
    let mut world = world_with_objects(39, 3);
    world.set_option("osd_deep_scrub_large_omap_object_key_threshold", "2");
    for (name, keys) in [("object1", "abc"), ("object2", "ab")] {
        let pair = |key: char| (Bytes::from(key.to_string()), Bytes::from("value"));
        let pairs: BTreeMap<Bytes, Bytes> = keys.chars().map(pair).collect();
        let input = codec::encode_to_bytes(&pairs);
        let set = OsdOp::new(OpCode::OMAPSETVALS).with_input(input);
        assert_eq!(world.call(name, vec![set]).result, 0);
    }
    world.order_scrub(Level::Deep, false);
    world.wait(30);
    let totals = |world: &World| {
        let stamps = world.primary_stamps().into_iter().map(|stamps| stamps.omaps);
        stamps.fold((0, 0, 0), |(keys, bytes, large), omaps| {
            (keys + omaps.size.keys, bytes + omaps.size.bytes, large + omaps.large_objects)
        })
    };
    assert_eq!(totals(&world), (5, 25, 1));
    let lines = &world.monitor.log;
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert!(line.starts_with("Large omap object found. Object: 1:"), "{line}");
    assert!(line.ends_with(" Key count: 3 Size (bytes): 15"), "{line}");
    // A light scrub reads no omaps, and members keep the counts.
    world.order_scrub(Level::Light, false);
    world.wait(30);
    assert_eq!(totals(&world), (5, 25, 1));
    let stamps = world.scrub_stamps();
    assert_eq!(stamps.iter().filter(|stamps| stamps.omaps.large_objects == 1).count(), 3);
    assert_eq!(world.call("object1", vec![OsdOp::new(OpCode::OMAPCLEAR)]).result, 0);
    world.order_scrub(Level::Deep, false);
    world.wait(30);
    assert_eq!(totals(&world), (2, 10, 0));
}

#[test]
fn an_order_outlives_the_primaries_that_took_it() {
    for seed in 50..54 {
        let mut world = world_with_objects(seed, 3);
        // Groups that are not clean are not scrubbed yet.
        world.crash(OsdId(2));
        world.wait(10);
        world.order_scrub(Level::Deep, false);
        world.wait(5);
        assert!(world.scrub_stamps().iter().all(|stamps| stamps.last_deep.seconds == 0));
        // All OSDs that took the order go down; then all are up again, and the one without it is
        // primary of some groups.
        world.crash(OsdId(0));
        world.crash(OsdId(1));
        (0..3).for_each(|osd| world.restart(OsdId(osd)));
        world.finish();
        world.wait(60);
        assert_eq!(world.scrub_orders(), 0);
        for stamps in world.primary_stamps() {
            assert!(stamps.last_deep.seconds > 0, "{stamps:?}");
        }
    }
}

#[test]
fn an_order_given_during_a_scrub_is_not_done_by_it() {
    let mut world = world_with_objects(55, 2);
    world.wait(15);
    let (primary, replica) = (world.primary_of("object5"), world.replicas_of("object5")[0]);
    let other = |object| Change::Write { object, offset: 0, data: payload("other") };
    world.tamper("object5", replica, other);
    world.begin_scrub("object5", Level::Deep);
    world.order_scrub(Level::Deep, true);
    // The first scrub ends; it was not to repair.
    world.wait_until(|world| world.scrub_errors() == 1);
    world.mark_down_wrongly(primary);
    world.wait(60);
    assert_eq!(world.scrub_errors(), 0);
    world.finish();
    assert_readable(&mut world);
}

#[test]
fn a_repair_is_carried_out_although_a_scrub_is_ordered_behind_it() {
    let mut world = world_with_objects(59, 2);
    world.wait(15);
    let replica = world.replicas_of("object5")[0];
    let other = |object| Change::Write { object, offset: 0, data: payload("other") };
    world.tamper("object5", replica, other);
    world.begin_scrub("object5", Level::Light);
    world.order_scrub(Level::Deep, true);
    world.order_scrub(Level::Deep, false);
    world.wait(60);
    assert_eq!((world.scrub_orders(), world.scrub_errors()), (0, 0));
    assert!(world.stamps_of("object5").last_deep > UTime::ZERO);
    world.finish();
    assert_readable(&mut world);
}

#[test]
fn a_stray_s_order_that_was_carried_out_is_not_carried_out_again() {
    let mut world = world_with_objects(56, 2);
    world.wait(15);
    let (primary, away) = (world.primary_of("object1"), world.replicas_of("object1")[0]);
    let other = (0..3).map(OsdId).find(|osd| ![primary, away].contains(osd)).unwrap();
    world.order_scrub(Level::Deep, true);
    world.wait_until(|world| world.stored_stamps("object1", away).order.is_some());
    world.crash(away);
    world.move_group("object1", &[primary, other]);
    world.wait(60);
    let done = world.stamps_of("object1").last_deep;
    assert!(done.seconds > 0);
    world.restart(away);
    world.wait(60);
    assert_eq!(world.stamps_of("object1").last_deep, done);
}

#[test]
fn a_new_primary_looks_whether_an_order_was_carried_out_whatever_clocks_said() {
    let mut world = world_with_objects(57, 3);
    let replica = world.replicas_of("object1")[0];
    let mut begin_anew_with = |order: Order| {
        world.tamper_stamps("object1", replica, Stamps { order: Some(order), ..Stamps::default() });
        (0..3).for_each(|osd| world.crash(OsdId(osd)));
        (0..3).for_each(|osd| world.restart(OsdId(osd)));
        world.finish();
        world.wait(60);
        world.stamps_of("object1")
    };
    let at = |seconds| UTime { seconds, nanoseconds: 0 };
    let ahead = Order { level: Level::Deep, repair: true, at: at(1_000_000) };
    let done = begin_anew_with(ahead);
    assert!(done.has_done(&ahead), "{done:?}");
    // A member that missed the result has an older order.
    assert_eq!(begin_anew_with(Order { at: at(1), ..ahead }), done);
}

#[test]
fn an_order_that_a_primary_cannot_begin_ends_with_its_being_primary() {
    let mut world = world_with_objects(58, 3);
    let first = world.primary_of("object1");
    let others = world.replicas_of("object1");
    others.iter().for_each(|osd| world.crash(*osd));
    world.wait(10);
    world.order_scrub(Level::Deep, false);
    world.move_group("object1", &[others[0], others[1], first]);
    others.iter().for_each(|osd| world.restart(*osd));
    world.finish();
    world.wait(60);
    assert_eq!(world.stamps_of("object1").last_deep, UTime::ZERO);
    world.move_group("object1", &[first, others[0], others[1]]);
    world.finish();
    world.wait(60);
    assert_eq!(world.stamps_of("object1").last_deep, UTime::ZERO);
}

#[test]
fn what_a_deep_scrub_finds_is_repaired_and_looked_at_again() {
    for seed in 32..36 {
        let mut world = world_with_objects(seed, 3);
        let (primary, replica) = (world.primary_of("object1"), world.replicas_of("object2")[0]);
        world.damage(primary, "object1");
        world.damage(replica, "object2");
        let replica = world.replicas_of("object3")[1];
        world.tamper("object3", replica, |object| Change::Remove { object });
        let replica = world.replicas_of("object4")[0];
        world.tamper("object4", replica, |object| Change::Write {
            object,
            offset: 0,
            data: payload("other"),
        });
        world.tamper("absent", replica, |object| Change::Touch { object });
        world.order_scrub(Level::Deep, false);
        world.wait(40);
        assert_eq!(world.scrub_errors(), 1, "an object that no member knows stays an error");
        assert!(!world.is_damaged());
        world.tamper("absent", replica, |object| Change::Remove { object });
        world.finish();
        assert_readable(&mut world);
    }
}

/// A repair would give a copy another version than its group has reported, or make it incomplete.
#[test]
fn a_group_at_rest_is_repaired_when_it_goes_on() {
    let mut world = world_with_objects(38, 3);
    world.announce_merge(true);
    let name = world.object_that_merges();
    world.wait_until(|world| world.has_reported_rest(&name));
    let replica = world.replicas_of(&name)[0];
    world.damage(replica, &name);
    world.order_scrub(Level::Deep, true);
    world.wait(40);
    assert!(world.is_damaged() && world.has_reported_rest(&name));
    assert_eq!(world.scrub_errors(), 1, "what was found is told");
    world.announce_merge(false);
    world.order_scrub(Level::Deep, true);
    world.wait(40);
    assert!(!world.is_damaged());
    world.finish();
    assert_readable(&mut world);
}

#[test]
fn of_two_copies_that_differ_the_primary_s_is_taken_only_when_asked() {
    let mut world = world_with_objects(37, 2);
    let replica = world.replicas_of("object5")[0];
    let other = |object| Change::Write { object, offset: 0, data: payload("other") };
    world.tamper("object5", replica, other);
    world.order_scrub(Level::Deep, false);
    world.wait(30);
    assert_eq!(world.scrub_errors(), 1);
    world.order_scrub(Level::Deep, true);
    world.wait(40);
    assert_eq!(world.scrub_errors(), 0);
    world.finish();
    assert_readable(&mut world);
}

#[test]
fn a_read_that_meets_damage_is_answered_from_another_copy() {
    for seed in 40..45 {
        let mut world = world_with_objects(seed, 3);
        let damaged: Vec<String> = (0..6).map(|number| format!("object{number}")).collect();
        for name in &damaged {
            let primary = world.primary_of(name);
            world.damage(primary, name);
        }
        assert_readable(&mut world);
        assert!(!world.is_damaged());
        world.finish();
    }
}

/// A store cannot change a block in part if it cannot read it.
#[test]
fn a_write_that_no_member_took_for_damage_is_executed_on_another_copy() {
    for seed in 50..56 {
        let mut world = world_with_objects(seed, 3);
        let members = [vec![world.primary_of("object1")], world.replicas_of("object1")].concat();
        members.into_iter().for_each(|osd| world.refuse_change(osd, "object1"));
        assert_eq!(world.call("object1", vec![OsdOp::append(payload(" more"))]).result, 0);
        let reply = world.call("object1", vec![OsdOp::read(0, 0)]);
        assert_eq!(reply.ops[0].output, payload("object1 more"));
        world.finish();
    }
}

/// The damage may be that of the clone, and another copy of the head would not help.
#[test]
fn a_rollback_that_met_damage_fails_and_its_head_stays() {
    let mut world = world_with_clones(73);
    let members = [vec![world.primary_of("object")], world.replicas_of("object")].concat();
    members.into_iter().for_each(|osd| world.refuse_change(osd, "object"));
    let reply = world.call("object", vec![OsdOp::roll_back(SnapId(1))]);
    assert_eq!(reply.result, Errno::IO.negative());
    let reply = world.call("object", vec![OsdOp::read(0, 0)]);
    assert_eq!(reply.ops[0].output, payload("now"));
    world.wait(40);
    assert!(world.monitor.repaired.values().all(BTreeMap::is_empty));
    world.finish();
}

/// Checks the repaired copies by OSD, as all primaries reported them, against `damaged`; and the
/// cluster log.
fn assert_told(world: &World, damaged: &BTreeMap<OsdId, u64>, found_by: &str) {
    let mut told = BTreeMap::new();
    for (osd, copies) in world.monitor.repaired.values().flatten() {
        *told.entry(*osd).or_insert(0) += copies;
    }
    assert_eq!(told, *damaged);
    let lines = &world.monitor.log;
    assert!(lines.iter().all(|line| line.contains(found_by)), "{lines:?}");
    let count = |line: &String| line.split(' ').nth(2).unwrap().parse::<u64>().unwrap();
    assert_eq!(lines.iter().map(count).sum::<u64>(), damaged.values().sum::<u64>(), "{lines:?}");
}

#[test]
fn repairs_are_reported_by_the_osd_that_had_the_bad_copy_and_told_in_the_log() {
    for found_by in ["scrub", "read"] {
        let mut world = world_with_objects(46, 3);
        let mut damaged = BTreeMap::new();
        for name in (0..6).map(|number| format!("object{number}")) {
            let primary = world.primary_of(&name);
            let bad = if found_by == "read" { primary } else { world.replicas_of(&name)[0] };
            world.damage(bad, &name);
            *damaged.entry(bad).or_insert(0) += 1;
        }
        match found_by {
            "read" => assert_readable(&mut world),
            _ => world.order_scrub(Level::Deep, false),
        }
        world.wait(40);
        assert!(!world.is_damaged());
        assert_told(&world, &damaged, found_by);
        world.finish();
    }
}

#[test]
fn clones_that_are_damaged_come_from_other_copies_each_in_its_version() {
    for seed in 60..70 {
        let mut world = World::started(seed);
        let snaps = [1, 2, 3].map(SnapId);
        for (index, snap) in snaps.iter().enumerate() {
            let data = payload(&snap.0.to_string());
            assert_eq!(world.call("object", vec![OsdOp::write_full(data)]).result, 0);
            let known = snaps[..=index].iter().rev().copied().collect();
            world.snap_context = SnapContext { seq: *snap, snaps: known };
        }
        assert_eq!(world.call("object", vec![OsdOp::write_full(payload("now"))]).result, 0);
        let primary = world.primary_of("object");
        snaps.iter().for_each(|snap| world.damage_clone(primary, "object", *snap));
        // Concurrently, so that they interfere.
        let asked = snaps.map(|snap| (snap, world.read_at("object", snap)));
        for (snap, tid) in asked {
            let reply = world.await_reply(tid);
            let data = snap.0.to_string();
            assert_eq!((reply.result, &reply.ops[0].output[..]), (0, data.as_bytes()));
        }
        assert!(!world.is_damaged());
        world.finish();
    }
}

/// An object with clones of snapshots 1 and 2.
fn world_with_clones(seed: u64) -> World {
    let mut world = World::started(seed);
    for snap in [1, 2] {
        assert_eq!(world.call("object", vec![OsdOp::write_full(payload("text"))]).result, 0);
        let snaps = (1..=snap).rev().map(SnapId).collect();
        world.snap_context = SnapContext { seq: SnapId(snap), snaps };
    }
    assert_eq!(world.call("object", vec![OsdOp::write_full(payload("now"))]).result, 0);
    world.wait(5);
    world
}

fn on_all_copies(world: &mut World, change: impl Fn(HObject) -> Change) {
    let copies = [vec![world.primary_of("object")], world.replicas_of("object")].concat();
    copies.into_iter().for_each(|osd| world.tamper("object", osd, &change));
}

#[test]
fn a_clone_that_all_copies_lack_is_found_and_stays_an_error() {
    let mut world = world_with_clones(71);
    world.order_scrub(Level::Deep, true);
    world.wait(30);
    assert_eq!(world.scrub_errors(), 0);
    on_all_copies(&mut world, |head| Change::Remove { object: head.at(SnapId(1)) });
    for repair in [false, true] {
        world.order_scrub(Level::Light, repair);
        world.wait(30);
        assert_eq!(world.scrub_errors(), 1);
    }
}

#[test]
fn a_clone_that_nobody_can_see_goes_when_asked() {
    let mut world = world_with_clones(72);
    on_all_copies(&mut world, |head| Change::Clone {
        object: head.at(SnapId(2)),
        target: head.at(SnapId(7)),
    });
    for (repair, errors) in [(false, 1), (true, 0), (false, 0)] {
        world.order_scrub(Level::Light, repair);
        world.wait(30);
        assert_eq!(world.scrub_errors(), errors);
    }
    world.finish();
}

/// Part of an object was lost, or its metadata damaged by the medium.
fn without_info(object: HObject) -> Change {
    Change::RemoveAttr { object, name: pg::INFO_ATTR }
}

#[test]
fn an_object_whose_metadata_say_nothing_comes_from_another_copy() {
    for seed in 80..84 {
        let mut world = world_with_objects(seed, 2);
        let primary = world.primary_of("object1");
        world.crash(primary);
        world.tamper("object1", primary, without_info);
        world.restart(primary);
        world.wait(30);
        assert_eq!(world.primary_of("object1"), primary);
        assert_eq!(world.call("object1", vec![OsdOp::append(payload("!"))]).result, 0);
        let reply = world.call("object1", vec![OsdOp::read(0, 0)]);
        assert_eq!((reply.result, &reply.ops[0].output[..]), (0, &b"object1!"[..]));
        world.finish();
    }
}

#[test]
fn a_request_that_was_executed_is_answered_although_its_object_cannot_be_read_any_more() {
    let mut world = World::with_size(85, 1);
    let primary = world.primary_of("object");
    let append = || vec![OsdOp::append(payload("once"))];
    let first = world.call_with_tid("object", append(), 77);
    assert_eq!(first.result, 0);
    world.crash(primary);
    world.tamper("object", primary, without_info);
    world.restart(primary);
    world.wait(30);
    let again = world.call_with_tid("object", append(), 77);
    assert_eq!((again.result, again.version), (0, first.version));
    assert_eq!(world.call("object", append()).result, Errno::IO.negative());
}

#[test]
fn a_read_that_fails_once_is_made_again() {
    let mut world = world_with_objects(46, 1);
    let primary = world.primary_of("object1");
    world.fail_read(primary);
    let reply = world.call("object1", vec![OsdOp::read(0, 0)]);
    assert_eq!((reply.result, &reply.ops[0].output[..]), (0, &b"object1"[..]));
}

#[test]
fn without_another_copy_a_read_that_meets_damage_fails() {
    let mut world = world_with_objects(46, 1);
    let primary = world.primary_of("object1");
    world.damage(primary, "object1");
    let reply = world.call("object1", vec![OsdOp::read(0, 0)]);
    assert_eq!(reply.result, Errno::IO.negative());
    assert_eq!(world.call("object1", vec![OsdOp::remove()]).result, 0);
}
