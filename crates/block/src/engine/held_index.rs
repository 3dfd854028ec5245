//! Held changes in memory: their names, as they are looked up, and the contents of those that are settled
//! soon.

use crate::keys;
use crate::object::{ExtentSegment, HeldFields, Piece, SEGMENT_BLOCKS};
use crate::table::PointKey;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::HeldChange;

/// Contents in memory. Beyond it, a settle reads and decodes the stored pair.
pub(crate) const CONTENTS_MAX: usize = 2048;
/// Bytes of the list of changes. A longer one is not kept in memory.
pub(crate) const CONTENT_BYTES_MAX: usize = 2048;

/// Held changes under one id of collections.
pub(crate) type HeldIndex = BTreeMap<HeldChange, Held>;

/// A held change under its name.
#[derive(Debug)]
pub(crate) struct Held {
    /// Id of its data.
    pub id: u64,
    /// The content of the stored pair, if it was held since the store was opened and is short.
    pub content: Option<Arc<HeldContent>>,
}

/// The list of changes, and the blocks of their data.
#[derive(Debug)]
pub(crate) struct HeldContent {
    /// The changes, without data.
    pub fields: HeldFields,
    /// The blocks of all writes, in order.
    pub blocks: HeldBlocks,
}

/// Blocks of held data, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct HeldBlocks {
    /// First block and number of blocks of each run.
    runs: SmallVec<[(u64, u32); 2]>,
    /// Of each block.
    crcs: SmallVec<[u32; 4]>,
}

impl HeldBlocks {
    /// Adds the blocks of a segment; false if they are shared.
    #[must_use]
    pub fn add(&mut self, segment: &ExtentSegment) -> bool {
        segment.pieces(0..SEGMENT_BLOCKS).all(|piece| match piece {
            Piece::Mapped { physical, shared: 0, crcs, .. } => {
                self.runs.push((physical, crcs.len() as u32));
                self.crcs.extend_from_slice(crcs);
                true
            }
            Piece::Mapped { .. } => false,
            Piece::Hole { .. } => true,
        })
    }

    /// The blocks, to be taken.
    pub fn take(&self) -> BlocksLeft<'_> {
        BlocksLeft { runs: &self.runs, crcs: &self.crcs, skipped: 0 }
    }
}

/// Blocks of held data that are left.
#[derive(Debug)]
pub(crate) struct BlocksLeft<'a> {
    runs: &'a [(u64, u32)],
    crcs: &'a [u32],
    /// Blocks of the first run that are taken.
    skipped: u32,
}

/// Runs of blocks: the first one of each, and the checksums of all.
pub(crate) type Taken<'a> = SmallVec<[(u64, &'a [u32]); 2]>;

impl<'a> BlocksLeft<'a> {
    /// Takes the next blocks; `None` if there are too few.
    pub fn next(&mut self, mut count: u32) -> Option<Taken<'a>> {
        let mut taken = Taken::new();
        while count > 0 {
            let ((start, length), behind) = self.runs.split_first()?;
            let some = count.min(length - self.skipped);
            let (crcs, left) = self.crcs.split_at(some as usize);
            taken.push((start + u64::from(self.skipped), crcs));
            self.crcs = left;
            self.skipped += some;
            if self.skipped == *length {
                (self.runs, self.skipped) = (behind, 0);
            }
            count -= some;
        }
        Some(taken)
    }

    /// Whether all are taken.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
}

/// Place of a held change among the pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeldEntry {
    /// Id of the collection's slice.
    pub slice: u64,
    /// Name within the collection.
    pub name: HeldChange,
    /// Id of its data.
    pub id: u64,
}

impl HeldEntry {
    /// Key of its pair.
    pub fn key(&self) -> PointKey {
        keys::held(self.slice, self.name, self.id)
    }
}

/// A held change that the transaction adds or removes.
#[derive(Debug)]
pub(crate) struct HeldEdit {
    /// Its place.
    pub entry: HeldEntry,
    /// Set if it is added.
    pub is_added: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_taken_in_order_and_runs_are_cut() {
        let mut segment = ExtentSegment::default();
        segment.map(0, 10, &[1, 2, 3]);
        segment.map(3, 90, &[4, 5]);
        let mut blocks = HeldBlocks::default();
        assert!(blocks.add(&segment));
        let mut left = blocks.take();
        let next = |left: &mut BlocksLeft<'_>, count| {
            let runs = left.next(count)?;
            Some(runs.iter().map(|(place, crcs)| (*place, crcs.to_vec())).collect::<Vec<_>>())
        };
        assert_eq!(next(&mut left, 0), Some(Vec::new()));
        assert_eq!(next(&mut left, 2), Some(vec![(10, vec![1, 2])]));
        assert_eq!(next(&mut left, 2), Some(vec![(12, vec![3]), (90, vec![4])]));
        assert!(!left.is_empty());
        assert_eq!(next(&mut left, 1), Some(vec![(91, vec![5])]));
        assert!(left.is_empty() && next(&mut left, 1).is_none());
        segment.share(7);
        assert!(!HeldBlocks::default().add(&segment), "held data is not shared");
    }
}
