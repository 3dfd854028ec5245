//! Changes of an object's data, block by block.
//!
//! Blocks are always written whole, so that one checksum covers each. A block that a write covers
//! only in part is read first, from memory if possible; bytes after an object's end are zeros.

use super::effects::Interrupt;
use super::execute::Executor;
use super::working::{segment_of, take_id};
use crate::checksum::crc32c;
use crate::device::{BLOCK, Extent};
use crate::object::{ExtentSegment, Mapped, SEGMENT_BLOCKS};
use bytes::{Bytes, BytesMut};
use stdx::AlignedBuffer;
use store::StoreError;

const BLOCK_BYTES: u64 = BLOCK as u64;

/// Bytes of a block that a range covers.
fn covered(block: u64, offset: u64, end: u64) -> std::ops::Range<usize> {
    let start = block * BLOCK_BYTES;
    let first = offset.saturating_sub(start).min(BLOCK_BYTES) as usize;
    let last = end.saturating_sub(start).min(BLOCK_BYTES) as usize;
    first..last
}

impl Executor<'_> {
    pub(super) fn write(
        &mut self,
        index: usize,
        offset: u64,
        data: &Bytes,
    ) -> Result<(), Interrupt> {
        if data.is_empty() {
            return Ok(());
        }
        let end = offset + data.len() as u64;
        let (first, last) = (offset / BLOCK_BYTES, (end - 1) / BLOCK_BYTES);
        self.load_for_change(index, first, last)?;
        if last - first < self.deferred_blocks {
            self.write_small(index, offset, data, first, last)?;
        } else {
            self.write_large(index, offset, data, first, last)?;
        }
        if self.working.object(index).size() < end {
            self.onode_mut(index).size = end;
        }
        Ok(())
    }

    /// Punches holes where the range covers whole blocks.
    pub(super) fn zero(&mut self, index: usize, offset: u64, length: u64) -> Result<(), Interrupt> {
        let size = self.working.object(index).size();
        let end = offset.saturating_add(length).min(size);
        if offset >= end {
            return Ok(());
        }
        let (first, last) = (offset / BLOCK_BYTES, (end - 1) / BLOCK_BYTES);
        self.load_for_change(index, first, last)?;
        // Bytes after the object's end are zeros already, so its last block is covered whole.
        let reach = if end == size { (last + 1) * BLOCK_BYTES } else { end };
        let whole_first = offset.div_ceil(BLOCK_BYTES);
        let whole_end = reach / BLOCK_BYTES;
        if whole_first < whole_end {
            self.clear_blocks(index, whole_first, whole_end)?;
        }
        let edges = [Some(first), (last != first).then_some(last)];
        for block in edges.into_iter().flatten() {
            if !(whole_first..whole_end).contains(&block) {
                self.zero_part(index, block, covered(block, offset, reach))?;
            }
        }
        Ok(())
    }

    pub(super) fn truncate(&mut self, index: usize, size: u64) -> Result<(), Interrupt> {
        let before = self.working.object(index).size();
        if size < before {
            self.working.load_all_segments(self.meta, index)?;
            self.working.load_shared(self.meta, index)?;
            self.clear_blocks(index, size.div_ceil(BLOCK_BYTES), before.div_ceil(BLOCK_BYTES))?;
            let kept = (size % BLOCK_BYTES) as usize;
            if kept > 0 {
                self.zero_part(index, size / BLOCK_BYTES, kept..BLOCK)?;
            }
        }
        self.onode_mut(index).size = size;
        Ok(())
    }

    /// Makes `to`, which has no data, share all blocks of `from`.
    pub(super) fn share_data(&mut self, from: usize, to: usize) -> Result<(), Interrupt> {
        let numbers: Vec<u32> = self.working.object(from).segments.keys().copied().collect();
        for number in numbers {
            let segment = &self.working.object(from).segments[&number].segment;
            let (shared, owned): (Vec<_>, Vec<_>) =
                segment.extents().into_iter().partition(|replaced| replaced.shared != 0);
            for replaced in shared {
                self.working.add_reference(replaced.shared, replaced.physical)?;
            }
            if !owned.is_empty() {
                let id = take_id(&mut self.counters.next_id);
                let segment = self.working.object(from).segment_mut(number);
                let owned = segment.share(id);
                self.working.begin_sharing(id, owned)?;
            }
            let copy = ExtentSegment::clone(&self.working.object(from).segments[&number].segment);
            *self.working.object(to).segment_mut(number) = copy;
        }
        Ok(())
    }

    pub(super) fn load_for_change(
        &mut self,
        index: usize,
        first: u64,
        last: u64,
    ) -> Result<(), Interrupt> {
        self.working.load_segments(self.meta, index, first, last)?;
        self.working.load_shared(self.meta, index)
    }

    fn write_small(
        &mut self,
        index: usize,
        offset: u64,
        data: &Bytes,
        first: u64,
        last: u64,
    ) -> Result<(), Interrupt> {
        // Partly replaced blocks must be read before anything changes.
        let images: smallvec::SmallVec<[Bytes; 8]> = (first..=last)
            .map(|block| self.image(index, block, offset, data))
            .collect::<Result<_, _>>()?;
        let mut fresh = 0;
        for (block, image) in (first..=last).zip(&images) {
            match self.own_place(index, block) {
                Some(place) => {
                    let crc = crc32c(image);
                    let (segment, at) = segment_of(block);
                    self.working.object(index).segment_mut(segment).set_crc(at, crc);
                    self.effects.write_small(place, crc, image.clone());
                }
                None => fresh += 1,
            }
        }
        if fresh == 0 {
            return Ok(());
        }
        let extents = self.allocate(fresh)?;
        let mut places = extents.iter().flat_map(|extent| extent.start..extent.end());
        for (block, image) in (first..=last).zip(images) {
            if self.own_place(index, block).is_some() {
                continue;
            }
            let place = places.next().expect("as many as were counted");
            let crc = crc32c(&image);
            self.map(index, block, place, &[crc])?;
            self.effects.write_small(place, crc, image);
        }
        Ok(())
    }

    /// A large write: data goes to fresh blocks, so that a crash leaves the old ones intact.
    fn write_large(
        &mut self,
        index: usize,
        offset: u64,
        data: &Bytes,
        first: u64,
        last: u64,
    ) -> Result<(), Interrupt> {
        let image = self.large_image(index, offset, data, first, last)?;
        let crcs: Vec<u32> = image.chunks(BLOCK).map(crc32c).collect();
        let extents = self.allocate(last - first + 1)?;
        let mut block = first;
        for extent in extents {
            let skipped = (block - first) as usize;
            let range = skipped..skipped + extent.count as usize;
            self.map(index, block, extent.start, &crcs[range.clone()])?;
            let bytes = image.slice(range.start * BLOCK..range.end * BLOCK);
            self.effects.write_large(extent, &crcs[range], bytes);
            block += extent.count;
        }
        Ok(())
    }

    /// New content of all blocks that the data touches, in aligned memory.
    fn large_image(
        &mut self,
        index: usize,
        offset: u64,
        data: &Bytes,
        first: u64,
        last: u64,
    ) -> Result<Bytes, Interrupt> {
        let aligned = |value: usize| value.is_multiple_of(BLOCK);
        if aligned(offset as usize) && aligned(data.len()) && aligned(data.as_ptr() as usize) {
            return Ok(data.clone());
        }
        let mut buffer = AlignedBuffer::zeroed(((last - first + 1) as usize) * BLOCK);
        let skip = (offset - first * BLOCK_BYTES) as usize;
        for block in [first, last] {
            let part = covered(block, offset, offset + data.len() as u64);
            let end = block * BLOCK_BYTES + part.end as u64;
            let is_rest = part.start == 0 && end >= self.working.object(index).size();
            if part.len() < BLOCK
                && !is_rest
                && let Some(old) = self.old_block(index, block)?
            {
                let at = (block - first) as usize * BLOCK;
                buffer[at..at + BLOCK].copy_from_slice(&old);
            }
        }
        buffer[skip..skip + data.len()].copy_from_slice(data);
        Ok(buffer.into())
    }

    /// New content of a block after `data` is copied into it.
    fn image(
        &mut self,
        index: usize,
        block: u64,
        offset: u64,
        data: &Bytes,
    ) -> Result<Bytes, Interrupt> {
        let part = covered(block, offset, offset + data.len() as u64);
        let from = (block * BLOCK_BYTES + part.start as u64 - offset) as usize;
        let piece = data.slice(from..from + part.len());
        if part.len() == BLOCK {
            return Ok(piece);
        }
        // Bytes after the object's end need no read.
        let size = self.working.object(index).size();
        let is_rest = part.start == 0 && block * BLOCK_BYTES + part.end as u64 >= size;
        let old = if is_rest { None } else { self.old_block(index, block)? };
        let mut image = match old {
            Some(old) => BytesMut::from(&old[..]),
            None => BytesMut::zeroed(BLOCK),
        };
        image[part].copy_from_slice(&piece);
        Ok(image.freeze())
    }

    /// Zeroes a part of a block, unless it is a hole.
    fn zero_part(
        &mut self,
        index: usize,
        block: u64,
        part: std::ops::Range<usize>,
    ) -> Result<(), Interrupt> {
        if part.is_empty() || self.mapped(index, block).is_none() {
            return Ok(());
        }
        let zeros = Bytes::from(vec![0; part.len()]);
        let offset = block * BLOCK_BYTES + part.start as u64;
        self.write_small(index, offset, &zeros, block, block)
    }

    fn mapped(&mut self, index: usize, block: u64) -> Option<Mapped> {
        let (segment, at) = segment_of(block);
        self.working.object(index).segments.get(&segment)?.segment.get(at)
    }

    /// Place of the block, if this object alone refers to it.
    fn own_place(&mut self, index: usize, block: u64) -> Option<u64> {
        let mapped = self.mapped(index, block)?;
        (mapped.shared == 0).then_some(mapped.physical)
    }

    /// Current content of a block; `None` if it is a hole.
    fn old_block(&mut self, index: usize, block: u64) -> Result<Option<Bytes>, Interrupt> {
        let Some(Mapped { physical, crc, .. }) = self.mapped(index, block) else { return Ok(None) };
        if let Some(own) = self.effects.written(physical) {
            return Ok(Some(own));
        }
        if let Some(data) = self.contents.unwritten(physical) {
            return Ok(Some(data));
        }
        match self.loaded.blocks.get(&physical) {
            Some(read) if crc32c(read) == crc => Ok(Some(read.clone())),
            _ => {
                let object = self.working.object(index).name.clone();
                let (offset, length) = (block * BLOCK_BYTES, BLOCK_BYTES);
                let fault = StoreError::Corrupt { object, offset, length };
                Err(Interrupt::Block { block: physical, fault })
            }
        }
    }

    /// Maps blocks of the object from `block` on to `place` and its successors.
    pub(super) fn map(
        &mut self,
        index: usize,
        block: u64,
        place: u64,
        crcs: &[u32],
    ) -> Result<(), Interrupt> {
        if self.working.object(index).onode.is_none() {
            self.onode_mut(index);
        }
        let mut done = 0;
        while done < crcs.len() as u64 {
            let (number, at) = segment_of(block + done);
            let count = (SEGMENT_BLOCKS - at).min(crcs.len() as u64 - done);
            let part = &crcs[done as usize..(done + count) as usize];
            let segment = self.working.object(index).segment_mut(number);
            for replaced in segment.map(at, place + done, part) {
                self.working.release(&mut self.effects, replaced)?;
            }
            done += count;
        }
        Ok(())
    }

    /// Punches holes from block `first` to `end` (exclusive), whose extent segments are loaded.
    fn clear_blocks(&mut self, index: usize, first: u64, end: u64) -> Result<(), Interrupt> {
        if first >= end {
            return Ok(());
        }
        let numbers = segment_of(first).0..=segment_of(end - 1).0;
        let known = self.working.object(index).segments.range(numbers);
        let known: Vec<u32> = known.map(|(number, _)| *number).collect();
        for number in known {
            let start = u64::from(number) * SEGMENT_BLOCKS;
            let range = first.saturating_sub(start)..(end - start).min(SEGMENT_BLOCKS);
            let segment = self.working.object(index).segment_mut(number);
            for replaced in segment.clear(range) {
                self.working.release(&mut self.effects, replaced)?;
            }
        }
        Ok(())
    }
}

/// Extent of blocks that a range of bytes touches.
pub(crate) fn blocks_of(offset: u64, length: u64) -> Extent {
    if length == 0 {
        return Extent::default();
    }
    let first = offset / BLOCK_BYTES;
    Extent::new(first, (offset + length - 1) / BLOCK_BYTES - first + 1)
}
