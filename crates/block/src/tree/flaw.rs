//! Damage of pages.

use crate::device::ReadError;
use thiserror::Error;

/// Reason why bytes are not the expected page.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PageFlaw {
    #[error("{found} bytes instead of {expected}")]
    Length { expected: usize, found: usize },
    #[error("checksum {found:08x} instead of {expected:08x}")]
    Checksum { expected: u32, found: u32 },
    #[error("it says that it is page {found}")]
    Number { found: u64 },
    #[error("it says that it is of level {found} instead of {expected}")]
    Level { expected: u8, found: u8 },
    #[error("impossible {0}")]
    Layout(&'static str),
    #[error("not readable: {0}")]
    Unreadable(ReadError),
}
