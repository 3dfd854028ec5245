//! Dups: requests are remembered long after the log was trimmed beyond them.

use super::World;
use super::split_merge::PART;
use super::world::{Node, PG, request};
use crate::{DUPS_KEPT, LOG_ENTRIES_KEPT, Pg, decode_dups_key, meta_object};
use store::{BOOKKEEPING_BYTES_MAX, Collection};
use types::{EVersion, OsdId, PgId};

impl World {
    fn write_many(&mut self, count: usize) {
        for _ in 0..count {
            self.write("a", Some("one"));
            self.run();
        }
    }
}

impl Node {
    /// Which of these requests the copy remembers, and which ones it will after a restart.
    fn knows(&mut self, pg: PgId, tids: &[u64]) -> (Vec<bool>, Vec<bool>) {
        let known = |pg: &Pg| {
            tids.iter().map(|tid| pg.log().find_request(&request(*tid)).is_some()).collect()
        };
        let copy = if pg == PG { &self.pg } else { self.part.as_ref().expect("it was divided") };
        let knows = known(copy);
        (knows, known(&self.stored(pg)))
    }

    fn stored_batches(&self) -> usize {
        let meta = self.store.object(Collection::replicated(PG), &meta_object(PG)).unwrap();
        meta.omap.keys().filter(|key| decode_dups_key(key).is_some()).count()
    }
}

const BOTH: (&[bool], &[bool]) = (&[true, true], &[true, true]);

fn assert_known(world: &mut World, pg: PgId, tids: &[u64]) {
    for osd in 0..3 {
        let (now, later) = world.node(OsdId(osd)).knows(pg, tids);
        assert_eq!((&now[..], &later[..]), BOTH, "{tids:?} in {pg} on osd.{osd}");
    }
}

#[test]
fn requests_beyond_the_log_are_known_and_bounded() {
    let mut world = World::new(3);
    world.run_script("map 20 0 1 2\n run");
    world.write_many(1500);
    assert!(world.nodes[0].pg.log().len() < 1200);
    assert_known(&mut world, PG, &[1, 1500]);
    world.write_many(DUPS_KEPT + LOG_ENTRIES_KEPT);
    assert_known(&mut world, PG, &[1500, 5500]);
    let node = world.node(OsdId(0));
    assert_eq!(node.knows(PG, &[1, 1000]), (vec![false; 2], vec![false; 2]));
    assert_eq!(node.stored_batches(), DUPS_KEPT / 100);
}

#[test]
fn requests_are_known_although_the_log_was_made_longer_at_its_end() {
    let mut world = World::new(3);
    world.run_script("map 20 0 1 2\n run");
    world.write_many(1500);
    for node in &mut world.nodes {
        let mut copy = node.stored(PG);
        copy.core.copy.info.log_tail = EVersion::new(20, 1);
        let mut transaction = copy.core.transaction(1);
        copy.core.set_info_and_intervals(&mut transaction);
        copy.core.commit(crate::Tag::Progress, transaction);
        while let Some(crate::Output::Storage { kind, .. }) = copy.poll_output() {
            node.ask_store(kind).unwrap();
        }
    }
    assert_known(&mut world, PG, &[1, 1500]);
}

#[test]
fn a_copy_that_is_filled_in_knows_them() {
    let mut world = World::new(3);
    world.run_script("map 20 0 1 2\n run");
    world.write_many(1500);
    world.node(OsdId(2)).largest = 0;
    world.run_script(
        "wipe 2
         map 40 0 1 2
         run
         clean => yes",
    );
    assert_known(&mut world, PG, &[1, 1500]);
    // The whole log is too large for one transaction of a full store.
    assert!(world.node(OsdId(2)).largest <= BOOKKEEPING_BYTES_MAX);
}

#[test]
fn a_copy_that_began_with_a_piece_of_the_log_gets_the_rest() {
    for done in 1..8 {
        let mut world = World::new(3);
        world.run_script("map 20 0 1 2\n run");
        world.write_many(1500);
        let fates = "ok ".repeat(done);
        world.run_script(&format!("wipe 2\n commits 2 {fates} full\n map 40 0 1 2\n run"));
        let stored = world.node(OsdId(2)).stored(PG);
        assert!(stored.info().is_empty() || !stored.info().is_complete(), "{done}");
        world.run_script("map 50 0 1 2\n run\n clean => yes\n equal 0 1 2");
        assert_known(&mut world, PG, &[1, 1500]);
    }
}

/// The authoritative log seems too short for new members. The primary, which was down, has more of it.
#[test]
fn who_can_follow_the_log_after_all_is_not_backfilled() {
    let mut world = World::new(5);
    world.run_script("map 20 2 1 0\n run");
    world.write_many(1010);
    world.run_script("down 2\n map 40 1 0\n run");
    world.write_many(150);
    world.run_script("up 2\n map 60 2 3 4\n run\n clean => yes\n equal 2 3 4");
}

#[test]
fn a_copy_that_could_not_begin_anew_knows_what_it_knew() {
    let mut world = World::new(3);
    world.run_script("map 20 0 1 2\n run");
    world.write_many(1650);
    world.run_script("down 2\n map 30 0 1\n run");
    world.write_many(1500);
    // The dups are stored first, and the disk has no space for the rest.
    world.run_script("hold\n up 2\n commits 2 ok full\n map 40 0 1 2\n run\n missing 2 =>");
    for tid in [1, 650, 651, 1650] {
        assert_eq!(world.node(OsdId(2)).knows(PG, &[tid]).1, [true], "{tid}");
    }
    world.run_script("recover\n map 50 0 1 2\n run\n clean => yes");
    assert_known(&mut world, PG, &[1, 3150]);
    let counts = world.nodes.iter().map(|node| node.stored_batches()).collect::<Vec<_>>();
    assert!(counts.windows(2).all(|pair| pair[0] == pair[1]), "{counts:?}");
}

#[test]
fn a_member_that_was_away_knows_them() {
    let mut world = World::new(3);
    world.run_script("map 20 0 1 2\n run");
    world.write_many(600);
    world.run_script("down 2\n map 30 0 1\n run");
    world.write_many(700);
    world.run_script("up 2\n map 40 2 0 1\n run\n clean => yes");
    assert_known(&mut world, PG, &[1, 1300]);
    world.write_many(500);
    assert_known(&mut world, PG, &[1, 1800]);
}

#[test]
fn parts_and_merged_groups_know_them() {
    let mut world = World::new(3);
    world.run_script("map 20 0 1 2\n run");
    world.write_many(1590);
    world.nodes.iter_mut().for_each(|node| node.largest = 0);
    world.run_script("divide 30 0 1 2\n run");
    assert_known(&mut world, PG, &[1, 100]);
    assert_known(&mut world, PART, &[1, 1590]);
    for node in &mut world.nodes {
        let head = |pg: &Pg| -> EVersion { pg.info().last_update };
        let (source, target) = (head(node.part.as_ref().unwrap()), head(&node.pg));
        node.begin_merging(source, target);
    }
    world.run_script("merge 40 0 1 2\n run\n clean => yes\n write a two\n run");
    assert_known(&mut world, PG, &[1, 1590]);
    // Including the last step, which empties all entries of objects in the other part.
    assert!(world.nodes.iter().all(|node| node.largest <= BOOKKEEPING_BYTES_MAX));
}
