//! The data of one object: its size, where it lies, and a checksum for every block.
//!
//! Data is written in whole blocks only: a write of part of a block reads the rest, checks it, and
//! writes both. A block whose checksum is [`HOLE`] was never written and reads as zeros, whatever the
//! medium holds there; so slots and files need no cleaning before they are used again. The part of
//! the last block beyond the object's size is zeros.
//!
//! Everything here can be done twice: see the argument on replay in `docs/internals/file-store.md`.

use crate::media::{Location, Media};
use crate::slots::{Slots, class_for};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::io;
use store::ReadData;

/// The unit of checksums and of allocation.
pub const BLOCK: u64 = 4096;
/// The checksum of a block that was never written.
pub const HOLE: u32 = 0;
/// The checksum of a block whose content is lost. A write of a part does not make it valid, not even during a
/// replay.
pub const LOST: u32 = 2;
/// Bound for the size of an object in bytes, since its checksums are held in memory as a whole.
pub const OBJECT_SIZE_MAX: u64 = 4 << 30;
/// Checksums per stored chunk.
pub const SUMS_PER_CHUNK: usize = 64;
/// Holes smaller than this (bytes) are not punched.
const PUNCH_MIN: u64 = 64 << 10;

/// Context for changing data, owned by the thread that applies transactions.
#[derive(Debug)]
pub struct Hand<'a> {
    /// The files.
    pub media: &'a Media,
    /// Allocation of slots.
    pub slots: &'a mut Slots,
    /// Blocks in use by all objects.
    pub blocks: &'a mut u64,
    /// The log is being replayed: blocks may be newer than their checksums.
    pub replaying: bool,
}

/// The data of one object: its place, and the checksums of its blocks.
#[derive(Debug, Clone)]
pub struct Data {
    /// Size of the object in bytes.
    pub size: u64,
    /// Slot or file with the blocks.
    pub location: Location,
    /// By block; may be shorter than the object, whose rest is a hole then.
    sums: Vec<u32>,
    /// Chunks of checksums, except the first, that are not in the database yet.
    dirty_chunks: BTreeSet<u32>,
    /// Whether the database may have chunks besides the first.
    chunked: bool,
}

/// Reason why data could not be read.
#[derive(Debug)]
pub enum ReadError {
    /// The data is not in memory, and the caller does not allow waiting.
    WouldBlock,
    /// Blocks that do not match their checksums, or that the device failed to read.
    Corrupt {
        /// Start in bytes.
        offset: u64,
        /// Length in bytes.
        length: u64,
    },
}

impl Data {
    /// An object without data.
    pub fn empty() -> Self {
        Data::new(0, Location::Nowhere, Vec::new())
    }

    /// Makes data from its stored form.
    pub fn new(size: u64, location: Location, sums: Vec<u32>) -> Self {
        let chunked = sums.len() > SUMS_PER_CHUNK;
        Data { size, location, sums, dirty_chunks: BTreeSet::new(), chunked }
    }

    /// True if the database may have chunks besides the first.
    pub fn is_chunked(&self) -> bool {
        self.chunked
    }

    /// Checksums by block; behind their end is a hole.
    pub fn sums(&self) -> &[u32] {
        &self.sums
    }

    /// Blocks in use, without holes.
    pub fn blocks(&self) -> u64 {
        self.sums.iter().filter(|sum| **sum != HOLE).count() as u64
    }

    /// The checksums of a chunk.
    pub fn chunk(&self, number: u32) -> &[u32] {
        let start = (number as usize * SUMS_PER_CHUNK).min(self.sums.len());
        &self.sums[start..self.sums.len().min(start + SUMS_PER_CHUNK)]
    }

    /// Numbers of the chunks that the database needs; they count as clean afterwards.
    pub fn take_dirty_chunks(&mut self) -> BTreeSet<u32> {
        std::mem::take(&mut self.dirty_chunks)
    }

    /// Marks all chunks but the first as dirty: the object is a new copy.
    pub fn mark_all_dirty(&mut self) {
        self.dirty_chunks = (1..self.sums.len().div_ceil(SUMS_PER_CHUNK) as u32).collect();
    }

    /// Ranges in bytes that are not holes, within blocks `start..end`.
    pub fn runs(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let end = end.min(self.sums.len() as u64);
        for block in (start..end).filter(|block| self.sum(*block) != HOLE) {
            let offset = block * BLOCK;
            match runs.last_mut() {
                Some((first, length)) if *first + *length == offset => *length += BLOCK,
                _ => runs.push((offset, BLOCK)),
            }
        }
        runs
    }

    /// Reads and verifies a range of bytes. Holes are zeros.
    pub fn read(
        &self,
        media: &Media,
        offset: u64,
        length: u64,
        may_wait: bool,
    ) -> Result<ReadData, ReadError> {
        let end = offset.saturating_add(length).min(self.size);
        if offset >= end {
            return Ok(ReadData::default());
        }
        let (first, last) = (offset / BLOCK, end.div_ceil(BLOCK));
        let base = first * BLOCK;
        let mut buffer = vec![0; ((last - first) * BLOCK) as usize];
        let runs = self.runs(first, last);
        for &(start, length) in &runs {
            let part = &mut buffer[(start - base) as usize..][..length as usize];
            self.read_run(media, start, part, may_wait)?;
        }
        let clip = |(start, length): (u64, u64)| {
            let (from, to) = (start.max(offset), (start + length).min(end));
            (from, to - from)
        };
        let data = Bytes::from(buffer).slice((offset - base) as usize..(end - base) as usize);
        Ok(ReadData { data, extents: runs.into_iter().map(clip).collect() })
    }

    /// Ranges of bytes whose blocks do not match their checksums.
    pub fn verify(&self, media: &Media) -> Vec<(u64, u64)> {
        let mut bad = Vec::new();
        let mut buffer = vec![0; BLOCK as usize];
        for block in (0..self.sums.len() as u64).filter(|block| self.sum(*block) != HOLE) {
            if self.read_run(media, block * BLOCK, &mut buffer, true).is_err() {
                bad.push((block * BLOCK, BLOCK));
            }
        }
        bad
    }

    fn read_run(
        &self,
        media: &Media,
        start: u64,
        buffer: &mut [u8],
        may_wait: bool,
    ) -> Result<(), ReadError> {
        let length = buffer.len() as u64;
        if !media.read_cached(self.location, start, buffer) {
            if !may_wait {
                return Err(ReadError::WouldBlock);
            }
            let read = media.read(self.location, start, buffer);
            read.map_err(|_| ReadError::Corrupt { offset: start, length })?;
        }
        let sums = &self.sums[(start / BLOCK) as usize..];
        let mut blocks = buffer.chunks_exact(BLOCK as usize).zip(sums);
        match blocks.position(|(block, sum)| checksum(block) != *sum) {
            None => Ok(()),
            Some(at) => {
                let bad = 1 + blocks.take_while(|(block, sum)| checksum(block) != **sum).count();
                let (offset, length) = (start + at as u64 * BLOCK, bad as u64 * BLOCK);
                Err(ReadError::Corrupt { offset, length })
            }
        }
    }

    /// Writes a range of bytes; the object grows if it ends behind its end.
    pub fn write(
        &mut self,
        hand: &mut Hand<'_>,
        id: u64,
        offset: u64,
        data: &[u8],
    ) -> io::Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        let end = offset + data.len() as u64;
        self.make_room(hand, id, end)?;
        let head = (offset.next_multiple_of(BLOCK) - offset).min(data.len() as u64) as usize;
        let (head, rest) = data.split_at(head);
        let (middle, tail) = rest.split_at(rest.len() - rest.len() % BLOCK as usize);
        if !head.is_empty() {
            self.write_part(hand, offset, head)?;
        }
        if !middle.is_empty() {
            let start = offset + head.len() as u64;
            hand.media.write(self.location, start, middle)?;
            for (index, block) in middle.chunks_exact(BLOCK as usize).enumerate() {
                self.set_sum(hand, start / BLOCK + index as u64, checksum(block));
            }
        }
        if !tail.is_empty() {
            self.write_part(hand, end - tail.len() as u64, tail)?;
        }
        self.size = self.size.max(end);
        Ok(())
    }

    /// Makes a range of bytes zeros, and a hole where that saves space.
    pub fn zero(&mut self, hand: &mut Hand<'_>, offset: u64, length: u64) -> io::Result<()> {
        let end = offset.saturating_add(length).min(self.size);
        if offset >= end {
            return Ok(());
        }
        // A range that reaches the object's end covers its last block whole.
        let whole_end = if end == self.size { end.next_multiple_of(BLOCK) } else { end };
        let first_whole = offset.div_ceil(BLOCK);
        let last_whole = (whole_end / BLOCK).max(first_whole);
        let head_end = end.min(first_whole * BLOCK);
        self.zero_part(hand, offset, head_end)?;
        if whole_end / BLOCK >= first_whole {
            self.zero_part(hand, last_whole * BLOCK, end)?;
        }
        let known = self.sums.len() as u64;
        for block in first_whole..last_whole.min(known) {
            self.set_sum(hand, block, HOLE);
        }
        let length = (last_whole - first_whole) * BLOCK;
        match self.location {
            Location::File(id) if length >= PUNCH_MIN => {
                hand.media.punch(id, first_whole * BLOCK, length)
            }
            _ => Ok(()),
        }
    }

    /// Sets the size; new bytes are a hole.
    pub fn truncate(&mut self, hand: &mut Hand<'_>, size: u64) -> io::Result<()> {
        if size < self.size {
            let blocks = size.div_ceil(BLOCK);
            if !size.is_multiple_of(BLOCK) {
                self.zero_part(hand, size, blocks * BLOCK)?;
            }
            self.cut_sums(hand, blocks);
            if let Location::File(id) = self.location {
                hand.media.truncate(id, blocks * BLOCK)?;
            }
        }
        self.size = size;
        Ok(())
    }

    /// Gives up all data. The caller removes the file, if there is one.
    pub fn release(&mut self, hand: &mut Hand<'_>) {
        self.cut_sums(hand, 0);
        if let Location::Slot(slot) = self.location {
            hand.slots.release(slot);
        }
        *self = Data::empty();
    }

    /// Makes capacity for `end` bytes, moving the data if necessary.
    fn make_room(&mut self, hand: &mut Hand<'_>, id: u64, end: u64) -> io::Result<()> {
        if end <= self.location.capacity() {
            return Ok(());
        }
        let old = self.location;
        let new = match class_for(end) {
            Some(class) => Location::Slot(hand.slots.allocate(class)),
            None => {
                hand.media.create(id)?;
                Location::File(id)
            }
        };
        // To fail at an unreadable block would be to fail at each replay.
        for (offset, length) in self.runs(0, u64::MAX) {
            let unread = hand.media.read_in_parts(old, offset, length, |start, part| {
                hand.media.write(new, start, part)
            })?;
            unread.into_iter().for_each(|block| self.set_sum(hand, block, LOST));
        }
        if let Location::Slot(slot) = old {
            hand.slots.release(slot);
        }
        self.location = new;
        Ok(())
    }

    /// Writes within one block.
    fn write_part(&mut self, hand: &mut Hand<'_>, offset: u64, data: &[u8]) -> io::Result<()> {
        let block = offset / BLOCK;
        let start = block * BLOCK;
        let within = (offset - start) as usize;
        let mut buffer = [0; BLOCK as usize];
        // Bytes behind the object's size are zeros.
        let live_end = self.size.min(start + BLOCK);
        let covered = within == 0 && offset + data.len() as u64 >= live_end;
        let intact = covered || self.load_block(hand, block, &mut buffer);
        buffer[within..within + data.len()].copy_from_slice(data);
        hand.media.write(self.location, start, &buffer)?;
        // A partial write must not make a damaged block valid.
        self.set_sum(hand, block, if intact { checksum(&buffer) } else { LOST });
        Ok(())
    }

    /// Writes zeros within one block.
    fn zero_part(&mut self, hand: &mut Hand<'_>, offset: u64, end: u64) -> io::Result<()> {
        if offset >= end || self.sum(offset / BLOCK) == HOLE {
            return Ok(());
        }
        self.write_part(hand, offset, &[0; BLOCK as usize][..(end - offset) as usize])
    }

    /// Reads a block; false if it does not match its checksum.
    fn load_block(&self, hand: &Hand<'_>, block: u64, buffer: &mut [u8]) -> bool {
        match self.sum(block) {
            HOLE => return true,
            LOST => return false,
            _ => {}
        }
        let read = hand.media.read(self.location, block * BLOCK, buffer);
        read.is_ok() && (hand.replaying || checksum(buffer) == self.sum(block))
    }

    fn sum(&self, block: u64) -> u32 {
        self.sums.get(block as usize).copied().unwrap_or(HOLE)
    }

    fn set_sum(&mut self, hand: &mut Hand<'_>, block: u64, sum: u32) {
        let index = block as usize;
        if self.sums.len() <= index {
            self.sums.resize(index + 1, HOLE);
        }
        let old = std::mem::replace(&mut self.sums[index], sum);
        *hand.blocks = *hand.blocks + u64::from(sum != HOLE) - u64::from(old != HOLE);
        self.mark_dirty(index);
    }

    fn cut_sums(&mut self, hand: &mut Hand<'_>, blocks: u64) {
        let Some(cut) = self.sums.get(blocks as usize..) else { return };
        *hand.blocks -= cut.iter().filter(|sum| **sum != HOLE).count() as u64;
        let cut = blocks as usize..self.sums.len();
        self.dirty_chunks.extend(
            (cut.start / SUMS_PER_CHUNK..cut.end.div_ceil(SUMS_PER_CHUNK))
                .map(|chunk| chunk as u32)
                .filter(|chunk| *chunk > 0),
        );
        self.sums.truncate(blocks as usize);
    }

    fn mark_dirty(&mut self, index: usize) {
        let chunk = (index / SUMS_PER_CHUNK) as u32;
        if chunk > 0 {
            self.dirty_chunks.insert(chunk);
            self.chunked = true;
        }
    }
}

/// CRC-32C, except that the values of holes and of lost blocks become others.
pub fn checksum(block: &[u8]) -> u32 {
    match crc_fast::crc32_iscsi(block) {
        HOLE => 1,
        LOST => 3,
        sum => sum,
    }
}
