//! msgr 2.1 frames: how bytes on a connection are cut into control frames and messages.
//!
//! A connection starts with a [`Banner`] from both ends; everything after it is frames. A frame is
//! a 32-byte preamble that tells its tag and the lengths of up to four segments, then the
//! segments. In *crc mode* the first segment is followed by its crc and the others by an epilogue
//! with theirs; in *secure mode* the preamble with the first 48 bytes of the first segment, what is
//! left of that segment, and the rest of the frame are encrypted as one unit each (Ceph
//! `doc/dev/msgr2.rst`).
//!
//! Invariants:
//! * A length is compared with its named bound before memory is set aside for it.
//! * A segment that arrived within one chunk is handed out as a slice of that chunk; one that did
//!   not is gathered once, into a buffer that the host can receive into.
//! * Each byte's checksum is computed once, when it is sent and when it has arrived.
//!
//! Only revision 1 (msgr 2.1, since Ceph 14.2.11 and Linux 5.11) is spoken: a peer without it is
//! refused at its banner. Compression is never offered, so compressed frames are refused. Which
//! frame may come when is not known here but in crate `msgr`.

mod banner;
mod control;
mod decoder;
mod encoder;
mod header;
mod preamble;
#[cfg(test)]
mod tests;

pub use banner::{Banner, BannerError, FEATURE_COMPRESSION, FEATURE_REVISION_1};
pub use control::{
    CONNECT_FLAG_LOSSY, ClientIdent, Control, MODES_MAX, Reconnect, SIGNATURE_LENGTH, ServerIdent,
};
pub use decoder::{DIRECT_LENGTH_MIN, Decoder, Frame};
pub use encoder::{COPY_LENGTH_MAX, Encoder};
pub use header::{MESSAGE_HEADER_LENGTH, MessageHeader};
pub use preamble::{
    CONTROL_LENGTH_MAX, DATA_LENGTH_MAX, FRONT_LENGTH_MAX, MIDDLE_LENGTH_MAX, PREAMBLE_LENGTH,
    Preamble, SEGMENTS_MAX, Tag,
};

use codec::DecodeError;
use thiserror::Error;

/// Bytes of the first segment that are encrypted with the preamble.
pub const INLINE_LENGTH: usize = 48;
/// Bytes that a cipher adds to a unit that it seals.
pub const CIPHER_TAG_LENGTH: usize = 16;
/// Segments are padded to this in secure mode.
const CIPHER_BLOCK_LENGTH: usize = 16;
const CRC_LENGTH: usize = 4;
/// Status byte and the crcs of the second to fourth segment.
const EPILOGUE_CRC_LENGTH: usize = 1 + 3 * CRC_LENGTH;
/// Status byte, padded.
const EPILOGUE_SECURE_LENGTH: usize = CIPHER_BLOCK_LENGTH;

/// One direction of a connection in secure mode. Units must be opened in the order in which they
/// were sealed.
pub trait FrameCipher: Send {
    /// Encrypts `unit` in place and gives its tag.
    fn seal(&mut self, unit: &mut [u8]) -> [u8; CIPHER_TAG_LENGTH];

    /// Decrypts `unit` in place; false if the tag does not match.
    fn open(&mut self, unit: &mut [u8], tag: &[u8; CIPHER_TAG_LENGTH]) -> bool;
}

/// Framing errors. The connection cannot continue after any of them.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FrameError {
    #[error("the preamble's checksum is {found:#010x}, its bytes give {computed:#010x}")]
    PreambleChecksum { found: u32, computed: u32 },
    #[error("the checksum of segment {segment} is {found:#010x}, its bytes give {computed:#010x}")]
    SegmentChecksum { segment: usize, found: u32, computed: u32 },
    #[error("a frame does not authenticate")]
    Forged,
    #[error("frame tag {0} is unknown")]
    UnknownTag(u8),
    #[error("{count} segments in a frame of tag {tag:?}")]
    SegmentCount { tag: Tag, count: u8 },
    #[error("the last segment of a frame of tag {0:?} is empty")]
    LastSegmentEmpty(Tag),
    #[error("segment {segment} of a frame of tag {tag:?} has {length} bytes, the limit is {limit}")]
    SegmentLength { tag: Tag, segment: usize, length: u32, limit: u32 },
    #[error("a message header of {0} bytes")]
    HeaderLength(u32),
    #[error("a message before the session was open")]
    EarlyMessage,
    #[error("a compressed frame, though compression was not agreed on")]
    Compressed,
    #[error("late status {0:#04x} is neither complete nor aborted")]
    LateStatus(u8),
    #[error(transparent)]
    Payload(#[from] DecodeError),
}

/// `late_status`: two code words that differ in four bits.
const STATUS_MASK: u8 = 0x0f;
const STATUS_COMPLETE: u8 = 0x0e;
const STATUS_ABORTED: u8 = 0x01;

/// True if the sender finished the frame, false if it aborted it.
fn is_complete(status: u8) -> Result<bool, FrameError> {
    match status & STATUS_MASK {
        STATUS_COMPLETE => Ok(true),
        STATUS_ABORTED => Ok(false),
        _ => Err(FrameError::LateStatus(status)),
    }
}

/// `ceph_crc32c(-1, …)`: the usual crc32c without the final inversion.
pub fn crc32c(bytes: &[u8]) -> u32 {
    !crc_fast::crc32_iscsi(bytes)
}

fn padded(length: usize) -> usize {
    length.next_multiple_of(CIPHER_BLOCK_LENGTH)
}
