//! What the store asks of its devices, and what it is told.
//!
//! All addresses are in blocks of [`BLOCK`] bytes. Of a device only this is assumed: a block is
//! written as a whole or not at all; writes become durable in any order, those that completed before
//! a [`Io::Flush`] was asked for at the latest when it completes.

use bytes::Bytes;
use thiserror::Error;

/// The unit of allocation, of checksums, and of atomic writes, in bytes.
pub const BLOCK: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Device {
    /// Data, and everything else if there is no other device.
    Main,
    /// Log and metadata, where a faster device serves the main one.
    Fast,
}

/// Names an operation until it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoId(pub u64);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Io {
    /// Answered with `blocks` × [`BLOCK`] bytes.
    Read { id: IoId, device: Device, block: u64, blocks: u32 },
    /// The pieces follow each other on the device; each is a multiple of [`BLOCK`] long and aligned
    /// as `stdx::AlignedBuffer` is. If `durable`, it completes when all of it is durable (nothing is
    /// said of other writes).
    Write { id: IoId, device: Device, block: u64, data: Vec<Bytes>, durable: bool },
    /// Makes writes that completed before durable.
    Flush { id: IoId, device: Device },
    /// The blocks hold nothing any more; what they read as is undefined.
    Discard { id: IoId, device: Device, block: u64, blocks: u64 },
}

/// An operation is done. Reads bring their bytes, everything else brings none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IoDone {
    pub id: IoId,
    pub result: Result<Bytes, IoError>,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct IoError(pub String);

/// A run of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Extent {
    pub start: u64,
    pub count: u64,
}

impl Extent {
    pub fn new(start: u64, count: u64) -> Self {
        Extent { start, count }
    }

    /// The first block behind it.
    pub fn end(&self) -> u64 {
        self.start + self.count
    }
}
