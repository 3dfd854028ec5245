//! The check of a stored rank while no server has it: reads journal and rows, and repairs them.
//!
//! ```text
//! begin -> (the map still shows the rank failed) -> confirm -> read -> flush -> read -> mend -> read -> end
//! ```
//!
//! [`Reader`] takes journal and rows, from wherever they are read, and gives them to [`fscheck`]. The
//! procedures read and write the metadata pool. A check alone is [`read`].
//!
//! Invariants of a repair:
//! * From [`begin`] to [`end`] the head says that rows are being repaired, and no server opens the rank. A
//!   server that had it before is shut out by an OSD map that [`confirm`] awaits.
//! * No row is mended before all records of the journal are in rows, and the head says so.
//! * It may be interrupted at any place, and done again from the beginning.

mod pool;
mod reader;
mod repair;

pub use pool::{Target, read};
pub use reader::{Found, Reader};
pub use repair::{begin, confirm, end, flush, mend};

use codec::DecodeError;
use fsjournal::Damage;
use types::Errno;

/// A check, or a repair, cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FsckError {
    /// A request failed.
    #[error("a request to the metadata pool failed: {0}")]
    Request(#[from] Errno),
    /// An object that cannot be made anew is missing.
    #[error(
        "object {object} of the metadata pool is missing, and cannot be made anew: restore it, or make the file system anew"
    )]
    Missing {
        /// The object.
        object: String,
    },
    /// An object that cannot be made anew does not decode.
    #[error(
        "object {object} of the metadata pool does not decode, and cannot be made anew: {error}"
    )]
    Undecodable {
        /// The object.
        object: String,
        /// The reason.
        error: DecodeError,
    },
    /// The pool has something else.
    #[error("the metadata pool has another file system")]
    OtherFileSystem,
    /// The journal is damaged.
    #[error(
        "{0}; with --accept-loss the journal ends there: changes behind are lost, and the rows are made consistent"
    )]
    Journal(#[from] Damage),
    /// Another repair has begun.
    #[error(
        "a repair has begun and not ended; if it does not run any more, --resume begins it again"
    )]
    InRepair,
    /// A server, or another repair, has the rank.
    #[error("the rank was taken meanwhile: stop servers with `ceph fs fail`, and begin again")]
    Taken,
}

impl FsckError {
    fn undecodable(object: &str) -> impl Fn(DecodeError) -> FsckError {
        move |error| FsckError::Undecodable { object: object.to_owned(), error }
    }
}
