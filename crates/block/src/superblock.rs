//! The superblock: identity and layout of a store, and the tree root and log point from which its
//! state is rebuilt.
//!
//! There are four copies, two at either end of the main device. Version n is written to the near
//! and the far block of parity n, in that order or at once; so the previous version stays intact
//! until this one is durable, and one bad block loses neither. A new store writes two versions, so
//! that all four copies belong to it.
//!
//! A checkpoint is durable when its superblock is; only then may pages and blocks of the previous
//! version be reused. Therefore an older version is never used silently in place of a damaged one.

mod error;
mod features;
mod geometry;
mod head;
mod label;
mod record;
#[cfg(test)]
mod tests;

pub use error::SuperblockError;
pub use features::{Bits, FORMAT, Features, SCATTERED_METADATA, SHARDS};
pub use geometry::{
    Geometry, GeometryError, LABEL_BLOCKS, LOG_BLOCKS_MIN, MAIN_BLOCKS_MIN, SUPERBLOCK_BLOCKS,
    layout,
};
pub use label::FastLabel;
pub use record::{
    BITMAP_EXTENTS_MAX, METADATA_RUNS_MAX, MetadataSpace, OWNER_BYTES_MAX, PageBitmap,
    SCATTERED_EXTENTS_MAX, Superblock, TREE_ROOT_BYTES_MAX,
};

use bytes::Bytes;
use features::CopyFault;

/// Places of version `sequence`: a near and a far block.
pub fn slots(main_blocks: u64, sequence: u64) -> [u64; 2] {
    let [near_even, near_odd, far_even, far_odd] = all_slots(main_blocks);
    if sequence.is_multiple_of(2) { [near_even, far_even] } else { [near_odd, far_odd] }
}

/// Both near blocks, then both far ones.
pub fn all_slots(main_blocks: u64) -> [u64; 4] {
    assert!(main_blocks >= MAIN_BLOCKS_MIN, "a device of {main_blocks} blocks holds no store");
    [0, 1, main_blocks - 2, main_blocks - 1]
}

/// The newest of the copies, in the order of [`all_slots`]; `None` for unreadable ones. On a device
/// that has grown, the far copies are not where its size says: success means that the near ones
/// sufficed; otherwise [`SuperblockError::MaybeOutdated`] contains the former size, for another
/// attempt.
pub fn choose(copies: &[Option<&[u8]>]) -> Result<Superblock, SuperblockError> {
    let decoded: Vec<_> = copies.iter().map(|copy| copy.map(Superblock::decode)).collect();
    if let Some(fault) = decoded.iter().flatten().find_map(fault_of_newer) {
        return Err(SuperblockError::of_fault(fault));
    }
    let all = intact(&decoded);
    let near = intact(&decoded[..decoded.len().min(SUPERBLOCK_BLOCKS as usize)]);
    // Far copies of another store are remains at the end of a device that has grown.
    let decisive = if near.is_empty() { &all } else { &near };
    let Some(first) = decisive.first() else { return Err(why_none(decoded)) };
    if let Some(other) = decisive.iter().find(|copy| copy.store != first.store) {
        return Err(SuperblockError::TwoStores(first.store, other.store));
    }
    let own = || all.iter().filter(|copy| copy.store == first.store);
    let newest = own().max_by_key(|copy| copy.sequence).unwrap_or(first);
    if own().all(|copy| copy.sequence % 2 == newest.sequence % 2) {
        return Err(SuperblockError::MaybeOutdated(Box::new(Superblock::clone(newest))));
    }
    Ok(Superblock::clone(newest))
}

/// Copies that are not intact although `chosen` was found: their blocks and faults, only in places
/// that the store has written, which excludes the end of a device that has grown since.
pub fn bad_copies(
    copies: &[Option<&[u8]>],
    chosen: &Superblock,
    main_blocks: u64,
) -> Vec<(u64, String)> {
    let has_grown = chosen.geometry.main_blocks != main_blocks;
    let own = if has_grown { SUPERBLOCK_BLOCKS as usize } else { copies.len() };
    let slots = all_slots(main_blocks).into_iter().zip(copies).take(own);
    let faults = slots.filter_map(|(slot, copy)| {
        let fault = match copy.map(Superblock::decode) {
            None => "it cannot be read".to_owned(),
            Some(Err(CopyFault::NoMagic)) => "it is no superblock".to_owned(),
            Some(Err(CopyFault::Damaged)) => "its checksum does not hold".to_owned(),
            Some(Err(fault)) => SuperblockError::of_fault(fault).to_string(),
            Some(Ok(copy)) if copy.store != chosen.store => {
                SuperblockError::OtherStore { found: copy.store, expected: chosen.store }
                    .to_string()
            }
            Some(Ok(_)) => return None,
        };
        Some((slot, fault))
    });
    faults.collect()
}

type Decoded = Option<Result<Superblock, CopyFault>>;

fn intact(copies: &[Decoded]) -> Vec<&Superblock> {
    copies.iter().flatten().filter_map(|copy| copy.as_ref().ok()).collect()
}

/// Changes of a newer version must not be undone, wherever its copy lies.
fn fault_of_newer(copy: &Result<Superblock, CopyFault>) -> Option<CopyFault> {
    match copy {
        Err(fault @ (CopyFault::OtherFormat(_) | CopyFault::UnknownFeatures(_))) => {
            Some(fault.clone())
        }
        _ => None,
    }
}

/// The most informative fault if no copy is intact.
fn why_none(copies: Vec<Decoded>) -> SuperblockError {
    let faults = copies.into_iter().flatten().filter_map(Result::err);
    let severity = |fault: &CopyFault| match fault {
        CopyFault::NoMagic => 0,
        CopyFault::Damaged => 1,
        _ => 2,
    };
    faults.max_by_key(severity).map_or(SuperblockError::Unreadable, SuperblockError::of_fault)
}

impl Superblock {
    /// Refuses the store of another owner than the expected one, if one is expected.
    pub fn check_owner(&self, expected: Option<&Bytes>) -> Result<(), SuperblockError> {
        match expected {
            Some(expected) if *expected != self.owner => Err(SuperblockError::OtherOwner),
            _ => Ok(()),
        }
    }

    /// Checks that this version may write to the store.
    pub fn check_writable(&self) -> Result<(), SuperblockError> {
        match self.features.unknown_read_only() {
            0 => Ok(()),
            bits => Err(SuperblockError::ReadOnly(Bits(bits))),
        }
    }
}
