//! Common head of superblock and label in every format: enough to tell the kind of a block, its
//! owner, and whether this version may use it.

use super::features::{CopyFault, FORMAT, Features};
use crate::device::BLOCK;
use bytes::Bytes;
use codec::{Reader, Writer};
use stdx::AlignedBuffer;
use types::Uuid;

const CHECKSUM_AT: usize = 8;
/// The checksum covers the rest of the block from here.
const CHECKED_FROM: usize = 12;

#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    /// Feature bits.
    pub features: Features,
    /// Id of the store.
    pub store: Uuid,
    /// Version of a superblock; 0 for a label.
    pub sequence: u64,
}

/// Encodes a block with that magic and head, and the output of `body`.
pub(super) fn seal(magic: [u8; 8], head: &Head, body: impl FnOnce(&mut Writer)) -> Bytes {
    let mut w = Writer::with_capacity(BLOCK);
    w.raw(&magic);
    w.u32(0);
    w.u32(FORMAT);
    w.u64(head.features.compatible);
    w.u64(head.features.read_only);
    w.u64(head.features.incompatible);
    w.value(&head.store);
    w.u64(head.sequence);
    body(&mut w);
    let mut block = AlignedBuffer::zeroed(BLOCK);
    block[..w.len()].copy_from_slice(w.as_slice());
    let checksum = crc_fast::crc32_iscsi(&block[CHECKED_FROM..]);
    block[CHECKSUM_AT..CHECKED_FROM].copy_from_slice(&checksum.to_le_bytes());
    block.into()
}

/// Decodes the head of an intact block that this version understands; returns a reader of its body.
pub(super) fn open(magic: [u8; 8], block: &[u8]) -> Result<(Head, Reader<'_>), CopyFault> {
    let mut r = Reader::new(block);
    if r.array("magic") != Ok(magic) {
        return Err(CopyFault::NoMagic);
    }
    let found = r.u32("checksum").map_err(|_| CopyFault::Damaged)?;
    if block.len() != BLOCK || crc_fast::crc32_iscsi(&block[CHECKED_FROM..]) != found {
        return Err(CopyFault::Damaged);
    }
    let format = r.u32("format").map_err(CopyFault::NotUnderstood)?;
    let head = read(&mut r).map_err(CopyFault::NotUnderstood)?;
    if format != FORMAT {
        return Err(CopyFault::OtherFormat(format));
    }
    match head.features.unknown_incompatible() {
        0 => Ok((head, r)),
        bits => Err(CopyFault::UnknownFeatures(bits)),
    }
}

fn read(r: &mut Reader<'_>) -> codec::Result<Head> {
    let features = Features {
        compatible: r.u64("compatible features")?,
        read_only: r.u64("read-only features")?,
        incompatible: r.u64("incompatible features")?,
    };
    Ok(Head { features, store: r.value()?, sequence: r.u64("sequence")? })
}
