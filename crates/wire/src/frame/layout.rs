//! Lengths of the parts of a frame, and its checksums.

use super::error::FrameError;

/// Bytes of the first segment that are encrypted with the preamble.
pub const INLINE_LENGTH: usize = 48;
/// Bytes that a cipher adds to a unit that it seals.
pub const CIPHER_TAG_LENGTH: usize = 16;
/// Segments are padded to this in secure mode.
const CIPHER_BLOCK_LENGTH: usize = 16;
pub(super) const CRC_LENGTH: usize = 4;
/// Status byte and the crcs of the second to fourth segment.
pub(super) const EPILOGUE_CRC_LENGTH: usize = 1 + 3 * CRC_LENGTH;
/// Status byte, padded.
pub(super) const EPILOGUE_SECURE_LENGTH: usize = CIPHER_BLOCK_LENGTH;

/// `late_status`: two code words that differ in four bits.
const STATUS_MASK: u8 = 0x0f;
pub(super) const STATUS_COMPLETE: u8 = 0x0e;
pub(super) const STATUS_ABORTED: u8 = 0x01;

/// True if the sender finished the frame, false if it aborted it.
pub(super) fn is_complete(status: u8) -> Result<bool, FrameError> {
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

pub(super) fn padded(length: usize) -> usize {
    length.next_multiple_of(CIPHER_BLOCK_LENGTH)
}
