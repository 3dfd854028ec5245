//! Errors of operations on images.

use types::Errno;

/// Reason why an operation on an image failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An OSD or a monitor refused a step.
    #[error("{step}: {errno}")]
    Cluster {
        /// The step for users, as "reading the header of rbd/a".
        step: String,
        /// The result code of the reply.
        errno: Errno,
    },
    /// The image or snapshot that the caller named does not exist. A missing part of an existing image is
    /// `Cluster`.
    #[error("{what}: {}", Errno::NOENT)]
    Missing {
        /// Full text for users, as "there is no image rbd/a".
        what: String,
    },
    /// This client refuses the operation; the text says why and how to proceed.
    #[error("{0}")]
    Refused(String),
    /// The reply of an OSD does not decode.
    #[error("{what} of the image does not decode: {error}")]
    Damaged {
        /// The part of the reply that does not decode.
        what: &'static str,
        /// Field and offset of the first wrong byte.
        error: codec::DecodeError,
    },
}

impl Error {
    /// A step that the cluster refused.
    pub fn cluster(step: impl Into<String>, errno: Errno) -> Self {
        Error::Cluster { step: step.into(), errno }
    }

    /// A name that does not exist; `what` is the full text for users.
    pub fn missing(what: impl Into<String>) -> Self {
        Error::Missing { what: what.into() }
    }

    /// An operation that this client refuses; `text` is the full text for users.
    pub fn refused(text: impl Into<String>) -> Self {
        Error::Refused(text.into())
    }

    /// The errno for interfaces that carry only a number.
    pub fn errno(&self) -> Errno {
        match self {
            Error::Cluster { errno, .. } => *errno,
            Error::Missing { .. } => Errno::NOENT,
            Error::Refused(_) => Errno::INVAL,
            Error::Damaged { .. } => Errno::IO,
        }
    }
}
