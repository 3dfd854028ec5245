//! The preamble of a frame, and the bounds of the lengths in it.

use super::error::FrameError;
use super::header::MESSAGE_HEADER_LENGTH;
use super::layout::{
    CIPHER_TAG_LENGTH, CRC_LENGTH, EPILOGUE_CRC_LENGTH, EPILOGUE_SECURE_LENGTH, INLINE_LENGTH,
    crc32c, padded,
};
use super::tag::Tag;

/// `sizeof(preamble_block_t)`
pub const PREAMBLE_LENGTH: usize = 32;
/// `MAX_NUM_SEGMENTS`: header, front, middle and data of a message.
pub const SEGMENTS_MAX: usize = 4;
/// In bytes; the longest payloads of control frames are tickets and address lists.
pub const CONTROL_LENGTH_MAX: u32 = 64 << 10;
/// In bytes; a full OSD map of a very large cluster travels in the front.
pub const FRONT_LENGTH_MAX: u32 = 128 << 20;
/// Bound of the middle segment in bytes.
pub const MIDDLE_LENGTH_MAX: u32 = 16 << 20;
/// Ceph's largest object operation by default (`osd_max_write_size` 90 MB,
/// `osd_max_object_size` 128 MiB), and some slack for the inputs of other operations beside it.
pub const DATA_LENGTH_MAX: u32 = (128 << 20) + (1 << 20);

/// `sizeof(void *)` and a page: what Ceph announces. Receivers may ignore it.
const ALIGNMENT_SMALL: u16 = 8;
const ALIGNMENT_DATA: u16 = 4096;
const FLAG_COMPRESSED: u8 = 1;
/// All but the crc itself.
const CHECKED_LENGTH: usize = PREAMBLE_LENGTH - CRC_LENGTH;
/// [`crc32c`] of that many zeros. The preamble's crc starts from 0 instead of -1, and the start's
/// share of a crc does not depend on the bytes.
const ZEROS_CRC: u32 = 0x0836_3896;

/// `preamble_block_t`: a frame's tag and the lengths of its segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preamble {
    /// Kind of the frame.
    pub tag: Tag,
    lengths: [u32; SEGMENTS_MAX],
    /// At least one; the last one is not empty unless it is the only one.
    count: u8,
}

impl Preamble {
    /// Trailing empty segments do not appear in the frame.
    pub fn new(tag: Tag, lengths: [usize; SEGMENTS_MAX]) -> Self {
        let count = lengths.iter().rposition(|length| *length > 0).map_or(1, |last| last + 1);
        let lengths = lengths.map(|length| u32::try_from(length).expect("no segment has 4 GiB"));
        Preamble { tag, lengths, count: count as u8 }
    }

    /// Number of segments.
    pub fn count(&self) -> usize {
        self.count.into()
    }

    /// Length of a segment in bytes.
    pub fn length(&self, segment: usize) -> usize {
        self.lengths[segment] as usize
    }

    /// Segments after the first; a frame that has any has an epilogue.
    pub(super) fn late_lengths(&self) -> impl Iterator<Item = usize> {
        self.lengths[1..self.count()].iter().map(|length| *length as usize)
    }

    /// The preamble as it is sent, with its checksum.
    pub fn to_array(self) -> [u8; PREAMBLE_LENGTH] {
        let mut bytes = [0; PREAMBLE_LENGTH];
        bytes[0] = self.tag as u8;
        bytes[1] = self.count;
        for (index, length) in self.lengths[..self.count()].iter().enumerate() {
            let at = 2 + index * 6;
            let alignment =
                if index == SEGMENTS_MAX - 1 { ALIGNMENT_DATA } else { ALIGNMENT_SMALL };
            bytes[at..at + 4].copy_from_slice(&length.to_le_bytes());
            bytes[at + 4..at + 6].copy_from_slice(&alignment.to_le_bytes());
        }
        let crc = checksum(&bytes);
        bytes[CHECKED_LENGTH..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Checks all fields and bounds: the body of an accepted preamble may be received.
    pub fn decode(bytes: &[u8; PREAMBLE_LENGTH]) -> Result<Preamble, FrameError> {
        let word = |at: usize| {
            u32::from_le_bytes(bytes[at..at + 4].try_into().expect("a slice of four bytes"))
        };
        let (found, computed) = (word(CHECKED_LENGTH), checksum(bytes));
        if found != computed {
            return Err(FrameError::PreambleChecksum { found, computed });
        }
        let tag = Tag::from_u8(bytes[0]).ok_or(FrameError::UnknownTag(bytes[0]))?;
        let count = bytes[1];
        if bytes[26] & FLAG_COMPRESSED != 0 {
            return Err(FrameError::Compressed);
        }
        if count < 1 || usize::from(count) > SEGMENTS_MAX {
            return Err(FrameError::SegmentCount { tag, count });
        }
        let announced = |index| if index < usize::from(count) { word(2 + index * 6) } else { 0 };
        let preamble = Preamble { tag, lengths: std::array::from_fn(announced), count };
        preamble.check()?;
        Ok(preamble)
    }

    fn check(&self) -> Result<(), FrameError> {
        let (tag, count) = (self.tag, self.count);
        if count > 1 && self.lengths[usize::from(count) - 1] == 0 {
            return Err(FrameError::LastSegmentEmpty(tag));
        }
        if tag != Tag::Message {
            if count > 1 {
                return Err(FrameError::SegmentCount { tag, count });
            }
            return self.check_length(0, CONTROL_LENGTH_MAX);
        }
        if self.length(0) != MESSAGE_HEADER_LENGTH {
            return Err(FrameError::HeaderLength(self.lengths[0]));
        }
        self.check_length(1, FRONT_LENGTH_MAX)?;
        self.check_length(2, MIDDLE_LENGTH_MAX)?;
        self.check_length(3, DATA_LENGTH_MAX)
    }

    fn check_length(&self, segment: usize, limit: u32) -> Result<(), FrameError> {
        let length = self.lengths[segment];
        if length > limit {
            return Err(FrameError::SegmentLength { tag: self.tag, segment, length, limit });
        }
        Ok(())
    }

    /// Bytes after the preamble in crc mode.
    pub(super) fn crc_body_length(&self) -> usize {
        let epilogue = if self.count > 1 { EPILOGUE_CRC_LENGTH } else { 0 };
        self.first_crc_length() + self.late_lengths().sum::<usize>() + epilogue
    }

    /// The first segment and its crc.
    pub(super) fn first_crc_length(&self) -> usize {
        match self.length(0) {
            0 => 0,
            length => length + CRC_LENGTH,
        }
    }

    /// Bytes after the unit that the preamble is sealed in.
    pub(super) fn secure_body_length(&self) -> usize {
        self.first_secure_length() + self.late_secure_length()
    }

    /// The unit that holds the rest of the first segment, behind the inlined part.
    pub(super) fn first_secure_length(&self) -> usize {
        match padded(self.length(0)).saturating_sub(INLINE_LENGTH) {
            0 => 0,
            left => left + CIPHER_TAG_LENGTH,
        }
    }

    /// The unit that holds the other segments.
    pub(super) fn late_secure_length(&self) -> usize {
        if self.count == 1 {
            return 0;
        }
        let segments: usize = self.late_lengths().map(padded).sum();
        segments + EPILOGUE_SECURE_LENGTH + CIPHER_TAG_LENGTH
    }
}

/// `ceph_crc32c(0, …)` of all but the last four bytes.
fn checksum(bytes: &[u8; PREAMBLE_LENGTH]) -> u32 {
    crc32c(&bytes[..CHECKED_LENGTH]) ^ ZEROS_CRC
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_of_the_checksum_is_zero() {
        assert_eq!(crc32c(&[0; CHECKED_LENGTH]), ZEROS_CRC);
        assert_eq!(checksum(&[0; PREAMBLE_LENGTH]), 0);
    }

    #[test]
    fn absurd_lengths_are_refused_by_name() {
        let lengths = [MESSAGE_HEADER_LENGTH, 0, 0, 0xffff_ffff];
        let bytes = Preamble::new(Tag::Message, lengths).to_array();
        let error = Preamble::decode(&bytes).unwrap_err();
        assert!(matches!(error, FrameError::SegmentLength { segment: 3, length: 0xffff_ffff, .. }));
        let bytes = Preamble::new(Tag::Ack, [CONTROL_LENGTH_MAX as usize + 1, 0, 0, 0]).to_array();
        assert!(matches!(Preamble::decode(&bytes), Err(FrameError::SegmentLength { .. })));
        let bytes = Preamble::new(Tag::Ack, [8, 0, 0, 1]).to_array();
        assert!(matches!(Preamble::decode(&bytes), Err(FrameError::SegmentCount { .. })));
        let bytes = Preamble::new(Tag::Message, [40, 0, 0, 1]).to_array();
        assert_eq!(Preamble::decode(&bytes), Err(FrameError::HeaderLength(40)));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let bytes = Preamble::new(Tag::Message, [MESSAGE_HEADER_LENGTH, 100, 0, 4096]).to_array();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(Preamble::decode(&flipped), Err(FrameError::PreambleChecksum { .. })));
        }
    }
}
