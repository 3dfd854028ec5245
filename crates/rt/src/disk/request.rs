//! Requests to a file, and their results.

use super::error::DiskFault;
use bytes::Bytes;

/// Id of an open file of one reactor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub(crate) u32);

/// A request to a file. Offsets, lengths and addresses are multiples of [`stdx::DIRECT_ALIGNMENT`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskRequest {
    /// Reads a range.
    Read {
        /// First byte in the file.
        offset: u64,
        /// Bytes.
        length: usize,
    },
    /// The pieces are consecutive in the file. If `durable`, completion means that all of them are durable.
    Write {
        /// First byte in the file.
        offset: u64,
        /// The data, one piece after the other.
        pieces: Vec<Bytes>,
        /// Whether the request completes only when the data is durable.
        durable: bool,
    },
    /// Makes all completed writes durable.
    Flush,
    /// Discards the range: a device trims it, a file punches a hole.
    Discard {
        /// First byte in the file.
        offset: u64,
        /// Bytes.
        length: u64,
    },
}

/// The bytes of a read; empty for other requests.
pub type DiskResult = Result<Bytes, DiskFault>;
