//! Requests that contradict the state of the blocks.

use crate::device::Extent;
use thiserror::Error;

/// The request contradicts the state of the blocks. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SpaceError {
    #[error(
        "{} blocks from {} are not within the {} blocks from {}",
        extent.count, extent.start, space.count, space.start
    )]
    OutOfRange { extent: Extent, space: Extent },
    #[error("block {block} is in use")]
    Used { block: u64 },
    #[error("block {block} is free")]
    Free { block: u64 },
    #[error("block {block} is not pinned")]
    NotPinned { block: u64 },
    #[error("there is no chunk {chunk} of the bitmap, which has {chunks}")]
    NoChunk { chunk: u32, chunks: u32 },
    #[error("chunk {chunk} of the bitmap has {length} bytes")]
    ChunkLength { chunk: u32, length: usize },
}
