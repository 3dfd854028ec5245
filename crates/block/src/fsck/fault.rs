//! Reasons why parts of a store cannot be used.

use crate::device::{Extent, ReadError};
use crate::space::SpaceError;
use crate::superblock::SuperblockError;
use crate::table::Op;
use codec::DecodeError;
use std::fmt;
use store::HoldFault;
use thiserror::Error;
use types::Uuid;

/// Reason why a copy of the superblock cannot be used at all.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CopyError {
    /// The device does not return the block.
    #[error(transparent)]
    Unreadable(#[from] ReadError),
    /// The block is no superblock that this version knows.
    #[error(transparent)]
    Superblock(#[from] SuperblockError),
}

/// Reason why a copy of the superblock is not the one expected at its place.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CopyFault {
    /// It cannot be used.
    #[error(transparent)]
    Unusable(#[from] CopyError),
    /// It belongs to another store than the newest copy.
    #[error("it belongs to store {found}, not to {expected}")]
    OtherStore {
        /// Id of the store in the copy.
        found: Uuid,
        /// Id of the store in the newest copy.
        expected: Uuid,
    },
    /// Copies of one version have different contents.
    #[error("version {version} differs from another copy of it")]
    Differs {
        /// Sequence that both have.
        version: u64,
    },
    /// A version is missing.
    #[error("it is version {found} instead of {expected}")]
    OtherVersion {
        /// Sequence of the copy.
        found: u64,
        /// Sequence that belongs there.
        expected: u64,
    },
}

/// Reason why the label of the fast device must be written again.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LabelFault {
    /// It cannot be used.
    #[error(transparent)]
    Unusable(#[from] CopyError),
    /// The superblock has another size.
    #[error("it is of a device of {blocks} blocks")]
    OtherSize {
        /// Size in the label, in blocks.
        blocks: u64,
    },
}

/// Reason why the stored bitmap of pages cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BitmapError {
    /// The device does not return its blocks.
    #[error(transparent)]
    Unreadable(#[from] ReadError),
    /// The superblock says that it is longer than its blocks.
    #[error("it has {length} bytes in {found}")]
    Length {
        /// Bytes by the superblock.
        length: u64,
        /// Bytes of its blocks.
        found: usize,
    },
    /// Torn or changed.
    #[error("its checksum is {found:#010x} instead of {expected:#010x}")]
    Checksum {
        /// CRC-32C of its bytes.
        found: u32,
        /// CRC-32C in the superblock.
        expected: u32,
    },
    /// A field is not decodable.
    #[error(transparent)]
    Encoding(#[from] DecodeError),
    /// Superblock and bitmap have different runs.
    #[error("it is of other runs than the superblock names")]
    Runs,
}

/// Reason why a value does not fit its key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ValueFault {
    /// A field is not decodable.
    #[error(transparent)]
    Encoding(#[from] DecodeError),
    /// A chunk of the bitmap of the space does not fit the device.
    #[error(transparent)]
    Bitmap(#[from] SpaceError),
    /// The changes of a list cannot be held.
    #[error(transparent)]
    Hold(#[from] HoldFault),
    /// A removed slice has a value.
    #[error("it has a value of {length} bytes")]
    Unexpected {
        /// Length of the value.
        length: usize,
    },
}

/// Reason why a held change contradicts itself or the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum HeldFault {
    /// The superblock does not say that the store may have held changes.
    #[error("the superblock lacks the feature of shards")]
    Feature,
    /// Value and key have different ids.
    #[error("its data has id {found}, its key {expected}")]
    OtherId {
        /// Id in the value.
        found: u64,
        /// Id in the key.
        expected: u64,
    },
    /// Another one of the collection has the same name.
    #[error("it is there twice")]
    Twice,
    /// The objects have another hash than the key.
    #[error("its objects have hash {0:08x}")]
    Hash(u32),
    /// List and data have different lengths.
    #[error("its writes have {writes} bytes, its data has {data}")]
    Size {
        /// Bytes of all writes in the list.
        writes: u64,
        /// Size of the data in bytes.
        data: u64,
    },
    /// The value says that there is an omap.
    #[error("it has an omap")]
    Omap,
    /// The value has attributes besides the list.
    #[error("it has {0} attributes instead of one")]
    Attributes(usize),
    /// Other objects refer to its blocks, too, so that it cannot be settled.
    #[error("its data is shared")]
    Shared,
    /// Its data has a hole, so that it cannot be settled.
    #[error("its data has {found} of {expected} blocks")]
    Hole {
        /// Mapped blocks.
        found: u64,
        /// Blocks by its size.
        expected: u64,
    },
}

/// Effect of a record on blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Allocates them.
    Takes,
    /// Frees them.
    Frees,
    /// Writes data to them.
    Writes,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Takes => "takes",
            Access::Frees => "frees",
            Access::Writes => "writes",
        })
    }
}

/// Reason why a record violates the format.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RecordFault {
    /// An extent is not within the space for data.
    #[error("{access} {extent} outside of the space")]
    OutsideSpace {
        /// Use of the blocks.
        access: Access,
        /// The blocks.
        extent: Extent,
    },
    /// Only checkpoints change pairs of the bitmap.
    #[error("changes the bitmap of the space: {0:?}")]
    Bitmap(Op),
}
