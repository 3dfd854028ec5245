//! Tests of the tree against a map in memory.

mod damage;
mod space;
mod world;

use super::{Fault, KEY_LEN_MAX, Load, PageSpace, Root, Tree};
use crate::device::{BLOCK, Extent};
use crate::table::Table;
use bytes::Bytes;
use proptest::prelude::*;
use stdx::Prng;
use world::{Keys, World, change_randomly, held_key, key};

fn strategy() -> impl Strategy<Value = (u64, usize, Vec<(Keys, u64)>)> {
    let keys = prop_oneof![
        4 => Just(Keys::Random),
        2 => Just(Keys::Similar),
        2 => Just(Keys::Long),
        2 => Just(Keys::Ascending),
        2 => Just(Keys::Fresh),
        2 => Just(Keys::Held),
    ];
    let checkpoints = proptest::collection::vec((keys, 1u64..250), 1..9);
    (any::<u64>(), prop_oneof![Just(4usize), Just(64), Just(10_000)], checkpoints)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Checks after each checkpoint every pair, every page, the account of pages, totals and the
    /// bound; and between its steps that the old tree is intact.
    #[test]
    fn checkpoints_do_what_a_map_does((seed, cache, checkpoints) in strategy()) {
        let mut prng = Prng::new(seed);
        let mut world = World::new(cache);
        for (keys, operations) in checkpoints {
            let table = change_randomly(&mut prng, keys, operations);
            world.checkpoint(&table, &mut prng);
            world.check();
            world.check_reads(&mut prng);
        }
    }
}

#[test]
fn all_that_was_put_can_be_removed_again() {
    let mut prng = Prng::new(5);
    let mut world = World::new(64);
    for keys in [Keys::Random, Keys::Long, Keys::Similar] {
        for _ in 0..4 {
            let table = change_randomly(&mut prng, keys, 200);
            world.checkpoint(&table, &mut prng);
        }
        let mut table = Table::default();
        table.ranges.insert(vec![].into(), vec![255; 3000].into());
        world.checkpoint(&table, &mut prng);
        world.check();
        assert_eq!((world.tree.root(), world.space.used_pages()), (None, 0));
    }
}

#[test]
fn changes_without_effect_write_nothing() {
    let mut prng = Prng::new(6);
    let mut world = World::new(1000);
    world.checkpoint(&change_randomly(&mut prng, Keys::Random, 500), &mut prng);
    let mut table = Table::default();
    table.points.insert(b"not there".as_slice().into(), None);
    table.points.insert(vec![b'z'; 2 * KEY_LEN_MAX].into(), None);
    table.ranges.insert(b"not".as_slice().into(), b"not quite".as_slice().into());
    let root = world.tree.root();
    let applied = world.checkpoint(&table, &mut prng);
    assert_eq!((applied.pages_written, applied.freed.len()), (0, 0));
    assert_eq!(world.tree.root(), root);
}

#[test]
fn one_change_writes_one_path() {
    let mut prng = Prng::new(7);
    let mut world = World::new(10_000);
    let pairs = (0..20_000u64).map(|i| (key(i * 10).into(), Some(vec![1; 40].into())));
    world.checkpoint(&Table { points: pairs.collect(), ..Table::default() }, &mut prng);
    let mut table = Table::default();
    table.points.insert(key(100_000).into(), Some(vec![2; 40].into()));
    let applied = world.checkpoint(&table, &mut prng);
    assert_eq!(applied.pages_written, u64::from(world.tree.root().unwrap().height));
    assert_eq!(applied.freed.iter().map(|e| e.count).sum::<u64>(), applied.pages_written);
}

/// New ones lie in as many old leaves, whatever their ids are.
#[test]
fn held_changes_of_all_hashes_stay_within_the_bound() {
    let mut prng = Prng::new(15);
    let mut world = World::new(10_000);
    for round in 0..3u64 {
        let count = if round == 0 { 3000 } else { 1000 };
        let ids = round * 10_000..round * 10_000 + count;
        let points = ids.map(|id| (held_key(&mut prng, id).into(), Some(vec![1; 1200].into())));
        let points = points.collect();
        let applied = world.checkpoint(&Table { points, ..Table::default() }, &mut prng);
        assert!(applied.pages_written > 600, "nearly all leaves are rewritten");
    }
    world.check();
}

#[test]
fn leaves_are_read_ahead_whatever_lies_above_them() {
    let mut prng = Prng::new(14);
    let mut world = World::new(10_000);
    let pairs = (0..40_000u64).map(|i| (key(i * 10).into(), Some(vec![1; 300].into())));
    world.checkpoint(&Table { points: pairs.collect(), ..Table::default() }, &mut prng);
    let root = world.tree.root().unwrap();
    assert!(root.inner_pages > 12 && root.pages > 2000, "{root:?}");
    // One in 16 leaves changes: about six below each inner page.
    world.tree = Tree::new(Some(root), 10_000);
    let points = (0..200u64).map(|i| (key(i * 2000).into(), Some(vec![2; 300].into())));
    world.waits = 0;
    world.checkpoint(&Table { points: points.collect(), ..Table::default() }, &mut prng);
    assert!(world.waits <= 8, "waited {} times", world.waits);
    world.check();
}

#[test]
fn ascending_keys_fill_their_pages() {
    let mut prng = Prng::new(8);
    let mut world = World::new(10_000);
    // The first pairs lie at the end, so that the others are not appended to the tree.
    for round in 0..40u64 {
        let keys = (0..100).map(|i| if round == 0 { 1_000_000 + i } else { round * 100 + i });
        let points = keys.map(|i| (key(i).into(), Some(vec![1; 300].into()))).collect();
        world.checkpoint(&Table { points, ..Table::default() }, &mut prng);
    }
    let root = world.tree.root().unwrap();
    let fill = root.bytes as f64 / (root.pages * BLOCK as u64) as f64;
    assert!(fill > 0.85, "filled to {fill}");
}

#[test]
fn random_keys_fill_their_pages_to_two_thirds_and_deletions_leave_no_waste() {
    let mut prng = Prng::new(9);
    let mut world = World::new(10_000);
    let fill = |root: Root| root.bytes as f64 / (root.pages * BLOCK as u64) as f64;
    for _ in 0..40 {
        let points = (0..200).map(|_| (key(prng.below(1 << 40)).into(), Some(vec![1; 300].into())));
        let points = points.collect();
        world.checkpoint(&Table { points, ..Table::default() }, &mut prng);
    }
    let full = fill(world.tree.root().unwrap());
    assert!(full > 0.6, "filled to {full}");
    let keys: Vec<_> = world.model.keys().cloned().collect();
    for part in 0..9 {
        let removed = keys.iter().skip(part).step_by(10).map(|key| (key.clone().into(), None));
        let points = removed.collect();
        world.checkpoint(&Table { points, ..Table::default() }, &mut prng);
    }
    world.check();
    let sparse = fill(world.tree.root().unwrap());
    assert!(sparse > 0.3, "filled to {sparse}");
}

#[test]
fn a_removed_range_rewrites_only_its_edges() {
    let mut prng = Prng::new(10);
    let mut world = World::new(10_000);
    let pairs = (0..20_000u64).map(|i| (key(i).into(), Some(vec![1; 200].into())));
    world.checkpoint(&Table { points: pairs.collect(), ..Table::default() }, &mut prng);
    let mut table = Table::default();
    table.ranges.insert(key(3_000), key(17_000));
    let applied = world.checkpoint(&table, &mut prng);
    world.check();
    assert!(applied.pages_written <= 8, "{} pages written", applied.pages_written);
    assert_eq!(applied.changes.pairs, -14_000);
}

#[test]
fn a_value_in_torn_space_is_found_by_a_list() {
    let mut prng = Prng::new(12);
    let mut world = World::new(4);
    world.space = PageSpace::default();
    (0..2000).for_each(|number| world.space.add_run(Extent::new(number * 3, 1 + number % 2)));
    let value = |prng: &mut Prng| {
        let mut value = vec![0; 1_000_000];
        prng.fill(&mut value);
        Some(value.into())
    };
    for round in 0..4 {
        let points = (round..round + 3).map(|i| (key(i).into(), value(&mut prng)));
        let table = Table { points: points.collect(), ..Table::default() };
        world.checkpoint(&table, &mut prng);
        world.check();
        world.check_reads(&mut prng);
    }
    let mut table = Table::default();
    table.ranges.insert(key(0), key(9));
    world.checkpoint(&table, &mut prng);
    world.check();
}

#[test]
fn many_operations_at_once_get_on_with_a_tiny_cache() {
    let mut prng = Prng::new(13);
    let mut world = World::new(4);
    for _ in 0..5 {
        world.checkpoint(&change_randomly(&mut prng, Keys::Similar, 1500), &mut prng);
    }
    assert!(world.tree.root().unwrap().height >= 4);
    let mut waiting: Vec<_> = world.model.keys().step_by(20).cloned().collect();
    let mut rounds = 0;
    while !waiting.is_empty() {
        let mut reads = Vec::new();
        waiting.retain(|key| match world.tree.get(key) {
            Ok(value) => value.is_none(),
            Err(Fault::Missing(more)) => {
                reads.extend(more.into_iter().filter(|read| !read.is_in_flight));
                true
            }
            Err(fault) => panic!("{fault}"),
        });
        world.supply(&reads);
        rounds += 1;
        assert!(rounds < 20, "{} operations do not get on", waiting.len());
    }
}

#[test]
fn a_load_is_the_sum_of_its_parts() {
    let (a, b) = (Load::point(60, Some(9000)), Load::point(2500, None));
    let mut sum = a;
    sum.add(b);
    sum.add(Load::range(9, 2500));
    sum.subtract(a);
    sum.subtract(Load::range(9, 2500));
    assert_eq!(sum, b);
}

#[test]
fn the_bound_is_not_absurd() {
    let mut prng = Prng::new(11);
    let mut world = World::new(100_000);
    let mut last = (0, 0);
    for _ in 0..8 {
        let points =
            (0..4000).map(|_| (key(prng.below(1 << 40)).into(), Some(vec![1; 300].into())));
        let table = Table { points: points.collect(), ..Table::default() };
        let bound = world.bound(&table);
        last = (world.checkpoint(&table, &mut prng).pages_written, bound);
    }
    assert!(last.1 < 3 * last.0, "{} pages written, {} reserved", last.0, last.1);
    // Points of new objects need no page each.
    let key = |id: u64| Bytes::from([b"M".as_slice(), &id.to_be_bytes(), b"key"].concat());
    let points = (0..4000).map(|i| (key((1 << 62) + i).into(), Some(vec![1; 30].into())));
    let table = Table { points: points.collect(), ..Table::default() };
    let bound = world.bound(&table);
    let written = world.checkpoint(&table, &mut prng).pages_written;
    assert!(bound < 4 * written, "{written} pages written, {bound} reserved");
}
