//! Ordered scans through the tables of memory and the tree below them.
//!
//! The tree is read only where no table removes a range, and in steps, for a scan restarts from the
//! beginning when a page of the tree was missing. Removed ranges are jumped over in tables and tree
//! alike; keys removed one by one cost their reading, once: a [`Walk`] tells the stretches in which
//! nothing was found, so that the caller can have them jumped over the next time, and ends a scan that
//! has passed too much of what is removed.
//!
//! Keys are byte strings, so the first key behind `k` is `k` with a zero appended: that is how all
//! bounds become inclusive here.

use crate::table::{PointKey, Table, View};
use crate::tree::{Fault, Tree};
use bytes::Bytes;
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::collections::btree_map;
use std::ops::Bound;

/// Pairs that are asked of the tree at once.
const STEP_ENTRIES: usize = 256;
/// Shorter stretches without a pair are not worth being remembered.
pub const STRETCH_MIN: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScanPage {
    /// In key order. At least one if there is one, whatever the limits.
    pub pairs: Vec<(Bytes, Bytes)>,
    /// Whether more follow.
    pub more: bool,
}

/// The tree, as a scan sees it.
pub trait TreeScan {
    type Fault;

    /// Pairs from `from` on and before `end`. `bytes_max` counts keys and values. There is at least
    /// one pair if one is left; if `more` is false, none is left behind those of the page.
    fn scan(
        &mut self,
        from: Bound<&[u8]>,
        end: &[u8],
        entries_max: usize,
        bytes_max: usize,
    ) -> Result<ScanPage, Self::Fault>;
}

impl TreeScan for Tree {
    type Fault = Fault;

    fn scan(
        &mut self,
        from: Bound<&[u8]>,
        end: &[u8],
        entries_max: usize,
        bytes_max: usize,
    ) -> Result<ScanPage, Fault> {
        let page = Tree::scan(self, from, end, entries_max, bytes_max)?;
        Ok(ScanPage { pairs: page.pairs, more: page.more })
    }
}

/// How much a scan passes that is removed, and what it learns by that.
#[derive(Debug, Clone, Default)]
pub struct Walk {
    /// Removed entries that may still be passed, not counting the first [`STRETCH_MIN`] of a stretch.
    pub left: usize,
    /// Entries passed: pairs, removed ones, and steps into the tree.
    pub passed: u64,
    /// Stretches in which no pair exists, first key (inclusive) to last (exclusive).
    pub voids: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Walk {
    pub fn unlimited() -> Self {
        Walk { left: usize::MAX, ..Walk::default() }
    }
}

/// The pairs from `from` on and before `end` that exist when `layers`, the newest first, lie over
/// `tree`: at most `entries_max` pairs with `bytes_max` bytes of keys and values, but at least one if
/// there is one. `more` is exact.
pub fn scan<T: TreeScan>(
    layers: &[&Table],
    tree: &mut T,
    from: Bound<&[u8]>,
    end: &[u8],
    entries_max: usize,
    bytes_max: usize,
) -> Result<ScanPage, T::Fault> {
    let mut walk = Walk::unlimited();
    let page = scan_within(layers, tree, from, end, entries_max, bytes_max, &mut walk)?;
    Ok(page.expect("it may pass as much as there is"))
}

/// As [`scan`], within bounds: nothing if it would have to pass too much. Then `walk` has a stretch
/// that was not known before, and another scan that jumps over it gets further.
pub fn scan_within<T: TreeScan>(
    layers: &[&Table],
    tree: &mut T,
    from: Bound<&[u8]>,
    end: &[u8],
    entries_max: usize,
    bytes_max: usize,
    walk: &mut Walk,
) -> Result<Option<ScanPage>, T::Fault> {
    let first = inclusive(from);
    let mut page = ScanPage::default();
    if &first[..] >= end {
        return Ok(Some(page));
    }
    let memory = Memory::new(layers, &first, end);
    let pairs = Vec::new().into_iter();
    let stretch = Stretch { walk, start: first.clone(), passed: 0 };
    let below = Below { layers, tree, next: first, end, pairs, hidden: Room::default() };
    let mut merged = Merged { memory, below, stretch };
    let mut room = Room { entries: entries_max, bytes: bytes_max };
    loop {
        let (key, value) = match merged.next(room)? {
            Next::Pair(key, value) => (key, value),
            Next::End => break,
            Next::Exhausted => return Ok(None),
        };
        let length = key.len() + value.len();
        if !page.pairs.is_empty() && (room.entries == 0 || length > room.bytes) {
            page.more = true;
            break;
        }
        room.entries = room.entries.saturating_sub(1);
        room.bytes = room.bytes.saturating_sub(length);
        page.pairs.push((key, value));
    }
    Ok(Some(page))
}

impl View<'_> {
    /// See [`scan`].
    pub fn scan<T: TreeScan>(
        &self,
        tree: &mut T,
        from: Bound<&[u8]>,
        end: &[u8],
        entries_max: usize,
        bytes_max: usize,
    ) -> Result<ScanPage, T::Fault> {
        let layers: SmallVec<[&Table; 2]> = self.layers().collect();
        scan(&layers, tree, from, end, entries_max, bytes_max)
    }
}

/// What still fits into the page.
#[derive(Debug, Clone, Copy, Default)]
struct Room {
    entries: usize,
    bytes: usize,
}

fn inclusive(from: Bound<&[u8]>) -> Vec<u8> {
    match from {
        Bound::Included(key) => key.to_vec(),
        Bound::Excluded(key) => successor(key),
        Bound::Unbounded => Vec::new(),
    }
}

/// The first key behind `key`.
fn successor(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// Keys without a pair that the scan is passing.
struct Stretch<'w> {
    walk: &'w mut Walk,
    start: Vec<u8>,
    passed: usize,
}

impl Stretch<'_> {
    fn pass(&mut self) {
        self.walk.passed += 1;
        self.passed += 1;
        if self.passed > STRETCH_MIN {
            self.walk.left = self.walk.left.saturating_sub(1);
        }
    }

    /// What it passed is long enough to get further by remembering it.
    fn is_exhausted(&self) -> bool {
        self.walk.left == 0 && self.passed > STRETCH_MIN
    }

    /// No pair is before `end`.
    fn note(&mut self, end: &[u8]) {
        if self.passed > STRETCH_MIN && &self.start[..] < end {
            self.walk.voids.push((std::mem::take(&mut self.start), end.to_vec()));
            self.passed = 0;
        }
    }

    /// A pair ends it, and the next one begins.
    fn end_at(&mut self, key: &[u8]) {
        self.note(key);
        self.start.clear();
        self.start.extend_from_slice(key);
        self.start.push(0);
        self.passed = 0;
    }
}

enum Next {
    Pair(Bytes, Bytes),
    End,
    /// The walk is over before a pair was found.
    Exhausted,
}

struct Merged<'a, 't, 'w, T> {
    memory: Memory<'a>,
    below: Below<'a, 't, T>,
    stretch: Stretch<'w>,
}

impl<T: TreeScan> Merged<'_, '_, '_, T> {
    /// The next pair that exists.
    fn next(&mut self, room: Room) -> Result<Next, T::Fault> {
        loop {
            if self.stretch.is_exhausted() {
                self.note_passed();
                return Ok(Next::Exhausted);
            }
            if !self.memory.is_settled {
                self.memory.settle();
            } else if self.below.has_to_read() {
                self.below.step(room).inspect_err(|_| self.note_passed())?;
            } else {
                match self.take_first() {
                    Some(Some((key, value))) => {
                        self.stretch.end_at(&key);
                        return Ok(Next::Pair(key, value));
                    }
                    Some(None) => {}
                    None => {
                        self.stretch.note(self.below.end);
                        return Ok(Next::End);
                    }
                }
            }
            self.stretch.pass();
        }
    }

    /// The first of what is at hand: a pair, or nothing where it is removed.
    fn take_first(&mut self) -> Option<Option<(Bytes, Bytes)>> {
        let below = self.below.pairs.as_slice().first();
        let order = match (self.memory.peek(), below) {
            (None, None) => return None,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            (Some((key, _)), Some((below, _))) => (*key).cmp(&below[..]),
        };
        if order.is_gt() {
            return Some(self.below.pairs.next());
        }
        if order.is_eq() {
            self.below.hide_next();
        }
        let (key, value) = self.memory.next()?;
        Some(value.as_ref().map(|value| (Bytes::copy_from_slice(key), value.clone())))
    }

    /// Everything before what is at hand was passed.
    fn note_passed(&mut self) {
        let below = self.below.pairs.as_slice().first().map(|(key, _)| &key[..]);
        let below = below.unwrap_or(&self.below.next).min(self.below.end);
        let position = self.memory.lowest_key().map_or(below, |key| key.min(below));
        self.stretch.note(position);
    }
}

/// The pairs of the tree that no table's range removes, read step by step.
struct Below<'a, 't, T> {
    layers: &'a [&'a Table],
    tree: &'t mut T,
    /// Where to read on; at `end` or behind it when all was read.
    next: Vec<u8>,
    end: &'a [u8],
    /// Read and not yet used.
    pairs: std::vec::IntoIter<(Bytes, Bytes)>,
    /// What points hid so far. As much is asked for beyond what fits, so that many removed keys are
    /// read past in few steps even if little fits.
    hidden: Room,
}

impl<T: TreeScan> Below<'_, '_, T> {
    /// No pair is at hand, and not all was read.
    fn has_to_read(&self) -> bool {
        self.pairs.as_slice().is_empty() && &self.next[..] < self.end
    }

    /// Leaves the removed range that the place to read on lies in, or else reads.
    fn step(&mut self, room: Room) -> Result<(), T::Fault> {
        if let Some(end) = self.layers.iter().find_map(|layer| layer.range_end(&self.next)) {
            self.next = end.to_vec();
            return Ok(());
        }
        let until = self.gap_end();
        // One more than fits, which tells whether more follow.
        let entries_max = room.entries.saturating_add(1).saturating_add(self.hidden.entries);
        let bytes_max = room.bytes.saturating_add(self.hidden.bytes);
        let from = Bound::Included(&self.next[..]);
        let page = self.tree.scan(from, &until, entries_max.min(STEP_ENTRIES), bytes_max)?;
        self.next = match page.pairs.last() {
            Some((key, _)) if page.more => successor(key),
            _ => until,
        };
        self.pairs = page.pairs.into_iter();
        Ok(())
    }

    /// Leaves out the next pair, for memory knows better.
    fn hide_next(&mut self) {
        if let Some((key, value)) = self.pairs.next() {
            self.hidden.entries += 1;
            self.hidden.bytes += key.len() + value.len();
        }
    }

    /// Where the next removed range begins.
    fn gap_end(&self) -> Vec<u8> {
        let ranges = self.layers.iter().filter_map(|layer| layer.next_range(&self.next));
        let first = ranges.map(|first| &first[..]).min();
        first.map_or(self.end, |first| first.min(self.end)).to_vec()
    }
}

/// The points of all tables that newer tables do not hide, in key order.
struct Memory<'a> {
    layers: SmallVec<[Layer<'a>; 2]>,
    end: &'a [u8],
    /// Which layer's point is next.
    newest: Option<usize>,
    /// It is known not to be removed by a newer table's range.
    is_settled: bool,
}

struct Layer<'a> {
    table: &'a Table,
    /// The next point, and those behind it.
    head: Option<Point<'a>>,
    points: btree_map::Range<'a, PointKey, Option<Bytes>>,
}

type Point<'a> = (&'a [u8], &'a Option<Bytes>);

impl<'a> Memory<'a> {
    fn new(layers: &[&'a Table], first: &[u8], end: &'a [u8]) -> Self {
        let layers = layers.iter().map(|table| Layer::new(table, first, end)).collect();
        Memory { layers, end, newest: None, is_settled: false }
    }

    /// No point that was not passed lies before it.
    fn lowest_key(&self) -> Option<&'a [u8]> {
        self.layers.iter().filter_map(|layer| layer.head).map(|(key, _)| key).min()
    }

    fn peek(&self) -> Option<Point<'a>> {
        self.layers[self.newest?].head
    }

    fn next(&mut self) -> Option<Point<'a>> {
        let point = self.peek()?;
        for layer in &mut self.layers {
            if layer.head.is_some_and(|(key, _)| key == point.0) {
                layer.advance();
            }
        }
        self.is_settled = false;
        self.settle();
        Some(point)
    }

    /// Finds the next point: of the lowest key, the newest. If a newer table's range removes it, it is
    /// left behind with all in that range, and the next one is still to be found.
    fn settle(&mut self) {
        self.newest = self.lowest();
        let hiding = self.newest.zip(self.peek()).and_then(|(newest, (key, _))| {
            let end = self.layers[..newest].iter().find_map(|newer| newer.table.range_end(key))?;
            Some((newest, end))
        });
        self.is_settled = hiding.is_none();
        if let Some((newest, end_of_range)) = hiding {
            let table = self.layers[newest].table;
            self.layers[newest] = Layer::new(table, end_of_range, self.end);
        }
    }

    fn lowest(&self) -> Option<usize> {
        let heads =
            self.layers.iter().enumerate().filter_map(|(i, layer)| Some((layer.head?.0, i)));
        heads.min().map(|(_, i)| i)
    }
}

impl<'a> Layer<'a> {
    fn new(table: &'a Table, first: &[u8], end: &[u8]) -> Self {
        // Ranges that end before they start panic.
        let range = (Bound::Included(first.min(end)), Bound::Excluded(end));
        let mut layer = Layer { table, head: None, points: table.points.range::<[u8], _>(range) };
        layer.advance();
        layer
    }

    fn advance(&mut self) {
        self.head = self.points.next().map(|(key, value)| (&**key, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Op;
    use crate::table::tests::{any_key, any_ops, apply_to, table_of};
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::convert::Infallible;

    /// A tree whose pages are never larger than `page_max`.
    struct Tree {
        pairs: BTreeMap<Bytes, Bytes>,
        page_max: usize,
        scans: usize,
        /// Pairs that were read.
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
            let page =
                scan_model(&self.pairs, from, end, entries_max.min(self.page_max), bytes_max);
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
        let mut voids = Table::default();
        let mut most = 0;
        for attempt in 0.. {
            assert!(attempt < 25, "each attempt gets further");
            let mut walk = Walk { left: 500, ..Walk::default() };
            let layers = [&voids, &table];
            let from = Bound::Unbounded;
            let page = scan_within(&layers, &mut tree, from, b"\xff", 1, 8, &mut walk).unwrap();
            most = most.max(walk.passed);
            walk.voids.iter().for_each(|(first, last)| voids.delete_range(first, last));
            if let Some(page) = page {
                assert_eq!(page.pairs, [(number(9_999), number(9_999))]);
                break;
            }
        }
        assert!(most <= (500 + STRETCH_MIN) as u64 + 1, "{most} were passed in one attempt");
        let mut walk = Walk { left: 500, ..Walk::default() };
        let layers = [&voids, &table];
        scan_within(&layers, &mut tree, Bound::Unbounded, b"\xff", 1, 8, &mut walk).unwrap();
        assert!(walk.passed < 8, "{} are passed again", walk.passed);
    }

    proptest! {
        #[test]
        fn walks_that_remember_where_nothing_is_find_what_a_scan_finds(
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
            let mut voids = Table::default();
            let found = (0..1000).find_map(|_| {
                let mut walk = Walk { left, ..Walk::default() };
                let layers = [&voids, &active, &frozen];
                let page = scan_within(&layers, &mut tree, from(), &end, entries_max, 900, &mut walk);
                walk.voids.iter().for_each(|(first, last)| voids.delete_range(first, last));
                page.unwrap()
            });
            prop_assert_eq!(found, Some(plain));
        }
    }

    #[test]
    fn the_tree_is_not_asked_for_much_more_than_fits() {
        let mut tree = tree_of(numbers(0..10_000));
        let page = scan(&[], &mut tree, Bound::Unbounded, b"\xff", 3, 1 << 20).unwrap();
        assert_eq!((page.pairs.len(), page.more, tree.read), (3, true, 4));
        tree.read = 0;
        let page = scan(&[], &mut tree, Bound::Unbounded, b"\xff", usize::MAX, 80).unwrap();
        assert_eq!((page.pairs.len(), page.more, tree.read), (10, true, 11));
    }
}
