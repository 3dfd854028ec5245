//! Snapshot of the bitmap, taken a few chunks at a time while blocks are allocated and freed.
//!
//! When a snapshot begins, the chunks that changed since the previous one are *frozen*. The
//! snapshot contains their state at that time: before a frozen chunk changes, it is copied. So
//! beginning a snapshot and each further piece cost the same however many chunks there are.

use super::bits::words;
use super::map::{BlockMap, CHUNK_BLOCKS, CHUNK_BYTES};
use super::set::BlockSet;
use crate::device::Extent;

/// A chunk and its stored form.
pub type StoredChunk = (u32, [u8; CHUNK_BYTES]);

#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    /// Copied before they changed.
    kept: Vec<StoredChunk>,
    /// Frozen chunks before this one have been taken.
    next: u32,
}

impl Snapshot {
    pub(super) fn begin(&mut self, map: &mut BlockMap) {
        assert!(self.kept.is_empty(), "the snapshot before was not taken");
        map.freeze();
        self.next = 0;
    }

    pub(super) fn chunks_left(&self, map: &BlockMap) -> u64 {
        map.frozen_chunks() + self.kept.len() as u64
    }

    /// Takes chunks; `unready` blocks are stored as free.
    pub(super) fn take(
        &mut self,
        map: &mut BlockMap,
        unready: &BlockSet,
        chunks_max: usize,
    ) -> Vec<StoredChunk> {
        let kept = self.kept.len().min(chunks_max);
        let mut taken: Vec<StoredChunk> = self.kept.drain(..kept).collect();
        while taken.len() < chunks_max
            && let Some(chunk) = map.next_frozen(self.next)
        {
            map.thaw(chunk);
            self.next = chunk + 1;
            taken.push((chunk, logical_chunk(map, unready, chunk, &[])));
        }
        taken
    }

    /// Copies frozen chunks before blocks in them change.
    pub(super) fn keep(&mut self, map: &mut BlockMap, unready: &BlockSet, start: u64, count: u64) {
        if map.frozen_chunks() == 0 || count == 0 {
            return;
        }
        for chunk in start / CHUNK_BLOCKS..=(start + count - 1) / CHUNK_BLOCKS {
            self.keep_chunk(map, unready, chunk as u32, &[]);
        }
    }

    /// Copies frozen chunks in which free blocks were just allocated.
    pub(super) fn keep_before(
        &mut self,
        map: &mut BlockMap,
        unready: &BlockSet,
        allocated: &[Extent],
    ) {
        if map.frozen_chunks() == 0 {
            return;
        }
        for extent in allocated {
            let (start, count) = map.position(*extent).expect("allocated blocks lie in the space");
            for chunk in start / CHUNK_BLOCKS..=(start + count - 1) / CHUNK_BLOCKS {
                self.keep_chunk(map, unready, chunk as u32, allocated);
            }
        }
    }

    fn keep_chunk(
        &mut self,
        map: &mut BlockMap,
        unready: &BlockSet,
        chunk: u32,
        were_free: &[Extent],
    ) {
        if map.thaw(chunk) {
            let bits = logical_chunk(map, unready, chunk, were_free);
            self.kept.push((chunk, bits));
        }
    }
}

/// Stored form of a chunk: unready blocks are free, and so are those of `were_free`.
fn logical_chunk(
    map: &BlockMap,
    unready: &BlockSet,
    chunk: u32,
    were_free: &[Extent],
) -> [u8; CHUNK_BYTES] {
    if unready.count() == 0 && were_free.is_empty() {
        return map.chunk(chunk);
    }
    let first = u64::from(chunk) * CHUNK_BLOCKS;
    let mut more = [0; CHUNK_BYTES / 8];
    for extent in were_free {
        let (start, count) = map.position(*extent).expect("the caller has looked");
        let (start, end) = (start.max(first), (start + count).min(first + CHUNK_BLOCKS));
        if start < end {
            words(start - first, end - start).for_each(|(word, bits)| more[word] |= bits);
        }
    }
    let base = chunk as usize * more.len();
    map.encode_chunk(chunk, |word| unready.get(word) | more[word - base])
}
