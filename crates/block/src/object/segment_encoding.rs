//! Encoding of an extent segment: its runs, each at the end of the one before unless it says
//! otherwise, then the checksums of all mapped blocks.

use super::run::{Run, push_merged};
use super::segment::ExtentSegment;
use super::varint::{self, VARINT_LEN_MAX};
use super::{PHYSICAL_END, SEGMENT_BLOCKS};
use bytes::Bytes;
use codec::{Reader, Result};

/// Version of the value of an `S` pair.
const VERSION: u8 = 1;

/// Fields of a run's first byte: length less one, hole before it, shared id present.
const COUNT_MASK: u8 = 0x3f;
const HOLE: u8 = 0x40;
const SHARED: u8 = 0x80;

/// Length of a block's checksum.
const CRC_LEN: usize = 4;

/// Runs that a change of one range adds at most. A decoded segment has room for them.
const RUNS_MORE: usize = 2;

/// Maximum length of a run: first byte, hole, place and id.
const RUN_LEN_MAX: usize = 2 + 2 * VARINT_LEN_MAX;

impl ExtentSegment {
    /// Encodes the value of an `S` pair.
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(1 + self.encoded_len_max());
        out.push(VERSION);
        self.push(&mut out);
        out.into()
    }

    /// Decodes the value of an `S` pair. Runs must be ascending, merged and within the segment.
    pub fn decode(bytes: &[u8]) -> Result<ExtentSegment> {
        let mut r = Reader::new(bytes);
        let at = r;
        let version = r.u8("extent segment version")?;
        if version != VERSION {
            return Err(at.invalid("extent segment version", version.into()));
        }
        let segment = ExtentSegment::take(&mut r)?;
        r.finish("extent segment")?;
        Ok(segment)
    }

    /// Upper bound for the length of what [`ExtentSegment::push`] writes.
    pub(super) fn encoded_len_max(&self) -> usize {
        1 + self.runs.len() * RUN_LEN_MAX + self.mapped_blocks() as usize * CRC_LEN
    }

    pub(super) fn push(&self, out: &mut Vec<u8>) {
        out.push(self.runs.len() as u8);
        let mut expected = Expected::default();
        for run in &self.runs {
            push_run(out, run, expected);
            expected = Expected::behind(run);
        }
        for run in &self.runs {
            push_crcs(out, &self.crcs[run.start as usize..run.end() as usize]);
        }
    }

    pub(super) fn take(r: &mut Reader<'_>) -> Result<ExtentSegment> {
        let at = *r;
        let count = r.u8("runs")?;
        if u64::from(count) > SEGMENT_BLOCKS {
            return Err(at.invalid("runs", count.into()));
        }
        let mut segment = ExtentSegment::default();
        let count = usize::from(count);
        if count > segment.runs.inline_size() {
            segment.runs.reserve_exact(count + RUNS_MORE);
        }
        let mut expected = Expected::default();
        for taken in 0..count {
            let at = *r;
            let run = take_run(r, expected)?;
            expected = Expected::behind(&run);
            push_merged(&mut segment.runs, run);
            if segment.runs.len() == taken {
                return Err(at.invalid("run that continues the one before", run.physical));
            }
        }
        take_crcs(r, &mut segment)?;
        Ok(segment)
    }
}

/// Default start of a run: the end of the one before.
#[derive(Debug, Clone, Copy, Default)]
struct Expected {
    start: u64,
    physical: u64,
}

impl Expected {
    fn behind(run: &Run) -> Self {
        Expected { start: run.end(), physical: run.extent().end() }
    }
}

fn push_run(out: &mut Vec<u8>, run: &Run, expected: Expected) {
    let hole = run.start - expected.start;
    let hole_bit = if hole > 0 { HOLE } else { 0 };
    let shared_bit = if run.shared != 0 { SHARED } else { 0 };
    out.push((run.count - 1) as u8 | hole_bit | shared_bit);
    if hole > 0 {
        out.push(hole as u8);
    }
    varint::push_signed(out, run.physical.wrapping_sub(expected.physical) as i64);
    if run.shared != 0 {
        varint::push(out, run.shared);
    }
}

/// Appends checksums without checking the vector's capacity for each of them.
fn push_crcs(out: &mut Vec<u8>, crcs: &[u32]) {
    let from = out.len();
    out.resize(from + crcs.len() * CRC_LEN, 0);
    let (places, _) = out[from..].as_chunks_mut::<CRC_LEN>();
    places.iter_mut().zip(crcs).for_each(|(place, crc)| *place = crc.to_le_bytes());
}

fn take_run(r: &mut Reader<'_>, expected: Expected) -> Result<Run> {
    let at = *r;
    let head = r.u8("run")?;
    let count = u64::from(head & COUNT_MASK) + 1;
    let hole = if head & HOLE != 0 { take_nonzero(r, "hole", |r| r.u8("hole"))?.into() } else { 0 };
    let start = expected.start + hole;
    if start + count > SEGMENT_BLOCKS {
        return Err(at.invalid("run's end", start + count));
    }
    let at = *r;
    let distance = varint::take_signed(r, "run's place")?;
    let physical = expected.physical.wrapping_add_signed(distance);
    if physical > PHYSICAL_END - count {
        return Err(at.invalid("run's place", physical));
    }
    let take_id = |r: &mut Reader<'_>| varint::take(r, "shared id");
    let shared = if head & SHARED != 0 { take_nonzero(r, "shared id", take_id)? } else { 0 };
    Ok(Run { start, count, physical, shared })
}

fn take_nonzero<T: Copy + Into<u64>>(
    r: &mut Reader<'_>,
    field: &'static str,
    take: impl FnOnce(&mut Reader<'_>) -> Result<T>,
) -> Result<T> {
    let at = *r;
    let value = take(r)?;
    if value.into() == 0 { Err(at.invalid(field, 0)) } else { Ok(value) }
}

fn take_crcs(r: &mut Reader<'_>, segment: &mut ExtentSegment) -> Result<()> {
    for run in &segment.runs {
        let raw = r.take("block checksums", run.count as usize * CRC_LEN)?;
        let crcs = &mut segment.crcs[run.start as usize..run.end() as usize];
        let (raw, _) = raw.as_chunks::<CRC_LEN>();
        crcs.iter_mut().zip(raw).for_each(|(crc, raw)| *crc = u32::from_le_bytes(*raw));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::segment::tests::{any_steps, segment_of};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn segments_round_trip_and_truncations_are_errors(steps in any_steps()) {
            let segment = segment_of(&steps);
            let bytes = segment.encode();
            prop_assert!(bytes.len() <= 1 + segment.encoded_len_max());
            prop_assert_eq!(ExtentSegment::decode(&bytes).unwrap(), segment);
            for end in 0..bytes.len() {
                prop_assert!(ExtentSegment::decode(&bytes[..end]).is_err());
            }
            prop_assert!(ExtentSegment::decode(&[&bytes[..], &[0]].concat()).is_err());
        }

        #[test]
        fn decodable_values_are_valid_and_encode_to_the_same_bytes(
            steps in any_steps(), at: prop::sample::Index, bit in 0u8..8
        ) {
            let mut bytes = segment_of(&steps).encode().to_vec();
            let at = at.index(bytes.len().min(24));
            bytes[at] ^= 1 << bit;
            if let Ok(segment) = ExtentSegment::decode(&bytes) {
                segment.check_invariants();
                prop_assert_eq!(&segment.encode()[..], &bytes[..]);
            }
        }

        #[test]
        fn no_bytes_make_decoding_panic(raw in prop::collection::vec(any::<u8>(), 0..64), runs in 0u8..6) {
            let bytes = [&[VERSION, runs], &raw[..]].concat();
            if let Ok(segment) = ExtentSegment::decode(&bytes) {
                segment.check_invariants();
            }
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_format() {
        let mut segment = ExtentSegment::default();
        segment.map(2, 1000, &[0x0403_0201]);
        segment.share(5);
        segment.map(3, 990, &[0x0807_0605, 0x0c0b_0a09]);
        let golden = [
            1, 2, // version, runs
            0xc0, 2, 0xd0, 0x0f, 5, // one block behind a hole of 2, at 1000, shared under 5
            0x01, 0x15, // two blocks at 1001 - 11
            1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
        ];
        assert_eq!(&segment.encode()[..], golden);
    }

    #[test]
    fn a_full_contiguous_segment_takes_few_bytes_besides_its_checksums() {
        let mut segment = ExtentSegment::default();
        segment.map(0, 1 << 31, &[7; SEGMENT_BLOCKS as usize]);
        assert_eq!(segment.encode().len(), 2 + 1 + 5 + 256);
    }

    #[test]
    fn faults_are_named() {
        let message = |bytes: &[u8]| ExtentSegment::decode(bytes).unwrap_err().to_string();
        assert_eq!(message(&[2]), "extent segment version at byte 0: value 2 is not valid here");
        assert_eq!(message(&[1, 65]), "runs at byte 1: value 65 is not valid here");
        assert_eq!(message(&[1, 1, 0x7f, 1, 0]), "run's end at byte 2: value 65 is not valid here");
        assert_eq!(message(&[1, 1, 0x40, 0, 0]), "hole at byte 3: value 0 is not valid here");
        assert_eq!(message(&[1, 1, 0x80, 2, 0]), "shared id at byte 4: value 0 is not valid here");
        let before_the_device = message(&[1, 1, 0, 1]);
        assert!(before_the_device.starts_with("run's place at byte 3"), "{before_the_device}");
        let continued = message(&[1, 2, 0, 2, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
        assert!(continued.starts_with("run that continues the one before"), "{continued}");
    }
}
