//! The view of an execution: the object's state, and the parts loaded from the store.

use crate::limits;
use bytes::Bytes;
use pg::ObjectInfo;
use pg::snaps::SnapSet;
use std::collections::BTreeMap;
use store::{OmapPage, ReadData};
use types::{HObject, SnapId, UTime};

/// Bytes that a decoded pair or key takes besides its content.
pub(super) const ENTRY_COST: u64 = 128;

/// An object's state after all earlier writes. In memory while requests use it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObjectState {
    pub exists: bool,
    pub info: ObjectInfo,
    /// The users' attributes by the users' names.
    pub xattrs: BTreeMap<Bytes, Bytes>,
    /// The snapset of a head that was written with snapshots; also of one that does not exist but has clones.
    pub snaps: Option<Box<SnapSet>>,
    /// The object is lost, and only its version is known.
    pub is_guess: bool,
}

/// State that must be loaded before execution can continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    Data {
        offset: u64,
        length: u64,
    },
    OmapHeader,
    OmapGet {
        keys: Vec<Bytes>,
    },
    OmapList {
        after: Bytes,
        prefix: Bytes,
        entries_max: usize,
        bytes_max: usize,
    },
    Copy(Box<CopyRequest>),
    /// State of a clone of the object, without its data and omap.
    Clone(SnapId),
}

/// A request for a whole object, from any group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyRequest {
    pub source: HObject,
    /// The user version it must have; 0 for any.
    pub version: u64,
    /// Flags (`CEPH_OSD_FLAG_*`) for the requests to the source.
    pub request_flags: u32,
}

/// A copied object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CopiedObject {
    pub user_version: u64,
    pub mtime: UTime,
    pub truncate_seq: u32,
    pub truncate_size: u64,
    pub xattrs: BTreeMap<Bytes, Bytes>,
    /// Pieces in order, without gaps.
    pub data: Vec<Bytes>,
    pub omap_header: Bytes,
    pub omap: BTreeMap<Bytes, Bytes>,
}

/// The loaded state for a [`Need`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Data(ReadData),
    OmapHeader(Bytes),
    OmapPairs(BTreeMap<Bytes, Bytes>),
    OmapPage(OmapPage),
    Copied(Box<CopiedObject>),
    Clone(Box<ObjectState>),
    /// A negative errno.
    Failed(i32),
}

/// Answers by need. A request has a handful of them.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    answers: Vec<(Need, Answer)>,
}

impl Loaded {
    /// Adds an answer; its need must not have one.
    pub fn insert(&mut self, need: Need, answer: Answer) {
        self.answers.push((need, answer));
    }

    pub fn find(&self, need: &Need) -> Option<&Answer> {
        self.answers.iter().find(|(known, _)| known == need).map(|(_, answer)| answer)
    }

    pub fn answers(&self) -> impl Iterator<Item = &Answer> {
        self.answers.iter().map(|(_, answer)| answer)
    }

    /// Bytes of all answers.
    pub fn cost(&self) -> u64 {
        self.answers().map(Answer::bytes).sum()
    }

    /// Bytes of the answers whose length was known before they were loaded.
    pub fn bytes(&self) -> u64 {
        let is_exact = |answer: &&Answer| matches!(answer, Answer::Data(_) | Answer::Copied(_));
        self.answers().filter(is_exact).map(Answer::bytes).sum()
    }

    pub fn clear(&mut self) {
        self.answers.clear();
    }

    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }
}

impl Need {
    /// Its maximum or usual size in bytes.
    pub(super) fn estimate(&self) -> u64 {
        match self {
            Need::Data { length, .. } => *length,
            Need::OmapHeader => limits::OMAP_VALUE_USUAL,
            Need::OmapGet { keys } => keys.len() as u64 * limits::OMAP_VALUE_USUAL,
            Need::OmapList { entries_max, bytes_max, .. } => {
                *bytes_max as u64 + *entries_max as u64 * ENTRY_COST
            }
            Need::Copy(_) => limits::COPY_CHUNK_MAX,
            Need::Clone(_) => 0,
        }
    }
}

impl Answer {
    /// Bytes that it holds.
    pub fn bytes(&self) -> u64 {
        match self {
            Answer::Data(read) => read.data.len() as u64,
            Answer::OmapHeader(header) => header.len() as u64,
            Answer::OmapPairs(pairs) => pairs_cost(pairs),
            Answer::OmapPage(page) => pairs_cost(&page.pairs),
            Answer::Copied(copied) => copied.bytes(),
            Answer::Clone(_) | Answer::Failed(_) => 0,
        }
    }
}

impl CopiedObject {
    /// Bytes that it holds so far.
    pub fn bytes(&self) -> u64 {
        let data: u64 = self.data.iter().map(|data| data.len() as u64).sum();
        data + self.omap_header.len() as u64 + pairs_cost(&self.omap) + pairs_cost(&self.xattrs)
    }
}

pub(super) fn pairs_cost(pairs: &BTreeMap<Bytes, Bytes>) -> u64 {
    pairs.iter().map(|(key, value)| (key.len() + value.len()) as u64 + ENTRY_COST).sum()
}
