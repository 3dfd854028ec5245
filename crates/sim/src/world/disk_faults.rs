//! Disks that fail, are full, lose data, or are being replaced.

use crate::node::NodeId;
use engine::Time;
use std::collections::BTreeSet;
use types::{OsdId, Uuid};

/// A period in which a disk failed to read data of which it may have had the only copy.
#[derive(Debug, Clone)]
pub struct Misread {
    /// A retry succeeds.
    pub is_once: bool,
    node: NodeId,
    /// Begin of the period.
    pub since: Time,
    /// End of the period, once it is over.
    pub until: Option<Time>,
}

/// An OSD whose old disk is gone and whose new one is not announced yet. It does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    /// The process of the OSD.
    pub node: NodeId,
    /// The OSD.
    pub osd: OsdId,
    /// Identity of the new disk.
    pub uuid: Uuid,
}

impl Replacement {
    /// Commands that `sepiola osd replace` sends to the monitors.
    pub fn commands(&self) -> [String; 2] {
        let (osd, uuid) = (self.osd, self.uuid);
        [
            format!(r#"{{"prefix":"osd destroy","id":"{osd}","yes_i_really_mean_it":true}}"#),
            format!(r#"{{"prefix":"osd new","uuid":"{uuid}","id":"{osd}"}}"#),
        ]
    }
}

/// Faults of disks, by process.
#[derive(Default)]
pub struct DiskFaults {
    /// OSDs whose disks fail now.
    bad: BTreeSet<NodeId>,
    /// OSDs whose disks fail one read.
    failing_reads: BTreeSet<NodeId>,
    /// OSDs that cannot read the log of a shard.
    failing_copies: BTreeSet<NodeId>,
    /// OSDs whose disks other data fills.
    filled: BTreeSet<NodeId>,
    /// Nodes whose ballast was removed; a crash may undo that.
    emptied: BTreeSet<NodeId>,
    misreads: Vec<Misread>,
    /// A store has lost data that it was told to keep.
    has_omitted: bool,
    replacement: Option<Replacement>,
}

impl DiskFaults {
    /// True while the disk fails.
    pub fn is_bad(&self, node: NodeId) -> bool {
        self.bad.contains(&node)
    }

    /// OSDs whose disks fail now.
    pub fn bad(&self) -> &BTreeSet<NodeId> {
        &self.bad
    }

    /// The disk fails from now on.
    pub fn note_bad(&mut self, node: NodeId) {
        self.bad.insert(node);
    }

    /// The disk works again; false if it did all the time.
    pub fn note_repaired(&mut self, node: NodeId) -> bool {
        self.bad.remove(&node)
    }

    /// OSDs whose disks fail one read.
    pub fn failing_reads(&self) -> &BTreeSet<NodeId> {
        &self.failing_reads
    }

    /// One read of the disk fails.
    pub fn note_failing_read(&mut self, node: NodeId) {
        self.failing_reads.insert(node);
    }

    /// Reads succeed from now on; false if no read was to fail.
    pub fn note_reads_heal(&mut self, node: NodeId) -> bool {
        self.failing_reads.remove(&node)
    }

    /// OSDs that cannot read the log of a shard.
    pub fn failing_copies(&self) -> &BTreeSet<NodeId> {
        &self.failing_copies
    }

    /// The OSD cannot read the log of a shard; false if that was so before.
    pub fn note_failing_copy(&mut self, node: NodeId) -> bool {
        self.failing_copies.insert(node)
    }

    /// The OSD reads all logs from now on; false if it did all the time.
    pub fn note_copy_heals(&mut self, node: NodeId) -> bool {
        self.failing_copies.remove(&node)
    }

    /// The disk has ballast; false if it had some before.
    pub fn note_filled(&mut self, node: NodeId) -> bool {
        self.filled.insert(node)
    }

    /// True while the disk has ballast.
    pub fn is_filled(&self, node: NodeId) -> bool {
        self.filled.contains(&node)
    }

    /// The ballast is removed, unless a crash undoes that.
    pub fn note_emptied(&mut self, node: NodeId) {
        assert!(self.filled.remove(&node), "ballast is removed where there is some");
        self.emptied.insert(node);
    }

    /// All disks that have ballast, or may have it again.
    pub fn refill(&mut self) -> BTreeSet<NodeId> {
        self.filled.append(&mut self.emptied);
        self.filled.clone()
    }

    /// A period begins in which the disk cannot read data of which it may have the only copy.
    pub fn begin_misread(&mut self, now: Time, node: NodeId, is_once: bool) {
        self.misreads.push(Misread { node, since: now, until: None, is_once });
    }

    /// The disk reads all data again.
    pub fn end_misread(&mut self, now: Time, node: NodeId) {
        let going_on = |misread: &&mut Misread| misread.node == node && misread.until.is_none();
        self.misreads.iter_mut().filter(going_on).for_each(|misread| misread.until = Some(now));
    }

    /// All periods so far.
    pub fn misreads(&self) -> &[Misread] {
        &self.misreads
    }

    /// True once a store has lost data that it was told to keep.
    pub fn has_omitted(&self) -> bool {
        self.has_omitted
    }

    /// A store loses data that it was told to keep.
    pub fn note_omitted(&mut self) {
        self.has_omitted = true;
    }

    /// The OSD whose disk is being replaced.
    pub fn replacement(&self) -> Option<&Replacement> {
        self.replacement.as_ref()
    }

    /// True while that OSD waits for its new disk to be announced.
    pub fn is_being_replaced(&self, node: NodeId) -> bool {
        self.replacement.as_ref().is_some_and(|replacement| replacement.node == node)
    }

    /// The OSD has a new disk, which is not announced yet.
    pub fn begin_replacement(&mut self, replacement: Replacement) {
        assert!(self.replacement.is_none(), "replacements run one after the other");
        self.replacement = Some(replacement);
    }

    /// The new disk is announced.
    pub fn end_replacement(&mut self) -> Option<Replacement> {
        self.replacement.take()
    }
}
