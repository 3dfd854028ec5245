//! Label: the first block of a fast device, with the store that it serves.

use super::error::SuperblockError;
use super::features::{CopyFault, Features};
use super::head::{Head, open, seal};
use bytes::Bytes;
use types::Uuid;

const MAGIC: [u8; 8] = *b"sepiofst";

/// Keeps devices from being mixed up. Written once, before the main device's superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastLabel {
    /// Id of the store that the device belongs to.
    pub store: Uuid,
    /// Blocks of the fast device at formatting.
    pub blocks: u64,
}

impl FastLabel {
    /// Encodes the block in aligned memory.
    pub fn encode(&self) -> Bytes {
        let head = Head { features: Features::default(), store: self.store, sequence: 0 };
        seal(MAGIC, &head, |w| w.u64(self.blocks))
    }

    /// Decodes the label of the fast device of `store`.
    pub fn decode(block: &[u8], store: Uuid) -> Result<FastLabel, SuperblockError> {
        let (head, mut r) = open(MAGIC, block).map_err(|fault| match fault {
            CopyFault::NoMagic => SuperblockError::NotAFastDevice,
            fault => SuperblockError::of_fault(fault),
        })?;
        if head.store != store {
            return Err(SuperblockError::OtherStore { found: head.store, expected: store });
        }
        let blocks = r.u64("blocks").map_err(SuperblockError::NotUnderstood)?;
        Ok(FastLabel { store, blocks })
    }
}
