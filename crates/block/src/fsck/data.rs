//! Check of data checksums. Deferred writes that are still in the log are compared there.

use super::detail::Detail;
use super::finding::{FindingKind, Findings};
use super::references::push_block;
use crate::checksum::crc32c;
use crate::device::{BLOCK, Extent, ReadError};
use crate::object::{ExtentSegment, Run};
use bytes::Bytes;
use std::collections::BTreeMap;

const BLOCK_BYTES: u64 = BLOCK as u64;

/// Reads blocks of the main device.
pub(crate) type ReadData<'a> = dyn Fn(Extent) -> Result<Bytes, ReadError> + 'a;

pub(crate) struct DataCheck<'a> {
    read: &'a ReadData<'a>,
    /// Checksums of deferred writes in the log, by place.
    waiting: &'a BTreeMap<u64, u32>,
    /// Blocks that were read and compared.
    pub checked_blocks: u64,
}

/// Damaged data of an object, as blocks of the object.
#[derive(Default)]
struct Faults {
    wrong: Vec<Extent>,
    unreadable: Vec<Extent>,
}

impl<'a> DataCheck<'a> {
    /// `waiting` has the checksums of deferred writes, by place.
    pub fn new(read: &'a ReadData<'a>, waiting: &'a BTreeMap<u64, u32>) -> Self {
        DataCheck { read, waiting, checked_blocks: 0 }
    }

    /// Compares all blocks of an extent segment whose first block is `base` of the object.
    pub fn check(
        &mut self,
        id: u64,
        size: u64,
        base: u64,
        segment: &ExtentSegment,
        findings: &mut Findings,
    ) {
        let mut faults = Faults::default();
        let mut last = None;
        for run in segment.runs() {
            self.check_run(base, run, segment, &mut faults, &mut last);
        }
        for (kind, extents) in
            [(FindingKind::Data, faults.wrong), (FindingKind::DataUnreadable, faults.unreadable)]
        {
            for extent in extents {
                let (offset, length) = (extent.start * BLOCK_BYTES, extent.count * BLOCK_BYTES);
                let places = places_of(base, segment, extent);
                findings.add_of(kind, id, None, Detail::Data { offset, length, places });
            }
        }
        self.check_end(id, size, last, findings);
    }

    fn check_run(
        &mut self,
        base: u64,
        run: &Run,
        segment: &ExtentSegment,
        faults: &mut Faults,
        last: &mut Option<(u64, Bytes)>,
    ) {
        self.checked_blocks += run.count;
        let whole = (self.read)(run.extent());
        for (index, place) in (run.physical..run.extent().end()).enumerate() {
            let block = run.start + index as u64;
            let expected = segment.get(block).expect("blocks of runs are mapped").crc;
            if let Some(crc) = self.waiting.get(&place) {
                if crc.max(&1) != &expected.max(1) {
                    push_block(&mut faults.wrong, base + block);
                }
                continue;
            }
            let bytes = match &whole {
                Ok(whole) => Ok(whole.slice(index * BLOCK..(index + 1) * BLOCK)),
                Err(_) => (self.read)(Extent::new(place, 1)),
            };
            match bytes {
                Ok(bytes) if crc32c(&bytes).max(1) == expected.max(1) => {
                    *last = Some((base + block, bytes))
                }
                Ok(_) => push_block(&mut faults.wrong, base + block),
                Err(_) => push_block(&mut faults.unreadable, base + block),
            }
        }
    }

    /// Bytes after the object's end must be zeros, because the object may grow over them.
    fn check_end(&self, id: u64, size: u64, last: Option<(u64, Bytes)>, findings: &mut Findings) {
        let kept = (size % BLOCK_BYTES) as usize;
        let Some((_, bytes)) = last.filter(|(block, _)| kept > 0 && *block == size / BLOCK_BYTES)
        else {
            return;
        };
        if bytes[kept..].iter().any(|byte| *byte != 0) {
            findings.add_of(FindingKind::DataBehindEnd, id, None, Detail::DataBehindEnd { size });
        }
    }
}

/// Places of mapped blocks of an extent segment.
fn places_of(base: u64, segment: &ExtentSegment, blocks: Extent) -> Vec<Extent> {
    let mut places = Vec::new();
    for block in blocks.start - base..blocks.end() - base {
        if let Some(mapped) = segment.get(block) {
            push_block(&mut places, mapped.physical);
        }
    }
    places
}
