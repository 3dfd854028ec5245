//! Deferred writes: small data that is durable in the log and not yet written to its place.
//!
//! There are two halves, like the two tables of changed metadata: data logged since the last
//! checkpoint began, and data that a running checkpoint writes. The latter is written even if it
//! was overwritten or freed meanwhile: the record that did so may not be durable, and a crash would
//! then leave the state of the checkpoint. So a freed block must not be reused before its last
//! deferred write has completed.

use crate::device::{BLOCK, Extent};
use crate::space::Space;
use bytes::Bytes;
use std::collections::BTreeMap;

/// Blocks per write operation.
const WRITE_BLOCKS_MAX: usize = 256;

#[derive(Debug)]
struct Deferred {
    data: Bytes,
    crc: u32,
    /// Number of the batch that holds the data.
    seq: u64,
    /// Set if the block was freed but must still be written.
    is_unwanted: bool,
}

/// Blocks whose newest content is not at their place yet, by place.
#[derive(Debug, Default)]
pub(crate) struct DeferredWrites {
    waiting: BTreeMap<u64, Deferred>,
    leaving: BTreeMap<u64, Deferred>,
}

/// A run of adjacent blocks to be written.
#[derive(Debug)]
pub(crate) struct DeferredRun {
    /// Place of the blocks on the main device.
    pub extent: Extent,
    /// One piece for each block.
    pub data: Vec<Bytes>,
}

impl DeferredWrites {
    /// Newest content of a block that is not at its place yet.
    pub fn get(&self, block: u64) -> Option<&Bytes> {
        let leaving = || self.leaving.get(&block).map(|write| &write.data);
        self.waiting.get(&block).map(|write| &write.data).or_else(leaving)
    }

    /// Puts the data of a record in batch `seq` over older content of the block.
    pub fn insert(&mut self, block: u64, seq: u64, crc: u32, data: Bytes) {
        self.waiting.insert(block, Deferred { data, crc, seq, is_unwanted: false });
    }

    /// Replaces the content by an equal copy with memory of its own, from which the log is written.
    pub fn settle(&mut self, block: u64, seq: u64, data: Bytes) {
        if let Some(write) = self.waiting.get_mut(&block).filter(|write| write.seq == seq) {
            write.data = data;
        }
    }

    /// Drops the content of freed blocks. Returns those that will be written all the same: they
    /// must not be reused before [`DeferredWrites::written`] returns them.
    pub fn forget(&mut self, extent: Extent) -> Vec<u64> {
        if extent.count == 1 {
            self.waiting.remove(&extent.start);
        } else {
            remove_range(&mut self.waiting, extent);
        }
        let range = self.leaving.range_mut(extent.start..extent.end());
        let unwanted = range.filter(|(_, write)| !write.is_unwanted).map(|(block, write)| {
            write.is_unwanted = true;
            *block
        });
        unwanted.collect()
    }

    /// Freezes the current content for a checkpoint. All of the previous frozen half must be
    /// written.
    pub fn freeze(&mut self) {
        assert!(self.leaving.is_empty(), "the checkpoint before has not ended");
        self.leaving = std::mem::take(&mut self.waiting);
    }

    /// First frozen run at or after block `from`.
    pub fn next_write(&self, from: u64) -> Option<DeferredRun> {
        let mut leaving = self.leaving.range(from..);
        let (&start, first) = leaving.next()?;
        let mut write =
            DeferredRun { extent: Extent::new(start, 1), data: vec![first.data.clone()] };
        for (&block, deferred) in leaving {
            if block != write.extent.end() || write.data.len() == WRITE_BLOCKS_MAX {
                break;
            }
            write.extent.count += 1;
            write.data.push(deferred.data.clone());
        }
        Some(write)
    }

    /// Handles a completed run. Returns its blocks that were freed meanwhile; `keep` receives those
    /// whose content is still the newest, with their checksums.
    pub fn written(&mut self, extent: Extent, mut keep: impl FnMut(u64, u32, Bytes)) -> Vec<u64> {
        let mut unwanted = Vec::new();
        for block in extent.start..extent.end() {
            match self.leaving.remove(&block) {
                Some(write) if write.is_unwanted => unwanted.push(block),
                Some(write) if !self.waiting.contains_key(&block) => {
                    keep(block, write.crc, write.data);
                }
                _ => {}
            }
        }
        unwanted
    }

    /// Before any write is submitted: keeps only the blocks that `is_kept` accepts.
    pub fn retain(&mut self, mut is_kept: impl FnMut(u64) -> bool) {
        self.waiting.retain(|block, _| is_kept(*block));
    }

    /// Set if a checkpoint still writes some.
    pub fn has_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Bytes of all contents.
    pub fn bytes(&self) -> usize {
        self.waiting.values().chain(self.leaving.values()).map(|write| write.data.len()).sum()
    }

    /// Panics if parts of the state contradict each other, the space, or batches of which `newest` is the
    /// last.
    pub fn check_invariants(&self, newest: u64, space: &Space) {
        for (block, write) in &self.waiting {
            assert!(!write.is_unwanted, "block {block} was freed, and no checkpoint writes it");
            assert!(space.is_in_use(*block), "block {block} is free and has content");
            let older = self.leaving.get(block).map_or(0, |older| older.seq);
            assert!(older <= write.seq, "block {block} goes back to batch {}", write.seq);
        }
        for (block, write) in &self.leaving {
            let is_kept = match write.is_unwanted {
                true => space.is_pinned(*block),
                false => space.is_in_use(*block),
            };
            assert!(is_kept, "block {block} may be reused before it is written");
        }
        for (block, write) in self.waiting.iter().chain(&self.leaving) {
            assert_eq!(write.data.len(), BLOCK, "block {block} is not whole");
            assert!(write.seq <= newest, "block {block} is of batch {} of the future", write.seq);
        }
    }

    /// Panics unless a checkpoint has to write these blocks.
    pub fn check_written(&self, extent: Extent) {
        for block in extent.start..extent.end() {
            assert!(self.leaving.contains_key(&block), "block {block} is written for nothing");
        }
    }

    /// Number of blocks in memory.
    pub fn len(&self) -> usize {
        self.waiting.len() + self.leaving.len()
    }

    /// Number of blocks that the next checkpoint will write.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

fn remove_range<T>(deferred: &mut BTreeMap<u64, T>, extent: Extent) {
    if deferred.is_empty() {
        return;
    }
    let known: Vec<u64> =
        deferred.range(extent.start..extent.end()).map(|(block, _)| *block).collect();
    for block in known {
        deferred.remove(&block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deferred(blocks: &[u64]) -> DeferredWrites {
        let mut deferred = DeferredWrites::default();
        for block in blocks {
            deferred.insert(*block, 1, 0, Bytes::from(vec![*block as u8; 1]));
        }
        deferred.freeze();
        deferred
    }

    const SPACE: Extent = Extent { start: 100, count: 64 };

    /// Two blocks in use, of which the first waits to be written.
    fn checked() -> (DeferredWrites, Space) {
        let mut space = Space::new(SPACE);
        space.replay_taken(Extent::new(100, 2)).unwrap();
        let mut deferred = DeferredWrites::default();
        deferred.insert(100, 5, 0, Bytes::from(vec![1; BLOCK]));
        deferred.check_invariants(5, &space);
        (deferred, space)
    }

    #[test]
    #[should_panic(expected = "block 100 is free and has content")]
    fn content_of_a_free_block_is_found() {
        let (deferred, mut space) = checked();
        space.free_after(6, Extent::new(100, 1)).unwrap();
        deferred.check_invariants(6, &space);
    }

    #[test]
    #[should_panic(expected = "block 100 may be reused before it is written")]
    fn a_freed_block_that_is_not_pinned_is_found() {
        let (mut deferred, mut space) = checked();
        deferred.freeze();
        deferred.check_invariants(5, &space);
        space.free_after(6, Extent::new(100, 1)).unwrap();
        deferred.check_invariants(6, &space);
    }

    #[test]
    #[should_panic(expected = "block 100 may be reused before it is written")]
    fn a_freed_block_whose_pin_ended_early_is_found() {
        let (mut deferred, mut space) = checked();
        deferred.freeze();
        let block = Extent::new(100, 1);
        assert_eq!(deferred.forget(block), [100]);
        space.pin(block).unwrap();
        space.free_after(6, block).unwrap();
        deferred.check_invariants(6, &space);
        space.unpin(block).unwrap();
        deferred.check_invariants(6, &space);
    }

    #[test]
    #[should_panic(expected = "block 100 is of batch 5 of the future")]
    fn content_of_a_batch_that_is_not_begun_is_found() {
        let (deferred, space) = checked();
        deferred.check_invariants(4, &space);
    }

    #[test]
    #[should_panic(expected = "block 101 is not whole")]
    fn part_of_a_block_is_found() {
        let (mut deferred, space) = checked();
        deferred.insert(101, 5, 0, Bytes::from_static(b"part"));
        deferred.check_invariants(5, &space);
    }

    #[test]
    #[should_panic(expected = "block 101 is written for nothing")]
    fn a_write_that_nothing_asked_for_is_found() {
        let (mut deferred, _) = checked();
        deferred.freeze();
        deferred.check_written(Extent::new(100, 2));
    }

    #[test]
    fn adjacent_blocks_are_written_together() {
        let deferred = deferred(&[1, 2, 4, 7]);
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(write) = deferred.next_write(from) {
            from = write.extent.end();
            found.push((write.extent.start, write.extent.count));
        }
        assert_eq!(found, [(1, 2), (4, 1), (7, 1)]);
    }

    #[test]
    fn newer_content_is_kept_when_the_older_was_written() {
        let mut deferred = deferred(&[1, 2]);
        deferred.insert(2, 5, 0, Bytes::from_static(b"new"));
        assert_eq!(
            deferred.next_write(0).unwrap().data[1],
            [2][..],
            "the checkpoint writes its own state"
        );
        let mut kept = Vec::new();
        deferred.written(Extent::new(1, 2), |block, _, _| kept.push(block));
        assert_eq!(kept, [1]);
        assert!(deferred.get(1).is_none());
        assert_eq!(deferred.get(2).unwrap(), &b"new"[..]);
    }

    #[test]
    fn frozen_blocks_that_were_freed_are_written_and_returned() {
        let mut deferred = deferred(&[1, 2, 3]);
        deferred.insert(4, 5, 0, Bytes::new());
        assert_eq!(deferred.forget(Extent::new(2, 5)), [2, 3]);
        assert!(deferred.get(4).is_none());
        assert_eq!(deferred.forget(Extent::new(3, 1)), [0; 0], "once is enough");
        assert_eq!(deferred.next_write(0).unwrap().extent, Extent::new(1, 3));
        assert_eq!(deferred.written(Extent::new(1, 3), |_, _, _| {}), [2, 3]);
        assert_eq!(deferred.len(), 0);
    }
}
