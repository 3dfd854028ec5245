//! Scans of layers over a tree, against a model.

use super::*;
use crate::table::Op;
use crate::table::tests::{any_key, any_ops, apply_to, table_of};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::convert::Infallible;

/// A tree whose pages have at most `page_max` pairs.
struct Tree {
    pairs: BTreeMap<Bytes, Bytes>,
    page_max: usize,
    scans: usize,
    /// Number of pairs that were read.
    read: usize,
}

impl TreeScan for Tree {
    type Fault = Infallible;

    fn scan(
        &mut self,
        from: Bound<&[u8]>,
        end: &[u8],
        entries_max: usize,
        bytes_max: usize,
    ) -> Result<ScanPage, Infallible> {
        let page = scan_model(&self.pairs, from, end, entries_max.min(self.page_max), bytes_max);
        self.scans += 1;
        self.read += page.pairs.len();
        Ok(page)
    }
}

fn tree_of(pairs: BTreeMap<Bytes, Bytes>) -> Tree {
    Tree { pairs, page_max: usize::MAX, scans: 0, read: 0 }
}

fn scan_model(
    pairs: &BTreeMap<Bytes, Bytes>,
    from: Bound<&[u8]>,
    end: &[u8],
    entries_max: usize,
    bytes_max: usize,
) -> ScanPage {
    let mut page = ScanPage::default();
    let mut bytes = 0;
    let from = inclusive(from);
    for (key, value) in pairs.iter().filter(|(key, _)| from[..] <= key[..] && key[..] < *end) {
        bytes += key.len() + value.len();
        let is_full = page.pairs.len() >= entries_max || bytes > bytes_max;
        if is_full && !page.pairs.is_empty() {
            page.more = true;
            break;
        }
        page.pairs.push((key.clone(), value.clone()));
    }
    page
}

fn number(number: u32) -> Bytes {
    number.to_be_bytes().to_vec().into()
}

fn numbers(range: std::ops::Range<u32>) -> BTreeMap<Bytes, Bytes> {
    range.map(|i| (number(i), number(i))).collect()
}

proptest! {
    #[test]
    fn a_scan_finds_what_a_map_with_all_changes_holds(
        pairs in prop::collection::btree_map(any_key(), any_key(), 0..24),
        layers in prop::collection::vec(any_ops(), 0..3),
        (from, is_from_excluded, end) in (any_key(), any::<bool>(), any_key()),
        (entries_max, bytes_max, page_max) in (0usize..8, 0usize..40, 1usize..8),
    ) {
        let mut model = pairs.clone();
        layers.iter().for_each(|ops| apply_to(&mut model, ops));
        let tables: Vec<Table> = layers.iter().rev().map(|ops| table_of(ops)).collect();
        let tables: Vec<&Table> = tables.iter().collect();
        let mut tree = Tree { pairs, page_max, scans: 0, read: 0 };
        let bound = if is_from_excluded { Bound::Excluded } else { Bound::Included };
        let from = bound(&from[..]);
        let page = scan(&tables, &mut tree, from, &end, entries_max, bytes_max).unwrap();
        prop_assert_eq!(page, scan_model(&model, from, &end, entries_max, bytes_max));
    }
}

#[test]
fn removed_ranges_are_jumped_over_and_not_read() {
    let mut tree = tree_of(numbers(0..10_000));
    let mut active = Table::default();
    active.delete_range(&number(5), &number(9_000));
    active.put(&number(7_000), Bytes::new());
    let mut frozen = Table::default();
    (1_000..2_000).for_each(|i| frozen.put(&number(i), number(i)));
    frozen.delete_range(&number(8_000), &number(9_995));
    let view = View { active: &active, frozen: Some(&frozen) };
    let page = view.scan(&mut tree, Bound::Unbounded, &number(u32::MAX), 100, 1 << 20).unwrap();
    let keys: Vec<Bytes> = page.pairs.into_iter().map(|(key, _)| key).collect();
    let expected = (0..5).chain([7_000]).chain(9_995..10_000);
    assert!(keys.into_iter().eq(expected.map(number)) && !page.more);
    assert_eq!(tree.read, 10);
}

#[test]
fn pairs_removed_one_by_one_are_read_past_in_few_steps() {
    let mut tree = tree_of(numbers(0..2_000));
    let mut table = Table::default();
    (0..1_999).for_each(|i| table.apply(Op::Delete { key: number(i).into() }));
    let page = scan(&[&table], &mut tree, Bound::Unbounded, b"\xff", 1, 8).unwrap();
    assert_eq!((page.pairs.len(), page.more), (1, false));
    assert!(tree.scans < 2 * 2_000 / STEP_ENTRIES + 4, "{} scans", tree.scans);
}

#[test]
fn a_walk_passes_a_bounded_number_of_removed_pairs_and_learns_where_nothing_is() {
    let mut tree = tree_of(numbers(0..10_000));
    let mut table = Table::default();
    (0..9_999).for_each(|i| table.apply(Op::Delete { key: number(i).into() }));
    let mut empty_ranges = Table::default();
    let mut most = 0;
    for attempt in 0.. {
        assert!(attempt < 25, "each attempt gets further");
        let mut walk = Walk { left: 500, ..Walk::default() };
        let layers = [&empty_ranges, &table];
        let from = Bound::Unbounded;
        let page = scan_within(&layers, &mut tree, from, b"\xff", 1, 8, &mut walk).unwrap();
        most = most.max(walk.passed);
        walk.empty_ranges.iter().for_each(|(first, last)| empty_ranges.delete_range(first, last));
        if let Some(page) = page {
            assert_eq!(page.pairs, [(number(9_999), number(9_999))]);
            break;
        }
    }
    assert!(most <= (500 + STRETCH_MIN) as u64 + 1, "{most} were passed in one attempt");
    let mut walk = Walk { left: 500, ..Walk::default() };
    let layers = [&empty_ranges, &table];
    scan_within(&layers, &mut tree, Bound::Unbounded, b"\xff", 1, 8, &mut walk).unwrap();
    assert!(walk.passed < 8, "{} are passed again", walk.passed);
}

proptest! {
    #[test]
    fn walks_with_empty_ranges_return_the_same_as_scans(
        removed in prop::collection::vec((0u32..1500, 1u32..200), 0..12),
        left in 1usize..100, entries_max in 1usize..8,
    ) {
        let mut tree = tree_of(numbers(0..1500));
        let (mut frozen, mut active) = (Table::default(), Table::default());
        for (place, (first, count)) in removed.iter().enumerate() {
            let table = if place % 2 == 0 { &mut frozen } else { &mut active };
            match place % 5 {
                0 => table.delete_range(&number(*first), &number(first + count)),
                1 => table.put(&number(*first), number(7)),
                _ => (*first..first + count).for_each(|i| table.delete(&number(i))),
            }
        }
        let end = number(u32::MAX);
        let from = || Bound::Unbounded;
        let plain = scan(&[&active, &frozen], &mut tree, from(), &end, entries_max, 900).unwrap();
        let mut empty_ranges = Table::default();
        let found = (0..1000).find_map(|_| {
            let mut walk = Walk { left, ..Walk::default() };
            let layers = [&empty_ranges, &active, &frozen];
            let page = scan_within(&layers, &mut tree, from(), &end, entries_max, 900, &mut walk);
            walk.empty_ranges.iter().for_each(|(first, last)| empty_ranges.delete_range(first, last));
            page.unwrap()
        });
        prop_assert_eq!(found, Some(plain));
    }
}

#[test]
fn scans_read_little_more_of_the_tree_than_fits() {
    let mut tree = tree_of(numbers(0..10_000));
    let page = scan(&[], &mut tree, Bound::Unbounded, b"\xff", 3, 1 << 20).unwrap();
    assert_eq!((page.pairs.len(), page.more, tree.read), (3, true, 4));
    tree.read = 0;
    let page = scan(&[], &mut tree, Bound::Unbounded, b"\xff", usize::MAX, 80).unwrap();
    assert_eq!((page.pairs.len(), page.more, tree.read), (10, true, 11));
}
