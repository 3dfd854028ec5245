//! Ordered scans through the tables in memory and the tree below them.
//!
//! The tree is read only where no table removes a range, and in steps, because a scan restarts from
//! the beginning when a page of the tree was missing. Removed ranges are skipped in tables and tree
//! alike. Keys that were removed one by one are passed once: a [`Walk`] records the ranges that
//! were found empty, so that the next scan can skip them, and ends a scan that has passed too many
//! removed keys.
//!
//! The first key after `k` is `k` with a zero byte appended: this makes all bounds inclusive here.

use crate::table::{PointKey, Table, View};
use crate::tree::{Fault, Tree};
use bytes::Bytes;
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::collections::btree_map;
use std::ops::Bound;

/// Pairs that are read of the tree at once.
const STEP_ENTRIES: usize = 256;
/// Minimum number of passed entries for an empty range to be remembered.
pub const STRETCH_MIN: usize = 64;

/// A part of a scan's result.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScanPage {
    /// In key order. At least one if there is one, whatever the limits.
    pub pairs: Vec<(Bytes, Bytes)>,
    /// Set if more pairs follow.
    pub more: bool,
}

/// The tree, as a scan sees it.
pub trait TreeScan {
    /// Reason why the tree has no result; the scan is repeated after it is mended.
    type Fault;

    /// Pairs from `from` on and before `end`. `bytes_max` counts keys and values. Returns at least
    /// one pair if one is left; if `more` is false, no pair follows the returned ones.
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

/// Budget of a scan for removed entries, and the empty ranges it finds.
#[derive(Debug, Clone, Default)]
pub struct Walk {
    /// Removed entries that may still be passed, not counting the first [`STRETCH_MIN`] of each
    /// empty range.
    pub left: usize,
    /// Entries passed: pairs, removed ones, and steps into the tree.
    pub passed: u64,
    /// Key ranges without a pair, first key (inclusive) to last (exclusive).
    pub empty_ranges: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Walk {
    /// For scans whose length is bounded otherwise.
    pub fn unlimited() -> Self {
        Walk { left: usize::MAX, ..Walk::default() }
    }
}

/// Pairs from `from` on and before `end` when `layers`, newest first, lie over `tree`: at most
/// `entries_max` pairs with `bytes_max` bytes of keys and values, but at least one if there is one.
/// `more` is exact.
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

/// As [`scan`] within the budget of `walk`; `None` if that does not suffice. Then `walk` contains a
/// new empty range, and a scan that skips it gets further.
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
    let below = Below { layers, tree, next: first, end, pairs, hidden: PageLimits::default() };
    let mut merged = Merged { memory, below, stretch };
    let mut limits = PageLimits { entries: entries_max, bytes: bytes_max };
    loop {
        let (key, value) = match merged.next(limits)? {
            Next::Pair(key, value) => (key, value),
            Next::End => break,
            Next::Exhausted => return Ok(None),
        };
        let length = key.len() + value.len();
        if !page.pairs.is_empty() && (limits.entries == 0 || length > limits.bytes) {
            page.more = true;
            break;
        }
        limits.entries = limits.entries.saturating_sub(1);
        limits.bytes = limits.bytes.saturating_sub(length);
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

/// Remaining limits of the page.
#[derive(Debug, Clone, Copy, Default)]
struct PageLimits {
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

/// First key after `key`.
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

    /// Set if the empty range is long enough that a repeated scan gets further.
    fn is_exhausted(&self) -> bool {
        self.walk.left == 0 && self.passed > STRETCH_MIN
    }

    /// Records that no pair lies before `end`.
    fn note(&mut self, end: &[u8]) {
        if self.passed > STRETCH_MIN && &self.start[..] < end {
            self.walk.empty_ranges.push((std::mem::take(&mut self.start), end.to_vec()));
            self.passed = 0;
        }
    }

    /// A pair ends the empty range, and a new one begins.
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
    /// The budget ended before a pair was found.
    Exhausted,
}

struct Merged<'a, 't, 'w, T> {
    memory: Memory<'a>,
    below: Below<'a, 't, T>,
    stretch: Stretch<'w>,
}

impl<T: TreeScan> Merged<'_, '_, '_, T> {
    /// Next existing pair.
    fn next(&mut self, limits: PageLimits) -> Result<Next, T::Fault> {
        loop {
            if self.stretch.is_exhausted() {
                self.note_passed();
                return Ok(Next::Exhausted);
            }
            if !self.memory.is_settled {
                self.memory.settle();
            } else if self.below.has_to_read() {
                self.below.step(limits).inspect_err(|_| self.note_passed())?;
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

    /// Takes the first entry at hand: `Some(None)` for a removed key.
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

    /// Records that everything before the entry at hand was passed.
    fn note_passed(&mut self) {
        let below = self.below.pairs.as_slice().first().map(|(key, _)| &key[..]);
        let below = below.unwrap_or(&self.below.next).min(self.below.end);
        let position = self.memory.lowest_key().map_or(below, |key| key.min(below));
        self.stretch.note(position);
    }
}

/// Pairs of the tree outside of the tables' removed ranges, read in steps.
struct Below<'a, 't, T> {
    layers: &'a [&'a Table],
    tree: &'t mut T,
    /// Key to read on from; not before `end` when all was read.
    next: Vec<u8>,
    end: &'a [u8],
    /// Pairs that were read and not used yet.
    pairs: std::vec::IntoIter<(Bytes, Bytes)>,
    /// Pairs hidden by points so far. Reads exceed the limits by this amount, so that many removed
    /// keys are passed in few steps even if the limits are small.
    hidden: PageLimits,
}

impl<T: TreeScan> Below<'_, '_, T> {
    /// Set if no pair is at hand and not all pairs were read.
    fn has_to_read(&self) -> bool {
        self.pairs.as_slice().is_empty() && &self.next[..] < self.end
    }

    /// Skips the removed range that contains the next key, or else reads.
    fn step(&mut self, limits: PageLimits) -> Result<(), T::Fault> {
        if let Some(end) = self.layers.iter().find_map(|layer| layer.range_end(&self.next)) {
            self.next = end.to_vec();
            return Ok(());
        }
        let until = self.gap_end();
        // One more than the limit, to learn whether more pairs follow.
        let entries_max = limits.entries.saturating_add(1).saturating_add(self.hidden.entries);
        let bytes_max = limits.bytes.saturating_add(self.hidden.bytes);
        let from = Bound::Included(&self.next[..]);
        let page = self.tree.scan(from, &until, entries_max.min(STEP_ENTRIES), bytes_max)?;
        self.next = match page.pairs.last() {
            Some((key, _)) if page.more => successor(key),
            _ => until,
        };
        self.pairs = page.pairs.into_iter();
        Ok(())
    }

    /// Skips the next pair, which a point in memory overrides.
    fn hide_next(&mut self) {
        if let Some((key, value)) = self.pairs.next() {
            self.hidden.entries += 1;
            self.hidden.bytes += key.len() + value.len();
        }
    }

    /// Start of the next removed range.
    fn gap_end(&self) -> Vec<u8> {
        let ranges = self.layers.iter().filter_map(|layer| layer.next_range(&self.next));
        let first = ranges.map(|first| &first[..]).min();
        first.map_or(self.end, |first| first.min(self.end)).to_vec()
    }
}

/// Points of all tables that newer tables do not hide, in key order.
struct Memory<'a> {
    layers: SmallVec<[Layer<'a>; 2]>,
    end: &'a [u8],
    /// Index of the layer with the next point.
    newest: Option<usize>,
    /// Set once the next point is known not to be removed by a newer table's range.
    is_settled: bool,
}

struct Layer<'a> {
    table: &'a Table,
    /// The next point, and an iterator over those after it.
    head: Option<Point<'a>>,
    points: btree_map::Range<'a, PointKey, Option<Bytes>>,
}

type Point<'a> = (&'a [u8], &'a Option<Bytes>);

impl<'a> Memory<'a> {
    fn new(layers: &[&'a Table], first: &[u8], end: &'a [u8]) -> Self {
        let layers = layers.iter().map(|table| Layer::new(table, first, end)).collect();
        Memory { layers, end, newest: None, is_settled: false }
    }

    /// Lower bound of the keys of all points that were not passed.
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

    /// Finds the next point: the newest of the lowest key. If a newer table's range removes it, all
    /// points in that range are skipped, and the search must be repeated.
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
        // `BTreeMap::range` panics if a range ends before it starts.
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
mod tests;
