//! Changes the states of a few objects in place: only the blocks of the map that hold them are
//! read, and only the bytes that change and their checksums are written.

use super::bits::{self, BLOCK, HEADER_LEN, ObjectMap, STATES_PER_BYTE, checksum};
use super::stored::{read, state, write};
use crate::object::{Failure, ObjectContext, Result};
use bytes::Bytes;
use codec::Reader;
use std::ops::Range;
use types::Errno;

/// Behind the states: the footer's length, the checksum of the header, the number of blocks.
const FOOTER_FIXED: usize = 12;
const CHECKSUM: usize = 4;

/// First object, the one behind the last, the new state, and the one that it replaces.
type Input = (u64, u64, u8, Option<u8>);

pub(super) fn update(object: &mut dyn ObjectContext, input: Input) -> Result<()> {
    let (first, end, new, expected) = input;
    let size = object.size()? as usize;
    let next = |old| next(old, new, expected);
    if let Some(layout) = Layout::of(size)
        && first < end
        && end <= layout.states_max()
    {
        let part = Part::load(object, &layout, first..end)?;
        if part.len().is_some_and(|len| len.div_ceil(STATES_PER_BYTE) == layout.bytes as u64) {
            part.check(end)?;
            return part.update(object, first..end, next);
        }
    }
    update_whole(object, first..end, next)
}

fn next(old: u8, new: u8, expected: Option<u8>) -> u8 {
    let applies = match expected {
        None => true,
        Some(state::EXISTS) => old == state::EXISTS || old == state::EXISTS_CLEAN,
        Some(expected) => old == expected,
    };
    if applies { new & 3 } else { old }
}

/// For maps in another layout than this class writes, and for invalid ranges.
fn update_whole(
    object: &mut dyn ObjectContext,
    range: Range<u64>,
    next: impl Fn(u8) -> u8,
) -> Result<()> {
    let mut map = match read(object) {
        Err(Failure::Errno(Errno::NOENT)) => return Err(Errno::INVAL.into()),
        outcome => outcome?,
    };
    if range.is_empty() || range.end > map.len() {
        return Err(Errno::RANGE.into());
    }
    let changed = map.replace(|number, old| if range.contains(&number) { next(old) } else { old });
    if changed { write(object, &map) } else { Ok(()) }
}

/// Layout of a stored map, which follows from its size.
struct Layout {
    bytes: usize,
}

impl Layout {
    fn of(size: usize) -> Option<Layout> {
        let rest = size.checked_sub(HEADER_LEN + FOOTER_FIXED)?;
        let blocks = rest.div_ceil(BLOCK + CHECKSUM);
        let bytes = rest.checked_sub(blocks * CHECKSUM)?;
        (bytes.div_ceil(BLOCK) == blocks).then_some(Layout { bytes })
    }

    fn states_max(&self) -> u64 {
        self.bytes as u64 * STATES_PER_BYTE
    }

    fn checksum_at(&self, block: usize) -> usize {
        HEADER_LEN + self.bytes + FOOTER_FIXED + block * CHECKSUM
    }
}

/// The blocks that hold a range of objects.
struct Part {
    header: Bytes,
    footer: Bytes,
    first_block: usize,
    states: Bytes,
    checksums_at: usize,
    checksums: Bytes,
}

impl Part {
    /// Everything is requested before anything is examined, so that it is loaded at once.
    fn load(object: &mut dyn ObjectContext, layout: &Layout, range: Range<u64>) -> Result<Part> {
        let first_block = (range.start / STATES_PER_BYTE) as usize / BLOCK;
        let end_block = ((range.end - 1) / STATES_PER_BYTE) as usize / BLOCK + 1;
        let bytes = first_block * BLOCK..(end_block * BLOCK).min(layout.bytes);
        let checksums_at = layout.checksum_at(first_block);
        let wanted = [
            0..HEADER_LEN,
            HEADER_LEN + layout.bytes..layout.checksum_at(0),
            HEADER_LEN + bytes.start..HEADER_LEN + bytes.end,
            checksums_at..layout.checksum_at(end_block),
        ];
        let [header, footer, states, checksums] = wanted.map(|range| {
            let read = object.read(range.start as u64, range.len() as u64)?;
            if read.len() == range.len() { Ok(read) } else { Err(Failure::Errno(Errno::IO)) }
        });
        let (header, footer) = (header?, footer?);
        let (states, checksums) = (states?, checksums?);
        Ok(Part { header, footer, first_block, states, checksums_at, checksums })
    }

    fn encoded_header(&self) -> Option<&[u8]> {
        Reader::new(&self.header).blob("header").ok()
    }

    /// Number of objects in the map.
    fn len(&self) -> Option<u64> {
        ObjectMap::decode_header(self.encoded_header()?).ok()
    }

    /// EINVAL if the map is damaged, ERANGE if it has too few objects.
    fn check(&self, end: u64) -> Result<()> {
        let header = self.encoded_header().map(|header| checksum(header).to_le_bytes());
        let blocks = self.states.chunks(BLOCK).map(|block| checksum(block).to_le_bytes());
        let intact = self.footer.get(4..8) == header.as_ref().map(|checksum| &checksum[..])
            && blocks.flatten().eq(self.checksums.iter().copied());
        match intact {
            false => Err(Errno::INVAL.into()),
            true if self.len().is_none_or(|len| end > len) => Err(Errno::RANGE.into()),
            true => Ok(()),
        }
    }

    fn update(
        self,
        object: &mut dyn ObjectContext,
        range: Range<u64>,
        next: impl Fn(u8) -> u8,
    ) -> Result<()> {
        let mut states = self.states.to_vec();
        let base = (self.first_block * BLOCK) as u64 * STATES_PER_BYTE;
        let mut changed: Option<Range<usize>> = None;
        for number in range {
            let index = ((number - base) / STATES_PER_BYTE) as usize;
            let old = bits::get(states[index], number);
            let new = next(old);
            if new != old {
                bits::set(&mut states[index], number, new);
                changed = Some(changed.map_or(index, |range| range.start)..index + 1);
            }
        }
        let Some(changed) = changed else { return Ok(()) };
        let blocks = changed.start / BLOCK..(changed.end - 1) / BLOCK + 1;
        let end = (blocks.end * BLOCK).min(states.len());
        let checksums = states[blocks.start * BLOCK..end].chunks(BLOCK);
        let checksums: Vec<u8> =
            checksums.flat_map(|block| checksum(block).to_le_bytes()).collect();
        let states_at = HEADER_LEN + self.first_block * BLOCK + changed.start;
        object.write(states_at as u64, Bytes::copy_from_slice(&states[changed]))?;
        let checksums_at = self.checksums_at + blocks.start * CHECKSUM;
        object.write(checksums_at as u64, checksums.into())
    }
}
