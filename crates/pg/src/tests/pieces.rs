//! Objects that are copied in several pieces, interrupted at every possible point. In the end all copies are
//! compared byte for byte, with each other and with the written data.

use super::World;
use super::world::{PG, object};
use crate::message::{Body, Cursor, Push};
use crate::{INFO_ATTR, LOG_ENTRIES_MAX, Member, State, is_meta_object};
use bytes::Bytes;
use engine::Message;
use std::collections::BTreeMap;
use store::{Change, Collection, RequestKind, Transaction};
use types::{HObject, OsdId, SnapId};

const MIB: usize = 1 << 20;

/// The objects that clients wrote: data and omap.
type Model = BTreeMap<HObject, (Bytes, BTreeMap<Bytes, Bytes>)>;

/// Data that has no holes and differs in all pieces.
fn data(seed: usize, size: usize) -> Bytes {
    let pattern: Vec<u8> = (0..4093).map(|at| ((at * 31 + seed * 7) % 255 + 1) as u8).collect();
    let mut data = pattern.repeat(size / pattern.len() + 1);
    data.truncate(size);
    data.into()
}

fn omap(seed: usize, pairs: usize) -> BTreeMap<Bytes, Bytes> {
    let pair = |n: usize| (format!("key{n:06}").into(), format!("value{}", n + seed).into());
    (0..pairs).map(pair).collect()
}

/// Replaces an object by one with so many bytes and pairs.
fn write(world: &mut World, model: &mut Model, name: &str, seed: usize, size: usize, pairs: usize) {
    write_object(world, model, object(name), seed, size, pairs);
    world.run();
}

fn write_object(
    world: &mut World,
    model: &mut Model,
    object: HObject,
    seed: usize,
    size: usize,
    pairs: usize,
) {
    let (data, pairs) = (data(seed, size), omap(seed, pairs));
    let mut changes = vec![
        Change::Remove { object: object.clone() },
        Change::Write { object: object.clone(), offset: 0, data: data.clone() },
    ];
    if !pairs.is_empty() {
        let header = Bytes::from(format!("header {seed}"));
        changes.push(Change::OmapSetHeader { object: object.clone(), header });
        changes.push(Change::OmapSet { object: object.clone(), pairs: pairs.clone() });
    }
    world.change(&object, Some(changes));
    model.insert(object, (data, pairs));
}

/// Makes more writes than a log holds.
fn fill_log(world: &mut World, model: &mut Model) {
    world.outgrow_log(|_| "small".to_owned(), LOG_ENTRIES_MAX + 1);
    let last = Bytes::from(LOG_ENTRIES_MAX.to_string());
    model.insert(object("small"), (last, BTreeMap::new()));
}

fn bytes(object: &store::mem::MemObject) -> Bytes {
    object.data.read(0, object.data.size()).data
}

fn assert_copies(world: &World, model: &Model, osds: &[i32], after: &str) {
    let mut attributes = BTreeMap::new();
    for osd in osds {
        let node = &world.nodes[*osd as usize];
        assert!(node.pg.missing().is_empty() && node.pg.info().is_complete(), "osd.{osd}, {after}");
        let objects = node.store.objects(Collection::replicated(PG));
        let objects: BTreeMap<_, _> = objects.filter(|(name, _)| !is_meta_object(name)).collect();
        assert!(objects.keys().copied().eq(model.keys()), "objects of osd.{osd}, {after}");
        for (name, (data, omap)) in model {
            let found = objects[name];
            assert!(bytes(found) == data, "data of {name} on osd.{osd}, {after}");
            assert!(found.omap == *omap, "omap of {name} on osd.{osd}, {after}");
            let all = (found.attrs.clone(), found.omap_header.clone());
            assert!(all.0.contains_key(&INFO_ATTR), "info of {name} on osd.{osd}, {after}");
            let known = attributes.entry(name.clone()).or_insert_with(|| all.clone());
            assert_eq!(*known, all, "attributes of {name} on osd.{osd}, {after}");
        }
    }
}

/// Holes are kept by recovery, by backfill, and on the way back to the primary.
#[test]
fn holes_stay_holes() {
    let (mut world, size) = (World::new(3), 3 * MIB + 5);
    world.run_script("size 2\n min 1\n map 20 0 1\n run\n down 1\n map 25 0\n run");
    let object = object("sparse");
    let at = |offset: u64, data: &'static [u8]| {
        let (object, data) = (object.clone(), Bytes::from_static(data));
        Change::Write { object, offset, data }
    };
    let written = [(0, &b"first"[..]), (MIB as u64 - 2, b"on both sides"), (2_500_000, b"last")];
    let mut changes: Vec<Change> = written.iter().map(|(offset, data)| at(*offset, data)).collect();
    changes.push(Change::Truncate { object: object.clone(), size: size as u64 });
    world.change(&object, Some(changes));
    world.run_script("run\n up 1\n restart 1\n map 30 0 1\n run\n clean => yes");
    world.run_script("map 40 2 1\n run\n clean => yes");
    for node in &world.nodes[1..] {
        let data = &node.store.object(Collection::replicated(PG), &object).unwrap().data;
        let read = data.read(0, data.size());
        assert_eq!(read.data.len(), size);
        for (offset, written) in written {
            assert!(read.data[offset as usize..].starts_with(written));
        }
        let taken: u64 = read.extents.iter().map(|(_, length)| length).sum();
        assert!(taken <= 4 * (16 << 10), "{taken} bytes are not holes");
    }
}

/// OSD 2 is to be backfilled by 0 and 1, and has old copies of some objects.
fn begin_backfill() -> (World, Model) {
    let (mut world, mut model) = (World::new(3), Model::new());
    world.run_script("size 2\n min 1\n map 20 0 2\n run");
    write(&mut world, &mut model, "big", 1, 2 * MIB + MIB / 2, 0);
    write(&mut world, &mut model, "other", 2, 100, 0);
    world.run_script("map 25 0 1\n run");
    write(&mut world, &mut model, "big", 3, 2 * MIB + MIB / 2, 0);
    write(&mut world, &mut model, "pairs", 4, 10, 2500);
    write(&mut world, &mut model, "both", 5, MIB + 1, 1100);
    fill_log(&mut world, &mut model);
    world.run_script("map 30 0 2");
    (world, model)
}

/// An object has more clones than a page of a listing; OSD 2 has some of them, in another version.
fn begin_backfill_of_clones() -> (World, Model) {
    let (mut world, mut model) = (World::new(3), Model::new());
    let write = |world: &mut World, model: &mut Model, snaps: std::ops::Range<u64>, seed| {
        for snap in snaps {
            let clone = object("family").at(SnapId(snap));
            write_object(world, model, clone, snap as usize + seed, 20, 0);
        }
        write_object(world, model, object("family"), seed, 30, 2);
        world.run();
    };
    world.run_script("size 2\n min 1\n map 20 0 2\n run");
    write(&mut world, &mut model, 100..240, 1);
    world.run_script("map 25 0 1\n run");
    write(&mut world, &mut model, 200..420, 2);
    fill_log(&mut world, &mut model);
    world.run_script("map 30 0 2");
    (world, model)
}

/// OSD 2 was down for a few writes.
fn begin_recovery() -> (World, Model) {
    let (mut world, mut model) = (World::new(3), Model::new());
    world.run_script("size 2\n min 1\n map 20 0 2\n run");
    write(&mut world, &mut model, "big", 1, 2 * MIB + MIB / 2, 0);
    write(&mut world, &mut model, "both", 2, 10, 10);
    world.run_script("map 25 0 1\n run");
    write(&mut world, &mut model, "big", 3, 2 * MIB + MIB / 2, 0);
    write(&mut world, &mut model, "both", 4, MIB + 1, 1100);
    world.run_script("map 30 0 2");
    (world, model)
}

/// Makes so many steps; false if there are fewer.
fn advance(world: &mut World, steps: usize) -> bool {
    (0..steps).all(|_| world.step(true) || world.grant())
}

/// Interrupts after one step, after two and so on, until there is nothing left to interrupt.
fn interrupt_everywhere(
    begin: fn() -> (World, Model),
    stride: usize,
    interrupt: fn(&mut World, &mut Model) -> &'static [i32],
) {
    for steps in (0..).step_by(stride) {
        let (mut world, mut model) = begin();
        let is_over = !advance(&mut world, steps);
        let osds = interrupt(&mut world, &mut model);
        assert_copies(&world, &model, osds, &format!("interrupted after {steps} steps"));
        if is_over {
            assert!(steps > 20, "there was something to interrupt");
            return;
        }
    }
}

fn go_on(world: &mut World, script: &str) {
    let epoch = world.epoch + 5;
    world.run_script(&script.replace("EPOCH", &epoch.to_string()));
}

#[test]
fn backfill_is_interrupted_by_the_targets_restart() {
    interrupt_everywhere(begin_backfill, 5, |world, _| {
        go_on(world, "restart 2\n map EPOCH 2 1\n run\n clean => yes");
        &[1, 2]
    });
}

#[test]
fn backfill_of_more_clones_than_a_page_is_interrupted() {
    interrupt_everywhere(begin_backfill_of_clones, 97, |world, _| {
        go_on(world, "restart 2\n map EPOCH 2 1\n run\n clean => yes");
        &[1, 2]
    });
}

#[test]
fn backfill_is_interrupted_by_another_primary() {
    interrupt_everywhere(begin_backfill, 7, |world, model| {
        go_on(world, "map EPOCH 1 2\n until 1 Active");
        write(world, model, "other", 9, 3 * MIB, 3);
        go_on(world, "map EPOCH 1 2\n run\n clean => yes");
        &[1, 2]
    });
}

#[test]
fn recovery_is_interrupted_and_the_log_reaches_no_further_back() {
    interrupt_everywhere(begin_recovery, 7, |world, model| {
        go_on(world, "down 2\n map EPOCH 0 1\n run");
        fill_log(world, model);
        go_on(world, "up 2\n restart 2\n map EPOCH 0 2\n run\n clean => yes");
        &[0, 2]
    });
}

#[test]
fn recovery_is_interrupted_by_a_restart() {
    interrupt_everywhere(begin_recovery, 3, |world, _| {
        go_on(world, "restart 2\n map EPOCH 2 0\n run\n clean => yes");
        &[0, 2]
    });
}

/// Whether OSD 2 has stored all of the object; `None` if it has stored nothing.
fn info_of_stored(world: &World, name: &str) -> Option<bool> {
    let stored = world.nodes[2].store.object(Collection::replicated(PG), &object(name))?;
    Some(stored.attrs.contains_key(&INFO_ATTR))
}

fn step_until(world: &mut World, is_there: impl Fn(&World) -> bool) {
    while !is_there(world) {
        assert!(world.step(true) || world.grant(), "something is left to be done");
    }
}

#[test]
fn an_object_that_is_fetched_twice_is_missing_until_its_last_piece_is_stored_again() {
    let (mut world, model) = begin_recovery();
    let is_missing = |world: &World| world.nodes[2].pg.missing().contains(&object("big"));
    step_until(&mut world, |world| info_of_stored(world, "big") == Some(false));
    // The last piece is stored, and the interval ends before the completion arrives.
    step_until(&mut world, |world| info_of_stored(world, "big") == Some(true));
    assert!(is_missing(&world));
    go_on(&mut world, "down 0\n map EPOCH 1 2\n until 1 Active");
    assert!(is_missing(&world));
    step_until(&mut world, |world| info_of_stored(world, "big") == Some(false));
    go_on(&mut world, "restart 2\n map EPOCH 1 2\n until 1 Active");
    assert!(is_missing(&world), "it has a part of it");
    go_on(&mut world, "run\n clean => yes");
    assert_copies(&world, &model, &[1, 2], "after all");
}

/// The source goes down and comes back while a piece is in flight to the primary's store. The primary asks
/// for the next piece when the store completes it, and for the whole object when the source is back.
#[test]
fn the_last_piece_of_an_earlier_fetch_does_not_end_a_later_one() {
    let (mut world, mut model) = (World::new(2), Model::new());
    world.run_script("size 1\n min 1\n map 20 0\n run");
    write(&mut world, &mut model, "big", 1, 2 * MIB + MIB / 2, 0);
    go_on(&mut world, "map EPOCH 1");
    let fetched = |world: &World| world.nodes[1].value(&object("big"));
    step_until(&mut world, |world| fetched(world).is_some_and(|data| data[MIB] != 0));
    go_on(&mut world, "down 0\n map EPOCH 1\n up 0");
    go_on(&mut world, "map EPOCH 1");
    world.finish_commits(OsdId(1));
    go_on(&mut world, "run\n clean => yes");
    assert_copies(&world, &model, &[1], "fetched twice");
}

/// Takes a member's confirmation of an object's last piece out of the network.
fn take_end(world: &mut World, member: OsdId) -> (OsdId, OsdId, Message) {
    let is_end = |(from, _, message): &(OsdId, OsdId, Message)| {
        *from == member && matches!(Body::decode(message), Ok((_, Body::Pushed(_, None, true))))
    };
    loop {
        world.drain();
        if let Some(at) = world.messages.iter().position(is_end) {
            return world.messages.remove(at).unwrap();
        }
        assert!(world.step(true) || world.grant(), "it is never said");
    }
}

/// The primary fails to read the object for one of two members after the other one has stored all of it, and
/// before it hears of that.
#[test]
fn an_answer_to_an_earlier_push_does_not_end_a_later_one() {
    let (mut world, mut model) = (World::new(3), Model::new());
    world.run_script("min 1\n map 20 0 1 2\n run\n down 1\n down 2\n map 25 0\n run");
    write(&mut world, &mut model, "big", 1, 2 * MIB + MIB / 2, 0);
    world.run_script("up 1\n up 2\n restart 1\n restart 2\n map 30 0 1 2");
    let end = take_end(&mut world, OsdId(1));
    world.run_script("damage 0 big\n run\n clean => no\n mend 0 big\n again");
    world.messages.push_back(end);
    world.run_script("run\n clean => yes");
    assert_copies(&world, &model, &[0, 1, 2], "pushed twice");
}

#[test]
fn a_member_without_room_for_a_piece_in_the_middle_gets_the_object_when_it_has_some() {
    let (mut world, model) = begin_recovery();
    step_until(&mut world, |world| info_of_stored(world, "big") == Some(false));
    world.run_script("commits 2 ok full\n run\n clean => no");
    assert_eq!((info_of_stored(&world, "big"), world.nodes[0].pg.recovering()), (None, 0));
    world.run_script("retry 0\n run\n clean => yes");
    assert_copies(&world, &model, &[0, 2], "without room");
}

/// Changes an object's content but not its version, as a media fault may.
fn falsify(world: &mut World, osd: i32, name: &str) {
    let object = object(name);
    let change = Change::Write { object, offset: 0, data: Bytes::from_static(b"false") };
    let transaction = Transaction { changes: vec![(Collection::replicated(PG), change)] };
    world.node(OsdId(osd)).ask_store(RequestKind::Commit(transaction)).unwrap();
}

#[test]
fn a_bad_copy_stays_bad_when_the_log_that_says_so_is_given_up() {
    let (mut world, mut model) = (World::new(3), Model::new());
    world.run_script("map 20 0 1 2\n run");
    write(&mut world, &mut model, "a", 1, 1000, 0);
    falsify(&mut world, 2, "a");
    world.run_script("corrupt 2 a => yes");
    world.step_until_missing(OsdId(2));
    world.run_script("missing 2 => a\n down 2\n map 30 0 1\n run");
    fill_log(&mut world, &mut model);
    world.run_script("up 2\n restart 2\n map 40 0 1 2\n run\n clean => yes");
    assert_copies(&world, &model, &[0, 1, 2], "after all");
}

/// A piece as a primary sends it, of an object with 3 MiB of data.
fn piece(version: u32, offset: u64) -> Body {
    let info = crate::ObjectInfo {
        version: types::EVersion::new(1, version.into()),
        ..Default::default()
    };
    let attrs = BTreeMap::from([(INFO_ATTR, codec::encode_to_bytes(&info))]);
    let cursor = |data_offset| Cursor { data_offset, omap_after: None };
    let next = offset + MIB as u64;
    Body::Push(Box::new(Push {
        object: object("zzz"),
        cursor: cursor(offset),
        attrs: Some(attrs),
        size: 3 * MIB as u64,
        data: data(version as usize, MIB),
        next: (next < 3 * MIB as u64).then(|| cursor(next)),
        ..Push::default()
    }))
}

/// OSD 1's answers to pieces from its primary, as the offsets that it asks for next.
fn answers(pieces: &[(u32, u64)]) -> (Vec<Option<u64>>, World) {
    let mut world = World::new(2);
    world.run_script("size 2\n map 20 0 1\n run");
    let header = world.nodes[0].pg.core.header(Member::replicated(OsdId(1)));
    let mut wanted = Vec::new();
    for (version, offset) in pieces {
        let node = world.node(OsdId(1));
        node.pg.handle_message(OsdId(0), &header, piece(*version, *offset));
        world.drain();
        world.finish_commits(OsdId(1));
        world.messages.retain(|(_, to, message)| {
            if let (OsdId(0), Ok((_, Body::Pushed(_, next, true)))) = (*to, Body::decode(message)) {
                wanted.push(next.map(|next| next.data_offset));
            }
            false
        });
    }
    (wanted, world)
}

#[test]
fn pieces_of_one_version_in_order_make_an_object() {
    const M: u64 = MIB as u64;
    let (wanted, world) = answers(&[(1, 0), (1, M), (1, 2 * M)]);
    assert_eq!(wanted, [Some(M), Some(2 * M), None]);
    assert!(world.nodes[1].pg.missing().is_empty());
    let object = object("zzz");
    let stored =
        |world: &World| world.nodes[1].store.object(Collection::replicated(PG), &object).cloned();
    assert!(stored(&world).unwrap().attrs.contains_key(&INFO_ATTR));
    // Pieces out of order or repeated are dropped.
    let (wanted, world) = answers(&[(1, 0), (1, 2 * M), (1, M), (1, M)]);
    assert_eq!(wanted, [Some(M), Some(2 * M)]);
    assert!(!stored(&world).unwrap().attrs.contains_key(&INFO_ATTR));
    assert!(world.nodes[1].pg.missing().contains(&object), "until its last piece is there");
    // Pieces without a first one are dropped.
    let (wanted, world) = answers(&[(1, 2 * M)]);
    assert_eq!((wanted, stored(&world)), (vec![], None));
    // The object was replaced while it was being read.
    let (wanted, world) = answers(&[(1, 0), (2, M), (2, 0), (2, M), (2, 2 * M)]);
    assert_eq!(wanted, [Some(M), Some(0), Some(M), Some(2 * M), None]);
    let stored = stored(&world).unwrap();
    assert!((0..3).all(|at| bytes(&stored)[at * MIB..][..MIB] == data(2, MIB)[..]));
    assert_eq!(world.nodes[1].pg.state(), State::ReplicaActive);
}
