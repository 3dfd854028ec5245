//! Snapshot of the bitmap, taken a few chunks at a time while blocks are allocated and freed.
//!
//! When a snapshot begins, the chunks that changed since the previous one are *frozen*. The
//! snapshot contains their state at that time: before a frozen chunk changes, it is copied. So
//! beginning a snapshot and each further piece cost the same however many chunks there are.

use super::Space;
use super::bits::words;
use super::map::{CHUNK_BLOCKS, CHUNK_BYTES};
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

impl Space {
    /// Begins a snapshot of the chunks that changed since the previous one began, in their current
    /// state. The previous one must have been taken to its end.
    pub fn begin_snapshot(&mut self) {
        assert!(self.snapshot.kept.is_empty(), "the snapshot before was not taken");
        self.map.freeze();
        self.snapshot.next = 0;
    }

    /// Chunks of the snapshot that were not taken yet.
    pub fn snapshot_chunks(&self) -> u64 {
        self.map.frozen_chunks() + self.snapshot.kept.len() as u64
    }

    /// Takes at most `chunks_max` chunks of the snapshot, in no particular order, in stored form:
    /// logically free blocks are free. Empty if all were taken.
    pub fn take_snapshot(&mut self, chunks_max: usize) -> Vec<StoredChunk> {
        let kept = self.snapshot.kept.len().min(chunks_max);
        let mut taken: Vec<StoredChunk> = self.snapshot.kept.drain(..kept).collect();
        while taken.len() < chunks_max
            && let Some(chunk) = self.map.next_frozen(self.snapshot.next)
        {
            self.map.thaw(chunk);
            self.snapshot.next = chunk + 1;
            taken.push((chunk, self.logical_chunk(chunk, &[])));
        }
        taken
    }

    /// The chunks that changed since the last snapshot, all at once and in order.
    pub fn snapshot_dirty(&mut self) -> Vec<StoredChunk> {
        self.begin_snapshot();
        self.take_snapshot(usize::MAX)
    }

    /// Copies frozen chunks before blocks in them change.
    pub(super) fn keep(&mut self, start: u64, count: u64) {
        if self.map.frozen_chunks() == 0 || count == 0 {
            return;
        }
        for chunk in start / CHUNK_BLOCKS..=(start + count - 1) / CHUNK_BLOCKS {
            self.keep_chunk(chunk as u32, &[]);
        }
    }

    /// Copies frozen chunks in which free blocks were just allocated.
    pub(super) fn keep_before(&mut self, allocated: &[Extent]) {
        if self.map.frozen_chunks() == 0 {
            return;
        }
        for extent in allocated {
            let (start, count) =
                self.map.position(*extent).expect("allocated blocks lie in the space");
            for chunk in start / CHUNK_BLOCKS..=(start + count - 1) / CHUNK_BLOCKS {
                self.keep_chunk(chunk as u32, allocated);
            }
        }
    }

    fn keep_chunk(&mut self, chunk: u32, were_free: &[Extent]) {
        if self.map.thaw(chunk) {
            let bits = self.logical_chunk(chunk, were_free);
            self.snapshot.kept.push((chunk, bits));
        }
    }

    fn logical_chunk(&self, chunk: u32, were_free: &[Extent]) -> [u8; CHUNK_BYTES] {
        if self.unready.count() == 0 && were_free.is_empty() {
            return self.map.chunk(chunk);
        }
        let first = u64::from(chunk) * CHUNK_BLOCKS;
        let mut more = [0; CHUNK_BYTES / 8];
        for extent in were_free {
            let (start, count) = self.map.position(*extent).expect("the caller has looked");
            let (start, end) = (start.max(first), (start + count).min(first + CHUNK_BLOCKS));
            if start < end {
                words(start - first, end - start).for_each(|(word, bits)| more[word] |= bits);
            }
        }
        let base = chunk as usize * more.len();
        self.map.encode_chunk(chunk, |word| self.unready.get(word) | more[word - base])
    }
}
