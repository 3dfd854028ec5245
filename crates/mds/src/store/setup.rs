//! Where a rank is stored, and reasons why it cannot be opened.

use crate::rows::place;
use bytes::Bytes;
use codec::DecodeError;
use fsjournal::{Damage, Head, Journal, Limits};
use namespace::LoadError;
use rados::Place;
use types::{Epoch, Errno, PoolId, UTime};

/// Where a rank is stored, and by whom.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    /// The metadata pool.
    pub pool: PoolId,
    /// The rank.
    pub rank: u32,
    /// Id of the file system.
    pub id: [u8; 16],
    /// Run of the server, for people.
    pub incarnation: u64,
    /// The data pool of the root directory.
    pub data_pool: PoolId,
    /// The OSD map that shuts all predecessors out. No request is sent before it is here.
    pub osd_epoch: Epoch,
    /// Whether the rank is created if it is not there.
    pub is_new: bool,
    /// Time of creation of a new root.
    pub now: UTime,
    /// Sizes of the journal.
    pub limits: Limits,
}

impl Setup {
    /// The place of an object.
    pub(super) fn place(&self, object: impl Into<Bytes>) -> Place {
        place(self.pool, object)
    }

    /// The head for a checkpoint.
    pub(super) fn head(&self, checkpoint: u64, numbers: u64, journal: &Journal) -> Head {
        Head {
            rank: self.rank,
            incarnation: self.incarnation,
            checkpoint,
            numbers,
            spans: journal.spans(checkpoint),
            is_in_repair: false,
        }
    }
}

/// A rank cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StoreError {
    /// A request failed.
    #[error("a request to the metadata pool failed: {0}")]
    Request(#[from] Errno),
    /// An object that must exist does not.
    #[error(
        "object {object} of the metadata pool is missing; restore it, or create the file system anew"
    )]
    NoHead {
        /// The object.
        object: String,
    },
    /// The pool was used before.
    #[error("the metadata pool has another file system; create this one with an empty pool")]
    OtherFileSystem,
    /// The pool has this file system, but with other data.
    #[error(
        "the file system in this metadata pool was created with default data pool {stored}, not {given}; remove \
         it from the map (`ceph fs rm`), and run `ceph fs new NAME METADATA DATA --recover --force` with that pool"
    )]
    OtherDataPool {
        /// Number of the data pool that the file system was made with.
        stored: i64,
        /// That of the map.
        given: i64,
    },
    /// A repair has begun.
    #[error(
        "a repair of the file system has begun and not ended; let `sepiola fs fsck NAME --repair --resume` end it"
    )]
    InRepair,
    /// An object does not decode.
    #[error("object {object} of the metadata pool does not decode: {error}")]
    Undecodable {
        /// The object.
        object: String,
        /// The reason.
        error: DecodeError,
    },
    /// The journal is damaged.
    #[error(transparent)]
    Journal(#[from] Damage),
    /// Rows are damaged.
    #[error(transparent)]
    Rows(#[from] LoadError),
}

impl StoreError {
    /// Whether a newer program wrote what does not decode, so that a newer server may serve it.
    pub fn is_newer(&self) -> bool {
        match self {
            StoreError::Undecodable { error, .. }
            | StoreError::Journal(Damage::Undecodable { error, .. })
            | StoreError::Rows(LoadError::Undecodable { error, .. }) => error.is_newer(),
            _ => false,
        }
    }

    /// The error of an object.
    pub(super) fn undecodable(object: &str) -> impl Fn(DecodeError) -> StoreError {
        move |error| StoreError::Undecodable { object: object.to_owned(), error }
    }
}
