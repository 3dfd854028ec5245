//! Splits and merges of copies that hold changes.

use super::copies::version;
use super::copies::{store_all, world};
use crate::State;
use crate::tests::split_merge::PART;
use crate::tests::world::{World, object};
use store::Collection;
use types::{EVersion, PgShard};

/// Objects `a` belong to the part, `b` stay. Each has a held change.
fn divided() -> World {
    let mut world = world(2, 1, 0);
    let text = "started 10 knew 10 settled 10'5 | b:10'4 a:10'5 a:10'6<10'5 b:10'7<10'4";
    store_all(&mut world, &[0, 1, 2], &[(10, "0 1 2")], text);
    world.run_script("divide 20 0 1 2");
    while world.nodes.iter().any(|node| node.pg.state() == State::SplitMerge) {
        assert!(world.step(true), "the split ends");
    }
    world
}

fn collection_of_part(world: &World, osd: usize) -> Collection {
    Collection(PgShard { pg: PART, shard: world.nodes[osd].pg.whoami().shard })
}

fn value(world: &World, osd: usize, at: Collection, name: &str) -> String {
    let stored = world.nodes[osd].store.object(at, &object(name));
    let data = stored.map(|stored| stored.data.read(0, 100).data).unwrap_or_default();
    String::from_utf8_lossy(&data).trim().to_owned()
}

#[test]
fn held_changes_go_with_their_objects() {
    let world = divided();
    for osd in 0..3 {
        let node = &world.nodes[osd];
        let held = |at| node.store.held().of(at).map(|(name, _)| name.version).collect::<Vec<_>>();
        assert_eq!(held(node.pg.collection()), [version("10'7")], "osd.{osd}");
        assert_eq!(held(collection_of_part(&world, osd)), [version("10'6")], "osd.{osd}");
        let part = node.part.as_ref().expect("it is divided").info();
        assert_eq!(part.settled(), version("10'5"));
        assert_eq!(part.shard, node.pg.info().shard, "it has the same shard");
    }
}

/// The versions of the map are committed; a copy without them is backfilled.
#[test]
fn a_merge_settles_whole_copies_and_drops_what_others_hold() {
    for (target, expected, is_whole) in [("10'7", "10'6", true), ("10'6", "10'5", false)] {
        let mut world = divided();
        let (target, source) = (version(target), version("10'7"));
        world.nodes.iter_mut().for_each(|node| node.begin_merging(source, target));
        world.run_script("merge 30 0 1 2");
        while world.nodes.iter().any(|node| node.part.is_some()) {
            assert!(world.step(true), "the merge ends");
        }
        for osd in 0..3 {
            let (pg, at) = (&world.nodes[osd].pg, world.nodes[osd].pg.collection());
            assert_eq!(value(&world, osd, at, "a"), expected, "osd.{osd}");
            assert_eq!(world.nodes[osd].store.held().of(at).count(), 0);
            assert_eq!(pg.info().is_complete(), is_whole);
            assert!(pg.info().settled() >= pg.info().log_tail && at.0.pg == pg.id());
            assert!(!is_whole || pg.info().settled() == pg.log().head());
            assert_ne!(pg.log().head(), EVersion::ZERO);
        }
    }
}
