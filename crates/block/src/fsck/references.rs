//! References to blocks: two bits per block, and sums that verify the counts of shared blocks.
//!
//! A block is *claimed* by the one extent segment that refers to it exclusively, by the record that
//! counts its references, or by the metadata space; no second claim is allowed. It is *used* if it
//! is claimed or referred to as shared.
//!
//! Reference counts are not kept per block. The counts of all records are added up as hashes of
//! shared id and block, and the references found are subtracted: in a sound store all sums are
//! zero. There are sums for many small groups of ids, so that only the groups with a remainder are
//! walked again.

use crate::device::Extent;
use crate::space::{BlockMap, CHUNK_BYTES, SpaceError};

/// Groups of shared ids, a power of two.
const GROUPS: usize = 1 << 14;

#[derive(Debug)]
pub(crate) struct References {
    used: BlockMap,
    claimed: BlockMap,
    sums: Vec<u64>,
}

impl References {
    /// No reference yet to any block of `space`.
    pub fn new(space: Extent) -> Self {
        References {
            used: BlockMap::new(space),
            claimed: BlockMap::new(space),
            sums: vec![0; GROUPS],
        }
    }

    /// Set if the extent lies within the space; the other functions require it.
    pub fn is_within(&self, extent: Extent) -> bool {
        let space = self.used.extent();
        let end = extent.start.checked_add(extent.count);
        extent.start >= space.start && end.is_some_and(|end| end <= space.end())
    }

    /// Claims `extent`, which lies within the space. Returns the blocks that were claimed before.
    pub fn claim(&mut self, extent: Extent) -> Vec<Extent> {
        self.mark(extent);
        match self.claimed.take(extent) {
            Ok(()) => Vec::new(),
            Err(SpaceError::Used { .. }) => self.claim_each(extent),
            Err(error) => panic!("the caller has checked it: {error}"),
        }
    }

    fn claim_each(&mut self, extent: Extent) -> Vec<Extent> {
        let mut conflicts = Vec::new();
        for block in extent.start..extent.end() {
            if self.claimed.take(Extent::new(block, 1)).is_err() {
                push_block(&mut conflicts, block);
            }
        }
        conflicts
    }

    /// Notes a reference to `extent`, which lies within the space.
    pub fn mark(&mut self, extent: Extent) {
        self.used.set_used(extent).expect("the caller has checked it");
    }

    /// Removes all references to `extent`.
    pub fn forget(&mut self, extent: Extent) {
        self.used.set_free(extent).expect("the caller has checked it");
    }

    /// Notes that a record counts this number of references to each block.
    pub fn count(&mut self, id: u64, extent: Extent, references: u64) {
        let sum = sum(id, extent).wrapping_mul(references);
        let group = &mut self.sums[group(id)];
        *group = group.wrapping_add(sum);
    }

    /// Notes that an extent segment refers to blocks as shared.
    pub fn refer(&mut self, id: u64, extent: Extent) {
        let sum = sum(id, extent);
        let group = &mut self.sums[group(id)];
        *group = group.wrapping_sub(sum);
    }

    /// Groups of shared ids with wrong counts.
    pub fn suspects(&self) -> Suspects {
        Suspects(self.sums.iter().map(|sum| *sum != 0).collect())
    }

    /// Number of blocks with a reference.
    pub fn used_blocks(&self) -> u64 {
        self.used.total() - self.used.free()
    }

    /// Number of chunks of the space bitmap.
    pub fn chunks(&self) -> u32 {
        self.used.chunk_count()
    }

    /// Used blocks in the encoding of a chunk of the space bitmap.
    pub fn used_chunk(&self, chunk: u32) -> [u8; CHUNK_BYTES] {
        self.used.chunk(chunk)
    }
}

/// Groups of shared ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Suspects(Vec<bool>);

impl Suspects {
    /// Set if the group of this shared id has a wrong sum. Other ids of the group may be right.
    pub fn contains(&self, id: u64) -> bool {
        self.0[group(id)]
    }

    /// Set if all sums are right.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|is_suspect| !is_suspect)
    }
}

/// Appends a block after all others.
pub(crate) fn push_block(extents: &mut Vec<Extent>, block: u64) {
    match extents.last_mut() {
        Some(last) if last.end() == block => last.count += 1,
        _ => extents.push(Extent::new(block, 1)),
    }
}

fn group(id: u64) -> usize {
    mix(id) as usize % GROUPS
}

fn sum(id: u64, extent: Extent) -> u64 {
    let salt = mix(id);
    let blocks = extent.start..extent.end();
    blocks.fold(0, |sum, block| sum.wrapping_add(mix(salt ^ block)))
}

/// Mixes all bits of a number (the finalizer of SplitMix64).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn double_claims_are_reported_block_by_block() {
        let mut references = References::new(Extent::new(100, 200));
        assert_eq!(references.claim(Extent::new(100, 10)), []);
        assert_eq!(references.claim(Extent::new(112, 2)), []);
        let conflicts = references.claim(Extent::new(108, 5));
        assert_eq!(conflicts, [Extent::new(108, 2), Extent::new(112, 1)]);
        assert_eq!(references.used_blocks(), 14);
    }

    #[test]
    fn references_that_are_counted_right_leave_nothing() {
        let mut references = References::new(Extent::new(0, 100));
        references.count(7, Extent::new(10, 8), 2);
        references.refer(7, Extent::new(10, 8));
        references.refer(7, Extent::new(10, 3));
        assert!(references.suspects().contains(7));
        references.refer(7, Extent::new(13, 5));
        assert!(references.suspects().is_empty());
    }

    #[test]
    fn one_reference_more_here_and_one_less_there_is_seen() {
        let mut references = References::new(Extent::new(0, 100));
        references.count(7, Extent::new(10, 2), 2);
        references.refer(7, Extent::new(10, 1));
        (0..3).for_each(|_| references.refer(7, Extent::new(11, 1)));
        assert!(references.suspects().contains(7));
    }
}
