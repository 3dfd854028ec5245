//! Errors of operations on images.

use types::Errno;

/// Reason why an operation on an image failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An OSD or a monitor refused a step.
    #[error("{step}: {errno}")]
    Cluster {
        /// The step that failed, for the message.
        step: String,
        /// Error code of the reply.
        errno: Errno,
    },
    /// The image or snapshot that the caller named does not exist. A missing part of an existing image is
    /// `Cluster`.
    #[error("{what}: {}", Errno::NOENT)]
    Missing {
        /// Name of the image or snapshot.
        what: String,
    },
    /// This client refuses the operation; the text says why and how to proceed.
    #[error("{0}")]
    Refused(String),
    /// The reply of an OSD does not decode.
    #[error("{what} of the image does not decode: {error}")]
    Damaged {
        /// The part of the image.
        what: &'static str,
        /// The violated rule of its encoding.
        error: codec::DecodeError,
    },
}

impl Error {
    /// An error code in the reply to `step`.
    pub fn cluster(step: impl Into<String>, errno: Errno) -> Self {
        Error::Cluster { step: step.into(), errno }
    }

    /// `what` names an image or snapshot that does not exist.
    pub fn missing(what: impl Into<String>) -> Self {
        Error::Missing { what: what.into() }
    }

    /// `text` is shown to the user as it is.
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
