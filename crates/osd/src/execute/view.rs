//! The view of an execution: the object's state, and the parts loaded from the store.

use bytes::Bytes;
use pg::ObjectInfo;
use pg::snaps::SnapSet;
use std::collections::BTreeMap;
use store::{OmapPage, ReadData};
use types::{HObject, SnapId, UTime};

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

    pub fn clear(&mut self) {
        self.answers.clear();
    }

    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }
}
