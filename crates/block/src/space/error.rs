//! Requests that contradict the state of the blocks.

use crate::device::Extent;
use thiserror::Error;

/// The request contradicts the state of the blocks. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SpaceError {
    /// The extent is not a part of the space.
    #[error(
        "{} blocks from {} are not within the {} blocks from {}",
        extent.count, extent.start, space.count, space.start
    )]
    OutOfRange {
        /// The extent of the request.
        extent: Extent,
        /// All blocks of the space.
        space: Extent,
    },
    /// A block that should be free is in use.
    #[error("block {block} is in use")]
    Used {
        /// The first such block.
        block: u64,
    },
    /// A block that should be in use is free.
    #[error("block {block} is free")]
    Free {
        /// The first such block.
        block: u64,
    },
    /// A pin ended that had not begun.
    #[error("block {block} is not pinned")]
    NotPinned {
        /// The first such block.
        block: u64,
    },
    /// The stored bitmap has a chunk beyond the device.
    #[error("there is no chunk {chunk} of the bitmap, which has {chunks}")]
    NoChunk {
        /// Number of the chunk.
        chunk: u32,
        /// Number of chunks.
        chunks: u32,
    },
    /// A stored chunk is too short or too long.
    #[error("chunk {chunk} of the bitmap has {length} bytes")]
    ChunkLength {
        /// Number of the chunk.
        chunk: u32,
        /// Its length in bytes.
        length: usize,
    },
}
