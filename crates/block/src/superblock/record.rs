//! The superblock as a block of the device.

use super::features::{CopyFault, Features};
use super::geometry::{Geometry, decode_device, encode_device};
use super::head::{Head, open, seal};
use crate::device::{BLOCK, Device, Extent};
use crate::log::{Counters, LogPoint, decode_extent, encode_extent};
use bytes::Bytes;
use codec::{DecodeErrorKind, Encode, Reader, Writer};
use types::Uuid;

/// Maximum length of the owner's name; formatting refuses longer ones.
pub const OWNER_BYTES_MAX: usize = 256;
/// Maximum length of the encoded root of the tree.
pub const TREE_ROOT_BYTES_MAX: usize = 64;
/// Runs of the metadata space that the superblock names. If there are more, only the bitmap of
/// pages names them ([`SCATTERED_METADATA`]).
pub const METADATA_RUNS_MAX: usize = 128;
/// Extents of the bitmap of pages, if the superblock names the runs,
pub const BITMAP_EXTENTS_MAX: usize = 16;
/// and if it does not.
pub const SCATTERED_EXTENTS_MAX: usize = METADATA_RUNS_MAX + BITMAP_EXTENTS_MAX;

const MAGIC: [u8; 8] = *b"sepiosup";

/// One version of the superblock. Four copies exist, and the highest intact sequence counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// Features that the store uses.
    pub features: Features,
    /// Id of the store, new with each formatting.
    pub store: Uuid,
    /// Number of this version; grows by one with each write.
    pub sequence: u64,
    /// Number of the last mount; grows by one with each.
    pub generation: u64,
    /// Devices and their parts, as of formatting.
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
    /// Pages of the tree.
    pub metadata: MetadataSpace,
}

/// The metadata space, and the bitmap of its pages in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataSpace {
    /// Device of the metadata: the fast one if there is one.
    pub device: Device,
    /// Runs that the superblock names; see [`SCATTERED_METADATA`].
    pub runs: Vec<Extent>,
    /// The pages in use.
    pub bitmap: PageBitmap,
}

/// Place of the bitmap of the tree's pages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PageBitmap {
    /// Pages that hold it, in order.
    pub extents: Vec<Extent>,
    /// Length of its encoding in bytes.
    pub bytes: u64,
    /// CRC-32C of the encoding.
    pub crc: u32,
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

    /// Decodes one copy, whether or not it is the newest.
    pub fn read_copy(block: &[u8]) -> Option<Superblock> {
        Superblock::decode(block).ok()
    }

    pub(super) fn decode(block: &[u8]) -> Result<Superblock, CopyFault> {
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
