//! Errors of operations on images.

use types::Errno;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An OSD or a monitor refused a step.
    #[error("{step}: {errno}")]
    Cluster { step: String, errno: Errno },
    /// The image or snapshot that the caller named does not exist. A missing part of an existing image is
    /// `Cluster`.
    #[error("{what}: {}", Errno::NOENT)]
    Missing { what: String },
    /// This client refuses the operation; the text says why and how to proceed.
    #[error("{0}")]
    Refused(String),
    /// The reply of an OSD does not decode.
    #[error("{what} of the image does not decode: {error}")]
    Damaged { what: &'static str, error: codec::DecodeError },
}

impl Error {
    pub fn cluster(step: impl Into<String>, errno: Errno) -> Self {
        Error::Cluster { step: step.into(), errno }
    }

    pub fn missing(what: impl Into<String>) -> Self {
        Error::Missing { what: what.into() }
    }

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
