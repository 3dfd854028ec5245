//! Sets of rows of a shard.

use crate::backend::erasure::geometry::ROW;
use std::ops::Range;

/// A set of row numbers, as ranges that are ascending, apart from each other, and not empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RowSet(Vec<Range<u64>>);

impl RowSet {
    /// The rows of one range.
    pub fn of(rows: Range<u64>) -> Self {
        let mut set = RowSet::default();
        set.insert(rows);
        set
    }

    /// The rows that contain these bytes.
    pub fn of_bytes(offset: u64, length: u64) -> Self {
        RowSet::of(offset / ROW..(offset + length).div_ceil(ROW))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ranges, ascending.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.0.iter().cloned()
    }

    /// Number of rows.
    pub fn len(&self) -> u64 {
        self.0.iter().map(|range| range.end - range.start).sum()
    }

    /// Adds rows.
    pub fn insert(&mut self, rows: Range<u64>) {
        if rows.start >= rows.end {
            return;
        }
        let mut merged = rows;
        self.0.retain(|range| {
            let is_apart = range.end < merged.start || merged.end < range.start;
            if !is_apart {
                merged = range.start.min(merged.start)..range.end.max(merged.end);
            }
            is_apart
        });
        let place = self.0.partition_point(|range| range.start < merged.start);
        self.0.insert(place, merged);
    }

    /// Adds the rows of another set.
    pub fn extend(&mut self, other: &RowSet) {
        other.ranges().for_each(|range| self.insert(range));
    }

    /// The rows of this set that are not in the other.
    pub fn without(&self, other: &RowSet) -> RowSet {
        let mut left = Vec::new();
        for range in &self.0 {
            let mut start = range.start;
            for taken in other.0.iter().filter(|taken| taken.end > range.start) {
                let end = taken.start.min(range.end);
                if start < end {
                    left.push(start..end);
                }
                start = start.max(taken.end);
            }
            if start < range.end {
                left.push(start..range.end);
            }
        }
        RowSet(left)
    }

    /// Divides the set into parts of at most so many rows and ranges, in order.
    pub fn parts(&self, rows_max: u64, ranges_max: usize) -> Vec<RowSet> {
        assert!(rows_max > 0 && ranges_max > 0, "a part has rows");
        let (mut parts, mut part, mut left) = (Vec::new(), Vec::new(), rows_max);
        for range in &self.0 {
            let mut start = range.start;
            while start < range.end {
                if left == 0 || part.len() == ranges_max {
                    parts.push(RowSet(std::mem::take(&mut part)));
                    left = rows_max;
                }
                let end = range.end.min(start + left);
                part.push(start..end);
                left -= end - start;
                start = end;
            }
        }
        if !part.is_empty() {
            parts.push(RowSet(part));
        }
        parts
    }

    /// The ranges as offsets and lengths in bytes.
    pub fn byte_ranges(&self) -> Vec<(u64, u64)> {
        self.0.iter().map(|range| (range.start * ROW, (range.end - range.start) * ROW)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use stdx::Prng;

    /// Random sets against sets of single rows.
    #[test]
    fn sets_of_ranges_equal_sets_of_rows() {
        let mut rng = Prng::new(3);
        let mut some = || {
            let (mut set, mut rows) = (RowSet::default(), BTreeSet::new());
            for _ in 0..rng.below(8) {
                let start = rng.below(40);
                let range = start..start + rng.below(8);
                rows.extend(range.clone());
                set.insert(range);
            }
            (set, rows)
        };
        let flat = |set: &RowSet| set.ranges().flatten().collect::<Vec<u64>>();
        for _ in 0..500 {
            let ((one, rows), (other, removed)) = (some(), some());
            assert_eq!(flat(&one), Vec::from_iter(rows.iter().copied()));
            let is_apart = |pair: &[Range<u64>]| pair[0].end < pair[1].start;
            assert!(one.0.windows(2).all(is_apart), "{one:?}");
            assert_eq!(one.len(), rows.len() as u64);
            let left: Vec<u64> = rows.difference(&removed).copied().collect();
            assert_eq!(flat(&one.without(&other)), left);
            let parts = one.parts(5, 2);
            assert!(parts.iter().all(|part| part.len() <= 5 && part.0.len() <= 2));
            assert_eq!(parts.iter().flat_map(flat).collect::<Vec<_>>(), flat(&one));
        }
    }
}
