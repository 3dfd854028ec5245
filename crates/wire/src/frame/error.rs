//! Reasons to give up a connection whose frames cannot be read.

use super::tag::Tag;
use codec::DecodeError;
use thiserror::Error;

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
