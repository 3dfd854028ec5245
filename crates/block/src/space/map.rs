//! Bitmap of the blocks in use, with summaries over its words.
//!
//! ```text
//!  words    a bit per block, set if it is free
//!  some     words that have a free block
//!  whole    words whose 64 blocks are all free
//!  dirty    chunks that changed since a snapshot began
//!  frozen   chunks that the snapshot has not taken yet
//! ```
//!
//! Invariants:
//! * Bits after the last block are never free, so that searches need no check for the end.
//! * `some`, `whole` and the number of free blocks agree with the words.
//!
//! In memory a set bit is a free block, because searches look for free blocks; on disk it is a
//! block in use, so that space without data reads as zeros.
//!
//! This map does not know when blocks may be reused; [`super::Space`] does.

use super::bits::{WORD, ones, words};
use super::error::SpaceError;
use super::index::BitIndex;
use crate::device::Extent;

/// Blocks whose bits are stored together.
pub const CHUNK_BLOCKS: u64 = 4096;
/// Bytes of a stored chunk.
pub const CHUNK_BYTES: usize = CHUNK_BLOCKS as usize / 8;
const CHUNK_WORDS: usize = CHUNK_BYTES / 8;

/// Allocator for the blocks of a part of a device. Summaries take 1/16 bit of memory per block,
/// besides the bit itself.
#[derive(Debug, Clone)]
pub struct BlockMap {
    extent: Extent,
    pub(super) words: Box<[u64]>,
    pub(super) some: BitIndex,
    pub(super) whole: BitIndex,
    dirty: BitIndex,
    dirty_chunks: u64,
    /// Chunks that were dirty when a snapshot began and were not stored since.
    frozen: BitIndex,
    frozen_chunks: u64,
    pub(super) free: u64,
    /// Position where the search for few blocks continues.
    pub(super) cursor_small: u64,
    /// Position where the search for many blocks continues. Far from the other one at first, so
    /// that small allocations are adjacent even if large ones come between them.
    pub(super) cursor_large: u64,
}

impl BlockMap {
    /// A map of `extent` with all blocks free and no chunk dirty.
    pub fn new(extent: Extent) -> Self {
        let words = extent.count.div_ceil(WORD) as usize;
        let chunks = extent.count.div_ceil(CHUNK_BLOCKS) as usize;
        let whole = (extent.count / WORD) as usize;
        // Filled as a whole: word by word would take seconds on the largest devices.
        let mut map = BlockMap {
            extent,
            words: vec![u64::MAX; words].into_boxed_slice(),
            some: BitIndex::filled(words, words),
            whole: BitIndex::filled(whole, words),
            dirty: BitIndex::new(chunks),
            dirty_chunks: 0,
            frozen: BitIndex::new(chunks),
            frozen_chunks: 0,
            free: extent.count,
            cursor_small: 0,
            cursor_large: extent.count / 2,
        };
        if words > whole {
            map.words[whole] = map.blocks_of(whole);
        }
        map
    }

    /// All blocks of the map.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Number of blocks.
    pub fn total(&self) -> u64 {
        self.extent.count
    }

    /// Number of blocks that are free.
    pub fn free(&self) -> u64 {
        self.free
    }

    /// Blocks outside of the map count as used.
    pub fn is_used(&self, block: u64) -> bool {
        let Ok((start, _)) = self.position(Extent::new(block, 1)) else { return true };
        self.words[(start / WORD) as usize] >> (start % WORD) & 1 == 0
    }

    /// Memory of a map of this many blocks in bytes: about 32 MB per TB.
    pub fn memory_for(blocks: u64) -> usize {
        let words = blocks.div_ceil(WORD) as usize;
        let chunks = blocks.div_ceil(CHUNK_BLOCKS) as usize;
        let indexes = BitIndex::memory_for(words) + BitIndex::memory_for(chunks);
        words * size_of::<u64>() + 2 * indexes
    }

    /// Memory in use, in bytes.
    pub fn memory(&self) -> usize {
        let indexes = [&self.some, &self.whole, &self.dirty, &self.frozen];
        size_of_val(&*self.words) + indexes.map(BitIndex::memory).iter().sum::<usize>()
    }

    /// Marks blocks as used; fails unless all of them are free.
    pub fn take(&mut self, extent: Extent) -> Result<(), SpaceError> {
        let (start, count) = self.position(extent)?;
        self.all_free(start, count)?;
        self.use_run(start, count);
        self.touch(start, count);
        Ok(())
    }

    /// Marks blocks as free; fails unless all of them are used.
    pub fn release(&mut self, extent: Extent) -> Result<(), SpaceError> {
        let (start, count) = self.position(extent)?;
        self.all_used(start, count)?;
        words(start, count).for_each(|(word, bits)| self.free_bits(word, bits));
        self.touch(start, count);
        Ok(())
    }

    /// Makes blocks used, whatever their state.
    pub fn set_used(&mut self, extent: Extent) -> Result<(), SpaceError> {
        let (start, count) = self.position(extent)?;
        for (word, bits) in words(start, count) {
            self.overwrite(word, self.words[word] & !bits);
        }
        Ok(())
    }

    /// Makes blocks free, whatever their state.
    pub fn set_free(&mut self, extent: Extent) -> Result<(), SpaceError> {
        let (start, count) = self.position(extent)?;
        for (word, bits) in words(start, count) {
            self.overwrite(word, self.words[word] | bits);
        }
        Ok(())
    }

    /// Number of chunks of the stored bitmap; the last one may be partly behind the end.
    pub fn chunk_count(&self) -> u32 {
        u32::try_from(self.total().div_ceil(CHUNK_BLOCKS)).expect("a device has below 2^44 blocks")
    }

    /// Stored form of a chunk: bits set for used blocks, zeros after the end. Panics if there is no
    /// such chunk.
    pub fn chunk(&self, chunk: u32) -> [u8; CHUNK_BYTES] {
        self.encode_chunk(chunk, |_| 0)
    }

    /// Stored form of a chunk in which the blocks that `also_free` returns for a word are free too.
    pub(super) fn encode_chunk(
        &self,
        chunk: u32,
        also_free: impl Fn(usize) -> u64,
    ) -> [u8; CHUNK_BYTES] {
        assert!(chunk < self.chunk_count(), "there is no chunk {chunk}");
        let mut bytes = [0; CHUNK_BYTES];
        for (word, bytes) in self.words_of(chunk).zip(bytes.chunks_exact_mut(8)) {
            let used = self.blocks_of(word) & !(self.words[word] | also_free(word));
            bytes.copy_from_slice(&used.to_le_bytes());
        }
        bytes
    }

    /// Loads a stored chunk. Bits after the end are ignored.
    pub fn load_chunk(&mut self, chunk: u32, bytes: &[u8]) -> Result<(), SpaceError> {
        if chunk >= self.chunk_count() {
            return Err(SpaceError::NoChunk { chunk, chunks: self.chunk_count() });
        }
        if bytes.len() != CHUNK_BYTES {
            return Err(SpaceError::ChunkLength { chunk, length: bytes.len() });
        }
        for (word, bytes) in self.words_of(chunk).zip(bytes.chunks_exact(8)) {
            let used = u64::from_le_bytes(bytes.try_into().expect("chunks are exact"));
            self.store(word, !used & self.blocks_of(word));
        }
        self.mark_clean(chunk as usize);
        Ok(())
    }

    /// Chunks that changed since a snapshot began or [`Self::take_dirty`] was called.
    pub fn dirty_chunks(&self) -> u64 {
        self.dirty_chunks
    }

    /// Begins a snapshot of all chunks that changed since the previous one, which must have ended.
    pub(super) fn freeze(&mut self) {
        assert_eq!(self.frozen_chunks, 0, "the snapshot before has not ended");
        std::mem::swap(&mut self.dirty, &mut self.frozen);
        std::mem::swap(&mut self.dirty_chunks, &mut self.frozen_chunks);
    }

    /// Chunks that the snapshot has not taken yet.
    pub(super) fn frozen_chunks(&self) -> u64 {
        self.frozen_chunks
    }

    /// First such chunk from `from` on.
    pub(super) fn next_frozen(&self, from: u32) -> Option<u32> {
        self.frozen.next(from as usize).map(|chunk| chunk as u32)
    }

    /// Takes a chunk out of the snapshot; false if it is not in it.
    pub(super) fn thaw(&mut self, chunk: u32) -> bool {
        let is_frozen = self.frozen_chunks > 0 && self.frozen.contains(chunk as usize);
        if is_frozen {
            self.frozen.remove(chunk as usize);
            self.frozen_chunks -= 1;
        }
        is_frozen
    }

    /// Chunks that changed since the last call, in order.
    pub fn take_dirty(&mut self) -> Vec<u32> {
        let mut chunks = Vec::new();
        let mut from = 0;
        while let Some(chunk) = self.dirty.next(from) {
            self.mark_clean(chunk);
            chunks.push(chunk as u32);
            from = chunk + 1;
        }
        chunks
    }

    /// Start and length of an extent, counted from the first block of the map.
    pub(super) fn position(&self, extent: Extent) -> Result<(u64, u64), SpaceError> {
        let start = extent.start.checked_sub(self.extent.start);
        match start {
            Some(start) if start <= self.total() && extent.count <= self.total() - start => {
                Ok((start, extent.count))
            }
            _ => Err(SpaceError::OutOfRange { extent, space: self.extent }),
        }
    }

    pub(super) fn all_free(&self, start: u64, count: u64) -> Result<(), SpaceError> {
        self.refuse(start, count, |word| !self.words[word])
            .map_err(|block| SpaceError::Used { block })
    }

    pub(super) fn all_used(&self, start: u64, count: u64) -> Result<(), SpaceError> {
        self.refuse(start, count, |word| self.words[word])
            .map_err(|block| SpaceError::Free { block })
    }

    /// Fails with the first block of a run whose bit is set in what `refused` returns for its word.
    pub(super) fn refuse(
        &self,
        start: u64,
        count: u64,
        refused: impl Fn(usize) -> u64,
    ) -> Result<(), u64> {
        for (word, bits) in words(start, count) {
            let bits = bits & refused(word);
            if bits != 0 {
                return Err(self.block(word, u64::from(bits.trailing_zeros())));
            }
        }
        Ok(())
    }

    /// Block of a bit.
    pub(super) fn block(&self, word: usize, bit: u64) -> u64 {
        self.extent.start + word as u64 * WORD + bit
    }

    /// Marks a run as used without making its chunk dirty.
    pub(super) fn use_run(&mut self, start: u64, count: u64) {
        for (word, bits) in words(start, count) {
            debug_assert_eq!(self.words[word] & bits, bits, "a block is used twice");
            self.store(word, self.words[word] & !bits);
        }
    }

    /// Marks blocks as free without making their chunk dirty.
    pub(super) fn free_bits(&mut self, word: usize, bits: u64) {
        debug_assert_eq!(self.words[word] & bits, 0, "a block is freed twice");
        self.store(word, self.words[word] | bits);
    }

    /// Marks the chunks of a run as dirty.
    pub(super) fn touch(&mut self, start: u64, count: u64) {
        if count > 0 {
            let (first, last) = (start / CHUNK_BLOCKS, (start + count - 1) / CHUNK_BLOCKS);
            (first..=last).for_each(|chunk| self.mark_dirty(chunk as usize));
        }
    }

    fn mark_dirty(&mut self, chunk: usize) {
        if !self.dirty.contains(chunk) {
            self.dirty.insert(chunk);
            self.dirty_chunks += 1;
        }
    }

    fn mark_clean(&mut self, chunk: usize) {
        if self.dirty.contains(chunk) {
            self.dirty.remove(chunk);
            self.dirty_chunks -= 1;
        }
    }

    fn overwrite(&mut self, word: usize, free: u64) {
        if self.words[word] != free {
            self.store(word, free);
            self.mark_dirty(word / CHUNK_WORDS);
        }
    }

    fn store(&mut self, word: usize, free: u64) {
        let before = std::mem::replace(&mut self.words[word], free);
        self.free += u64::from(free.count_ones());
        self.free -= u64::from(before.count_ones());
        if (before == 0) != (free == 0) {
            self.some.set(word, free != 0);
        }
        if (before == u64::MAX) != (free == u64::MAX) {
            self.whole.set(word, free == u64::MAX);
        }
    }

    /// Bits of a word that stand for blocks: all, except in the last word.
    pub(super) fn blocks_of(&self, word: usize) -> u64 {
        ones(self.total() - word as u64 * WORD)
    }

    fn words_of(&self, chunk: u32) -> std::ops::Range<usize> {
        let first = chunk as usize * CHUNK_WORDS;
        first..(first + CHUNK_WORDS).min(self.words.len())
    }

    /// Panics unless the summaries agree with the bits. Examines everything.
    pub fn check_invariants(&self) {
        for (word, &free) in self.words.iter().enumerate() {
            assert_eq!(free & !self.blocks_of(word), 0, "word {word} is free behind the end");
            assert_eq!(self.some.contains(word), free != 0, "wrong summary of word {word}");
            assert_eq!(self.whole.contains(word), free == u64::MAX, "wrong summary of word {word}");
        }
        let free = self.words.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        assert_eq!(self.free, free, "wrong number of free blocks");
        for index in [&self.some, &self.whole, &self.dirty, &self.frozen] {
            index.check_invariants();
        }
    }
}
