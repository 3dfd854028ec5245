//! Findings of a check.

use super::detail::Detail;
use std::collections::BTreeMap;
use std::fmt;
use store::{Collection, HeldChange};
use types::HObject;

/// Class of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// The device holds no store that can be checked.
    NoSuperblock,
    /// A copy of the superblock is damaged, or not of the expected version.
    SuperblockCopy,
    /// A newer version may have been lost.
    SuperblockOutdated,
    /// The devices do not match the superblock.
    Geometry,
    /// The label of the fast device is damaged, or names another store or size.
    FastLabel,
    /// The metadata space lies where it must not.
    MetadataRuns,
    /// The bitmap of the tree's pages is unusable.
    PageBitmap,
    /// A page is marked as used, and the tree does not refer to it.
    PageLeaked,
    /// A page in use is free in the bitmap.
    PageFree,
    /// A page in use is outside of the metadata space.
    PageOutside,
    /// The tree refers to a page more than once.
    PageTwice,
    /// A page is damaged, and its keys are lost.
    KeysLost,
    /// A value of the tree is damaged; its key is known.
    ValueLost,
    /// A key lies outside the range of its page, or not in order.
    KeyMisplaced,
    /// Sums in the root of the tree differ from those of its pages.
    TreeSums,
    /// Durable batches are damaged or missing.
    Log,
    /// Data of the last batches is unreadable, so that they may or may not have been durable.
    LogUnsure,
    /// A record of the log violates the format.
    LogRecord,
    /// A key of the tree is not well-formed.
    Key,
    /// A value does not fit its key.
    Value,
    /// Two collections have the same id for a range of hashes.
    CollectionId,
    /// A collection of a kind that the superblock's features do not name.
    Feature,
    /// An object belongs to no collection.
    NoCollection,
    /// Two objects have the same id, or an id is absurdly large.
    ObjectId,
    /// A small object has no extent segment in its onode.
    SegmentNotInline,
    /// An extent segment of an object that keeps its only segment in the onode.
    SegmentUnexpected,
    /// An extent segment of an object that does not exist.
    SegmentOrphan,
    /// A held change contradicts itself, or is there twice.
    Held,
    /// Omap pairs or a header of an object that does not exist.
    OmapOrphan,
    /// Omap pairs of an object whose onode says that there are none.
    OmapUnannounced,
    /// Extents behind the end of their object.
    BeyondSize,
    /// An extent that does not lie in the space for data.
    OutsideSpace,
    /// Data lies in the metadata space.
    BlockInMetadata,
    /// A block that is not shared has several references.
    BlockTwice,
    /// The count of a shared id differs from the references to it.
    SharedReferences,
    /// A block is marked as used, and nothing refers to it.
    BlockLeaked,
    /// A block in use is free in the bitmap.
    BlockFree,
    /// A counter of the store differs from what was counted.
    Counter,
    /// Data has a wrong checksum.
    Data,
    /// The device cannot read data.
    DataUnreadable,
    /// The object ends within a block, and the bytes after its end are not zeros.
    DataBehindEnd,
}

impl FindingKind {
    /// Stable name for users and scripts.
    pub fn name(self) -> &'static str {
        match self {
            FindingKind::NoSuperblock => "no-superblock",
            FindingKind::SuperblockCopy => "superblock-copy",
            FindingKind::SuperblockOutdated => "superblock-outdated",
            FindingKind::Geometry => "geometry",
            FindingKind::FastLabel => "fast-label",
            FindingKind::MetadataRuns => "metadata-runs",
            FindingKind::PageBitmap => "page-bitmap",
            FindingKind::PageLeaked => "page-leaked",
            FindingKind::PageFree => "page-free",
            FindingKind::PageOutside => "page-outside",
            FindingKind::PageTwice => "page-twice",
            FindingKind::KeysLost => "keys-lost",
            FindingKind::ValueLost => "value-lost",
            FindingKind::KeyMisplaced => "key-misplaced",
            FindingKind::TreeSums => "tree-sums",
            FindingKind::Log => "log",
            FindingKind::LogUnsure => "log-unsure",
            FindingKind::LogRecord => "log-record",
            FindingKind::Key => "key",
            FindingKind::Value => "value",
            FindingKind::CollectionId => "collection-id",
            FindingKind::Feature => "feature",
            FindingKind::NoCollection => "no-collection",
            FindingKind::ObjectId => "object-id",
            FindingKind::SegmentNotInline => "segment-not-inline",
            FindingKind::SegmentUnexpected => "segment-unexpected",
            FindingKind::SegmentOrphan => "segment-orphan",
            FindingKind::Held => "held",
            FindingKind::OmapOrphan => "omap-orphan",
            FindingKind::OmapUnannounced => "omap-unannounced",
            FindingKind::BeyondSize => "beyond-size",
            FindingKind::OutsideSpace => "outside-space",
            FindingKind::BlockInMetadata => "block-in-metadata",
            FindingKind::BlockTwice => "block-twice",
            FindingKind::SharedReferences => "shared-references",
            FindingKind::BlockLeaked => "block-leaked",
            FindingKind::BlockFree => "block-free",
            FindingKind::Counter => "counter",
            FindingKind::Data => "data",
            FindingKind::DataUnreadable => "data-unreadable",
            FindingKind::DataBehindEnd => "data-behind-end",
        }
    }

    /// Set if pairs may be missing that refer to blocks or own other pairs. Then a missing
    /// reference proves nothing.
    pub(crate) fn is_loss(self) -> bool {
        matches!(
            self,
            FindingKind::MetadataRuns
                | FindingKind::KeysLost
                | FindingKind::ValueLost
                | FindingKind::KeyMisplaced
                | FindingKind::TreeSums
                | FindingKind::Log
                | FindingKind::Key
                | FindingKind::Value
        )
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Repair of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Repair {
    /// Writes the block again, from an intact copy.
    Rewrite,
    /// Marks blocks or pages as free.
    Free,
    /// Marks blocks or pages as used.
    MarkUsed,
    /// Removes pairs without an owner.
    Remove,
    /// Sets counters and sums to what was counted.
    Recount,
    /// Keeps the batches in doubt, whatever became of their data.
    Keep,
}

impl Repair {
    fn describe(self) -> &'static str {
        match self {
            Repair::Rewrite => "write it again",
            Repair::Free => "free it",
            Repair::MarkUsed => "mark it as used",
            Repair::Remove => "remove it",
            Repair::Recount => "count again",
            Repair::Keep => "keep the batch; an object without its data is reported as damaged",
        }
    }
}

/// Object of a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// Id of the object in keys of extent segments and omap pairs.
    pub id: u64,
    /// `None` for removed collections.
    pub collection: Option<Collection>,
    /// `None` if there is no readable onode with that id.
    pub object: Option<HObject>,
    /// Set instead of `object` if it is a held change.
    pub held: Option<HeldChange>,
}

/// One inconsistency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Class, by which findings are counted.
    pub kind: FindingKind,
    /// The object that the finding is about, if any.
    pub subject: Option<Subject>,
    /// Circumstances, as a sentence for users.
    pub detail: Detail,
    /// The repair that `--repair` makes; `None` if there is none.
    pub repair: Option<Repair>,
}

impl Finding {
    /// Set if a repair is known.
    pub fn is_repairable(&self) -> bool {
        self.repair.is_some()
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(held), Some(collection)) = (&self.held, &self.collection) {
            return write!(f, "held change {} of collection {collection}", held.version);
        }
        match (&self.object, &self.collection) {
            (Some(object), Some(collection)) => {
                write!(f, "object {} of collection {collection}", object.to_string().escape_debug())
            }
            (Some(object), None) => write!(f, "object {}", object.to_string().escape_debug()),
            (None, _) => write!(f, "object id {}", self.id),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.kind)?;
        if let Some(subject) = &self.subject {
            write!(f, "{subject}: ")?;
        }
        self.detail.fmt(f)?;
        match self.repair {
            Some(repair) => write!(f, " (repair: {})", repair.describe()),
            None => Ok(()),
        }
    }
}

/// Collected findings: all are counted, the first ones are kept.
#[derive(Debug)]
pub(crate) struct Findings {
    list: Vec<Finding>,
    limit: usize,
    counts: BTreeMap<FindingKind, u64>,
    has_loss: bool,
}

impl Findings {
    /// Keeps at most `limit` findings, and counts all.
    pub fn new(limit: usize) -> Self {
        Findings { list: Vec::new(), limit, counts: BTreeMap::new(), has_loss: false }
    }

    /// Adds a finding that no repair mends.
    pub fn add(&mut self, kind: FindingKind, detail: Detail) {
        self.push(kind, None, detail, None);
    }

    /// Adds a finding that `repair` mends.
    pub fn add_repairable(&mut self, kind: FindingKind, repair: Repair, detail: Detail) {
        self.push(kind, None, detail, Some(repair));
    }

    /// Adds a finding that `repair` mends, if there is one.
    pub fn add_maybe_repairable(
        &mut self,
        kind: FindingKind,
        repair: Option<Repair>,
        detail: Detail,
    ) {
        self.push(kind, None, detail, repair);
    }

    /// Adds a finding about the object with that id, whose name is looked up in the end.
    pub fn add_of(&mut self, kind: FindingKind, id: u64, repair: Option<Repair>, detail: Detail) {
        let subject = Subject { id, collection: None, object: None, held: None };
        self.push(kind, Some(subject), detail, repair);
    }

    fn push(
        &mut self,
        kind: FindingKind,
        subject: Option<Subject>,
        detail: Detail,
        repair: Option<Repair>,
    ) {
        self.has_loss |= kind.is_loss();
        *self.counts.entry(kind).or_default() += 1;
        if self.list.len() < self.limit {
            self.list.push(Finding { kind, subject, detail, repair });
        }
    }

    /// Drops a repair that turned out to be unsafe.
    pub fn withdraw(&mut self, repair: Repair) {
        let refused = self.list.iter_mut().filter(|finding| finding.repair == Some(repair));
        refused.for_each(|finding| finding.repair = None);
    }

    /// Findings so far, those not kept included.
    pub fn count(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Set if all stored pairs were seen.
    pub fn is_complete(&self) -> bool {
        !self.has_loss
    }

    /// Subjects of the findings kept, to fill in names.
    pub fn subjects_mut(&mut self) -> impl Iterator<Item = &mut Subject> {
        self.list.iter_mut().filter_map(|finding| finding.subject.as_mut())
    }

    /// The findings kept, and the number of each kind.
    pub fn finish(self) -> (Vec<Finding>, BTreeMap<FindingKind, u64>) {
        (self.list, self.counts)
    }
}
