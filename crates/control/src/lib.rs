//! The control store: the contract between the monitor and the store of its state.
//!
//! A linearizable key-value store. Every key has the revision of the transaction that last wrote it; a
//! transaction is applied whole, durably, and only if the keys it compares still have the revisions it
//! expects. Changes are reported as [`Completion::Changed`], in order. Keys may be bound to a lease, which
//! expires by the store's own clock unless it is renewed.
//!
//! Invariants that an implementation keeps:
//! * A transaction that [`Transaction::is_too_large`] is never sent to the store.
//! * `Committed { outcome: Ok(_) }` is sent only when the transaction survives a power failure.
//! * Revisions grow with each transaction that writes; the first is at least 1. A transaction that only
//!   compares is answered with the current revision, and is not reported to watchers.
//! * A `Loaded` contains all transactions that were answered before it was requested, and only whole ones.
//!   A later one may be answered before it although it does not contain it. Later changes follow as
//!   `Changed`; those up to its revision may be reported too, and are ignored by revision.
//! * Each of several writers receives, as `Changed`, every commit of the others, and possibly its own. One
//!   `Changed` holds whole transactions, in the order of their revisions.
//! * A lease does not expire before its TTL has passed since it was granted, or since its last renewal was
//!   requested. When it expires, its keys are deleted in a transaction of the store's own.
//!
//! [`MemControl`] is the implementation for simulations and tests.

#![warn(missing_docs)]

mod mem;

pub use mem::MemControl;

use bytes::Bytes;
use engine::{Duration, RequestToken};
use std::collections::BTreeMap;

/// Sequence number of a transaction in the store's history.
pub type Revision = u64;

/// Identifies a lease.
pub type LeaseId = u64;

/// Time without a renewal after which the leader's lease expires and others take over.
pub const LEASE_TTL: Duration = Duration::from_secs(4);
/// Time without an answer of the store after which health warns.
pub const SILENCE_MAX: Duration = LEASE_TTL;

/// Keys that one transaction may write: a number that every store accepts, whatever the values. A store that
/// refuses a transaction for its size would refuse it for ever, and block everything behind it.
pub const WRITES_MAX: usize = 2000;
/// Total length of the names of the keys that one transaction writes.
pub const NAMES_BYTES_MAX: usize = 100 << 10;

/// Key that exists while a store holds an incomplete copy, or a copy that no longer counts. A monitor does
/// not start on such a store, and a running one writes nothing to it.
pub const UNFINISHED: &str = "unfinished";

/// Observes the requests to a store and its completions, on the thread that serves the store.
pub trait Observer: Send {
    /// Called before a request is executed.
    fn observe_request(&mut self, request: &Request);
    /// Called before the monitor receives a completion.
    fn observe_completion(&mut self, completion: &Completion);
}

/// Requests of the monitor to the store. Each is answered by one completion with its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Loads all keys that begin with `prefix`, as of one revision. Answered by `Loaded`.
    Range {
        /// Returned in `Loaded` or `Unread`.
        token: RequestToken,
        /// First bytes of the keys; empty for all keys.
        prefix: String,
    },
    /// Answered by `Committed`.
    Commit {
        /// Returned in `Committed`.
        token: RequestToken,
        /// Compared and applied as a whole.
        transaction: Transaction,
    },
    /// Grants a new lease that expires after `ttl` unless it is renewed. Answered by `Leased`.
    Grant {
        /// Returned in `Leased`.
        token: RequestToken,
        /// Time to live.
        ttl: Duration,
    },
    /// Renews a lease for its TTL. Answered by `Leased`.
    Renew {
        /// Returned in `Leased`.
        token: RequestToken,
        /// The lease, which this monitor was granted.
        lease: LeaseId,
    },
}

/// Answers and notifications of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Completion {
    /// The answer to `Range`.
    Loaded {
        /// That of the request.
        token: RequestToken,
        /// Keys in order, with their values.
        entries: Vec<Entry>,
        /// Revision of which the entries are the state; later changes follow as `Changed`.
        revision: Revision,
    },
    /// The answer to `Commit`, with the revision of the transaction.
    Committed {
        /// That of the request.
        token: RequestToken,
        /// Revision of the transaction.
        outcome: Result<Revision, CommitError>,
    },
    /// A load could not be answered yet, for this reason. It is still in progress and must not be requested
    /// again.
    Unread {
        /// That of the request.
        token: RequestToken,
        /// Error of the store, for the log and health.
        reason: String,
    },
    /// A lease was granted or renewed, or the request failed.
    Leased {
        /// That of the request.
        token: RequestToken,
        /// The lease.
        outcome: Result<LeaseId, LeaseError>,
    },
    /// A transaction, of this monitor or another writer, changed these keys.
    Changed {
        /// Changed keys, oldest first.
        events: Vec<Event>,
    },
    /// Changes were lost that were never reported: the state must be loaded again.
    Missed,
}

/// Why a transaction was not committed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// A compared key has another revision; nothing was written.
    #[error("the control store was changed by another monitor")]
    Conflict,
    /// The store wrote nothing, and will refuse the same transaction every time.
    #[error("the control store does not take this: {reason}")]
    Refused {
        /// The store's reason, for users.
        reason: String,
    },
    /// It is unknown whether anything was written.
    #[error("the control store failed: {reason}")]
    Failed {
        /// Error of the store, for the log and health.
        reason: String,
    },
}

/// Why a lease was not granted or renewed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    /// The lease has expired; its keys are deleted or are about to be.
    #[error("the lease has ended")]
    Ended,
    /// The state of the lease is unknown.
    #[error("the control store failed: {reason}")]
    Failed {
        /// Error of the store, for the log and health.
        reason: String,
    },
}

/// A key with its value and the revision of the transaction that last wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub key: String,
    /// Its content.
    pub value: Bytes,
    /// The transaction that last wrote it.
    pub revision: Revision,
}

/// One changed key; `None` means that it was deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its name.
    pub key: String,
    /// Its new content, unless it was deleted.
    pub value: Option<Bytes>,
    /// The transaction that changed it.
    pub revision: Revision,
}

/// Writes that are applied atomically.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transaction {
    /// Keys and the revisions they must have; `None`: the key must be absent.
    pub compare: Vec<(String, Option<Revision>)>,
    /// New values; `None` deletes.
    pub writes: BTreeMap<String, Option<Bytes>>,
    /// The lease to which all keys written here are bound.
    pub lease: Option<LeaseId>,
}

impl Transaction {
    /// Writes a key.
    pub fn put(&mut self, key: impl Into<String>, value: impl Into<Bytes>) {
        self.writes.insert(key.into(), Some(value.into()));
    }

    /// Deletes a key. Deleting an absent key is no error.
    pub fn delete(&mut self, key: impl Into<String>) {
        self.writes.insert(key.into(), None);
    }

    /// Whether it writes nothing.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Whether it exceeds [`WRITES_MAX`] or [`NAMES_BYTES_MAX`].
    pub fn is_too_large(&self) -> bool {
        let names: usize = self.writes.keys().map(String::len).sum();
        self.writes.len() > WRITES_MAX || names > NAMES_BYTES_MAX
    }
}
