//! Reasons for which a check or a repair cannot go on.

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
    #[error("the metadata pool has the head of another rank, or of another file system")]
    OtherFileSystem,
    /// The journal is damaged.
    #[error(
        "{0}; with --accept-loss the journal ends there: later changes are lost, and the rows are made consistent"
    )]
    Journal(#[from] Damage),
    /// Another repair has begun.
    #[error(
        "a repair has begun and not ended; once its process is certainly gone (also from a suspended host), --resume begins it again"
    )]
    InRepair,
    /// A server, or another repair, has the rank.
    #[error("the rank was taken meanwhile: stop servers with `ceph fs fail`, and begin again")]
    Taken,
}

impl FsckError {
    /// The error of an object.
    pub(super) fn undecodable(object: &str) -> impl Fn(DecodeError) -> FsckError {
        move |error| FsckError::Undecodable { object: object.to_owned(), error }
    }
}
