//! Read-ahead in the ring: chunks in flight and their content.

use crate::device::{BLOCK, Extent};
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;

/// Blocks of one read.
pub(super) const CHUNK_BLOCKS: u64 = 256;
/// Number of reads in flight.
pub(super) const READS_MAX: usize = 4;
/// Distance of reads beyond the batch that is searched for, unless the batch is longer.
const AHEAD_BLOCKS: u64 = CHUNK_BLOCKS * READS_MAX as u64;

/// The part of the ring that was requested and is still needed, in order.
#[derive(Debug)]
pub(super) struct Window {
    area: Extent,
    /// Position where the ring would be read for the second time.
    limit: u64,
    /// Adjacent chunks up to `end`.
    chunks: VecDeque<Chunk>,
    end: u64,
    reads: usize,
}

#[derive(Debug)]
struct Chunk {
    position: u64,
    blocks: u64,
    state: ChunkState,
}

#[derive(Debug)]
enum ChunkState {
    Wanted,
    Asked,
    Here(Bytes),
    /// A single unreadable block.
    Unreadable,
}

/// Reason why blocks of the window cannot be returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    NotYet,
    Unreadable { block: u64 },
}

impl Window {
    /// Reads the ring `area` from position `from` on, once around at most.
    pub fn new(area: Extent, from: u64) -> Window {
        let limit = from.saturating_add(area.count);
        Window { area, limit, chunks: VecDeque::new(), end: from, reads: 0 }
    }

    /// Position where the ring would be read for the second time.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Blocks of the ring.
    pub fn ring_blocks(&self) -> u64 {
        self.area.count
    }

    /// Next run of blocks to read for a batch at `position` with `blocks` blocks as far as is
    /// known.
    pub fn next_read(&mut self, position: u64, blocks: u64) -> Option<(u64, u64)> {
        if self.reads == READS_MAX {
            return None;
        }
        let wanted = self.limit.min(position.saturating_add(blocks.max(AHEAD_BLOCKS)));
        let is_wanted = |chunk: &Chunk| matches!(chunk.state, ChunkState::Wanted);
        let index = match self.chunks.iter().position(is_wanted) {
            Some(index) => index,
            None if self.end < wanted => self.extend(),
            None => return None,
        };
        self.reads += 1;
        self.chunks[index].state = ChunkState::Asked;
        let Chunk { position, blocks, .. } = self.chunks[index];
        Some((self.block(position), blocks))
    }

    /// Adds a chunk that ends at the end of the ring at the latest, and returns its index.
    fn extend(&mut self) -> usize {
        let to_end = self.area.count - self.end % self.area.count;
        let blocks = CHUNK_BLOCKS.min(to_end).min(self.limit - self.end);
        self.chunks.push_back(Chunk { position: self.end, blocks, state: ChunkState::Wanted });
        self.end += blocks;
        self.chunks.len() - 1
    }

    /// Completes a read of the blocks from `block` on; panics if the length differs from the
    /// request.
    pub fn supply(&mut self, block: u64, bytes: Bytes) {
        let Some(index) = self.chunk_in_flight(block) else { return };
        let chunk = &mut self.chunks[index];
        assert_eq!(
            bytes.len() as u64,
            chunk.blocks * BLOCK as u64,
            "reads return as many bytes as requested"
        );
        chunk.state = ChunkState::Here(bytes);
    }

    /// Repeats a failed chunk block by block, so that a bad block behind the end of the log does no
    /// harm.
    pub fn supply_failed(&mut self, block: u64) {
        let Some(index) = self.chunk_in_flight(block) else { return };
        let Chunk { position, blocks, .. } = self.chunks[index];
        if blocks == 1 {
            self.chunks[index].state = ChunkState::Unreadable;
            return;
        }
        let mut behind = self.chunks.split_off(index + 1);
        self.chunks.pop_back();
        let single = |position| Chunk { position, blocks: 1, state: ChunkState::Wanted };
        self.chunks.extend((position..position + blocks).map(single));
        self.chunks.append(&mut behind);
    }

    /// Drops the content of these blocks, so that they are read again.
    pub fn read_again(&mut self, position: u64, blocks: u64) {
        let end = position.saturating_add(blocks);
        for chunk in &mut self.chunks {
            let is_within = chunk.position < end && position < chunk.position + chunk.blocks;
            if is_within && matches!(chunk.state, ChunkState::Here(_)) {
                chunk.state = ChunkState::Wanted;
            }
        }
    }

    /// The chunk whose read completes now.
    fn chunk_in_flight(&mut self, block: u64) -> Option<usize> {
        let index = self.chunks.iter().position(|chunk| {
            matches!(chunk.state, ChunkState::Asked) && self.block(chunk.position) == block
        });
        self.reads -= usize::from(index.is_some());
        index
    }

    /// Block of the device at a position.
    pub fn block(&self, position: u64) -> u64 {
        self.area.start + position % self.area.count
    }

    /// Drops the chunks before `position`.
    pub fn forget(&mut self, position: u64) {
        let is_past = |chunk: &Chunk| chunk.position + chunk.blocks <= position;
        while self.chunks.front().is_some_and(is_past) {
            self.chunks.pop_front();
        }
    }

    /// Set if reads of all these blocks have completed.
    pub fn is_settled(&self, position: u64, blocks: u64) -> bool {
        let end = position + blocks;
        let is_open = |chunk: &Chunk| matches!(chunk.state, ChunkState::Wanted | ChunkState::Asked);
        self.end >= end && !self.chunks_of(position, blocks).any(is_open)
    }

    /// One block, as a slice of the read buffer.
    pub fn get(&self, position: u64) -> Result<Bytes, Missing> {
        self.piece(position, 1)
    }

    /// Adjacent blocks, copied if they were not read in one piece.
    pub fn get_all(&self, position: u64, blocks: u64) -> Result<Bytes, Missing> {
        let piece = self.piece(position, blocks)?;
        if piece.len() as u64 == blocks * BLOCK as u64 {
            return Ok(piece);
        }
        let mut all = BytesMut::with_capacity(blocks as usize * BLOCK);
        let end = position + blocks;
        let mut at = position;
        while at < end {
            let piece = self.piece(at, end - at)?;
            at += (piece.len() / BLOCK) as u64;
            all.extend_from_slice(&piece);
        }
        Ok(all.freeze())
    }

    /// Those of the blocks that lie in the same chunk as the first.
    fn piece(&self, position: u64, blocks: u64) -> Result<Bytes, Missing> {
        let Some(chunk) = self.chunks_of(position, 1).next() else { return Err(Missing::NotYet) };
        let bytes = match &chunk.state {
            ChunkState::Wanted | ChunkState::Asked => return Err(Missing::NotYet),
            ChunkState::Unreadable => {
                return Err(Missing::Unreadable { block: self.block(position) });
            }
            ChunkState::Here(bytes) => bytes,
        };
        let skipped = position - chunk.position;
        let blocks = blocks.min(chunk.blocks - skipped);
        Ok(bytes.slice(skipped as usize * BLOCK..(skipped + blocks) as usize * BLOCK))
    }

    /// Chunks that contain any of these blocks.
    fn chunks_of(&self, position: u64, blocks: u64) -> impl Iterator<Item = &Chunk> {
        let first = self.chunks.partition_point(|chunk| chunk.position + chunk.blocks <= position);
        self.chunks.range(first..).take_while(move |chunk| chunk.position < position + blocks)
    }
}
