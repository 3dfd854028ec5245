//! Requests, completions, and the trait that stores implement.

use crate::{Collection, Transaction};
use bytes::Bytes;
use engine::{RequestToken, Time};
use std::collections::BTreeMap;
use thiserror::Error;
use types::HObject;

#[derive(Debug, Clone)]
pub struct Request {
    pub token: RequestToken,
    pub kind: RequestKind,
}

#[derive(Debug, Clone)]
pub enum RequestKind {
    /// Completes when the transaction is durable.
    Commit(Transaction),
    /// A commit on which later ones build: if it is refused, all later commits that name one of its
    /// collections are refused too, until the caller sends [`RequestKind::Resume`]. So the store holds a
    /// prefix of such commits.
    Append(Transaction),
    /// The caller has handled the refusals, and continues from there.
    Resume(Collection),
    /// Size and attributes, or `None` if there is no such object.
    Meta {
        collection: Collection,
        object: HObject,
    },
    /// Data up to the end of the object; holes read as zeros and are reported.
    Read {
        collection: Collection,
        object: HObject,
        offset: u64,
        length: u64,
    },
    OmapHeader {
        collection: Collection,
        object: HObject,
    },
    /// Values of those of the keys that exist.
    OmapGet {
        collection: Collection,
        object: HObject,
        keys: Vec<Bytes>,
    },
    /// Pairs in key order: keys above `after` (or from the first if `None`) that start with `prefix`.
    OmapList {
        collection: Collection,
        object: HObject,
        after: Option<Bytes>,
        prefix: Bytes,
        entries_max: usize,
        bytes_max: usize,
    },
    /// Objects in `HObject` order from `from` (inclusive) on.
    List {
        collection: Collection,
        from: HObject,
        entries_max: usize,
    },
    Collections,
    Usage,
}

impl RequestKind {
    pub fn is_commit(&self) -> bool {
        matches!(self, RequestKind::Commit(_) | RequestKind::Append(_))
    }
}

#[derive(Debug, Clone)]
pub struct Completion {
    pub token: RequestToken,
    pub outcome: Result<Outcome, StoreError>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Committed,
    Resumed,
    Meta(Option<ObjectMeta>),
    Read(ReadData),
    OmapHeader(Bytes),
    OmapPairs(BTreeMap<Bytes, Bytes>),
    OmapPage(OmapPage),
    /// The objects, and the position of the next page (`None` at the end).
    List(Vec<HObject>, Option<HObject>),
    Collections(Vec<Collection>),
    Usage(Usage),
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObjectMeta {
    pub size: u64,
    pub attrs: BTreeMap<Bytes, Bytes>,
    /// Whether it has omap keys or a header.
    pub has_omap: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadData {
    pub data: Bytes,
    /// Allocated ranges within the requested one, as (offset in the object, length), ascending. Stores may
    /// round them outwards to their block size.
    pub extents: Vec<(u64, u64)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OmapPage {
    pub pairs: BTreeMap<Bytes, Bytes>,
    /// Whether more pairs follow.
    pub more: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    pub bytes_total: u64,
    pub bytes_available: u64,
    pub bytes_used: u64,
    pub bytes_omap: u64,
    pub bytes_meta: u64,
    pub objects: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StoreError {
    #[error("no object {object} in collection {collection}")]
    NoObject { collection: Collection, object: HObject },
    #[error("no collection {0}")]
    NoCollection(Collection),
    /// Refused always: see [`Collection::is_valid`].
    #[error("this store can have no collection {0}")]
    InvalidCollection(Collection),
    /// A media fault: the caller repairs the range from another copy.
    #[error("checksum mismatch in {object} at {offset}, {length} bytes")]
    Corrupt { object: HObject, offset: u64, length: u64 },
    #[error("no space: {needed} bytes needed, {available} available")]
    NoSpace { needed: u64, available: u64 },
    /// Refused as a whole, independent of free space: the caller must split the request.
    #[error("{what} of {size} bytes, this store takes at most {limit} at once")]
    TooLarge { what: &'static str, size: u64, limit: u64 },
    /// See [`RequestKind::Append`].
    #[error("a commit to {0} before this one was refused")]
    Behind(Collection),
    #[error("the device failed: {0}")]
    Device(String),
}

impl StoreError {
    /// For reads: true if a retry may succeed. A single failure is not yet damage.
    pub fn may_heal(&self) -> bool {
        matches!(self, StoreError::Corrupt { .. } | StoreError::Device(_))
    }
}

/// One disk's object store.
pub trait ObjectStore {
    fn submit(&mut self, now: Time, request: Request);
    fn poll_completion(&mut self) -> Option<Completion>;
}
