//! Frames: records that are stored together, behind a header that chains them to the frame before.

use bytes::Bytes;
use codec::{DecodeErrorKind, Reader, Result, Writer};

/// `"SFSJ"`, then the version of the format.
const MAGIC: u32 = u32::from_le_bytes(*b"SFSJ");
const VERSION: u16 = 1;
/// Flag: the segment ends behind this frame.
const SEALED: u16 = 1;
/// Bytes of the header.
pub(crate) const HEADER_BYTES: usize = 36;
/// Place of the frame's own checksum, the last field of the header.
const CRC_AT: usize = HEADER_BYTES - 4;
/// Bytes before the body of a record: kind, version, length.
pub(crate) const RECORD_HEADER_BYTES: usize = 6;
/// Most bytes of a frame. A header that tells more ends the journal.
pub const FRAME_MAX_BYTES: usize = 4 << 20;

/// A record, whose body is the business of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawRecord {
    /// Decides the meaning of the body.
    pub kind: u8,
    /// Version of the body.
    pub version: u8,
    /// Encoded by its owner.
    pub body: Bytes,
}

impl RawRecord {
    /// Bytes that it has in a frame.
    pub fn len(&self) -> usize {
        RECORD_HEADER_BYTES + self.body.len()
    }

    /// Never: a record has a header.
    pub fn is_empty(&self) -> bool {
        false
    }

    fn encode(&self, w: &mut Writer) {
        w.u8(self.kind);
        w.u8(self.version);
        w.blob(&self.body);
    }
}

/// The end of a journal, which the next frame must continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Chain {
    /// Generation of the writer.
    pub generation: u32,
    /// LSN of the next record.
    pub lsn: u64,
    /// Checksum of the frame before.
    pub crc: u32,
}

/// Whether the segment ends behind a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sealed {
    /// The next frame is in the next segment.
    Yes,
    /// The next frame follows in this segment.
    No,
}

/// Reason why there is no frame at a place, so that the journal ends there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameEnd {
    /// Nothing was written there, or something that is no frame.
    NoFrame,
    /// The frame is one of another generation, or does not continue the one before.
    OtherChain,
    /// The frame is not whole.
    Checksum,
}

/// A frame of these records, and the chain behind it.
pub fn encode_frame(chain: &Chain, sealed: Sealed, records: &[RawRecord]) -> (Bytes, Chain) {
    let size: usize = records.iter().map(RawRecord::len).sum();
    let mut w = Writer::with_capacity(HEADER_BYTES + size);
    w.u32(MAGIC);
    w.u16(VERSION);
    w.u16(if sealed == Sealed::Yes { SEALED } else { 0 });
    w.u32(chain.generation);
    w.count(HEADER_BYTES + size);
    w.count(records.len());
    w.u64(chain.lsn);
    w.u32(chain.crc);
    w.u32(0);
    records.iter().for_each(|record| record.encode(&mut w));
    let crc = checksum(w.as_slice());
    w.patch_u32(CRC_AT, crc);
    let lsn = chain.lsn + records.len() as u64;
    (w.into_bytes(), Chain { generation: chain.generation, lsn, crc })
}

/// Checksum of a frame without its own field.
fn checksum(frame: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&frame[..CRC_AT]);
    digest.update(&frame[HEADER_BYTES..]);
    digest.finalize() as u32
}

/// A frame that continues a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Its length.
    pub bytes: usize,
    /// Whether it is the segment's last.
    pub sealed: Sealed,
    /// Its records.
    pub records: Vec<RawRecord>,
    /// The chain behind it.
    pub chain: Chain,
}

/// The frame at the beginning of `bytes`, if it is there and continues the chain: its bytes, whether it is
/// the segment's last, its records, and the chain behind it.
///
/// # Errors
///
/// The frame is whole, but its records do not decode: the journal is damaged, or a newer program wrote it.
pub fn decode_frame(
    bytes: &Bytes,
    chain: &Chain,
) -> Result<std::result::Result<(usize, Sealed, Vec<RawRecord>, Chain), FrameEnd>> {
    let frame = decode(bytes, chain)?;
    Ok(frame.map(|frame| (frame.bytes, frame.sealed, frame.records, frame.chain)))
}

pub(crate) fn decode(bytes: &Bytes, chain: &Chain) -> Result<std::result::Result<Frame, FrameEnd>> {
    let mut r = Reader::new(bytes);
    let Some(header) = header(&mut r) else { return Ok(Err(FrameEnd::NoFrame)) };
    if (header.generation, header.lsn, header.previous) != (chain.generation, chain.lsn, chain.crc)
    {
        return Ok(Err(FrameEnd::OtherChain));
    }
    if header.length > bytes.len() || checksum(&bytes[..header.length]) != header.crc {
        return Ok(Err(FrameEnd::Checksum));
    }
    if header.version != VERSION || header.flags & !SEALED != 0 {
        return Err(r.unknown("version of a frame", header.version.into()));
    }
    let records = records(&bytes.slice(..header.length), header.records)?;
    let sealed = if header.flags & SEALED != 0 { Sealed::Yes } else { Sealed::No };
    let lsn = chain.lsn + records.len() as u64;
    let chain = Chain { lsn, crc: header.crc, ..*chain };
    Ok(Ok(Frame { bytes: header.length, sealed, records, chain }))
}

struct Header {
    version: u16,
    flags: u16,
    generation: u32,
    length: usize,
    records: usize,
    lsn: u64,
    previous: u32,
    crc: u32,
}

/// `None` if there is no header with possible lengths.
fn header(r: &mut Reader<'_>) -> Option<Header> {
    if r.u32("magic").ok()? != MAGIC {
        return None;
    }
    let header = Header {
        version: r.u16("version").ok()?,
        flags: r.u16("flags").ok()?,
        generation: r.u32("generation").ok()?,
        length: r.u32("length").ok()? as usize,
        records: r.u32("number of records").ok()? as usize,
        lsn: r.u64("first LSN").ok()?,
        previous: r.u32("checksum before").ok()?,
        crc: r.u32("checksum").ok()?,
    };
    let is_possible = (HEADER_BYTES..=FRAME_MAX_BYTES).contains(&header.length);
    is_possible.then_some(header)
}

fn records(frame: &Bytes, count: usize) -> Result<Vec<RawRecord>> {
    let mut r = Reader::new(frame);
    r.skip("header", HEADER_BYTES)?;
    if count > r.remaining() / RECORD_HEADER_BYTES {
        let (count, available) = (count as u64, r.remaining());
        return Err(
            r.error("number of records", DecodeErrorKind::CountTooLarge { count, available })
        );
    }
    let mut records = Vec::with_capacity(count);
    for _ in 0..count {
        let (kind, version) = (r.u8("record kind")?, r.u8("record version")?);
        let body = frame.slice_ref(r.blob("record")?);
        records.push(RawRecord { kind, version, body });
    }
    r.finish("frame")?;
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAIN: Chain = Chain { generation: 3, lsn: 70, crc: 0x1122_3344 };

    fn two() -> Vec<RawRecord> {
        vec![
            RawRecord { kind: 1, version: 1, body: "abc".into() },
            RawRecord { kind: 16, version: 2, body: Bytes::new() },
        ]
    }

    #[test]
    fn a_frame_has_its_bytes() {
        // A change of these bytes is a change of the format: journals of earlier programs end unread.
        let (frame, chain) = encode_frame(&CHAIN, Sealed::Yes, &two());
        let golden = "5346534a01000100030000003300000002000000460000000000000044332211957eb82e\
            010103000000616263100200000000";
        let hex: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, golden);
        assert_eq!((chain.generation, chain.lsn), (3, 72));
    }

    #[test]
    fn a_frame_that_does_not_continue_the_chain_ends_the_journal() {
        let (frame, after) = encode_frame(&CHAIN, Sealed::No, &two());
        let (bytes, sealed, records, chain) = decode_frame(&frame, &CHAIN).unwrap().unwrap();
        assert_eq!((bytes, sealed, records, chain), (frame.len(), Sealed::No, two(), after));
        for other in [
            Chain { generation: 4, ..CHAIN },
            Chain { lsn: 71, ..CHAIN },
            Chain { crc: 0, ..CHAIN },
        ] {
            assert_eq!(decode_frame(&frame, &other).unwrap(), Err(FrameEnd::OtherChain));
        }
    }

    #[test]
    fn no_torn_or_changed_frame_is_read() {
        let (frame, _) = encode_frame(&CHAIN, Sealed::No, &two());
        for end in 0..frame.len() {
            assert!(decode_frame(&frame.slice(..end), &CHAIN).unwrap().is_err(), "{end}");
        }
        for at in 0..frame.len() * 8 {
            let mut changed = frame.to_vec();
            changed[at / 8] ^= 1 << (at % 8);
            assert!(decode_frame(&changed.into(), &CHAIN).unwrap().is_err(), "bit {at}");
        }
    }

    #[test]
    fn a_count_beyond_the_frame_is_damage_and_takes_no_memory() {
        let (frame, _) = encode_frame(&CHAIN, Sealed::No, &two());
        let mut changed = frame.to_vec();
        changed[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
        let crc = checksum(&changed);
        changed[CRC_AT..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
        let error = decode_frame(&changed.into(), &CHAIN).unwrap_err();
        assert_eq!(error.field, "number of records");
    }
}
