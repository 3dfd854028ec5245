//! Reasons to give up a connection whose frames cannot be read.

use super::tag::Tag;
use codec::DecodeError;
use thiserror::Error;

/// Framing errors. The connection cannot continue after any of them.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The preamble's checksum is wrong.
    #[error("the preamble's checksum is {found:#010x}, its bytes give {computed:#010x}")]
    PreambleChecksum {
        /// Checksum in the frame.
        found: u32,
        /// Checksum of what was received.
        computed: u32,
    },
    /// A segment's checksum is wrong.
    #[error("the checksum of segment {segment} is {found:#010x}, its bytes give {computed:#010x}")]
    SegmentChecksum {
        /// Index of the segment.
        segment: usize,
        /// Checksum in the frame.
        found: u32,
        /// Checksum of what was received.
        computed: u32,
    },
    /// A unit in secure mode has a wrong tag.
    #[error("a frame does not authenticate")]
    Forged,
    /// No frame of msgr 2.1 has this tag.
    #[error("frame tag {0} is unknown")]
    UnknownTag(u8),
    /// A frame of this kind has no such number of segments.
    #[error("{count} segments in a frame of tag {tag:?}")]
    SegmentCount {
        /// Kind of the frame.
        tag: Tag,
        /// Number of segments.
        count: u8,
    },
    /// The last of several segments is empty, which no sender writes.
    #[error("the last segment of a frame of tag {0:?} is empty")]
    LastSegmentEmpty(Tag),
    /// A segment exceeds its bound.
    #[error("segment {segment} of a frame of tag {tag:?} has {length} bytes, the limit is {limit}")]
    SegmentLength {
        /// Kind of the frame.
        tag: Tag,
        /// Index of the segment.
        segment: usize,
        /// Length in bytes.
        length: u32,
        /// Bound in bytes.
        limit: u32,
    },
    /// The header of a message has another length than [`super::MESSAGE_HEADER_LENGTH`].
    #[error("a message header of {0} bytes")]
    HeaderLength(u32),
    /// A message arrived before the session was open.
    #[error("a message before the session was open")]
    EarlyMessage,
    /// A compressed frame, although compression was not negotiated.
    #[error("a compressed frame, though compression was not agreed on")]
    Compressed,
    /// The status byte is neither complete nor aborted.
    #[error("late status {0:#04x} is neither complete nor aborted")]
    LateStatus(u8),
    /// The payload does not decode.
    #[error(transparent)]
    Payload(#[from] DecodeError),
}
