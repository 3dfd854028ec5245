//! Why something with an image did not work.

use types::Errno;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The cluster refused a step.
    #[error("{step}: {errno}")]
    Cluster { step: String, errno: Errno },
    /// What the caller named is not there; parts of it that are missing are the cluster's refusals.
    #[error("{what}: {}", Errno::NOENT)]
    Missing { what: String },
    /// We refuse; the text says what and what to do instead.
    #[error("{0}")]
    Refused(String),
    /// What an OSD sent is not what was asked for.
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

    /// For those who can pass on a number only.
    pub fn errno(&self) -> Errno {
        match self {
            Error::Cluster { errno, .. } => *errno,
            Error::Missing { .. } => Errno::NOENT,
            Error::Refused(_) => Errno::INVAL,
            Error::Damaged { .. } => Errno::IO,
        }
    }
}
