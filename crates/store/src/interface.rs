//! Requests, completions, and the trait that stores implement.

use crate::fault::DeviceFault;
use crate::{Change, Collection, HeldChange, HoldFault, Transaction};
use bytes::Bytes;
use engine::{RequestToken, Time};
use std::collections::BTreeMap;
use thiserror::Error;
use types::{EVersion, HObject};

/// A request to a store.
#[derive(Debug, Clone)]
pub struct Request {
    /// Names the request in its completion.
    pub token: RequestToken,
    /// The kind, with its parameters.
    pub kind: RequestKind,
}

/// Kinds of requests; [`Outcome`] has what each of them returns.
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
        /// The collection, which must exist.
        collection: Collection,
        /// The object.
        object: HObject,
    },
    /// Data up to the end of the object; holes read as zeros and are reported.
    Read {
        /// The collection, which must exist.
        collection: Collection,
        /// The object.
        object: HObject,
        /// First byte of the range.
        offset: u64,
        /// Bytes of the range.
        length: u64,
    },
    /// The omap header; empty if there is none.
    OmapHeader {
        /// The collection, which must exist.
        collection: Collection,
        /// The object.
        object: HObject,
    },
    /// Values of those of the keys that exist.
    OmapGet {
        /// The collection, which must exist.
        collection: Collection,
        /// The object.
        object: HObject,
        /// The keys to look up.
        keys: Vec<Bytes>,
    },
    /// Pairs in key order: keys above `after` (or from the first if `None`) that start with `prefix`.
    OmapList {
        /// The collection, which must exist.
        collection: Collection,
        /// The object.
        object: HObject,
        /// Key of the last pair that the caller has.
        after: Option<Bytes>,
        /// Beginning of all keys; may be empty.
        prefix: Bytes,
        /// Bound of the pairs.
        entries_max: usize,
        /// Bound of the bytes of keys and values, but for the first pair.
        bytes_max: usize,
    },
    /// Objects in `HObject` order from `from` (inclusive) on.
    List {
        /// The collection, which must exist.
        collection: Collection,
        /// The first object.
        from: HObject,
        /// Bound of the objects.
        entries_max: usize,
    },
    /// Held changes of the collection in order, behind `after` or from the first one on.
    Held {
        /// The collection, which must exist.
        collection: Collection,
        /// The last one that the caller has.
        after: Option<HeldChange>,
        /// Bound of their number.
        entries_max: usize,
    },
    /// All of a held change with its data, or `None` if there is no such one. For copying a store.
    ReadHeld {
        /// The collection, which must exist.
        collection: Collection,
        /// The held change.
        held: HeldChange,
    },
    /// All collections, in order.
    Collections,
    /// Use of the space.
    Usage,
}

impl RequestKind {
    /// Whether it changes the store.
    pub fn is_commit(&self) -> bool {
        matches!(self, RequestKind::Commit(_) | RequestKind::Append(_))
    }
}

/// A request that has completed.
#[derive(Debug, Clone)]
pub struct Completion {
    /// Token of the request.
    pub token: RequestToken,
    /// The result, or the reason of a failure.
    pub outcome: Result<Outcome, StoreError>,
}

/// Result of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The transaction is durable.
    Committed,
    /// Commits of the collection are accepted again.
    Resumed,
    /// Of [`RequestKind::Meta`].
    Meta(Option<ObjectMeta>),
    /// Of [`RequestKind::Read`].
    Read(ReadData),
    /// Of [`RequestKind::OmapHeader`].
    OmapHeader(Bytes),
    /// Of [`RequestKind::OmapGet`].
    OmapPairs(BTreeMap<Bytes, Bytes>),
    /// Of [`RequestKind::OmapList`].
    OmapPage(OmapPage),
    /// The objects, and the position of the next page (`None` at the end).
    List(Vec<HObject>, Option<HObject>),
    /// Of [`RequestKind::Held`], and whether more follow.
    Held(Vec<HeldChange>, bool),
    /// Of [`RequestKind::ReadHeld`].
    HeldRead(Option<Vec<Change>>),
    /// Of [`RequestKind::Collections`].
    Collections(Vec<Collection>),
    /// Of [`RequestKind::Usage`].
    Usage(Usage),
}

/// Metadata of an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObjectMeta {
    /// Bytes of data, holes included.
    pub size: u64,
    /// All attributes by name.
    pub attrs: BTreeMap<Bytes, Bytes>,
    /// Whether it has omap keys or a header.
    pub has_omap: bool,
}

/// Data of an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadData {
    /// The bytes of the range, up to the end of the object.
    pub data: Bytes,
    /// Allocated ranges within the requested one, as (offset in the object, length), ascending. Stores may
    /// round them outwards to their block size.
    pub extents: Vec<(u64, u64)>,
}

/// A part of an omap.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OmapPage {
    /// Pairs in key order.
    pub pairs: BTreeMap<Bytes, Bytes>,
    /// Whether more pairs follow.
    pub more: bool,
}

/// Use of the space of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Size of the store.
    pub bytes_total: u64,
    /// Bytes that can still be added.
    pub bytes_available: u64,
    /// Bytes in use, metadata included.
    pub bytes_used: u64,
    /// Bytes of omaps, among those in use.
    pub bytes_omap: u64,
    /// Bytes of other metadata, among those in use.
    pub bytes_meta: u64,
    /// Number of objects in all collections.
    pub objects: u64,
    /// Work of the store; zeros if it is not counted.
    pub counters: Counters,
}

/// Work of a store since it was opened, unless a field is called a present state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Transactions executed.
    pub commits: u64,
    /// Batches of the log.
    pub batches: u64,
    /// Bytes of these batches.
    pub log_bytes: u64,
    /// Time from the end of each batch until it was durable, in nanoseconds.
    pub batch_ns: u64,
    /// Flushes of devices.
    pub flushes: u64,
    /// Reads of devices.
    pub device_reads: u64,
    /// Bytes of these reads.
    pub device_read_bytes: u64,
    /// Reads that failed, or returned a wrong checksum, and were made again.
    pub repeated_reads: u64,
    /// Writes to devices.
    pub device_writes: u64,
    /// Bytes of these writes.
    pub device_write_bytes: u64,
    /// Blocks of data that were found in memory.
    pub cache_hits: u64,
    /// Blocks of data that were not.
    pub cache_misses: u64,
    /// Checkpoints completed.
    pub checkpoints: u64,
    /// Present state: bytes of the log that no checkpoint contains.
    pub log_used_bytes: u64,
    /// Present state: bytes of changed metadata and of deferred writes in memory.
    pub buffered_bytes: u64,
}

/// Reason why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StoreError {
    /// The object does not exist.
    #[error("no object {object} in collection {collection}")]
    NoObject {
        /// The collection, which exists.
        collection: Collection,
        /// The absent object.
        object: HObject,
    },
    /// The collection does not exist.
    #[error("no collection {0}")]
    NoCollection(Collection),
    /// Refused always: see [`Collection::is_valid`].
    #[error("this store can have no collection {0}")]
    InvalidCollection(Collection),
    /// Changes that cannot be held, or not under this version.
    #[error("changes cannot be held in {collection} as version {version}: {fault}")]
    CannotHold {
        /// The collection, which exists.
        collection: Collection,
        /// The version under which they were to be held.
        version: EVersion,
        /// The reason.
        fault: HoldFault,
    },
    /// A media fault: the caller repairs the range from another copy.
    #[error("checksum mismatch in {object} at {offset}, {length} bytes")]
    Corrupt {
        /// The object with the damaged data.
        object: HObject,
        /// First byte of the damaged range.
        offset: u64,
        /// Bytes of the damaged range.
        length: u64,
    },
    /// The transaction adds more than there is space for.
    #[error("no space: {needed} bytes needed, {available} available")]
    NoSpace {
        /// Bytes that it adds.
        needed: u64,
        /// Bytes that additions may still take.
        available: u64,
    },
    /// Refused as a whole, independent of free space: the caller must split the request.
    #[error("{what} of {size} bytes, this store takes at most {limit} at once")]
    TooLarge {
        /// The part that is too large, in words.
        what: &'static str,
        /// Its size in bytes.
        size: u64,
        /// The largest size in bytes that is taken.
        limit: u64,
    },
    /// See [`RequestKind::Append`].
    #[error("a commit to {0} before this one was refused")]
    Behind(Collection),
    /// An operation on a device failed, or its content contradicts itself. A store whose write failed has
    /// stopped.
    #[error("the device failed: {0}")]
    Device(DeviceFault),
}

impl StoreError {
    /// For reads: true if a retry may succeed. A single failure is not yet damage.
    pub fn may_heal(&self) -> bool {
        matches!(self, StoreError::Corrupt { .. } | StoreError::Device(_))
    }
}

/// One disk's object store.
pub trait ObjectStore {
    /// Begins a request.
    fn submit(&mut self, now: Time, request: Request);
    /// The next completion; `None` if there is none now.
    fn poll_completion(&mut self) -> Option<Completion>;
}
