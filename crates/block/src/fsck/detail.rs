//! Details of findings, as values with one sentence each.

use super::fault::{BitmapError, CopyFault, HeldFault, LabelFault, RecordFault, ValueFault};
use crate::device::{Device, Extent};
use crate::keys::Key;
use crate::log::LogFault;
use crate::superblock::{GeometryError, MAIN_BLOCKS_MIN, SuperblockError};
use crate::tree;
use bytes::Bytes;
use codec::DecodeError;
use std::fmt;
use store::Collection;
use thiserror::Error;

/// The circumstances of a finding. Sentences that begin with *it* or *its* are about the
/// [`Subject`](super::Subject).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Detail {
    /// The main device is smaller than any store.
    #[error("the main device has {blocks} blocks, at least {MAIN_BLOCKS_MIN} are needed")]
    TooSmall {
        /// Blocks of the device.
        blocks: u64,
    },
    /// No superblock or label of this store.
    #[error(transparent)]
    Superblock(#[from] SuperblockError),
    /// The newest intact superblock may be outdated, and the check must not accept that.
    #[error(
        "version {version} is intact, but a newer one may be lost; with --accept-outdated --repair it \
         becomes the newest, and what was acknowledged since is lost"
    )]
    MaybeOutdated {
        /// Sequence of the superblock.
        version: u64,
    },
    /// The newest intact superblock may be outdated, and becomes the newest.
    #[error("version {version} is intact, but a newer one may be lost")]
    AcceptedOutdated {
        /// Sequence of the superblock.
        version: u64,
    },
    /// A copy of the superblock is not the expected one.
    #[error("copy at block {block}: {fault}")]
    Copy {
        /// Place of the copy on the main device.
        block: u64,
        /// Difference from what is expected.
        fault: CopyFault,
    },
    /// The devices are smaller than at formatting.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The label of the fast device is not the expected one.
    #[error("label of the fast device: {0}")]
    Label(#[from] LabelFault),
    /// A run of the metadata space is not within its device's space.
    #[error("metadata space: {run} of the {device} device, but its space is {space}")]
    RunOutside {
        /// The run.
        run: Extent,
        /// Device of the metadata.
        device: Device,
        /// Space that runs may lie in.
        space: Extent,
    },
    /// The run overlaps another one.
    #[error("metadata runs overlap: {0}")]
    RunsOverlap(Extent),
    /// A part of the bitmap of pages lies outside of all runs.
    #[error("no run has {0} of the bitmap of pages")]
    BitmapOutside(Extent),
    /// The log ends with damage.
    #[error(transparent)]
    Log(#[from] LogFault),
    /// Data of a last batch is unreadable.
    #[error(
        "block {block} of the main device cannot be read: it holds data of batch {seq}, one of the last, \
         which may have been acknowledged"
    )]
    UnsureBatch {
        /// The unreadable block.
        block: u64,
        /// Number of the batch.
        seq: u64,
    },
    /// A record violates the format.
    #[error("batch {seq}: {fault}")]
    Record {
        /// Number of its batch.
        seq: u64,
        /// Violated rule.
        fault: RecordFault,
    },
    /// The root in the superblock is not decodable.
    #[error("all of the tree: {0}")]
    Root(DecodeError),
    /// A finding of a walk over the tree.
    #[error("{}", InTree(.0))]
    Tree(tree::Finding),
    /// The bitmap of pages is unusable.
    #[error("the bitmap of pages cannot be used: {0}")]
    PageBitmap(#[from] BitmapError),
    /// Pages of the tree lie outside of all runs.
    #[error("no run has {0} of the tree")]
    PagesOutside(Extent),
    /// Pages without a reference are marked as used.
    #[error("marked and not in use: {0}")]
    PagesLeaked(Extent),
    /// Blocks without a reference are marked as used.
    #[error("nothing refers to {0}")]
    BlocksLeaked(Extent),
    /// Referenced pages or blocks are marked as free.
    #[error("in use and marked as free: {0}")]
    MarkedFree(Extent),
    /// A key is not decodable.
    #[error("key \"{}\": {error}", key.escape_ascii())]
    Key {
        /// The key.
        key: Bytes,
        /// First wrong field.
        error: DecodeError,
    },
    /// A value does not fit its key.
    #[error("{key}: {fault}")]
    Value {
        /// The key.
        key: Key,
        /// Reason why it does not.
        fault: ValueFault,
    },
    /// The superblock does not say that the store may have collections of shards.
    #[error("collection {0}: the superblock lacks the feature of shards")]
    ShardFeature(Collection),
    /// Two collections have this id for a range of hashes.
    #[error("two collections have id {0}")]
    CollectionId(u64),
    /// No collection has this id for the hash of the object.
    #[error("there is no collection with id {0}")]
    NoCollection(u64),
    /// The id of an object is larger than any counter.
    #[error("{key}: id {id}")]
    HugeId {
        /// Key of the object.
        key: Key,
        /// Id in its onode.
        id: u64,
    },
    /// A held change contradicts its key or the store.
    #[error("{key}: {fault}")]
    HeldKey {
        /// The key.
        key: Key,
        /// The contradiction.
        fault: HeldFault,
    },
    /// A held change contradicts itself.
    #[error(transparent)]
    Held(HeldFault),
    /// Several onodes have the id.
    #[error("several objects have this id")]
    SameId,
    /// The object is small enough for an inline segment and has none.
    #[error("it has {size} bytes and no extent segment in its onode")]
    NotInline {
        /// Size of the object in bytes.
        size: u64,
    },
    /// The object has both an inline segment and this one.
    #[error("it has an extent segment {index} besides the one in its onode")]
    SecondSegment {
        /// Number of the segment.
        index: u32,
    },
    /// A stored segment is empty.
    #[error("its extent segment {index} maps nothing")]
    EmptySegment {
        /// Number of the segment.
        index: u32,
    },
    /// The object of a segment does not exist.
    #[error("extent segment {index} of no object")]
    SegmentOrphan {
        /// Number of the segment.
        index: u32,
    },
    /// The onode says that there is no omap.
    #[error("it has {0}, and its onode denies that")]
    OmapDenied(OmapPart),
    /// The object of an omap does not exist.
    #[error("{0} of no object")]
    OmapOrphan(OmapPart),
    /// A block behind the object's end is mapped.
    #[error("it has {size} bytes, and block {block} is mapped")]
    BeyondSize {
        /// Size of the object in bytes.
        size: u64,
        /// Last mapped block of the object.
        block: u64,
    },
    /// Blocks of an object do not lie in the space for data.
    #[error("its block {block} lies at {extent}")]
    OutsideSpace {
        /// First of these blocks of the object.
        block: u64,
        /// Place of the blocks.
        extent: Extent,
    },
    /// Shared blocks do not lie in the space for data.
    #[error("shared id {id}: {extent}")]
    SharedOutsideSpace {
        /// The shared id.
        id: u64,
        /// Place of the blocks.
        extent: Extent,
    },
    /// A shared id counts no block.
    #[error("shared id {id} counts nothing")]
    EmptyShared {
        /// The shared id.
        id: u64,
    },
    /// A shared id counts another number of references than there are.
    #[error("shared id {id}: {found} references to {extent}, and {counted} are counted")]
    Miscounted {
        /// The shared id.
        id: u64,
        /// Blocks with the same difference.
        extent: Extent,
        /// References by extent segments.
        found: u64,
        /// References counted.
        counted: u64,
    },
    /// Blocks of an object have another owner, too.
    #[error("its blocks from {block} on: {conflict}")]
    Conflict {
        /// First of these blocks of the object.
        block: u64,
        /// Places and the other owner.
        conflict: Conflict,
    },
    /// Blocks of a shared id have another owner, too.
    #[error("shared id {id}: {conflict}")]
    SharedConflict {
        /// The shared id.
        id: u64,
        /// Places and the other owner.
        conflict: Conflict,
    },
    /// Keys of extent segments of the object are among the lost ones.
    #[error("parts of its data may be lost with the pages of its extent segments")]
    LostSegments,
    /// Keys of the object's omap are among the lost ones.
    #[error("parts of its omap may be lost")]
    LostOmap,
    /// Data of an object is unreadable or has wrong checksums.
    #[error("{length} bytes at offset {offset} ({})", Places(places))]
    Data {
        /// First byte within the object.
        offset: u64,
        /// Number of bytes, all of whole blocks.
        length: u64,
        /// Places of the blocks on the main device.
        places: Vec<Extent>,
    },
    /// Bytes of the last block behind the object's end are not zeros.
    #[error("it has {size} bytes, and its last block does not end in zeros")]
    DataBehindEnd {
        /// Size of the object in bytes.
        size: u64,
    },
    /// A counter of the superblock differs from its tree.
    #[error("the superblock counts {counted} {what}, its tree has {found}")]
    Counter {
        /// Counted things, in plural.
        what: &'static str,
        /// Value of the counter.
        counted: u64,
        /// Number in the tree.
        found: u64,
    },
    /// The counter of ids would give out an id again.
    #[error("the next id is {next}, and {used} is in use")]
    NextId {
        /// Value of the counter.
        next: u64,
        /// Largest id in use.
        used: u64,
    },
    /// The last record counts another number of objects than there are.
    #[error("{counted} objects are counted, there are {found}")]
    Objects {
        /// Value of the counter.
        counted: u64,
        /// Number of onodes.
        found: u64,
    },
}

/// A part of an omap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OmapPart {
    /// The header.
    Header,
    /// Pairs of keys and values.
    Pairs,
}

impl fmt::Display for OmapPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OmapPart::Header => "omap header",
            OmapPart::Pairs => "omap pairs",
        })
    }
}

/// Blocks with more than one owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Conflict {
    /// They lie in the metadata space.
    #[error("{0}, which the metadata has")]
    Metadata(Extent),
    /// Another object or shared id refers to them.
    #[error("{0}, which another has as well")]
    Data(Extent),
}

/// A key as text; a truncated or damaged one as its bytes.
pub(crate) fn describe_key(key: &[u8]) -> String {
    match Key::read(&Bytes::copy_from_slice(key)) {
        Ok(key) => key.to_string(),
        Err(_) => format!("key \"{}\"", key.escape_ascii()),
    }
}

/// Finding of a walk with decoded keys.
struct InTree<'a>(&'a tree::Finding);

impl fmt::Display for InTree<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            tree::Finding::Lost { page, flaw, first, end } => {
                let end = end.as_ref().map_or_else(|| "the end".into(), |end| describe_key(end));
                let first = describe_key(first);
                write!(f, "page {page} is damaged ({flaw}): all from {first} to {end} are lost")
            }
            tree::Finding::ValueLost { page, flaw, key } => {
                write!(f, "{} is lost: page {page} is damaged ({flaw})", describe_key(key))
            }
            tree::Finding::Misplaced { page, key } => {
                write!(f, "{} in page {page} is not where it belongs", describe_key(key))
            }
            other => fmt::Display::fmt(other, f),
        }
    }
}

/// Extents with commas between them.
struct Places<'a>(&'a [Extent]);

impl fmt::Display for Places<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for extent in self.0 {
            write!(f, "{separator}{extent}")?;
            separator = ", ";
        }
        Ok(())
    }
}
