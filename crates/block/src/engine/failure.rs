//! Errors that keep a store from being opened or from continuing.

use crate::device::IoError;
use crate::log::{Damage, LogFault};
use crate::object::SharedError;
use crate::space::SpaceError;
use crate::superblock::{GeometryError, MAIN_BLOCKS_MIN, SuperblockError};
use crate::tree::{ApplyError, Fault};
use codec::DecodeError;
use store::StoreError;
use thiserror::Error;

/// Reason why a store cannot be opened or has stopped.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StoreFailure {
    /// No copy of the superblock can be used.
    #[error("{}; {}", .0, .0.advice())]
    Superblock(#[from] SuperblockError),
    /// The main device is smaller than any store.
    #[error("{found} blocks of 4 KiB hold no store: it has {MAIN_BLOCKS_MIN} at least")]
    TooSmall {
        /// Blocks of the main device.
        found: u64,
    },
    /// The devices do not match the superblock: they are exchanged, or were truncated.
    #[error(
        "the store was made for devices of {made} blocks of 4 KiB, they have {found}: {why}; give it the \
         devices that it was made for"
    )]
    Geometry {
        /// Blocks of the device at formatting.
        made: u64,
        /// Blocks of the device now.
        found: u64,
        /// The part that does not match.
        why: GeometryError,
    },
    /// Durable batches of the log are unreadable or missing.
    #[error(
        "the log is damaged: {0}; acknowledged changes would be missing. `sepiola store fsck --deep DIR` \
         tells what is left; what is lost is on other OSDs of the cluster, which fill a new store \
         (`sepiola osd replace`)"
    )]
    Log(LogFault),
    /// Data of a last batch is unreadable, so it is not known whether the batch was acknowledged.
    #[error(
        "block {block} of the main device cannot be read: it holds data of batch {seq}, one of the last of \
         the log, which may have been acknowledged. `sepiola store fsck --deep DIR` shows it; with \
         `--repair` the batch counts, and the object without its data is reported as damaged"
    )]
    Unsure {
        /// The unreadable block of the main device.
        block: u64,
        /// Number of the batch.
        seq: u64,
    },
    /// Pairs of the tree or records of the log contradict each other or cannot be read.
    #[error(
        "the metadata is damaged: {0}; `sepiola store fsck --deep DIR` tells what can be repaired"
    )]
    Metadata(MetadataFault),
    /// An operation failed while the store was opened.
    #[error("the device failed: {0}")]
    Device(IoError),
    /// The store has stopped after it was opened.
    #[error("the device failed: {0}")]
    Stopped(StoreError),
}

/// Contradiction in the metadata of a store.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MetadataFault {
    #[error("the bitmap of pages has another checksum")]
    PageBitmap,
    #[error("a run of its pages is not in use: {0}")]
    PagesNotInUse(SpaceError),
    #[error(transparent)]
    Space(#[from] SpaceError),
    #[error(transparent)]
    Encoding(#[from] DecodeError),
    #[error(transparent)]
    Tree(#[from] Fault),
}

/// Reason why repairs cannot be made when the store is opened.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum RepairFault {
    #[error("it needs {needed} bytes of log")]
    LogTooSmall { needed: u64 },
    #[error(transparent)]
    Space(#[from] SpaceError),
}

/// Contradiction between pairs of the metadata, met by a request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum PairFault {
    #[error("{what}: {error}")]
    Encoding { what: &'static str, error: DecodeError },
    #[error("no shared extents {id}")]
    NoSharedExtents { id: u64 },
    #[error("held changes {id} do not have the data of their writes")]
    Held { id: u64 },
    #[error(transparent)]
    Shared(#[from] SharedError),
    #[error(transparent)]
    Tree(#[from] Fault),
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

/// Reason why an open store stops or refuses a request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum MountedFault {
    #[error(
        "the metadata is damaged: {0}; `sepiola store fsck --deep DIR` tells what can be repaired"
    )]
    Metadata(PairFault),
    #[error("the metadata is damaged: {0}")]
    Freed(SpaceError),
    #[error("the repair is not possible: {0}")]
    Repair(RepairFault),
}

impl StoreFailure {
    pub(super) fn unreadable(block: u64) -> Self {
        StoreFailure::Log(LogFault::Unreadable { block })
    }

    pub(super) fn damaged(block: u64, damage: Damage) -> Self {
        StoreFailure::Log(LogFault::Damaged { block, damage })
    }
}

pub(super) fn metadata(fault: impl Into<MetadataFault>) -> StoreFailure {
    StoreFailure::Metadata(fault.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Extent;
    use crate::superblock::layout;

    fn read_failed() -> IoError {
        std::io::Error::other("read failed").into()
    }

    /// Users and their scripts see these.
    #[test]
    fn the_sentences_stay_what_they_are() {
        let damage = Damage::Format { seq: 7, format: 2 };
        let outside =
            SpaceError::OutOfRange { extent: Extent::new(5, 2), space: Extent::new(9, 4) };
        let too_small = layout(1, 0, None).unwrap_err();
        let geometry = StoreFailure::Geometry { made: 9000, found: 1, why: too_small };
        let sentences = [
            (
                geometry,
                "the store was made for devices of 9000 blocks of 4 KiB, they have 1: the main device has \
                 1 blocks of 4 KiB, at least 2048 are needed; give it the devices that it was made for",
            ),
            (
                StoreFailure::unreadable(33),
                "the log is damaged: block 33 cannot be read; acknowledged changes would be missing. \
                 `sepiola store fsck --deep DIR` tells what is left; what is lost is on other OSDs of the \
                 cluster, which fill a new store (`sepiola osd replace`)",
            ),
            (
                StoreFailure::damaged(33, damage),
                "the log is damaged: at block 33: batch 7 is intact, but of format 2; acknowledged changes \
                 would be missing. `sepiola store fsck --deep DIR` tells what is left; what is lost is on \
                 other OSDs of the cluster, which fill a new store (`sepiola osd replace`)",
            ),
            (
                metadata(MetadataFault::PageBitmap),
                "the metadata is damaged: the bitmap of pages has another checksum; `sepiola store fsck \
                 --deep DIR` tells what can be repaired",
            ),
            (
                metadata(MetadataFault::PagesNotInUse(outside.clone())),
                "the metadata is damaged: a run of its pages is not in use: 2 blocks from 5 are not within \
                 the 4 blocks from 9; `sepiola store fsck --deep DIR` tells what can be repaired",
            ),
            (
                metadata(outside),
                "the metadata is damaged: 2 blocks from 5 are not within the 4 blocks from 9; `sepiola \
                 store fsck --deep DIR` tells what can be repaired",
            ),
            (StoreFailure::Device(read_failed()), "the device failed: read failed"),
            (
                StoreFailure::Stopped(StoreError::Device(read_failed().into())),
                "the device failed: the device failed: read failed",
            ),
        ];
        for (failure, sentence) in sentences {
            assert_eq!(failure.to_string(), sentence);
        }
    }

    #[test]
    fn repairs_that_are_not_possible() {
        let outside =
            SpaceError::OutOfRange { extent: Extent::new(5, 2), space: Extent::new(9, 4) };
        let sentences = [
            (RepairFault::LogTooSmall { needed: 9000 }, "it needs 9000 bytes of log"),
            (RepairFault::Space(outside), "2 blocks from 5 are not within the 4 blocks from 9"),
        ];
        for (fault, sentence) in sentences {
            assert_eq!(fault.to_string(), sentence);
        }
    }
}
