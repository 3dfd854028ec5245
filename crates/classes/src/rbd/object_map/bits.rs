//! Ceph's `BitVector<2>`: two bits for each object, four in a byte from the highest bits down.
//!
//! Encoded as a header with the length (its own length is fixed), the bytes, and a footer with a
//! checksum of the header and of each 4 KiB of the bytes. The footer may be empty.

use codec::{Decode, DecodeErrorKind, Encode, Reader, Result, Writer};
use std::ops::Range;

pub(super) const STATES_PER_BYTE: u64 = 4;
/// Bytes that one checksum covers.
pub(super) const BLOCK: usize = 4096;
/// A length, a version header, and the number of objects.
pub(super) const HEADER_LEN: usize = 4 + 6 + 8;

/// Ceph's crc32c from 0, without inversion at either end.
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    let algorithm = crc_fast::CrcAlgorithm::Crc32Iscsi;
    let mut digest = crc_fast::Digest::new_with_init_state(algorithm, 0);
    digest.update(bytes);
    !(digest.finalize() as u32)
}

/// Bits between an object's state and the end of its byte.
fn shift(number: u64) -> u32 {
    6 - 2 * (number % STATES_PER_BYTE) as u32
}

pub(super) fn get(byte: u8, number: u64) -> u8 {
    byte >> shift(number) & 3
}

pub(super) fn set(byte: &mut u8, number: u64, state: u8) {
    *byte = *byte & !(3 << shift(number)) | (state & 3) << shift(number);
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ObjectMap {
    len: u64,
    bytes: Vec<u8>,
}

impl ObjectMap {
    /// Number of objects.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// State of an object.
    pub fn get(&self, number: u64) -> u8 {
        get(self.bytes[(number / STATES_PER_BYTE) as usize], number)
    }

    fn set(&mut self, number: u64, state: u8) {
        set(&mut self.bytes[(number / STATES_PER_BYTE) as usize], number, state);
    }

    /// New objects have the state 0, or what the bits behind the end were.
    pub fn resize(&mut self, len: u64) {
        self.len = len;
        self.bytes.resize(len.div_ceil(STATES_PER_BYTE) as usize, 0);
    }

    /// Sets the state of a range of objects.
    pub fn fill(&mut self, range: Range<u64>, state: u8) {
        let whole = range.start.next_multiple_of(STATES_PER_BYTE)..range.end & !3;
        if whole.is_empty() {
            return range.for_each(|number| self.set(number, state));
        }
        (range.start..whole.start).for_each(|number| self.set(number, state));
        (whole.end..range.end).for_each(|number| self.set(number, state));
        let bytes =
            (whole.start / STATES_PER_BYTE) as usize..(whole.end / STATES_PER_BYTE) as usize;
        self.bytes[bytes].fill((state & 3) * 0b0101_0101);
    }

    /// Sets each object to the state that `new` returns; true if any changed.
    pub fn replace(&mut self, new: impl Fn(u64, u8) -> u8) -> bool {
        let mut changed = false;
        for number in 0..self.len {
            let (old, new) = (self.get(number), new(number, self.get(number)));
            if new != old {
                self.set(number, new);
                changed = true;
            }
        }
        changed
    }

    fn header(&self) -> Vec<u8> {
        let mut w = Writer::with_capacity(HEADER_LEN);
        w.versioned(1, 1, |w| w.u64(self.len));
        w.into_vec()
    }

    fn encode_body(&self, w: &mut Writer) {
        w.blob(&self.header());
        w.raw(&self.bytes);
    }

    /// The number of objects in an encoded header.
    pub fn decode_header(header: &[u8]) -> Result<u64> {
        Reader::new(header).versioned("object map", 1, |r, _| r.u64("objects"))
    }
}

impl Encode for ObjectMap {
    fn encode(&self, w: &mut Writer) {
        self.encode_body(w);
        w.sized(|w| {
            w.u32(checksum(&self.header()));
            w.count(self.bytes.chunks(BLOCK).len());
            self.bytes.chunks(BLOCK).for_each(|block| w.u32(checksum(block)));
        });
    }
}

impl Decode for ObjectMap {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let header = r.blob("object map header")?;
        let len = ObjectMap::decode_header(header)?;
        let bytes = usize::try_from(len.div_ceil(STATES_PER_BYTE)).unwrap_or(usize::MAX);
        let bytes = r.take("object states", bytes)?;
        let at = *r;
        let footer = r.blob("checksums")?;
        if !footer.is_empty() {
            let mut footer = Reader::new(footer);
            let expected = footer.u32("checksum of the header")?;
            let blocks: Vec<u32> = footer.value()?;
            let intact = expected == checksum(header)
                && blocks.into_iter().eq(bytes.chunks(BLOCK).map(checksum));
            if !intact {
                return Err(at.error("checksums", DecodeErrorKind::InvalidValue { value: 0 }));
            }
        }
        Ok(ObjectMap { len, bytes: bytes.to_vec() })
    }
}

/// A map that is encoded without checksums.
pub(super) struct Unchecked(pub ObjectMap);

impl Encode for Unchecked {
    fn encode(&self, w: &mut Writer) {
        self.0.encode_body(w);
        w.u32(0);
    }
}
