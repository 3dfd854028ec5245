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

mod geometry;
mod head;
mod label;
#[cfg(test)]
mod tests;

pub use geometry::{
    Geometry, GeometryError, LABEL_BLOCKS, LOG_BLOCKS_MIN, MAIN_BLOCKS_MIN, SUPERBLOCK_BLOCKS,
    layout,
};
pub use label::FastLabel;

use crate::device::{BLOCK, Device, Extent};
use crate::log::{Counters, LogPoint, decode_extent, encode_extent};
use bytes::Bytes;
use codec::{DecodeError, DecodeErrorKind, Encode, Reader, Writer};
use geometry::{decode_device, encode_device};
use head::{Head, open, seal};
use std::fmt;
use thiserror::Error;
use types::Uuid;

/// Version of the format that this code writes and reads.
pub const FORMAT: u32 = 1;
pub const OWNER_BYTES_MAX: usize = 256;
pub const TREE_ROOT_BYTES_MAX: usize = 64;
/// Runs of the metadata space that the superblock names. If there are more, only the bitmap of
/// pages names them ([`SCATTERED_METADATA`]).
pub const METADATA_RUNS_MAX: usize = 128;
/// Extents of the bitmap of pages, if the superblock names the runs,
pub const BITMAP_EXTENTS_MAX: usize = 16;
/// and if it does not.
pub const SCATTERED_EXTENTS_MAX: usize = METADATA_RUNS_MAX + BITMAP_EXTENTS_MAX;

/// An incompatible feature: the superblock does not name the runs of the metadata space. Set only
/// while there are too many of them.
pub const SCATTERED_METADATA: u64 = 1 << 0;

const MAGIC: [u8; 8] = *b"sepiosup";

/// Features that this version knows.
const KNOWN_READ_ONLY: u64 = 0;
const KNOWN_INCOMPATIBLE: u64 = SCATTERED_METADATA;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    pub features: Features,
    pub store: Uuid,
    /// Number of this version; grows by one with each write.
    pub sequence: u64,
    /// Number of the last mount; grows by one with each.
    pub generation: u64,
    pub geometry: Geometry,
    /// Owner of the store, not interpreted.
    pub owner: Bytes,
    /// Log point where replay starts; earlier records are in the tree.
    pub log: LogPoint,
    /// Log point where the mount of this generation began to append.
    pub resumed: LogPoint,
    /// Counters as of `log`.
    pub counters: Counters,
    /// Root of the metadata tree, encoded by the tree.
    pub tree_root: Bytes,
    pub metadata: MetadataSpace,
}

/// The metadata space, and the bitmap of its pages in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataSpace {
    pub device: Device,
    /// Runs that the superblock names; see [`SCATTERED_METADATA`].
    pub runs: Vec<Extent>,
    pub bitmap: PageBitmap,
}

/// Place of the bitmap of the tree's pages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PageBitmap {
    pub extents: Vec<Extent>,
    pub bytes: u64,
    pub crc: u32,
}

/// Additions to the format, one bit each. An older version that does not know a bit may still write
/// to the store, only read it, or do neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features {
    pub compatible: u64,
    pub read_only: u64,
    pub incompatible: u64,
}

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

/// Feature bits, shown as their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bits(pub u64);

impl fmt::Display for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for bit in (0..u64::BITS).filter(|bit| self.0 >> bit & 1 == 1) {
            write!(f, "{separator}{bit}")?;
            separator = ", ";
        }
        Ok(())
    }
}

impl Features {
    pub fn has_scattered_metadata(&self) -> bool {
        self.incompatible & SCATTERED_METADATA != 0
    }

    pub fn set_scattered_metadata(&mut self, is_scattered: bool) {
        self.incompatible &= !SCATTERED_METADATA;
        self.incompatible |= if is_scattered { SCATTERED_METADATA } else { 0 };
    }

    fn unknown_incompatible(&self) -> u64 {
        self.incompatible & !KNOWN_INCOMPATIBLE
    }
}

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

/// Reason why a block is not a usable copy.
#[derive(Debug, Clone)]
enum CopyFault {
    NoMagic,
    Damaged,
    NotUnderstood(DecodeError),
    OtherFormat(u32),
    UnknownFeatures(u64),
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

impl SuperblockError {
    fn of_fault(fault: CopyFault) -> SuperblockError {
        match fault {
            CopyFault::NoMagic => SuperblockError::NotAStore,
            CopyFault::Damaged => SuperblockError::Damaged,
            CopyFault::NotUnderstood(error) => SuperblockError::NotUnderstood(error),
            CopyFault::OtherFormat(found) => SuperblockError::OtherFormat { found },
            CopyFault::UnknownFeatures(bits) => SuperblockError::UnknownFeatures(Bits(bits)),
        }
    }
}

impl Superblock {
    /// Encodes the block in aligned memory. Lists and opaque bytes must be within their bounds.
    pub fn encode(&self) -> Bytes {
        assert!(self.owner.len() <= OWNER_BYTES_MAX);
        assert!(self.tree_root.len() <= TREE_ROOT_BYTES_MAX);
        let (runs_max, extents_max) = list_limits(self.features.has_scattered_metadata());
        assert!(self.metadata.runs.len() <= runs_max);
        assert!(self.metadata.bitmap.extents.len() <= extents_max);
        let (features, store, sequence) = (self.features, self.store, self.sequence);
        seal(MAGIC, &Head { features, store, sequence }, |w| {
            w.u64(self.generation);
            w.value(&self.geometry);
            w.value(&self.log);
            w.value(&self.resumed);
            w.value(&self.counters);
            w.blob(&self.owner);
            w.blob(&self.tree_root);
            w.value(&self.metadata);
        })
    }

    /// Names the runs of the metadata space if they, and the extents of the bitmap already set, are
    /// few enough.
    pub fn name_runs(&mut self, count: usize, runs: impl Iterator<Item = Extent>) {
        let extents = self.metadata.bitmap.extents.len();
        let is_scattered = count > METADATA_RUNS_MAX || extents > BITMAP_EXTENTS_MAX;
        self.features.set_scattered_metadata(is_scattered);
        self.metadata.runs = if is_scattered { Vec::new() } else { runs.collect() };
    }

    /// Checks that this version may write to the store.
    pub fn check_writable(&self) -> Result<(), SuperblockError> {
        match self.features.read_only & !KNOWN_READ_ONLY {
            0 => Ok(()),
            bits => Err(SuperblockError::ReadOnly(Bits(bits))),
        }
    }

    /// Decodes one copy, whether or not it is the newest.
    pub fn read_copy(block: &[u8]) -> Option<Superblock> {
        Superblock::decode(block).ok()
    }

    fn decode(block: &[u8]) -> Result<Superblock, CopyFault> {
        let (head, mut r) = open(MAGIC, block)?;
        Superblock::decode_body(head, &mut r).map_err(CopyFault::NotUnderstood)
    }

    fn decode_body(head: Head, r: &mut Reader<'_>) -> codec::Result<Superblock> {
        let Head { features, store, sequence } = head;
        Ok(Superblock {
            features,
            store,
            sequence,
            generation: r.u64("generation")?,
            geometry: r.value()?,
            log: r.value()?,
            resumed: r.value()?,
            counters: r.value()?,
            owner: bounded_blob(r, "owner", OWNER_BYTES_MAX)?,
            tree_root: bounded_blob(r, "tree root", TREE_ROOT_BYTES_MAX)?,
            metadata: decode_metadata(r, features.has_scattered_metadata())?,
        })
    }
}

impl Encode for MetadataSpace {
    fn encode(&self, w: &mut Writer) {
        encode_device(w, self.device);
        w.list(&self.runs, encode_extent);
        w.list(&self.bitmap.extents, encode_extent);
        w.u64(self.bitmap.bytes);
        w.u32(self.bitmap.crc);
    }
}

/// Maximum numbers of runs and of bitmap extents in the superblock.
fn list_limits(is_scattered: bool) -> (usize, usize) {
    match is_scattered {
        true => (0, SCATTERED_EXTENTS_MAX),
        false => (METADATA_RUNS_MAX, BITMAP_EXTENTS_MAX),
    }
}

fn decode_metadata(r: &mut Reader<'_>, is_scattered: bool) -> codec::Result<MetadataSpace> {
    let (runs_max, extents_max) = list_limits(is_scattered);
    let device = decode_device(r, "device of the metadata")?;
    let runs = bounded_list(r, "metadata runs", runs_max)?;
    let extents = bounded_list(r, "extents of the bitmap", extents_max)?;
    let bitmap =
        PageBitmap { extents, bytes: r.u64("length of the bitmap")?, crc: r.u32("its checksum")? };
    Ok(MetadataSpace { device, runs, bitmap })
}

fn bounded_list(
    r: &mut Reader<'_>,
    field: &'static str,
    limit: usize,
) -> codec::Result<Vec<Extent>> {
    let at = *r;
    let extents = r.list(field, decode_extent)?;
    check_length(&at, field, extents.len(), limit)?;
    Ok(extents)
}

fn bounded_blob(r: &mut Reader<'_>, field: &'static str, limit: usize) -> codec::Result<Bytes> {
    let at = *r;
    let blob = r.blob(field)?;
    check_length(&at, field, blob.len(), limit)?;
    Ok(Bytes::copy_from_slice(blob))
}

fn check_length(
    at: &Reader<'_>,
    field: &'static str,
    length: usize,
    limit: usize,
) -> codec::Result<()> {
    if length <= limit {
        return Ok(());
    }
    let kind = DecodeErrorKind::TooLong { length: length as u64, limit: limit as u64 };
    Err(at.error(field, kind))
}

/// All fields at their maximum length fit into the block.
const _: () = {
    let lists = SCATTERED_EXTENTS_MAX * size_of::<Extent>();
    assert!(512 + OWNER_BYTES_MAX + TREE_ROOT_BYTES_MAX + lists <= BLOCK);
};
