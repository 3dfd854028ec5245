//! Assembly of the data of a read from memory, device and holes, with its checksums.

use super::block_cache::RUN_BLOCKS_MAX;
use crate::checksum::crc32c;
use crate::device::{BLOCK, Extent};
use crate::object::{ExtentSegment, Mapped, SEGMENT_BLOCKS};
use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;
use store::ReadData;

const BLOCK_BYTES: u64 = BLOCK as u64;

/// Consecutive blocks of an object from one source.
#[derive(Debug)]
struct Part {
    /// Blocks of the object.
    blocks: Extent,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Hole,
    /// Content of the blocks in memory, in order.
    Memory(Vec<Bytes>),
    Device {
        block: u64,
        crcs: Vec<u32>,
        data: Option<Bytes>,
    },
}

#[derive(Debug)]
pub(crate) struct ReadJob {
    offset: u64,
    length: u64,
    parts: Vec<Part>,
    left: usize,
}

/// Damaged data of an object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DataFlaw {
    /// Range within the object, in bytes.
    pub offset: u64,
    /// Length of the range within the object, in bytes.
    pub length: u64,
    /// Place of the first block, and the expected checksum.
    pub place: (u64, u32),
    /// Set if the device failed to read it in several attempts.
    pub is_unreadable: bool,
}

pub(crate) enum Plan {
    Done(ReadData),
    Reads(ReadJob),
}

impl ReadJob {
    /// `segments` are the existing extent segments that the range touches.
    pub fn plan(
        segments: &BTreeMap<u32, ExtentSegment>,
        offset: u64,
        length: u64,
        mut in_memory: impl FnMut(&Mapped) -> Option<Bytes>,
    ) -> Plan {
        let blocks = super::data::blocks_of(offset, length);
        let mut job = ReadJob { offset, length, parts: Vec::new(), left: 0 };
        for block in blocks.start..blocks.end() {
            let segment = segments.get(&((block / SEGMENT_BLOCKS) as u32));
            match segment.and_then(|segment| segment.get(block % SEGMENT_BLOCKS)) {
                None => job.add_hole(block),
                Some(mapped) => match in_memory(&mapped) {
                    Some(data) => job.add_memory(block, data),
                    None => job.add_device(block, mapped.physical, mapped.crc),
                },
            }
        }
        let is_device = |part: &&Part| matches!(part.source, Source::Device { .. });
        job.left = job.parts.iter().filter(is_device).count();
        match job.left {
            0 => Plan::Done(job.finish(|_, _, _| {}).expect("memory needs no check")),
            _ => Plan::Reads(job),
        }
    }

    /// Reads to submit: index of the part, first block, number of blocks.
    pub fn device_reads(&self) -> impl Iterator<Item = (usize, (u64, u32))> + '_ {
        self.parts.iter().enumerate().filter_map(|(index, part)| match &part.source {
            Source::Device { block, .. } => Some((index, (*block, part.blocks.count as u32))),
            _ => None,
        })
    }

    /// Supplies the data of a part, or `None` if it is unreadable; true if this was the last part.
    pub fn supply(&mut self, part: usize, bytes: Option<Bytes>) -> bool {
        if let Source::Device { data, .. } = &mut self.parts[part].source {
            *data = bytes;
        }
        self.left -= 1;
        self.left == 0
    }

    /// Returns the data, or the damaged range of the object. `keep` receives short pieces that came
    /// from the device, with place and checksum.
    pub fn finish(self, mut keep: impl FnMut(u64, u32, Bytes)) -> Result<ReadData, DataFlaw> {
        for part in &self.parts {
            part.check()?;
            part.offer(&mut keep);
        }
        let extents = self.extents();
        let data = match &self.parts[..] {
            [Part { blocks, source: Source::Device { data: Some(data), .. } }] => {
                self.clip(blocks, data)
            }
            [Part { blocks, source: Source::Memory(pieces) }] if pieces.len() == 1 => {
                self.clip(blocks, &pieces[0])
            }
            parts => self.gather(parts),
        };
        Ok(ReadData { data, extents })
    }

    fn clip(&self, blocks: &Extent, data: &Bytes) -> Bytes {
        let skip = (self.offset - blocks.start * BLOCK_BYTES) as usize;
        data.slice(skip..skip + self.length as usize)
    }

    fn gather(&self, parts: &[Part]) -> Bytes {
        let first = self.offset / BLOCK_BYTES;
        let count: u64 = parts.iter().map(|part| part.blocks.count).sum();
        let mut all = BytesMut::with_capacity(count as usize * BLOCK);
        for part in parts {
            match &part.source {
                Source::Hole => all.resize(all.len() + part.blocks.count as usize * BLOCK, 0),
                Source::Memory(pieces) => {
                    pieces.iter().for_each(|piece| all.extend_from_slice(piece))
                }
                Source::Device { data, .. } => {
                    all.extend_from_slice(data.as_ref().expect("checked before"));
                }
            }
        }
        self.clip(&Extent::new(first, count), &all.freeze())
    }

    /// Extents of data within the range, without holes.
    fn extents(&self) -> Vec<(u64, u64)> {
        let end = self.offset + self.length;
        let mut extents: Vec<(u64, u64)> = Vec::new();
        for part in self.parts.iter().filter(|part| !matches!(part.source, Source::Hole)) {
            let start = (part.blocks.start * BLOCK_BYTES).max(self.offset);
            let length = (part.blocks.end() * BLOCK_BYTES).min(end) - start;
            match extents.last_mut() {
                Some(last) if last.0 + last.1 == start => last.1 += length,
                _ => extents.push((start, length)),
            }
        }
        extents
    }

    fn last_for(&mut self, block: u64) -> Option<&mut Part> {
        self.parts.last_mut().filter(|part| part.blocks.end() == block)
    }

    fn add_hole(&mut self, block: u64) {
        match self.last_for(block) {
            Some(Part { blocks, source: Source::Hole }) => blocks.count += 1,
            _ => self.parts.push(Part { blocks: Extent::new(block, 1), source: Source::Hole }),
        }
    }

    fn add_memory(&mut self, block: u64, data: Bytes) {
        match self.last_for(block) {
            Some(Part { blocks, source: Source::Memory(pieces) }) => {
                blocks.count += 1;
                pieces.push(data);
            }
            _ => {
                let source = Source::Memory(vec![data]);
                self.parts.push(Part { blocks: Extent::new(block, 1), source });
            }
        }
    }

    fn add_device(&mut self, block: u64, place: u64, crc: u32) {
        match self.last_for(block) {
            Some(Part { blocks, source: Source::Device { block: start, crcs, .. } })
                if *start + blocks.count == place =>
            {
                blocks.count += 1;
                crcs.push(crc);
            }
            _ => {
                let source = Source::Device { block: place, crcs: vec![crc], data: None };
                self.parts.push(Part { blocks: Extent::new(block, 1), source });
            }
        }
    }
}

impl Part {
    fn offer(&self, keep: &mut impl FnMut(u64, u32, Bytes)) {
        let Source::Device { block, crcs, data: Some(data) } = &self.source else { return };
        match crcs[..] {
            [crc] => keep(*block, crc, data.clone()),
            _ if crcs.len() as u64 > RUN_BLOCKS_MAX => {}
            _ => {
                for ((block, crc), data) in (*block..).zip(crcs).zip(data.chunks(BLOCK)) {
                    keep(block, *crc, Bytes::copy_from_slice(data));
                }
            }
        }
    }

    /// Returns the damaged range of the object, if any.
    fn check(&self) -> Result<(), DataFlaw> {
        let Source::Device { block, crcs, data } = &self.source else { return Ok(()) };
        let flaw = |index: u64, count: u64| DataFlaw {
            offset: (self.blocks.start + index) * BLOCK_BYTES,
            length: count * BLOCK_BYTES,
            place: (block + index, crcs[index as usize]),
            is_unreadable: data.is_none(),
        };
        let Some(bytes) = data.as_ref().filter(|data| data.len() == crcs.len() * BLOCK) else {
            return Err(flaw(0, self.blocks.count));
        };
        let mut blocks = (0..).zip(bytes.chunks(BLOCK).zip(crcs));
        match blocks.find(|(_, (bytes, crc))| crc32c(bytes) != **crc) {
            Some((index, _)) => Err(flaw(index, 1)),
            None => Ok(()),
        }
    }
}
