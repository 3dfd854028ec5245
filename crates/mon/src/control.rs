//! The control store: where the monitor's state lies.
//!
//! A linearizable key-value store. Every key has the revision of the transaction that last wrote
//! it; a transaction is applied whole, durably, and only if the keys it compares still have the
//! revisions it expects. What is changed arrives as [`Completion::Changed`], in order. Keys may be
//! bound to a lease, which ends by the store's own clock when nobody renews it.
//!
//! Invariants that an implementation keeps:
//! * A transaction that [`Transaction::is_too_large`] is not asked for.
//! * `Committed { outcome: Ok(_) }` is sent only when the transaction survives a power failure.
//! * Revisions grow with each transaction that writes; the first is at least 1. One that only compares is
//!   answered as of now, and told to nobody.
//! * A `Loaded` shows all transactions that were answered before it was asked for, and whole transactions only.
//!   Others may be answered before it although it does not show them. Changes behind it follow as `Changed`;
//!   those up to it may, and are ignored by revision.
//! * Of several writers, each is told by `Changed` of all that others commit, and maybe of what it
//!   committed itself. One `Changed` holds whole transactions, in the order of their revisions.
//! * A lease does not end before its time has passed since it was granted, or its renewal was asked
//!   for. When it ends, its keys go in a transaction of the store's own.
//!
//! [`MemControl`] is the one for simulations and tests.

mod mem;

pub use mem::MemControl;

use bytes::Bytes;
use engine::{Duration, RequestToken};
use std::collections::BTreeMap;

/// The number of a transaction in the store's history.
pub type Revision = u64;

/// Names a lease.
pub type LeaseId = u64;

/// Keys that one transaction may write: what every store takes at once, whatever their values. A store that refuses a
/// transaction for its size would refuse it for ever, and everything behind it would wait.
pub const WRITES_MAX: usize = 2000;
/// Bytes of the names of these keys.
pub const NAMES_BYTES_MAX: usize = 100 << 10;

/// What the monitor asks of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// All keys that begin with `prefix`, as of one revision.
    Range {
        token: RequestToken,
        prefix: String,
    },
    Commit {
        token: RequestToken,
        transaction: Transaction,
    },
    /// A new lease that ends after `ttl` without a renewal.
    Grant {
        token: RequestToken,
        ttl: Duration,
    },
    Renew {
        token: RequestToken,
        lease: LeaseId,
    },
}

/// What the store answers, or tells unasked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Completion {
    Loaded {
        token: RequestToken,
        entries: Vec<Entry>,
        revision: Revision,
    },
    Committed {
        token: RequestToken,
        outcome: Result<Revision, CommitError>,
    },
    /// A load could not be answered yet, for this reason. It goes on, and need not be asked for again.
    Unread {
        token: RequestToken,
        reason: String,
    },
    /// A lease was granted or renewed, or not.
    Leased {
        token: RequestToken,
        outcome: Result<LeaseId, LeaseError>,
    },
    /// These keys were changed.
    Changed {
        events: Vec<Event>,
    },
    /// Changes went by that nobody was told of: what is known must be loaded again.
    Missed,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// A compared key has another revision; nothing was written.
    #[error("the control store was changed by another monitor")]
    Conflict,
    /// The store wrote nothing, and will refuse the same transaction each time.
    #[error("the control store does not take this: {reason}")]
    Refused { reason: String },
    /// Whether anything was written is unknown.
    #[error("the control store failed: {reason}")]
    Failed { reason: String },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    /// It has ended; its keys are gone or are about to go.
    #[error("the lease has ended")]
    Ended,
    /// Nothing is known of it.
    #[error("the control store failed: {reason}")]
    Failed { reason: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub key: String,
    pub value: Bytes,
    pub revision: Revision,
}

/// One changed key; no value means that it was deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub key: String,
    pub value: Option<Bytes>,
    pub revision: Revision,
}

/// Writes that happen together or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transaction {
    /// Keys and the revisions they must have; `None`: the key must be absent.
    pub compare: Vec<(String, Option<Revision>)>,
    /// New values; `None` deletes.
    pub writes: BTreeMap<String, Option<Bytes>>,
    /// The lease with which all that is written here goes.
    pub lease: Option<LeaseId>,
}

impl Transaction {
    pub fn put(&mut self, key: impl Into<String>, value: impl Into<Bytes>) {
        self.writes.insert(key.into(), Some(value.into()));
    }

    pub fn delete(&mut self, key: impl Into<String>) {
        self.writes.insert(key.into(), None);
    }

    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Whether it is more than every store takes.
    pub fn is_too_large(&self) -> bool {
        let names: usize = self.writes.keys().map(String::len).sum();
        self.writes.len() > WRITES_MAX || names > NAMES_BYTES_MAX
    }
}
