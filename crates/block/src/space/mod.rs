//! The space: blocks in use, and when freed blocks may be reused.
//!
//! ```text
//!                allocate                free_after(seq)
//!  allocatable ───────────► in use ──────────────────────► waiting for durable(seq)
//!       ▲  ▲                                                   │            │
//!       │  └───────────────────────── not pinned ──────────────┘            │ pinned
//!       └───────────── last unpin ───────────── held ◄──────────────────────┘
//! ```
//!
//! A block that waits or is held is *logically free*: it counts as free and is stored as free,
//! because records in the stored state free it. But it is not allocated, because a crash might lose
//! the record, or a write in flight might overwrite new data.
//!
//! Invariants:
//! * A logically free block that is not allocatable waits in the queue or is held, never both.
//! * Held blocks are pinned; allocatable blocks are not.
//! * A chunk is dirty if a block of it was allocated or logically freed since the last snapshot began.
//!   A block that becomes allocatable does not change the stored bitmap.
//!
//! In memory only: records, the tree, the content of blocks and sharing are unknown here.

mod bits;
mod claims;
mod error;
mod extents;
mod index;
mod map;
mod pins;
mod search;
mod set;
mod snapshot;
mod statistics;
#[cfg(test)]
mod tests;

pub use claims::Claims;
pub use error::SpaceError;
pub use extents::Extents;
pub use map::{BlockMap, CHUNK_BLOCKS, CHUNK_BYTES};
pub use statistics::FreeRuns;

use crate::device::Extent;
use bits::{bit_runs, words};
use extents::{append, join};
use pins::Pins;
use set::BlockSet;
use snapshot::{Snapshot, StoredChunk};
use std::collections::VecDeque;

/// The space of a device.
#[derive(Debug, Clone)]
pub struct Space {
    /// Allocatable blocks are free here, all others used.
    map: BlockMap,
    /// Blocks that are logically free but used in the map.
    unready: BlockSet,
    /// Unready blocks that wait for their record, oldest record first.
    queue: VecDeque<Freed>,
    /// Unready blocks that wait for pins only.
    held: BlockSet,
    pins: Pins,
    snapshot: Snapshot,
}

/// A run of blocks, counted from the first of the space, that waits for a record.
#[derive(Debug, Clone, Copy)]
struct Freed {
    seq: u64,
    start: u64,
    count: u64,
}

impl Space {
    /// A space with all blocks free.
    pub fn new(extent: Extent) -> Self {
        Space {
            map: BlockMap::new(extent),
            unready: BlockSet::default(),
            queue: VecDeque::new(),
            held: BlockSet::default(),
            pins: Pins::default(),
            snapshot: Snapshot::default(),
        }
    }

    /// Map of allocatable blocks.
    pub fn map(&self) -> &BlockMap {
        &self.map
    }

    /// Number of blocks.
    pub fn total(&self) -> u64 {
        self.map.total()
    }

    /// Number of blocks that are not in use, including those that cannot be allocated yet.
    pub fn free(&self) -> u64 {
        self.map.free() + self.unready.count()
    }

    /// Number of blocks that can be allocated now.
    pub fn allocatable(&self) -> u64 {
        self.map.free()
    }

    /// As [`BlockMap::allocate`]. If it fails although [`Self::free`] suffices, some blocks become
    /// allocatable later.
    pub fn allocate(&mut self, count: u64) -> Option<Extents> {
        let extents = self.map.allocate(count)?;
        self.snapshot.keep_before(&mut self.map, &self.unready, &extents);
        Some(extents)
    }

    /// As [`BlockMap::allocate_run`].
    pub fn allocate_run(&mut self, min: u64, max: u64) -> Option<Extent> {
        let extent = self.map.allocate_run(min, max)?;
        self.snapshot.keep_before(&mut self.map, &self.unready, &[extent]);
        Some(extent)
    }

    /// Frees blocks by record `seq`; they can be allocated once it is durable. Records come in
    /// order.
    pub fn free_after(&mut self, seq: u64, extent: Extent) -> Result<(), SpaceError> {
        let (start, count) = self.free_logically(extent)?;
        if let Some(last) = self.queue.back_mut() {
            assert!(last.seq <= seq, "record {seq} frees blocks after record {}", last.seq);
            if last.seq == seq && last.start + last.count == start {
                last.count += count;
                return Ok(());
            }
        }
        if count > 0 {
            self.queue.push_back(Freed { seq, start, count });
        }
        Ok(())
    }

    /// Returns allocated blocks that no record names; they can be allocated at once.
    pub fn give_back(&mut self, extent: Extent) -> Result<(), SpaceError> {
        let (start, count) = self.free_logically(extent)?;
        self.make_ready(start, count, &mut Extents::new());
        Ok(())
    }

    /// Notes that all records up to `seq` are durable. Returns the blocks that can be allocated
    /// from now on.
    pub fn durable(&mut self, seq: u64) -> Extents {
        let mut released = Extents::new();
        while let Some(&freed) = self.queue.front().filter(|freed| freed.seq <= seq) {
            self.queue.pop_front();
            self.make_ready(freed.start, freed.count, &mut released);
        }
        join(&mut released);
        released
    }

    /// Fails unless all blocks are in use.
    pub fn check_used(&self, extent: Extent) -> Result<(), SpaceError> {
        let (start, count) = self.map.position(extent)?;
        self.map.all_used(start, count)
    }

    /// Whether the block is in use, and not logically free.
    pub fn is_in_use(&self, block: u64) -> bool {
        self.map.position(Extent::new(block, 1)).is_ok_and(|(at, _)| {
            let is_free = |word, bits| (self.map.words[word] | self.unready.get(word)) & bits != 0;
            words(at, 1).all(|(word, bits)| !is_free(word, bits))
        })
    }

    /// Set if a write to the block is in flight; false outside of the space.
    pub fn is_pinned(&self, block: u64) -> bool {
        self.map
            .position(Extent::new(block, 1))
            .is_ok_and(|(at, _)| words(at, 1).all(|(word, bits)| self.pins.get(word) & bits != 0))
    }

    /// Pins blocks for the time of a write: they are not allocated before it ends, even if they are
    /// freed. Pins of the same block add up.
    pub fn pin(&mut self, extent: Extent) -> Result<(), SpaceError> {
        let (start, count) = self.map.position(extent)?;
        self.map.all_used(start, count)?;
        words(start, count).for_each(|(word, bits)| self.pins.pin(word, bits));
        Ok(())
    }

    /// Ends a write. Returns the blocks that can be allocated from now on.
    pub fn unpin(&mut self, extent: Extent) -> Result<Extents, SpaceError> {
        let (start, count) = self.map.position(extent)?;
        self.map
            .refuse(start, count, |word| !self.pins.get(word))
            .map_err(|block| SpaceError::NotPinned { block })?;
        let mut released = Extents::new();
        for (word, bits) in words(start, count) {
            let last = self.pins.unpin(word, bits);
            let bits = self.held.remove(word, last);
            self.release(word, bits, &mut released);
        }
        Ok(released)
    }

    /// Pins allocatable blocks while the device discards them. Ends with [`Self::unpin`], which
    /// returns the same blocks again.
    pub fn withdraw(&mut self, extent: Extent) -> Result<(), SpaceError> {
        let (start, count) = self.map.position(extent)?;
        self.map.all_free(start, count)?;
        self.map.use_run(start, count);
        for (word, bits) in words(start, count) {
            self.unready.insert(word, bits);
            self.held.insert(word, bits);
            self.pins.pin(word, bits);
        }
        Ok(())
    }

    /// Begins a snapshot of the chunks that changed since the previous one began, in their current
    /// state. The previous one must have been taken to its end.
    pub fn begin_snapshot(&mut self) {
        self.snapshot.begin(&mut self.map);
    }

    /// Chunks of the snapshot that were not taken yet.
    pub fn snapshot_chunks(&self) -> u64 {
        self.snapshot.chunks_left(&self.map)
    }

    /// Takes at most `chunks_max` chunks of the snapshot, in no particular order, in stored form:
    /// logically free blocks are free. Empty if all were taken.
    pub fn take_snapshot(&mut self, chunks_max: usize) -> Vec<StoredChunk> {
        self.snapshot.take(&mut self.map, &self.unready, chunks_max)
    }

    /// The chunks that changed since the last snapshot, all at once and in order.
    pub fn snapshot_dirty(&mut self) -> Vec<StoredChunk> {
        self.begin_snapshot();
        self.take_snapshot(usize::MAX)
    }

    /// Loads a stored chunk, before any replay.
    pub fn load_chunk(&mut self, chunk: u32, bytes: &[u8]) -> Result<(), SpaceError> {
        self.assert_replaying();
        self.map.load_chunk(chunk, bytes)
    }

    /// Replays that a durable record took blocks, perhaps repeatedly.
    pub fn replay_taken(&mut self, extent: Extent) -> Result<(), SpaceError> {
        self.assert_replaying();
        self.map.set_used(extent)
    }

    /// Replays that a durable record freed blocks, perhaps repeatedly.
    pub fn replay_freed(&mut self, extent: Extent) -> Result<(), SpaceError> {
        self.assert_replaying();
        self.map.set_free(extent)
    }

    /// Marks blocks in use as logically free and not allocatable; returns their position.
    fn free_logically(&mut self, extent: Extent) -> Result<(u64, u64), SpaceError> {
        let (start, count) = self.map.position(extent)?;
        self.map
            .refuse(start, count, |word| self.map.words[word] | self.unready.get(word))
            .map_err(|block| SpaceError::Free { block })?;
        self.snapshot.keep(&mut self.map, &self.unready, start, count);
        for (word, bits) in words(start, count) {
            self.unready.insert(word, bits);
        }
        self.map.touch(start, count);
        Ok((start, count))
    }

    /// Unready blocks wait for no record any more, only for pins.
    fn make_ready(&mut self, start: u64, count: u64, released: &mut Extents) {
        for (word, bits) in words(start, count) {
            let pinned = self.pins.get(word) & bits;
            self.held.insert(word, pinned);
            self.release(word, bits & !pinned, released);
        }
    }

    /// Makes unready blocks allocatable.
    fn release(&mut self, word: usize, bits: u64, released: &mut Extents) {
        if bits == 0 {
            return;
        }
        self.unready.remove(word, bits);
        self.map.free_bits(word, bits);
        for (low, count) in bit_runs(bits) {
            append(released, Extent::new(self.map.block(word, low), count));
        }
    }

    /// Replay knows only the stored state; it precedes everything that waits.
    fn assert_replaying(&self) {
        assert!(self.unready.count() == 0 && self.pins.is_empty(), "replay comes first");
    }

    /// Number of blocks that are neither allocatable nor logically free, counted block by block.
    fn count_used(&self) -> u64 {
        let ready = self.map.words.iter().enumerate();
        let used =
            ready.map(|(word, free)| self.map.blocks_of(word) & !free & !self.unready.get(word));
        used.map(|bits| u64::from(bits.count_ones())).sum()
    }

    /// Panics unless the parts agree. Examines everything.
    pub fn check_invariants(&self) {
        self.map.check_invariants();
        let (free, used) = (self.free(), self.count_used());
        assert_eq!(free + used, self.total(), "{free} blocks are free and {used} in use");
        self.unready.check_invariants();
        self.held.check_invariants();
        self.pins.check_invariants();
        let queued = self.queue.iter().map(|freed| freed.count).sum::<u64>();
        assert_eq!(
            self.unready.count(),
            queued + self.held.count(),
            "a block waits twice or never"
        );
        for freed in &self.queue {
            for (word, bits) in words(freed.start, freed.count) {
                let waits = self.unready.get(word) & !self.held.get(word);
                assert_eq!(waits & bits, bits, "a block of {freed:?} does not wait");
            }
        }
        for (word, bits) in self.held.words() {
            let known = self.unready.get(word) & self.pins.get(word);
            assert_eq!(known & bits, bits, "a block of word {word} is held without a pin");
        }
        for (word, bits) in self.unready.words().chain(self.pins.words()) {
            assert_eq!(self.map.words[word] & bits, 0, "a block of word {word} is allocatable");
        }
        let ordered = self.queue.iter().is_sorted_by_key(|freed| freed.seq);
        assert!(ordered, "records are out of order");
    }
}
