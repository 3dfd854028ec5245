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

#[test]
fn little_data_is_many_pieces_and_a_short_log_needs_backfill() {
    let mut world = World::new(3);
    for node in &mut world.nodes {
        let pg = std::mem::replace(&mut node.pg, Pg::new(types::PgShard::replicated(PG), OsdId(0)));
        node.pg = pg.with_sizes(small());
    }
    world.run_script("map 20 0 1 2\n run");
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
