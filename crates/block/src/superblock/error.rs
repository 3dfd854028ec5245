//! Reasons why a store has no usable superblock.

use super::features::{Bits, CopyFault, FORMAT};
use super::record::Superblock;
use codec::DecodeError;
use thiserror::Error;
use types::Uuid;

/// Reason why a device holds no superblock that this version can use.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SuperblockError {
    #[error("no copy of the superblock can be read")]
    Unreadable,
    #[error("the device holds no store of Sepiola")]
    NotAStore,
    #[error("the device is not the fast device of a store of Sepiola")]
    NotAFastDevice,
    #[error("no copy of the superblock is intact")]
    Damaged,
    #[error("the superblock is intact, but not understood: {0}")]
    NotUnderstood(DecodeError),
    #[error("the store has format {found}, this version knows {FORMAT}")]
    OtherFormat { found: u32 },
    #[error("a newer version wrote the store: it uses unknown features {0}")]
    UnknownFeatures(Bits),
    #[error("a newer version wrote the store, it may only be read: it uses unknown features {0}")]
    ReadOnly(Bits),
    #[error("the device belongs to store {found}, not to {expected}")]
    OtherStore { found: Uuid, expected: Uuid },
    #[error("the device has superblocks of two stores, {0} and {1}")]
    TwoStores(Uuid, Uuid),
    /// Both places of the other parity are unusable, and may have held a newer version.
    #[error("superblock {} is intact, but a newer one may be lost", .0.sequence)]
    MaybeOutdated(Box<Superblock>),
}

impl SuperblockError {
    /// Advice for the operator of a store that does not open for this reason.
    pub fn advice(&self) -> &'static str {
        match self {
            SuperblockError::Unreadable => "look at the device and what leads to it",
            SuperblockError::NotAStore
            | SuperblockError::NotAFastDevice
            | SuperblockError::OtherStore { .. } => {
                "give it the devices that it was made with: the links `block` and `block.log` in the \
                 OSD's directory name them"
            }
            SuperblockError::Damaged => {
                "nothing tells where the store's parts are; other OSDs have what it held and fill a new \
                 store (`sepiola osd replace`)"
            }
            SuperblockError::NotUnderstood(_) | SuperblockError::TwoStores(..) => {
                "`sepiola store fsck --deep DIR` tells more"
            }
            SuperblockError::OtherFormat { .. }
            | SuperblockError::UnknownFeatures(_)
            | SuperblockError::ReadOnly(_) => "use the version that wrote it, or a later one",
            SuperblockError::MaybeOutdated(_) => {
                "both places where it would be are damaged. `sepiola store fsck --deep DIR` shows what the \
                 older one leads to; with `--accept-outdated --repair` the store is that, and what was \
                 acknowledged since is lost here"
            }
        }
    }
}

impl SuperblockError {
    pub(super) fn of_fault(fault: CopyFault) -> SuperblockError {
        match fault {
            CopyFault::NoMagic => SuperblockError::NotAStore,
            CopyFault::Damaged => SuperblockError::Damaged,
            CopyFault::NotUnderstood(error) => SuperblockError::NotUnderstood(error),
            CopyFault::OtherFormat(found) => SuperblockError::OtherFormat { found },
            CopyFault::UnknownFeatures(bits) => SuperblockError::UnknownFeatures(Bits(bits)),
        }
    }
}
