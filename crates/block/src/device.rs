//! Operations that the store sends to its devices, and their results.
//!
//! All addresses are in blocks of [`BLOCK`] bytes. The store relies on two properties of a device:
//! a block is written as a whole or not at all; and a flush makes durable all writes that completed
//! before the [`Io::Flush`] was submitted. Otherwise writes become durable in any order.

use bytes::Bytes;
use thiserror::Error;

/// The unit of allocation, of checksums, and of atomic writes, in bytes.
pub const BLOCK: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Device {
    /// Data; log and metadata too if there is no other device.
    Main,
    /// Log and metadata on a faster device beside the main one.
    Fast,
}

/// Identifies an operation until it completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoId(pub u64);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Io {
    /// Completes with `blocks` × [`BLOCK`] bytes.
    Read { id: IoId, device: Device, block: u64, blocks: u32 },
    /// Adjacent pieces; each has a multiple of [`BLOCK`] bytes and the alignment of
    /// `stdx::AlignedBuffer`. If `durable`, completion means that all of it is durable (other
    /// writes need not be).
    Write { id: IoId, device: Device, block: u64, data: Vec<Bytes>, durable: bool },
    /// Makes durable the writes that completed before it was submitted.
    Flush { id: IoId, device: Device },
    /// The content of the blocks is no longer needed; reads return undefined bytes.
    Discard { id: IoId, device: Device, block: u64, blocks: u64 },
}

/// A completed operation. Reads return their bytes, other operations none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IoDone {
    pub id: IoId,
    /// The bytes that were read; empty for other operations.
    pub result: Result<Bytes, IoError>,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct IoError(pub String);

/// A run of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Extent {
    /// First block.
    pub start: u64,
    /// Number of blocks.
    pub count: u64,
}

impl Extent {
    pub fn new(start: u64, count: u64) -> Self {
        Extent { start, count }
    }

    /// First block after the extent.
    pub fn end(&self) -> u64 {
        self.start + self.count
    }
}
