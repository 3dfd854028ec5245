//! Reasons why a store has no usable superblock.

use super::features::{Bits, CopyFault, FORMAT};
use super::record::Superblock;
use codec::DecodeError;
use thiserror::Error;
use types::Uuid;

/// Reason why a device holds no superblock that this version can use.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SuperblockError {
    /// The device fails to read each of the four places.
    #[error("no copy of the superblock can be read")]
    Unreadable,
    /// Neither place begins with the magic of a superblock.
    #[error("the device holds no store of Sepiola")]
    NotAStore,
    /// The first block does not begin with the magic of a label.
    #[error("the device is not the fast device of a store of Sepiola")]
    NotAFastDevice,
    /// All copies with the magic have wrong checksums.
    #[error("no copy of the superblock is intact")]
    Damaged,
    /// The checksum is right, and a field is not decodable.
    #[error("the superblock is intact, but not understood: {0}")]
    NotUnderstood(DecodeError),
    /// The version of the format is another one.
    #[error("the store has format {found}, this version knows {FORMAT}")]
    OtherFormat {
        /// Version in the superblock.
        found: u32,
    },
    /// Incompatible features that this version does not know: it must not even read.
    #[error("a newer version wrote the store: it uses unknown features {0}")]
    UnknownFeatures(Bits),
    /// Features that this version does not know and that forbid it to write.
    #[error("a newer version wrote the store, it may only be read: it uses unknown features {0}")]
    ReadOnly(Bits),
    /// The device belongs to another store, for example after disks were exchanged.
    #[error("the device belongs to store {found}, not to {expected}")]
    OtherStore {
        /// Id of the store on the device.
        found: Uuid,
        /// Id of the store to be opened.
        expected: Uuid,
    },
    /// The store is not that of the expected owner. Owners are not interpreted here.
    #[error("the store on the device is another owner's")]
    OtherOwner,
    /// Copies at the beginning and at the end belong to different stores, whose ids these are.
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
            | SuperblockError::OtherOwner
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
