//! Key ranges that scans found empty.
//!
//! The first keys of a queue, or the contents of a directory, are removed one by one. Until a
//! checkpoint has applied that to the tree, the removed keys are in memory and in the tree, and
//! each scan would pass them again. So the ranges that a scan passed are remembered, and the next
//! scan skips them like removed ranges.
//!
//! Forgetting a range is always safe. It stays valid whatever happens to tables and tree, until a
//! pair is put there.

use crate::scan::Walk;
use crate::table::Table;
use std::ops::Bound;

/// Number of ranges that are remembered.
const EMPTY_RANGES_MAX: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct EmptyRanges {
    /// Contains removed ranges only.
    table: Table,
    /// The range after this key is the next to be forgotten for a new one.
    hand: Vec<u8>,
}

impl EmptyRanges {
    /// The ranges as the topmost layer over all tables.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Takes the empty ranges of a scan, and forgets older ones beyond the maximum number.
    pub fn learn(&mut self, walk: &mut Walk) {
        for (first, last) in walk.empty_ranges.drain(..) {
            self.table.delete_range(&first, &last);
            while self.table.ranges.len() > EMPTY_RANGES_MAX {
                self.forget_one();
            }
        }
    }

    /// Invalidates the range that contains `key`, where a pair is put.
    pub fn put(&mut self, key: &[u8]) {
        let Some(last) = self.table.range_end(key).cloned() else { return };
        let until = (Bound::Unbounded, Bound::Included(key));
        let first = self.table.ranges.range::<[u8], _>(until).next_back();
        let first = first.expect("the key lies in it").0.clone();
        self.table.forget_range(&first);
        self.table.delete_range(&first, key);
        self.table.delete_range(&[key, &[0]].concat(), &last);
    }

    fn forget_one(&mut self) {
        let behind = (Bound::Excluded(&self.hand[..]), Bound::Unbounded);
        let next = self.table.ranges.range::<[u8], _>(behind).next();
        let next = next.or_else(|| self.table.ranges.first_key_value());
        let Some(first) = next.map(|(first, _)| first.clone()) else { return };
        self.hand = first.to_vec();
        self.table.forget_range(&first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learn(empty_ranges: &mut EmptyRanges, first: &[u8], last: &[u8]) {
        let stretch = (first.to_vec(), last.to_vec());
        empty_ranges.learn(&mut Walk { empty_ranges: vec![stretch], ..Walk::default() });
    }

    #[test]
    fn a_pair_that_is_put_is_in_no_stretch() {
        let mut empty_ranges = EmptyRanges::default();
        learn(&mut empty_ranges, b"b", b"f");
        empty_ranges.put(b"a");
        empty_ranges.put(b"d");
        empty_ranges.put(b"f");
        let holds = |key: &[u8]| empty_ranges.table().range_end(key).is_some();
        assert_eq!(
            [b"a", b"b", b"c", b"d", b"e", b"f"].map(|key| holds(key)),
            [false, true, true, false, true, false]
        );
        assert!(holds(b"d\0"));
        empty_ranges.table().check_invariants();
    }

    #[test]
    fn stretches_are_bounded_and_all_are_forgotten_in_turn() {
        let mut empty_ranges = EmptyRanges::default();
        let key = |number: usize| format!("{number:06}").into_bytes();
        for number in 0..3 * EMPTY_RANGES_MAX {
            learn(&mut empty_ranges, &key(2 * number), &key(2 * number + 1));
        }
        assert_eq!(empty_ranges.table().ranges.len(), EMPTY_RANGES_MAX);
        let last = key(2 * (3 * EMPTY_RANGES_MAX - 1));
        assert!(empty_ranges.table().range_end(&last).is_some(), "the newest stays");
        empty_ranges.table().check_invariants();
    }
}
