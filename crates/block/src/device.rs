//! Operations that the store sends to its devices, and their results.
//!
//! All addresses are in blocks of [`BLOCK`] bytes. The store relies on two properties of a device:
//! a block is written as a whole or not at all; and a flush makes durable all writes that completed
//! before the [`Io::Flush`] was submitted. Otherwise writes become durable in any order.

use bytes::Bytes;
use std::fmt;
use store::{Cause, DeviceFault};
use thiserror::Error;

/// The unit of allocation, of checksums, and of atomic writes, in bytes.
pub const BLOCK: usize = 4096;

/// One of the at most two devices of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Device {
    /// Data; log and metadata too if there is no other device.
    Main,
    /// Log and metadata on a faster device beside the main one.
    Fast,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Device::Main => "main",
            Device::Fast => "fast",
        })
    }
}

/// Identifies an operation until it completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoId(pub u64);

/// An operation, to be submitted to the device as it is. Operations of one device may complete in
/// any order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Io {
    /// Completes with `blocks` × [`BLOCK`] bytes.
    Read {
        /// Returned in [`IoDone`].
        id: IoId,
        /// Device to read from.
        device: Device,
        /// First block.
        block: u64,
        /// Number of blocks, at least one.
        blocks: u32,
    },
    /// Adjacent pieces; each has a multiple of [`BLOCK`] bytes and the alignment of
    /// `stdx::AlignedBuffer`. If `durable`, completion means that all of it is durable (other
    /// writes need not be).
    Write {
        /// Returned in [`IoDone`].
        id: IoId,
        /// Device to write to.
        device: Device,
        /// First block.
        block: u64,
        /// The content, in order.
        data: Vec<Bytes>,
        /// Set if the completion must wait for durability.
        durable: bool,
    },
    /// Makes durable the writes that completed before it was submitted.
    Flush {
        /// Returned in [`IoDone`].
        id: IoId,
        /// Device to flush.
        device: Device,
    },
    /// The content of the blocks is no longer needed; reads return undefined bytes.
    Discard {
        /// Returned in [`IoDone`].
        id: IoId,
        /// Device that may reclaim the blocks.
        device: Device,
        /// First block.
        block: u64,
        /// Number of blocks, at least one.
        blocks: u64,
    },
}

/// A completed operation. Reads return their bytes, other operations none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IoDone {
    /// The id that the operation was submitted with.
    pub id: IoId,
    /// The bytes that were read; empty for other operations.
    pub result: Result<Bytes, IoError>,
}

/// Reason why an operation failed. The host, which knows names of files, gives the text.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct IoError(Cause);

impl IoError {
    /// An error with the text of the host's error.
    pub fn new(cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        IoError(Cause::new(cause))
    }
}

impl From<std::io::Error> for IoError {
    fn from(error: std::io::Error) -> Self {
        IoError::new(error)
    }
}

impl From<IoError> for DeviceFault {
    fn from(error: IoError) -> Self {
        DeviceFault::from(error.0)
    }
}

/// Reason why blocks have no content.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReadError {
    /// The device failed.
    #[error("{0}")]
    Io(IoError),
    /// The device of a store that is open failed.
    #[error("the device failed: {0}")]
    Device(DeviceFault),
    /// The device has fewer blocks.
    #[error("{extent} is not within {limit} blocks")]
    Outside {
        /// The blocks to be read.
        extent: Extent,
        /// Number of blocks of the device.
        limit: u64,
    },
    /// The host returned another number of bytes.
    #[error("{found} bytes came instead of {blocks} blocks")]
    Length {
        /// Bytes that came.
        found: usize,
        /// Blocks to be read.
        blocks: u64,
    },
}

impl From<IoError> for ReadError {
    fn from(error: IoError) -> Self {
        ReadError::Io(error)
    }
}

/// A run of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Extent {
    /// First block.
    pub start: u64,
    /// Number of blocks.
    pub count: u64,
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            1 => write!(f, "block {}", self.start),
            _ => write!(f, "blocks {}..{}", self.start, self.start.saturating_add(self.count)),
        }
    }
}

impl Extent {
    /// `count` blocks from `start` on; the sum must not overflow.
    pub fn new(start: u64, count: u64) -> Self {
        Extent { start, count }
    }

    /// First block after the extent.
    pub fn end(&self) -> u64 {
        self.start + self.count
    }
}
