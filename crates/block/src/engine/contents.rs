//! Content of data blocks in memory: not written to its place yet, on its way there, or cached.

use super::block_cache::BlockCache;
use super::deferred::{DeferredRun, DeferredWrites};
use super::devices::Use;
use super::inflight::InflightWrites;
use crate::device::{BLOCK, Extent};
use crate::log::SmallWrite;
use crate::space::{Space, SpaceError};
use bytes::Bytes;

pub(crate) struct Contents {
    deferred: DeferredWrites,
    inflight: InflightWrites,
    cache: BlockCache,
    /// Blocks that were looked up and found, and those that were not.
    hits: u64,
    misses: u64,
}

impl Contents {
    /// Takes the deferred writes that replay has found.
    pub fn new(deferred: DeferredWrites, cached_blocks: usize) -> Self {
        let cache = BlockCache::new(cached_blocks);
        Contents { deferred, inflight: InflightWrites::default(), cache, hits: 0, misses: 0 }
    }

    /// Newest content of a block that is not at its place yet.
    pub fn unwritten(&self, block: u64) -> Option<Bytes> {
        self.deferred.get(block).cloned().or_else(|| self.inflight.get(block))
    }

    /// Content of the block, which has this checksum.
    pub fn get(&mut self, block: u64, crc: u32) -> Option<Bytes> {
        let found = self.unwritten(block).or_else(|| self.cache.get(block, crc));
        *(if found.is_some() { &mut self.hits } else { &mut self.misses }) += 1;
        found
    }

    /// Numbers of blocks that were looked up by [`Contents::get`] and found, and that were not.
    pub fn looked_up(&self) -> (u64, u64) {
        (self.hits, self.misses)
    }

    /// Caches content that was read, with its checksum.
    pub fn keep(&mut self, block: u64, crc: u32, data: Bytes) {
        self.cache.insert(block, crc, data);
    }

    /// Takes a deferred write of batch `seq`.
    pub fn defer(&mut self, seq: u64, write: SmallWrite, data: Bytes) {
        self.cache.forget(Extent::new(write.block, 1));
        self.deferred.insert(write.block, seq, write.crc, data);
    }

    /// Replaces the content of a deferred write by an equal copy with memory of its own, from which
    /// the log is written.
    pub fn settle(&mut self, block: u64, seq: u64, data: Bytes) {
        self.deferred.settle(block, seq, data);
    }

    /// Notes that a large write begins.
    pub fn begin_large(&mut self, extent: Extent, data: Bytes) {
        self.inflight.insert(extent, data);
    }

    /// Notes that the large write to this block and its successors has completed.
    pub fn end_large(&mut self, start: u64) {
        self.inflight.completed(start);
    }

    /// Frees blocks once batch `seq` is durable. Those that a checkpoint still writes stay pinned
    /// until [`Contents::end_deferred`].
    pub fn free(&mut self, space: &mut Space, seq: u64, extent: Extent) -> Result<(), SpaceError> {
        space.free_after(seq, extent)?;
        self.cache.forget(extent);
        for block in self.deferred.forget(extent) {
            space.pin(Extent::new(block, 1))?;
        }
        Ok(())
    }

    /// Freezes the deferred writes for a checkpoint.
    pub fn freeze(&mut self) {
        self.deferred.freeze();
    }

    /// First frozen run at or after block `from`.
    pub fn next_deferred(&self, from: u64) -> Option<DeferredRun> {
        self.deferred.next_write(from)
    }

    /// Handles a run that a checkpoint has written. Returns its blocks that were freed meanwhile and
    /// are still pinned.
    pub fn end_deferred(&mut self, extent: Extent) -> Vec<u64> {
        let cache = &mut self.cache;
        self.deferred.written(extent, |block, crc, data| cache.insert(block, crc, data))
    }

    /// Bytes of deferred writes in memory.
    pub fn deferred_bytes(&self) -> usize {
        self.deferred.len() * BLOCK
    }

    /// Bytes of deferred writes that the next checkpoint will write.
    pub fn waiting_bytes(&self) -> usize {
        self.deferred.waiting() * BLOCK
    }

    /// Panics if parts of the state contradict each other, the space, or batches of which `newest` is the
    /// last. Only a checkpoint has frozen writes.
    pub fn check_invariants(&self, newest: u64, is_checkpointing: bool, space: &Space) {
        self.cache.check_invariants();
        self.deferred.check_invariants(newest, space);
        assert!(is_checkpointing || !self.deferred.has_leaving(), "no checkpoint writes them");
        assert_eq!(
            self.deferred.bytes(),
            self.deferred_bytes(),
            "deferred writes are whole blocks"
        );
    }

    /// Panics unless the operations in flight are those that complete the writes.
    pub fn check_in_flight<'u>(&self, in_flight: impl Iterator<Item = &'u Use>) {
        let mut large: Vec<u64> = Vec::new();
        for operation in in_flight {
            match operation {
                Use::Large { start, .. } => large.push(*start),
                Use::Deferred { extent } => self.deferred.check_written(*extent),
                _ => {}
            }
        }
        large.sort_unstable();
        let expected = self.inflight.extents().map(|extent| extent.start);
        assert!(expected.eq(large), "large writes in flight are not those whose data is kept");
    }
}
