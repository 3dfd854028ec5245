//! Decoding errors.

use thiserror::Error;

/// The result of decoding; the error is a [`DecodeError`] unless named.
pub type Result<T, E = DecodeError> = std::result::Result<T, E>;

/// A decoding failure: the field that was being read, its offset, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{field} at byte {offset}: {kind}")]
pub struct DecodeError {
    pub field: &'static str,
    pub offset: usize,
    pub kind: DecodeErrorKind,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DecodeErrorKind {
    #[error("needs {needed} bytes, {available} are left")]
    Truncated { needed: usize, available: usize },
    #[error("count {count} exceeds the {available} bytes that are left")]
    CountTooLarge { count: u64, available: usize },
    #[error("length {length} exceeds the limit {limit}")]
    TooLong { length: u64, limit: u64 },
    #[error("is readable from version {compat} on, this reader knows up to {known}")]
    TooNew { compat: u8, known: u8 },
    #[error("version {version} is older than the oldest that is understood, {oldest}")]
    TooOld { version: u8, oldest: u8 },
    #[error("value {value} is not valid here")]
    InvalidValue { value: u64 },
    #[error("is not UTF-8")]
    NotUtf8,
    #[error("{left} bytes are left over")]
    TrailingBytes { left: usize },
    #[error("checksum is {found:#010x}, the bytes give {computed:#010x}")]
    Checksum { found: u32, computed: u32 },
}
