//! A run of blocks within an extent segment that are adjacent on the device.

use super::SEGMENT_BLOCKS;
use crate::device::Extent;
use smallvec::{Array, SmallVec};
use std::ops::Range;

/// A run of blocks of an object and their adjacent places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// First block, counted within the segment.
    pub start: u64,
    /// Number of blocks, at least one.
    pub count: u64,
    /// Place of the first block.
    pub physical: u64,
    /// Shared id that counts references to the run; 0 if the object alone refers to it.
    pub shared: u64,
}

/// Ascending, disjoint and merged runs.
pub type Runs = SmallVec<[Run; 2]>;

impl Run {
    /// First block after the run.
    pub fn end(&self) -> u64 {
        self.start + self.count
    }

    /// The places, on the main device.
    pub fn extent(&self) -> Extent {
        Extent::new(self.physical, self.count)
    }

    /// Part of the run within `start..end`.
    pub fn clip(&self, start: u64, end: u64) -> Option<Run> {
        let (from, to) = (self.start.max(start), self.end().min(end));
        let part = || Run {
            start: from,
            count: to - from,
            physical: self.physical + (from - self.start),
            shared: self.shared,
        };
        (from < to).then(part)
    }

    /// Set if `next` can be merged into this run.
    pub fn is_continued_by(&self, next: &Run) -> bool {
        self.end() == next.start
            && self.extent().end() == next.physical
            && self.shared == next.shared
    }
}

/// Appends a run, merging it with the last one if possible.
pub fn push_merged<A: Array<Item = Run>>(runs: &mut SmallVec<A>, run: Run) {
    match runs.last_mut() {
        Some(last) if last.is_continued_by(&run) => last.count += run.count,
        _ => runs.push(run),
    }
}

/// Replaces the runs at some indices, in place.
pub fn splice(runs: &mut Runs, range: Range<usize>, new: &[Run]) {
    let same = new.len().min(range.len());
    let (over, more) = new.split_at(same);
    runs[range.start..][..same].copy_from_slice(over);
    match more.is_empty() {
        true => drop(runs.drain(range.start + same..range.end)),
        false => runs.insert_from_slice(range.end, more),
    }
}

/// Index of the first run that ends after `block`.
pub fn first_behind(runs: &[Run], block: u64) -> usize {
    runs.partition_point(|run| run.end() <= block)
}

/// Panics unless the runs are ascending, disjoint, merged, and within a segment.
pub fn check_invariants(runs: &[Run]) {
    let mut end = 0;
    for run in runs {
        assert!(run.count > 0 && run.start >= end, "{run:?} behind block {end}");
        end = run.end();
    }
    assert!(end <= SEGMENT_BLOCKS, "runs end at block {end}");
    for pair in runs.windows(2) {
        assert!(!pair[0].is_continued_by(&pair[1]), "{pair:?} are one run");
    }
}
