//! Logs, pieces and pages with other bounds than the default.

use super::World;
use super::world::{PG, object};
use crate::{Pg, Sizes};
use store::Collection;
use types::OsdId;

fn small() -> Sizes {
    Sizes {
        log_entries_max: 6,
        log_entries_kept: 4,
        piece_data_max: 16,
        piece_omap_entries_max: 1,
        page_objects_max: 2,
        ..Sizes::default()
    }
}

/// Three members with these sizes.
fn small_world() -> World {
    let mut world = World::new(3);
    for node in &mut world.nodes {
        let pg = std::mem::replace(&mut node.pg, Pg::new(types::PgShard::replicated(PG), OsdId(0)));
        node.pg = pg.with_sizes(small());
    }
    world.run_script("map 20 0 1 2\n run");
    world
}

#[test]
fn little_data_is_many_pieces_and_a_short_log_needs_backfill() {
    let mut world = small_world();
    for number in 0..20 {
        world.write(&format!("object{number}"), Some(&number.to_string().repeat(40)));
        world.run();
    }
    assert!(world.nodes[0].pg.log().len() <= small().log_entries_max);
    world.run_script("wipe 2\n map 30 0 1 2\n run");
    for number in 0..20 {
        let data = number.to_string().repeat(40);
        world.run_script(&format!("get 2 object{number} => {data}"));
    }
    // The copy that was pushed in pieces is divided into other extents.
    let stored = |node: usize| {
        let object =
            world.nodes[node].store.object(Collection::replicated(PG), &object("object19"));
        object.unwrap().data.clone()
    };
    assert_ne!(stored(0), stored(2));
}

#[test]
fn a_listing_that_comes_late_does_not_remove_what_is_backfilled() {
    const LIST: u16 = 0x700c;
    const LISTING: u16 = 0x700d;
    let mut world = small_world();
    for number in 0..20 {
        world.write(&format!("object{number}"), Some("old"));
        world.run();
    }
    world.run_script("down 2\n map 30 0 1\n run");
    for _ in 0..20 {
        world.run_script("write object3 new\n run");
    }
    world.run_script("up 2\n restart 2\n map 40 0 1 2");
    let has = |world: &World, kind| world.messages.iter().any(|(_, _, m)| m.kind == kind);
    let go_until = |world: &mut World, kind| {
        while !has(world, kind) {
            assert!(world.step(true) || world.grant(), "{kind:x} is sent");
            world.drain();
        }
    };
    go_until(&mut world, LISTING);
    let listing = world.messages.iter().find(|(_, _, message)| message.kind == LISTING);
    let late = listing.cloned().unwrap();
    while has(&world, LISTING) {
        world.step(true);
        world.drain();
    }
    go_until(&mut world, LIST);
    world.messages.push_front(late);
    world.run_script("run\n equal 0 1 2\n clean => yes");
}
