//! Objects of which no copy can be read: replies to clients and administrators.

use super::client::payload;
use super::monitor::PG_NUM;
use super::world::World;
use pg::snaps::{SNAPSET_ATTR, SnapSet};
use std::collections::BTreeMap;
use store::Change;
use types::{Errno, OsdId, SnapId};
use wire::op::OpCode;
use wire::{OsdOp, SnapContext};

fn all_copies(world: &World, name: &str) -> Vec<OsdId> {
    [vec![world.primary_of(name)], world.replicas_of(name)].concat()
}

/// A clean cluster with an object of which no copy can be read, and an intact one.
fn world_with_damage(seed: u64, size: u8) -> World {
    let mut world = World::with_size(seed, size);
    for name in ["object", "other"] {
        let ops = vec![
            OsdOp::write_full(payload(name)),
            OsdOp::xattr(OpCode::SETXATTR, b"user", b"value"),
        ];
        assert_eq!(world.call(name, ops).result, 0);
    }
    world.wait(15);
    all_copies(&world, "object").into_iter().for_each(|osd| world.damage(osd, "object"));
    world
}

fn read(world: &mut World, name: &str) -> Result<Vec<u8>, i32> {
    let reply = world.call(name, vec![OsdOp::read(0, 0)]);
    match reply.result {
        0 => Ok(reply.ops[0].output.to_vec()),
        error => Err(error),
    }
}

fn answer(world: &mut World, prefix: &str, mode: &str) -> (i32, String, serde_json::Value) {
    world.command("object", prefix, mode);
    world.wait_until(|world| !world.answers.is_empty());
    let reply = world.answers.remove(0);
    (reply.result, reply.text, serde_json::from_slice(&reply.output).unwrap_or_default())
}

fn unfound(world: &mut World) -> u64 {
    answer(world, "list_unfound", "").2["num_unfound"].as_u64().unwrap()
}

const IO: i32 = -5;

#[test]
fn what_needs_a_lost_object_fails_at_once_and_what_replaces_it_heals_it() {
    for seed in 200..206 {
        let mut world = world_with_damage(seed, 3);
        // In order, although only the first read discovers the loss.
        let reads: Vec<u64> = (0..3).map(|_| world.next_tid()).collect();
        for tid in &reads {
            let flags = wire::op::request_flags::READ;
            world.send(None, "object", vec![OsdOp::read(0, 0)], flags, *tid);
        }
        for tid in reads {
            assert_eq!(world.await_reply(tid).result, IO);
        }
        assert_eq!(world.call("object", vec![OsdOp::append(payload("more"))]).result, IO);
        let attr = vec![OsdOp::xattr(OpCode::SETXATTR, b"user", b"new")];
        assert_eq!(world.call("object", attr).result, IO);
        assert_eq!(read(&mut world, "other"), Ok(b"other".to_vec()));
        assert_eq!(unfound(&mut world), 1);
        let replace = OsdOp::write_full(payload("new"));
        let answer = world.call("object", vec![replace.clone()]);
        assert_eq!(answer.result, IO, "its attribute would be gone");
        let replaces = match seed % 2 {
            0 => vec![OsdOp::remove(), replace],
            _ => {
                assert_eq!(world.call("object", vec![OsdOp::remove()]).result, 0);
                assert_eq!(read(&mut world, "object"), Err(Errno::NOENT.negative()));
                vec![OsdOp::create(true), OsdOp::append(payload("new"))]
            }
        };
        assert_eq!(world.call("object", replaces).result, 0);
        assert_eq!(read(&mut world, "object"), Ok(b"new".to_vec()));
        let attr = world.call("object", vec![OsdOp::xattr(OpCode::GETXATTR, b"user", b"")]);
        assert!(attr.result < 0, "nothing of the lost object is left");
        assert_eq!(unfound(&mut world), 0);
        assert!(!world.is_damaged());
        world.finish();
    }
}

#[test]
fn new_data_heal_a_lost_object_that_had_nothing_else() {
    let mut world = World::with_size(206, 3);
    assert_eq!(world.call("object", vec![OsdOp::write_full(payload("old"))]).result, 0);
    world.wait(15);
    all_copies(&world, "object").into_iter().for_each(|osd| world.damage(osd, "object"));
    assert_eq!(read(&mut world, "object"), Err(IO));
    assert_eq!(world.call("object", vec![OsdOp::write_full(payload("new"))]).result, 0);
    assert_eq!(read(&mut world, "object"), Ok(b"new".to_vec()));
    world.finish();
}

/// Its metadata is unknown, so it may have had attributes.
#[test]
fn new_data_do_not_heal_an_object_of_which_nothing_is_known() {
    let mut world = World::with_size(207, 3);
    let ops = vec![OsdOp::write_full(payload("old"))];
    assert_eq!(world.call("object", ops).result, 0);
    world.wait(15);
    let copies = all_copies(&world, "object");
    copies.iter().for_each(|osd| world.crash(*osd));
    for osd in &copies {
        let remove = |object| store::Change::RemoveAttr { object, name: pg::INFO_ATTR };
        world.tamper("object", *osd, remove);
    }
    copies.iter().for_each(|osd| world.restart(*osd));
    world.wait(30);
    assert_eq!(read(&mut world, "object"), Err(IO));
    let replace = OsdOp::write_full(payload("new"));
    assert_eq!(world.call("object", vec![replace.clone()]).result, IO);
    assert_eq!(world.call("object", vec![OsdOp::remove(), replace]).result, 0);
    assert_eq!(read(&mut world, "object"), Ok(b"new".to_vec()));
}

#[test]
fn metadata_that_one_that_is_down_has_are_waited_for() {
    let mut world = World::with_size(208, 2);
    assert_eq!(world.call("object", vec![OsdOp::write_full(payload("old"))]).result, 0);
    world.wait(15);
    let (primary, away) = (world.primary_of("object"), world.replicas_of("object")[0]);
    world.crash(primary);
    let remove = |object| store::Change::RemoveAttr { object, name: pg::INFO_ATTR };
    world.tamper("object", primary, remove);
    world.restart(primary);
    world.wait(30);
    world.crash(away);
    world.wait(30);
    assert_eq!(world.primary_of("object"), primary);
    let (tid, flags) = (world.next_tid(), wire::op::request_flags::READ);
    world.send(None, "object", vec![OsdOp::read(0, 0)], flags, tid);
    world.wait(30);
    assert!(world.replies.is_empty(), "{:?}", world.replies);
    world.restart(away);
    let reply = world.await_reply(tid);
    assert_eq!((reply.result, &reply.ops[0].output[..]), (0, &b"old"[..]));
    world.finish();
}

#[test]
fn what_one_that_is_down_may_have_is_waited_for() {
    for seed in 210..214 {
        let mut world = world_with_damage(seed, 3);
        let away = world.replicas_of("object")[1];
        // Its copy is intact.
        world.mend(away, "object");
        world.crash(away);
        world.wait(20);
        let (tid, flags) = (world.next_tid(), wire::op::request_flags::READ);
        world.send(None, "object", vec![OsdOp::read(0, 0)], flags, tid);
        world.wait(30);
        assert!(world.replies.is_empty(), "{:?}", world.replies);
        for mode in ["delete", "revert"] {
            let (result, text, _) = answer(&mut world, "mark_unfound_lost", mode);
            assert_eq!(result, Errno::INVAL.negative());
            let refusal = "pg has 1 unfound objects but we haven't probed all sources";
            assert!(text.starts_with(refusal), "{text}");
        }
        let told = answer(&mut world, "list_unfound", "").2;
        let down = serde_json::json!({ "osd": away.0.to_string(), "status": "osd is down" });
        assert!(told["might_have_unfound"].as_array().unwrap().contains(&down), "{told}");
        world.restart(away);
        world.wait(20);
        assert_eq!(world.call("object", vec![OsdOp::read(0, 0)]).result, 0);
        assert!(!world.is_damaged());
        world.finish();
    }
}

#[test]
fn what_is_given_up_is_gone_on_all_members_before_that_is_said() {
    for mode in ["delete", "revert"] {
        let mut world = world_with_damage(220, 3);
        let none = answer(&mut world, "mark_unfound_lost", mode);
        assert_eq!((none.0, &none.1[..]), (0, "pg has no unfound objects"));
        assert_eq!(read(&mut world, "object"), Err(IO));
        let (result, text, _) = answer(&mut world, "mark_unfound_lost", mode);
        let told = "pg has 1 objects unfound and apparently lost marking";
        assert_eq!((result, &text[..]), (0, told));
        assert!(!world.is_damaged(), "it is durable already");
        (0..3).for_each(|osd| world.crash(OsdId(osd)));
        (0..3).for_each(|osd| world.restart(OsdId(osd)));
        world.wait(20);
        assert_eq!(read(&mut world, "object"), Err(Errno::NOENT.negative()));
        assert_eq!(unfound(&mut world), 0);
        world.finish();
    }
}

#[test]
fn a_repair_reads_the_copies_of_an_unfound_object_once_more() {
    let mut world = world_with_damage(230, 3);
    assert_eq!(read(&mut world, "object"), Err(IO));
    world.order_scrub(pg::scrub::Level::Deep, true);
    world.wait(20);
    assert_eq!(read(&mut world, "object"), Err(IO));
    let replica = world.replicas_of("object")[0];
    world.mend(replica, "object");
    world.order_scrub(pg::scrub::Level::Deep, true);
    world.wait(40);
    assert_eq!(read(&mut world, "object"), Ok(b"object".to_vec()));
    assert!(!world.is_damaged());
    world.finish();
}

/// An object with a clone for a snapshot.
fn world_with_clone(seed: u64) -> World {
    let mut world = World::with_size(seed, 3);
    assert_eq!(world.call("object", vec![OsdOp::write_full(payload("then"))]).result, 0);
    world.snap_context = SnapContext { seq: SnapId(1), snaps: vec![SnapId(1)] };
    assert_eq!(world.call("object", vec![OsdOp::write_full(payload("now"))]).result, 0);
    world.wait(15);
    world
}

fn read_snap(world: &mut World) -> Result<Vec<u8>, i32> {
    let tid = world.read_at("object", SnapId(1));
    let reply = world.await_reply(tid);
    if reply.result == 0 { Ok(reply.ops[0].output.to_vec()) } else { Err(reply.result) }
}

#[test]
fn clones_of_a_lost_head_stay_readable_and_a_new_snapshot_of_it_cannot_be_taken() {
    for ends_by_removal in [true, false] {
        let mut world = world_with_clone(240);
        all_copies(&world, "object").into_iter().for_each(|osd| world.damage(osd, "object"));
        assert_eq!(read(&mut world, "object"), Err(IO));
        assert_eq!(read_snap(&mut world), Ok(b"then".to_vec()));
        let newer = SnapContext { seq: SnapId(2), snaps: vec![SnapId(2), SnapId(1)] };
        let older = std::mem::replace(&mut world.snap_context, newer);
        let replace = || vec![OsdOp::write_full(payload("new"))];
        assert_eq!(world.call("object", replace()).result, IO, "what is to be kept is lost");
        world.snap_context = older;
        match ends_by_removal {
            true => assert_eq!(answer(&mut world, "mark_unfound_lost", "delete").0, 0),
            false => assert_eq!(world.call("object", replace()).result, 0),
        }
        assert_eq!(read_snap(&mut world), Ok(b"then".to_vec()));
        assert_eq!(read(&mut world, "object").is_ok(), !ends_by_removal);
        world.finish();
        world.order_scrub(pg::scrub::Level::Deep, false);
        world.wait(40);
        assert_eq!(world.scrub_errors(), 0, "what is left of the clone set fits");
    }
}

#[test]
fn a_clone_that_is_given_up_is_taken_out_of_its_clone_set() {
    let mut world = world_with_clone(250);
    for osd in all_copies(&world, "object") {
        world.damage_clone(osd, "object", SnapId(1));
    }
    assert_eq!(read_snap(&mut world), Err(IO));
    assert_eq!(read(&mut world, "object"), Ok(b"now".to_vec()));
    assert_eq!(answer(&mut world, "mark_unfound_lost", "delete").0, 0);
    assert_eq!(read_snap(&mut world), Err(Errno::NOENT.negative()));
    assert_eq!(read(&mut world, "object"), Ok(b"now".to_vec()));
    world.finish();
    world.order_scrub(pg::scrub::Level::Deep, false);
    world.wait(40);
    assert_eq!(world.scrub_errors(), 0);
}

/// The clone is known to the group and not to its head.
#[test]
fn the_head_of_a_clone_that_is_given_up_has_the_version_of_its_entry() {
    let mut world = world_with_clone(270);
    let copies = all_copies(&world, "object");
    copies.iter().for_each(|osd| world.damage_clone(*osd, "object", SnapId(1)));
    assert_eq!(read_snap(&mut world), Err(IO));
    assert_eq!(unfound(&mut world), 1);
    copies.iter().for_each(|osd| world.crash(*osd));
    let set = codec::encode_to_bytes(&SnapSet { seq: SnapId(1), ..SnapSet::default() });
    let attrs = BTreeMap::from([(SNAPSET_ATTR, set)]);
    for osd in &copies {
        world.tamper("object", *osd, |object| Change::SetAttrs { object, attrs: attrs.clone() });
    }
    copies.iter().for_each(|osd| world.restart(*osd));
    world.wait(30);
    // The copies of the clone are read once more, and are still bad.
    assert_eq!(unfound(&mut world), 1);
    assert_eq!(answer(&mut world, "mark_unfound_lost", "delete").0, 0);
    assert_eq!(unfound(&mut world), 0);
    world.finish();
    for (logged, stored) in world.versions_of("object") {
        assert_eq!(logged, stored, "a member that missed the entry would find no copy");
    }
    assert_eq!(read(&mut world, "object"), Ok(b"now".to_vec()));
}

/// The group counts no clone, because the count of the group that was split went to the other part.
#[test]
fn a_lost_head_is_not_given_up_in_a_part_that_may_have_its_clones() {
    let mut world = World::with_size(280, 3);
    world.allow_snapshots();
    let seed = |name: &str| maps::stable_mod(world.object(name).1.hash, 2 * PG_NUM);
    let mut names = (0..).map(|number| format!("object{number}"));
    let name = &names.find(|name| seed(name) >= PG_NUM).unwrap();
    assert_eq!(world.call(name, vec![OsdOp::write_full(payload("then"))]).result, 0);
    world.snap_context = SnapContext { seq: SnapId(1), snaps: vec![SnapId(1)] };
    assert_eq!(world.call(name, vec![OsdOp::write_full(payload("now"))]).result, 0);
    world.divide_groups();
    world.finish();
    assert_eq!(world.clones_counted(name), 0, "it went to the other part");
    let copies = all_copies(&world, name);
    copies.iter().for_each(|osd| world.crash(*osd));
    for osd in &copies {
        let remove = |object| Change::RemoveAttr { object, name: pg::INFO_ATTR };
        world.tamper(name, *osd, remove);
    }
    copies.iter().for_each(|osd| world.restart(*osd));
    world.wait(30);
    assert_eq!(read(&mut world, name), Err(IO));
    world.snap_context = SnapContext::default();
    let removal = world.call(name, vec![OsdOp::remove()]);
    assert_eq!(removal.result, IO, "the list of its clones is not known");
}

#[test]
fn the_only_copy_is_read_where_it_can_be_and_written_to() {
    let mut world = world_with_damage(260, 1);
    assert_eq!(read(&mut world, "object"), Err(IO));
    assert_eq!(world.call("object", vec![OsdOp::stat()]).result, 0);
    let attr = vec![OsdOp::xattr(OpCode::SETXATTR, b"user", b"new")];
    assert_eq!(world.call("object", attr).result, 0);
    assert_eq!(read(&mut world, "object"), Err(IO));
    assert_eq!(unfound(&mut world), 0, "nobody waits for it");
    assert_eq!(world.call("object", vec![OsdOp::remove()]).result, 0);
    world.finish();
}

#[test]
fn a_lost_object_whose_metadata_say_nothing_is_not_looked_for_without_end() {
    let mut world = world_with_clone(230);
    let copies = all_copies(&world, "object");
    copies.iter().for_each(|osd| world.crash(*osd));
    for osd in &copies {
        let remove = |object| store::Change::RemoveAttr { object, name: pg::INFO_ATTR };
        world.tamper("object", *osd, remove);
    }
    copies.iter().for_each(|osd| world.restart(*osd));
    world.wait(30);
    assert_eq!(read(&mut world, "object"), Err(IO));
    let replace = vec![OsdOp::write_full(payload("new"))];
    assert_eq!(world.call("object", replace).result, IO);
    world.wait(30);
}
