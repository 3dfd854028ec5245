//! Splits and merges of copies.

use super::World;
use super::world::{Node, PG, object};
use crate::scrub::{Level, Order};
use crate::snaps::{decode_index_key, index_key};
use crate::{MapChange, Members, MergedVersions, Pg, meta_object};
use bytes::Bytes;
use std::collections::BTreeMap;
use store::{Change, Collection, Outcome, RequestKind, Transaction};
use types::{EVersion, HObject, OsdId, PgId, SnapId, UTime};

pub const PART: PgId = PgId { seed: 1 << 8, ..PG };

impl Node {
    /// Begins a split as the OSD does when a map splits the group.
    pub fn begin_part(&mut self, change: &MapChange, members: &Members) {
        if members.hash_bits == super::world::HASH_BITS || self.part.is_some() {
            return;
        }
        let mut part = self.pg.new_part(PART);
        part.handle_map(change, members.clone());
        self.part = Some(part);
    }

    /// Splits the copy, or merges the two.
    pub fn split_or_merge(&mut self) {
        let part = self.part.as_mut().expect("the map has divided the group");
        match self.is_merging {
            true => self.pg.merge_from(&[part], self.versions),
            false => self.pg.divide(&mut [part]),
        }
    }

    pub fn finish_split_merge(&mut self) {
        self.pg.finish_split_merge();
        match self.is_merging {
            true => self.part = None,
            false => self.part.as_mut().expect("it was divided").finish_split_merge(),
        }
    }

    /// The next map merges the two groups, and names the versions of complete copies.
    pub fn begin_merging(&mut self, source: EVersion, target: EVersion) {
        self.is_merging = true;
        self.versions = Some(MergedVersions { source, target });
        self.part.as_mut().expect("it was divided").begin_merging();
    }

    fn data(&mut self, pg: PgId, name: &str) -> String {
        let (collection, object) = (Collection::replicated(pg), object(name));
        match self.ask_store(RequestKind::Read { collection, object, offset: 0, length: 100 }) {
            Ok(Outcome::Read(read)) => String::from_utf8_lossy(&read.data).into_owned(),
            _ => "absent".to_owned(),
        }
    }

    /// The copy as a restart would load it.
    pub fn stored(&mut self, pg: PgId) -> Pg {
        let mut copy = Pg::load(types::PgShard::replicated(pg), OsdId(0));
        while let Some(crate::Output::Storage { tag, kind }) = copy.poll_output() {
            let outcome = self.ask_store(kind);
            copy.handle_completion(tag, outcome);
        }
        copy
    }
}

/// Objects `a` and `c` belong to the new part, `b` and `d` stay.
const WRITTEN: &str = "map 20 0 1 2
     run
     write a one
     write b two
     write c three
     write b four
     run";

#[test]
fn objects_log_and_past_go_with_their_part() {
    let mut world = World::new(3);
    world.run_script(WRITTEN);
    world.run_script(
        "divide 30 0 1 2
         states => SplitMerge SplitMerge SplitMerge
         run
         states => Active ReplicaActive ReplicaActive
         part 0 => GetInfo
         part 1 => Replica
         write d five
         run
         clean => yes
         equal 0 1 2",
    );
    for osd in 0..3 {
        let node = world.node(OsdId(osd));
        for (pg, name, data) in
            [(PG, "a", "absent"), (PART, "a", "one"), (PG, "b", "four"), (PART, "b", "absent")]
        {
            assert_eq!(node.data(pg, name), data, "{name} in {pg} on osd.{osd}");
        }
        let (whole, part) = (node.stored(PG), node.stored(PART));
        let names = |pg: &Pg| {
            let changed = pg.log().entries().filter(|entry| entry.changes_object());
            let names = changed.map(|entry| String::from_utf8_lossy(&entry.object.name));
            names.collect::<Vec<_>>().join(" ")
        };
        assert_eq!((names(&whole), names(&part)), ("b b d".to_owned(), "a c".to_owned()));
        assert_eq!((whole.log().len(), part.log().len()), (5, 4));
        assert_eq!((part.interval().0, part.members().hash_bits), (30, 9));
    }
}

#[test]
fn a_copy_stands_still_until_its_store_has_confirmed_everything() {
    let mut world = World::new(3);
    world.run_script(WRITTEN);
    world.run_script(
        "write a six
         deliver
         divide 30 0 1 2
         deliver
         states => SplitMerge SplitMerge SplitMerge
         part 0 => SplitMerge
         run
         states => Active ReplicaActive ReplicaActive",
    );
    assert_eq!(world.node(OsdId(0)).data(PART, "a"), "six");
}

#[test]
fn what_is_to_be_scrubbed_is_to_be_scrubbed_in_all_parts() {
    let mut world = World::new(3);
    world.run_script(WRITTEN);
    let order =
        Order { level: Level::Deep, repair: true, at: UTime { seconds: 9, nanoseconds: 0 } };
    world.node(OsdId(0)).pg.set_scrub_order(Some(order));
    world.run_script("divide 30 0 1 2\n run\n part 0 => GetInfo");
    let node = world.node(OsdId(0));
    let part = node.part.as_ref().unwrap();
    assert_eq!((node.pg.scrub_order(), part.scrub_order()), (Some(order), Some(order)));
}

#[test]
fn without_room_it_is_tried_again() {
    let mut world = World::new(3);
    world.run_script(WRITTEN);
    world.run_script(
        "commits 1 full
         divide 30 0 1 2
         run
         states => GetInfo SplitMerge Replica
         part 1 => SplitMerge",
    );
    assert!(world.node(OsdId(1)).pg.is_split_merge_toofull());
    world.run_script(
        "retry 1
         run
         states => Active ReplicaActive ReplicaActive
         part 1 => Replica",
    );
    assert_eq!(world.node(OsdId(1)).data(PART, "c"), "three");
}

/// Three copies that were split, and the versions of both groups.
fn divided() -> (World, EVersion, EVersion) {
    let mut world = World::new(3);
    world.run_script(WRITTEN);
    world.run_script("divide 30 0 1 2\n run\n write d five\n run\n clean => yes");
    let node = world.node(OsdId(0));
    let source = node.part.as_ref().map(|part| part.info().last_update).unwrap();
    let target = node.pg.info().last_update;
    (world, source, target)
}

#[test]
fn merged_copies_have_what_both_had() {
    let (mut world, source, target) = divided();
    world.nodes.iter_mut().for_each(|node| node.begin_merging(source, target));
    world.run_script(
        "merge 40 0 1 2
         states => SplitMerge SplitMerge SplitMerge
         run
         states => Active ReplicaActive ReplicaActive
         clean => yes
         write a six
         run
         equal 0 1 2",
    );
    for osd in 0..3 {
        let node = world.node(OsdId(osd));
        for (name, data) in [("a", "six"), ("b", "four"), ("c", "three"), ("d", "five")] {
            assert_eq!(node.data(PG, name), data, "{name} on osd.{osd}");
        }
        assert!(node.ask_store(RequestKind::Collections).is_ok_and(
            |outcome| matches!(outcome, Outcome::Collections(all) if all == [Collection::replicated(PG)])
        ));
        let (stored, memory) = (node.stored(PG), &node.pg);
        assert_eq!(stored.log().head(), memory.log().head());
        assert!(stored.log().head() > target && stored.info().is_complete());
    }
}

#[test]
fn a_merged_copy_knows_of_the_clones_of_both() {
    let (mut world, source, target) = divided();
    let mut expected = Vec::new();
    for osd in 0..3 {
        let node = world.node(OsdId(osd));
        let part = node.part.as_mut().unwrap();
        for (pg, snap, count) in [(&mut node.pg, 7, 1), (part, 9, 700)] {
            pg.core.copy.info.clones = count;
            let clone = |number| object(&format!("clone{number}")).at(SnapId(snap));
            let keys = (0..count).map(|number| index_key(SnapId(snap), &clone(number)));
            let pairs: BTreeMap<Bytes, Bytes> = keys.map(|key| (key, Bytes::new())).collect();
            expected.extend(pairs.keys().filter(|_| osd == 0).cloned());
            let mut transaction = Transaction::new();
            pg.core.set_meta(&mut transaction, pairs);
            let done = node.store.execute(RequestKind::Commit(transaction));
            done.unwrap();
        }
        node.begin_merging(source, target);
    }
    world.run_script("merge 40 0 1 2\n run\n clean => yes\n equal 0 1 2");
    expected.sort();
    for osd in 0..3 {
        let node = world.node(OsdId(osd));
        let kind = RequestKind::OmapList {
            collection: Collection::replicated(PG),
            object: crate::meta_object(PG),
            after: None,
            prefix: Bytes::from_static(b"x"),
            entries_max: 1000,
            bytes_max: 1 << 20,
        };
        let Ok(Outcome::OmapPage(page)) = node.ask_store(kind) else { panic!("no index") };
        assert_eq!(page.pairs.into_keys().collect::<Vec<_>>(), expected, "osd.{osd}");
        assert_eq!(node.pg.info().clones, 701);
    }
}

#[test]
fn a_merged_copy_that_lacked_something_is_backfilled() {
    let (mut world, source, target) = divided();
    let older = EVersion { version: target.version - 1, ..target };
    for (osd, target) in [(0, older), (1, target), (2, target)] {
        world.node(OsdId(osd)).begin_merging(source, target);
    }
    world.run_script(
        "merge 40 0 1 2
         run
         acting => 0 1 2
         clean => yes
         equal 0 1 2",
    );
    assert_eq!(world.node(OsdId(0)).data(PG, "c"), "three");
}

/// The objects with clones in the index, with the number of their snapshots.
fn indexed(node: &Node, pg: PgId) -> BTreeMap<HObject, usize> {
    let meta = node.store.object(Collection::replicated(pg), &meta_object(pg)).unwrap();
    let clones = meta.omap.keys().filter_map(|key| decode_index_key(key));
    let mut objects = BTreeMap::new();
    clones.for_each(|(_, clone)| *objects.entry(clone.at(SnapId::HEAD)).or_default() += 1);
    objects
}

/// The index is longer than a page. With very many snapshots, the copy's own index keeps all pairs.
#[test]
fn each_part_gets_its_share_of_the_index_of_clones() {
    for (snaps, own) in [(250, vec!["b", "d"]), (300, vec!["a", "b", "c", "d"])] {
        let mut world = World::new(3);
        world.run_script(WRITTEN);
        for node in &mut world.nodes {
            let all = (1..=snaps).flat_map(|snap| ["a", "b", "c", "d"].map(|name| (snap, name)));
            let pair = |(snap, name)| {
                (index_key(SnapId(snap), &object(name).at(SnapId(snap))), Bytes::new())
            };
            let change =
                Change::OmapSet { object: meta_object(PG), pairs: all.map(pair).collect() };
            let transaction = Transaction { changes: vec![(Collection::replicated(PG), change)] };
            node.ask_store(RequestKind::Commit(transaction)).unwrap();
        }
        world.run_script("divide 30 0 1 2\n run\n clean => yes");
        for node in &world.nodes {
            let of = |names: &[&str]| names.iter().map(|n| (object(n), snaps as usize)).collect();
            assert_eq!(indexed(node, PART), of(&["a", "c"]));
            assert_eq!(indexed(node, PG), of(&own));
        }
    }
}

#[test]
fn what_is_missing_is_missing_of_the_part() {
    let mut world = World::new(3);
    world.run_script(WRITTEN);
    world.run_script(
        "down 2
         map 30 0 1
         run
         write a six
         write b seven
         run
         hold
         up 2
         map 40 0 1 2
         run
         missing 2 => a b
         divide 50 0 1 2
         run
         missing 2 => b",
    );
    let part = world.node(OsdId(2)).stored(PART);
    assert_eq!(part.missing().iter().count(), 1);
    assert!(part.missing().contains(&object("a")));
}

#[test]
fn nothing_is_repaired_between_rest_and_merge() {
    let (mut world, source, target) = divided();
    world.run_script("rest 0\n corrupt 1 b => no");
    let extra = object("extra").at(SnapId(4));
    assert!(!world.node(OsdId(0)).pg.remove_superfluous(UTime::default(), &extra));
    world.run();
    world.nodes.iter_mut().for_each(|node| node.begin_merging(source, target));
    world.run_script(
        "merge 40 0 1 2
         run
         states => Active ReplicaActive ReplicaActive
         clean => yes",
    );
}

/// The content of a missing object may have its final version, and be bad.
#[test]
fn what_a_copy_lacked_before_a_merge_is_not_taken_for_good() {
    let (mut world, source, target) = divided();
    world.run_script("corrupt 2 b => yes");
    world.step_until_missing(OsdId(2));
    let change =
        Change::Write { object: object("b"), offset: 0, data: Bytes::from_static(b"bad!") };
    let transaction = Transaction { changes: vec![(Collection::replicated(PG), change)] };
    world.node(OsdId(2)).ask_store(RequestKind::Commit(transaction)).unwrap();
    world.nodes.iter_mut().for_each(|node| node.begin_merging(source, target));
    world.run_script(
        "merge 40 0 1 2
         run
         clean => yes
         get 2 b => four
         equal 0 1 2",
    );
}
