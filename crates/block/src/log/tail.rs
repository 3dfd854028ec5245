//! Batches at the end of the log that may not have been durable: they count if the data of their
//! large writes is there.

use super::{Batch, LargeWrite};
use crate::checksum::crc32c;
use crate::device::{BLOCK, Extent};

/// Number of batches that count if the blocks of large writes in `missing` (batch, block) have
/// wrong checksums. A wrong checksum is excused where the same or a later batch that counts freed
/// the block or overwrote it by a deferred write: once that batch was durable, the block may have
/// been written or reused, and not before.
pub fn valid_batches(batches: &[Batch], missing: &[(usize, u64)]) -> usize {
    let is_excused = |batch: usize, block: u64, end: usize| {
        batches[batch..end].iter().any(|later| later.supersedes(block))
    };
    let is_valid = |end: &usize| {
        let mut missing = missing.iter().filter(|(batch, _)| batch < end);
        missing.all(|(batch, block)| is_excused(*batch, *block, *end))
    };
    (0..=batches.len()).rev().find(is_valid).unwrap_or(0)
}

impl LargeWrite {
    /// Blocks of the write with wrong checksums in `bytes`, which were read from its place.
    pub fn missing_in<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = u64> + 'a {
        let is_there = move |index: usize, crc: u32| {
            bytes.get(index * BLOCK..(index + 1) * BLOCK).map(crc32c) == Some(crc)
        };
        let blocks = (self.start..).zip(&self.crcs).enumerate();
        blocks
            .filter(move |(index, (_, crc))| !is_there(*index, **crc))
            .map(|(_, (block, _))| block)
    }
}

impl Batch {
    fn supersedes(&self, block: u64) -> bool {
        self.records.iter().any(|(record, _)| {
            let freed = |extent: &Extent| extent.start <= block && block < extent.end();
            record.small.iter().any(|write| write.block == block) || record.freed.iter().any(freed)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LogPoint, Record, SmallWrite};
    use super::*;

    fn batch(small: &[u64], freed: &[Extent]) -> Batch {
        let small = small.iter().map(|block| SmallWrite { block: *block, crc: 0 }).collect();
        let record = Record { small, freed: freed.iter().copied().collect(), ..Record::default() };
        Batch {
            seq: 1,
            start: LogPoint::BEGINNING,
            end: LogPoint::BEGINNING,
            generation: 1,
            durable: false,
            records: vec![(record, Vec::new())],
        }
    }

    #[test]
    fn the_log_ends_before_the_first_batch_that_lacks_its_data() {
        let batches = [batch(&[], &[]), batch(&[], &[]), batch(&[], &[])];
        assert_eq!(valid_batches(&batches, &[]), 3);
        assert_eq!(valid_batches(&batches, &[(1, 7)]), 1);
        assert_eq!(valid_batches(&batches, &[(2, 7), (0, 9)]), 0);
    }

    #[test]
    fn blocks_freed_or_overwritten_by_a_later_valid_batch_may_be_missing() {
        let freeing = [batch(&[], &[]), batch(&[], &[Extent::new(5, 4)])];
        assert_eq!(valid_batches(&freeing, &[(0, 7)]), 2);
        assert_eq!(valid_batches(&freeing, &[(0, 9)]), 0, "another block");
        let overwriting = [batch(&[], &[]), batch(&[7], &[])];
        assert_eq!(valid_batches(&overwriting, &[(0, 7)]), 2);
        assert_eq!(valid_batches(&overwriting, &[(0, 7), (1, 8)]), 0, "the excuse does not count");
    }

    #[test]
    fn blocks_that_were_not_read_are_missing() {
        let bytes = vec![1; 2 * BLOCK];
        let there = crc32c(&bytes[..BLOCK]);
        let write = LargeWrite { start: 10, crcs: vec![there, !there, there] };
        assert_eq!(write.missing_in(&bytes).collect::<Vec<_>>(), [11, 12]);
    }
}
