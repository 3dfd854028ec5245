//! Decoding errors.

use thiserror::Error;

/// The result of decoding; the error is a [`DecodeError`] unless named.
pub type Result<T, E = DecodeError> = std::result::Result<T, E>;

/// A decoding failure: the field that was being read, its offset, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{field} at byte {offset}: {kind}")]
pub struct DecodeError {
    /// The field as its decoder names it, or the type of a value that has no name of its own.
    pub field: &'static str,
    /// Bytes from the beginning of the reader's slice to where decoding stopped.
    pub offset: usize,
    /// The rule that the bytes violate.
    pub kind: DecodeErrorKind,
}

impl DecodeError {
    /// Whether a newer program may have written this, rather than a defect.
    pub fn is_newer(&self) -> bool {
        matches!(self.kind, DecodeErrorKind::TooNew { .. } | DecodeErrorKind::Unknown { .. })
    }
}

/// The rules of the encoding, one for each way to violate them.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DecodeErrorKind {
    /// The input ends within the field.
    #[error("needs {needed} bytes, {available} are left")]
    Truncated {
        /// Bytes of the field.
        needed: usize,
        /// Bytes up to the end of the input, or of the structure that confines the field.
        available: usize,
    },
    /// A container announces more elements than bytes are left.
    #[error("count {count} exceeds the {available} bytes that are left")]
    CountTooLarge {
        /// The announced number of elements.
        count: u64,
        /// Bytes that are left behind the count.
        available: usize,
    },
    /// A length or count exceeds a bound of this program.
    #[error("length {length} exceeds the limit {limit}")]
    TooLong {
        /// The announced length, in the unit of its bound.
        length: u64,
        /// The largest length that is accepted.
        limit: u64,
    },
    /// The writer says that readers as old as this one do not understand the structure.
    #[error("is readable from version {compat} on, this reader knows up to {known}")]
    TooNew {
        /// The oldest version whose readers understand the structure.
        compat: u8,
        /// The newest version that this reader knows.
        known: u8,
    },
    /// The structure has a version that no supported release writes.
    #[error("version {version} is older than the oldest that is understood, {oldest}")]
    TooOld {
        /// The version of the structure.
        version: u8,
        /// The oldest version that this reader knows.
        oldest: u8,
    },
    /// The value has no meaning in this field.
    #[error("value {value} is not valid here")]
    InvalidValue {
        /// The value; of a signed field, its bits.
        value: u64,
    },
    /// The value has no meaning in this field yet: newer writers may give it one.
    #[error("value {value} is not known to this version")]
    Unknown {
        /// The value.
        value: u64,
    },
    /// A text is not UTF-8.
    #[error("is not UTF-8")]
    NotUtf8,
    /// A value that must fill its input does not.
    #[error("{left} bytes are left over")]
    TrailingBytes {
        /// Bytes behind the value.
        left: usize,
    },
    /// A checksum in the input does not match the bytes that it covers.
    #[error("checksum is {found:#010x}, the bytes give {computed:#010x}")]
    Checksum {
        /// The checksum in the input.
        found: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
}
