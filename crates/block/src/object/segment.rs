//! Extent segment: the map of [`SEGMENT_BLOCKS`] blocks of an object.
//!
//! Invariants: runs are ascending, disjoint and merged; only mapped blocks have checksums, the
//! others have 0 in their place. Block numbers count within the segment; a number outside of it is
//! a defect of the caller and panics.

use super::run::{self, Run, Runs, first_behind, push_merged, splice};
use super::{PHYSICAL_END, SEGMENT_BLOCKS};
use crate::device::Extent;
use smallvec::SmallVec;
use std::ops::Range;

/// The map of one segment. Empty by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtentSegment {
    pub(super) runs: Runs,
    /// Checksum of each block, 0 where none is mapped.
    pub(super) crcs: [u32; SEGMENT_BLOCKS as usize],
}

/// Place of a mapped block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapped {
    /// Place on the main device.
    pub physical: u64,
    /// CRC-32C of the block.
    pub crc: u32,
    /// Shared id; 0 if the object alone refers to the block.
    pub shared: u64,
}

/// Extents that a segment no longer refers to: to be freed, or if shared, to be released under that
/// id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replaced {
    /// The blocks on the main device.
    pub physical: Extent,
    /// Shared id; 0 if the object alone referred to them.
    pub shared: u64,
}

/// Part of a range that is mapped in one run, or is a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Blocks that read as zeros.
    Hole {
        /// First block of the piece, within the segment.
        start: u64,
        /// Number of blocks, at least one.
        count: u64,
    },
    /// Mapped blocks; their number is that of the checksums.
    Mapped {
        /// First block of the piece, within the segment.
        start: u64,
        /// Place of the first block.
        physical: u64,
        /// Shared id; 0 if the object alone refers to the blocks.
        shared: u64,
        /// CRC-32C of each block.
        crcs: &'a [u32],
    },
}

impl Default for ExtentSegment {
    fn default() -> Self {
        ExtentSegment { runs: Runs::new(), crcs: [0; SEGMENT_BLOCKS as usize] }
    }
}

impl ExtentSegment {
    /// Set if no block is mapped, so that the pair is not stored.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The runs, ascending.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// All extents that the segment refers to.
    pub fn extents(&self) -> SmallVec<[Replaced; 4]> {
        self.runs.iter().copied().map(Replaced::from).collect()
    }

    /// Shared ids of the runs, possibly with duplicates.
    pub fn shared_ids(&self) -> impl Iterator<Item = u64> {
        self.runs.iter().map(|run| run.shared).filter(|&id| id != 0)
    }

    /// Number of mapped blocks.
    pub fn mapped_blocks(&self) -> u64 {
        self.runs.iter().map(|run| run.count).sum()
    }

    /// First block after all mapped ones.
    pub fn end(&self) -> u64 {
        self.runs.last().map_or(0, Run::end)
    }

    /// Place of a block; `None` for a hole.
    pub fn get(&self, block: u64) -> Option<Mapped> {
        let run = self.runs.get(first_behind(&self.runs, block))?;
        let within = block.checked_sub(run.start)?;
        let (physical, shared) = (run.physical + within, run.shared);
        Some(Mapped { physical, crc: self.crcs[block as usize], shared })
    }

    /// Maximal pieces of the range, in order and without gaps.
    pub fn pieces(&self, range: Range<u64>) -> Pieces<'_> {
        check_range(range.start, range.end);
        let runs = &self.runs[first_behind(&self.runs, range.start)..];
        Pieces { runs, crcs: &self.crcs, range }
    }

    /// Maps as many blocks as there are checksums to new places that the object alone refers to.
    /// Returns the replaced extents.
    pub fn map(&mut self, start: u64, physical: u64, crcs: &[u32]) -> SmallVec<[Replaced; 4]> {
        let count = crcs.len() as u64;
        check_range(start, start + count);
        assert!(physical <= PHYSICAL_END - count, "block {physical} of a device");
        self.crcs[start as usize..][..crcs.len()].copy_from_slice(crcs);
        let run = Run { start, count, physical, shared: 0 };
        self.replace(start, start + count, (count > 0).then_some(run))
    }

    /// Punches a hole. Returns the replaced extents.
    pub fn clear(&mut self, range: Range<u64>) -> SmallVec<[Replaced; 4]> {
        check_range(range.start, range.end);
        self.crcs[range.start as usize..range.end as usize].fill(0);
        self.replace(range.start, range.end, None)
    }

    /// Sets checksums of blocks that keep their places.
    pub fn set_crcs(&mut self, start: u64, crcs: &[u32]) {
        let range = start..start + crcs.len() as u64;
        let is_mapped = |piece| matches!(piece, Piece::Mapped { .. });
        assert!(self.pieces(range).all(is_mapped), "blocks from {start} are mapped");
        self.crcs[start as usize..][..crcs.len()].copy_from_slice(crcs);
    }

    /// The same for one block.
    pub fn set_crc(&mut self, block: u64, crc: u32) {
        self.set_crcs(block, &[crc]);
    }

    /// Marks exclusive runs as shared under `id` and returns their extents. Shared runs keep their
    /// ids, under which their references are counted.
    pub fn share(&mut self, id: u64) -> SmallVec<[Extent; 4]> {
        assert!(id != 0, "0 stands for no shared id");
        let mut extents = SmallVec::new();
        for mut run in std::mem::take(&mut self.runs) {
            if run.shared == 0 {
                run.shared = id;
                extents.push(run.extent());
            }
            push_merged(&mut self.runs, run);
        }
        extents
    }

    /// Panics if runs and checksums contradict each other or exceed the segment.
    pub fn check_invariants(&self) {
        run::check_invariants(&self.runs);
        for run in &self.runs {
            assert!(run.physical <= PHYSICAL_END - run.count, "{run:?}");
        }
        for block in 0..SEGMENT_BLOCKS {
            assert!(self.get(block).is_some() || self.crcs[block as usize] == 0, "block {block}");
        }
    }

    fn replace(&mut self, start: u64, end: u64, new: Option<Run>) -> SmallVec<[Replaced; 4]> {
        if start == end {
            return SmallVec::new();
        }
        let first = first_behind(&self.runs, start);
        let count = self.runs[first..].partition_point(|run| run.start < end);
        let old = &self.runs[first..first + count];
        let replaced = old.iter().filter_map(|run| run.clip(start, end)).map(Replaced::from);
        let replaced = replaced.collect();
        // The rest of a segment of many runs stays as it is. Neighbours may merge.
        let before = old.first().and_then(|run| run.clip(0, start));
        let behind = old.last().and_then(|run| run.clip(end, SEGMENT_BLOCKS));
        let range = first.saturating_sub(1)..(first + count + 1).min(self.runs.len());
        let neighbours = (&self.runs[range.start..first], &self.runs[first + count..range.end]);
        let parts = neighbours.0.iter().copied().chain(before).chain(new).chain(behind);
        let mut merged = SmallVec::<[Run; 5]>::new();
        for run in parts.chain(neighbours.1.iter().copied()) {
            push_merged(&mut merged, run);
        }
        splice(&mut self.runs, range, &merged);
        replaced
    }
}

impl From<Run> for Replaced {
    fn from(run: Run) -> Replaced {
        Replaced { physical: run.extent(), shared: run.shared }
    }
}

/// Iterator over [`ExtentSegment::pieces`].
#[derive(Debug, Clone)]
pub struct Pieces<'a> {
    /// Runs that end after the start of the range.
    runs: &'a [Run],
    crcs: &'a [u32; SEGMENT_BLOCKS as usize],
    /// Rest of the range.
    range: Range<u64>,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let Range { start, end } = self.range;
        if start >= end {
            return None;
        }
        let Some((run, behind)) = self.runs.split_first().filter(|(run, _)| run.start < end) else {
            self.range.start = end;
            return Some(Piece::Hole { start, count: end - start });
        };
        if run.start > start {
            self.range.start = run.start;
            return Some(Piece::Hole { start, count: run.start - start });
        }
        self.runs = behind;
        self.range.start = run.end().min(end);
        Some(Piece::Mapped {
            start,
            physical: run.physical + (start - run.start),
            shared: run.shared,
            crcs: &self.crcs[start as usize..self.range.start as usize],
        })
    }
}

fn check_range(start: u64, end: u64) {
    assert!(start <= end && end <= SEGMENT_BLOCKS, "blocks {start}..{end} of an extent segment");
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    pub(crate) enum Step {
        Map { start: u64, physical: u64, crcs: Vec<u32> },
        Clear(Range<u64>),
        SetCrc(u64, u32),
        Share(u64),
    }

    pub(crate) fn any_range() -> impl Strategy<Value = Range<u64>> {
        (0..SEGMENT_BLOCKS + 1, 0..SEGMENT_BLOCKS + 1).prop_map(|(a, b)| a.min(b)..a.max(b))
    }

    pub(crate) fn any_steps() -> impl Strategy<Value = Vec<Step>> {
        let map = (any_range(), 0u64..300, any::<u32>()).prop_map(|(range, physical, seed)| {
            let crcs = range.clone().map(|block| seed.wrapping_add(block as u32).max(1)).collect();
            Step::Map { start: range.start, physical, crcs }
        });
        let step = prop_oneof![
            6 => map,
            2 => any_range().prop_map(Step::Clear),
            1 => (0..SEGMENT_BLOCKS, 1u32..).prop_map(|(block, crc)| Step::SetCrc(block, crc)),
            1 => (1u64..1 << 40).prop_map(Step::Share),
        ];
        prop::collection::vec(step, 0..16)
    }

    /// An extent segment block by block.
    type Model = [Option<Mapped>; SEGMENT_BLOCKS as usize];

    fn parts(replaced: &[Replaced]) -> Vec<(u64, u64)> {
        let blocks = |part: &Replaced| {
            let shared = part.shared;
            (part.physical.start..part.physical.end()).map(move |block| (block, shared))
        };
        replaced.iter().flat_map(blocks).collect()
    }

    fn taken(model: &mut Model, range: Range<u64>) -> Vec<(u64, u64)> {
        let old = range.filter_map(|block| model[block as usize].take());
        old.map(|mapped| (mapped.physical, mapped.shared)).collect()
    }

    pub(crate) fn apply(segment: &mut ExtentSegment, step: &Step) {
        let mut model = [None; SEGMENT_BLOCKS as usize];
        for block in 0..SEGMENT_BLOCKS {
            model[block as usize] = segment.get(block);
        }
        match step {
            Step::Map { start, physical, crcs } => {
                let replaced = segment.map(*start, *physical, crcs);
                let range = *start..*start + crcs.len() as u64;
                assert_eq!(parts(&replaced), taken(&mut model, range));
                for (i, &crc) in crcs.iter().enumerate() {
                    let physical = physical + i as u64;
                    model[*start as usize + i] = Some(Mapped { physical, crc, shared: 0 });
                }
            }
            Step::Clear(range) => {
                let replaced = segment.clear(range.clone());
                assert_eq!(parts(&replaced), taken(&mut model, range.clone()));
            }
            Step::SetCrc(block, crc) => {
                if let Some(mapped) = &mut model[*block as usize] {
                    mapped.crc = *crc;
                    segment.set_crc(*block, *crc);
                }
            }
            Step::Share(id) => {
                let shared: u64 = segment.share(*id).iter().map(|extent| extent.count).sum();
                let own = model.iter_mut().flatten().filter(|mapped| mapped.shared == 0);
                assert_eq!(shared, own.map(|mapped| mapped.shared = *id).count() as u64);
            }
        }
        segment.check_invariants();
        for block in 0..SEGMENT_BLOCKS {
            assert_eq!(segment.get(block), model[block as usize], "block {block}");
        }
    }

    pub(crate) fn segment_of(steps: &[Step]) -> ExtentSegment {
        let mut segment = ExtentSegment::default();
        steps.iter().for_each(|step| apply(&mut segment, step));
        segment
    }

    proptest! {
        #[test]
        fn a_segment_behaves_as_one_entry_per_block(steps in any_steps()) {
            segment_of(&steps);
        }

        #[test]
        fn pieces_cover_every_block_of_a_range_once(steps in any_steps(), range in any_range()) {
            let segment = segment_of(&steps);
            let mut next = range.start;
            let mut was_hole = false;
            for piece in segment.pieces(range.clone()) {
                match piece {
                    Piece::Hole { start, count } => {
                        prop_assert!(start == next && count > 0 && !was_hole);
                        prop_assert!((start..start + count).all(|block| segment.get(block).is_none()));
                        (next, was_hole) = (start + count, true);
                    }
                    Piece::Mapped { start, physical, shared, crcs } => {
                        prop_assert!(start == next && !crcs.is_empty());
                        for (i, &crc) in crcs.iter().enumerate() {
                            let mapped = Mapped { physical: physical + i as u64, crc, shared };
                            prop_assert_eq!(segment.get(start + i as u64), Some(mapped));
                        }
                        (next, was_hole) = (start + crcs.len() as u64, false);
                    }
                }
            }
            prop_assert_eq!(next, range.end);
        }
    }

    #[test]
    fn neighbours_merge_and_a_hole_in_the_middle_splits() {
        let mut segment = ExtentSegment::default();
        segment.map(0, 100, &[1; 8]);
        segment.map(16, 116, &[3; 8]);
        assert_eq!(segment.runs().len(), 2);
        segment.map(8, 108, &[2; 8]);
        assert_eq!(segment.runs(), [Run { start: 0, count: 24, physical: 100, shared: 0 }]);
        let replaced = segment.clear(4..6);
        assert_eq!(replaced[..], [Replaced { physical: Extent::new(104, 2), shared: 0 }]);
        assert_eq!((segment.runs().len(), segment.mapped_blocks(), segment.end()), (2, 22, 24));
    }

    #[test]
    fn shared_runs_keep_their_id() {
        let mut segment = ExtentSegment::default();
        segment.map(0, 10, &[1; 4]);
        assert_eq!(segment.share(7)[..], [Extent::new(10, 4)]);
        let replaced = segment.map(1, 50, &[9]);
        assert_eq!(replaced[..], [Replaced { physical: Extent::new(11, 1), shared: 7 }]);
        assert_eq!(segment.share(8)[..], [Extent::new(50, 1)]);
        segment.map(3, 60, &[9]);
        assert_eq!(segment.shared_ids().collect::<Vec<_>>(), [7, 8, 7]);
        assert_eq!(segment.extents().len(), 4);
    }
}
