//! Damage of pages.

use crate::device::ReadError;
use thiserror::Error;

/// Reason why bytes are not the expected page.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PageFlaw {
    /// The read returned another number of bytes.
    #[error("{found} bytes instead of {expected}")]
    Length {
        /// Bytes of the pages.
        expected: usize,
        /// Bytes that came.
        found: usize,
    },
    /// Torn, misdirected or changed: the checksum is not that of the reference.
    #[error("checksum {found:08x} instead of {expected:08x}")]
    Checksum {
        /// CRC-32C in the reference.
        expected: u32,
        /// CRC-32C of the bytes.
        found: u32,
    },
    /// A page for another place.
    #[error("it says that it is page {found}")]
    Number {
        /// Number in the page.
        found: u64,
    },
    /// A page of another level of the tree.
    #[error("it says that it is of level {found} instead of {expected}")]
    Level {
        /// Level by the reference.
        expected: u8,
        /// Level in the page.
        found: u8,
    },
    /// The part of the page that contradicts itself. A defect, since the checksum is right.
    #[error("impossible {0}")]
    Layout(&'static str),
    /// The device failed.
    #[error("not readable: {0}")]
    Unreadable(ReadError),
}
