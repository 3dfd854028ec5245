//! Objects that the primary itself lacks, or knows to be bad, while it backfills a member.

use super::World;
use super::world::{PG, object};
use crate::{BackfillState, Pg, Sizes};
use bytes::Bytes;
use store::{Change, Collection, RequestKind, Transaction};
use types::OsdId;

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Pages have one object.
fn sizes() -> Sizes {
    Sizes { log_entries_max: 6, log_entries_kept: 4, page_objects_max: 1, ..Sizes::default() }
}

/// OSD 2 has all objects, is down for more writes than a log holds, and comes back. Then the first page is
/// compared, its object is to be pushed, and recovery is held. The name is that of the last object.
fn begin_backfill() -> (World, &'static str) {
    let mut world = World::new(3);
    for node in &mut world.nodes {
        let pg = std::mem::replace(&mut node.pg, Pg::new(types::PgShard::replicated(PG), OsdId(0)));
        node.pg =
            Pg::new(types::PgShard::replicated(PG), pg.core.own.whoami.osd).with_sizes(sizes());
    }
    let first = NAMES.into_iter().min_by_key(|name| object(name)).unwrap();
    let last = NAMES.into_iter().max_by_key(|name| object(name)).unwrap();
    world.run_script("min 1\n map 20 0 1 2\n run");
    for name in NAMES {
        world.write(name, Some(name));
        world.run();
    }
    world.run_script("clean => yes\n down 2\n map 25 0 1\n run");
    for number in 0..8 {
        world.write(first, Some(&number.to_string()));
        world.run();
    }
    world.run_script("up 2\n hold\n map 30 0 1 2\n run");
    assert_eq!(world.nodes[0].pg.backfill_state(), Some(BackfillState::Running));
    assert!(world.nodes[0].pg.wants_recovery(), "the first object is to be given");
    (world, last)
}

#[test]
fn what_the_primary_lost_meanwhile_is_not_removed_from_the_member_that_is_backfilled() {
    let (mut world, last) = begin_backfill();
    world.run_script("recover");
    world.drain();
    // The push of the first object is in flight. There is no space for a good copy of the last one, whose
    // bad copy is removed.
    world.run_script(&format!(
        "hold
         commits 0 ok full
         corrupt 0 {last} => yes
         run
         get 0 {last} => absent
         missing 0 => {last}
         get 2 {last} => {last}
         clean => no
         recover
         retry 0
         run
         clean => yes
         get 0 {last} => {last}
         get 2 {last} => {last}
         equal 0 1 2"
    ));
}

#[test]
fn a_copy_that_the_primary_knows_to_be_bad_is_given_to_nobody() {
    let (mut world, last) = begin_backfill();
    let change = |data: &'static str| {
        let (object, data) = (object(last), Bytes::from_static(data.as_bytes()));
        let change = Change::Write { object, offset: 0, data };
        RequestKind::Commit(Transaction { changes: vec![(Collection::replicated(PG), change)] })
    };
    // It is readable, but its content was never written; no other OSD can tell what that was.
    world.lose(OsdId(2), last);
    world.node(OsdId(0)).ask_store(change("?")).unwrap();
    world.run_script(&format!(
        "damage 1 {last}
         corrupt 0 {last} => yes
         recover
         run
         missing 0 => {last}
         get 2 {last} => absent
         clean => no
         mend 1 {last}
         restart 0
         restart 1
         map 40 1 0 2
         run
         get 1 {last} => {last}
         get 2 {last} => {last}
         equal 0 1 2
         clean => yes"
    ));
}
