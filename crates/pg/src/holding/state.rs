//! The writes of a member's shard that its store does not have yet.

use super::layers::Layers;
use crate::{LogEntry, PgInfo};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use store::{Change, StoreError};
use types::{EVersion, HObject};

/// A write of this member's shard, as its primary sent it.
#[derive(Debug)]
pub(crate) struct ShardWrite {
    /// Entries of other objects, and then that of the write.
    pub entries: Vec<LogEntry>,
    /// The same, encoded.
    pub encoded: Vec<Bytes>,
    /// The primary's info.
    pub info: PgInfo,
    /// Changes that are committed.
    pub committed: EVersion,
    /// Trim the log up to this version, unless zero.
    pub trim: EVersion,
    /// The changes of the shard.
    pub changes: Vec<Change>,
    /// Changes, by index, whose data is to be added to that of the rows.
    pub deltas: Vec<usize>,
}

/// A write that a member cannot hold, because it cannot read an old row of its parity.
#[derive(Debug)]
pub(crate) struct Unconverted {
    /// The write.
    pub version: EVersion,
    /// The object of the row, and its version before the writes that are on their way.
    pub object: HObject,
    /// See `object`.
    pub prior_version: EVersion,
    /// The reason.
    pub error: StoreError,
}

/// The writes of a member that its store does not have yet.
#[derive(Debug, Default)]
pub(crate) struct Holding {
    pub(super) queue: VecDeque<Waiting>,
    /// Rows of a parity.
    pub(super) layers: Layers,
    /// Reads in progress, by number.
    pub(super) reads: BTreeMap<u64, Read>,
    /// Changes up to here were held before this interval, and are not in `layers`.
    pub(super) base: Option<EVersion>,
}

#[derive(Debug)]
pub(super) struct Waiting {
    /// The write.
    pub write: ShardWrite,
    /// Set when all changes are whole rows. Then later writes of these objects are converted.
    pub is_converted: bool,
    /// Deltas that are left.
    pub deltas: Vec<Delta>,
}

/// A change of rows that needs the old ones.
#[derive(Debug)]
pub(super) struct Delta {
    /// The change.
    pub index: usize,
    /// The object that has the old rows.
    pub base: Option<HObject>,
    /// The old rows that are in memory; `None` for those of the store.
    pub rows: Vec<Option<Bytes>>,
    /// Set while the store reads.
    pub is_reading: bool,
}

#[derive(Debug)]
pub(super) struct Read {
    /// The version of the write.
    pub version: EVersion,
    /// The object that has the old rows.
    pub object: HObject,
    /// The change, by index.
    pub index: usize,
    /// The store must have this version of the object, or a later one.
    pub least: EVersion,
}

impl ShardWrite {
    /// The version of the write.
    pub fn version(&self) -> EVersion {
        self.entries.last().expect("a write has an entry").version
    }

    pub(super) fn object(&self) -> &HObject {
        &self.entries.last().expect("a write has an entry").object
    }

    /// The version of an object before the write; `None` if it does not change the object.
    pub(super) fn prior_version(&self, object: &HObject) -> Option<EVersion> {
        let entry = self.entries.iter().find(|entry| entry.object == *object);
        entry.map(|entry| entry.prior_version)
    }
}

impl Holding {
    /// The newest write that is on its way; `None` if the store has all.
    pub fn newest(&self) -> Option<EVersion> {
        self.queue.back().map(|waiting| waiting.write.version())
    }

    /// The interval ends: its writes are not stored any more.
    pub fn clear(&mut self) {
        *self = Holding::default();
    }
}
