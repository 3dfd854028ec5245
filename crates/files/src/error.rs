//! Errors that keep the store from opening, or stop it.

use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

#[derive(Debug, Error)]
pub enum FilesError {
    #[error("{path}", path = path.display())]
    Path {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    #[error("{what}")]
    Io {
        what: &'static str,
        #[source]
        error: io::Error,
    },
    #[error("metadata database")]
    Database(#[source] Box<redb::Error>),
    #[error("metadata cannot be read")]
    Decode(#[from] codec::DecodeError),
    #[error("{path} is not the log of this store", path = path.display())]
    WrongLog { path: PathBuf },
    #[error(
        "{path} is damaged: transaction {missing} is not there, but transaction {found}, which was written \
         after it was durable; acknowledged changes are missing. Other OSDs of the cluster have them and \
         fill a new store (`sepiola osd replace`)",
        path = path.display()
    )]
    LogDamaged { path: PathBuf, missing: u64, found: u64 },
    #[error(
        "{path} cannot be read where transaction {missing} would be, which may have been acknowledged; look \
         at the device. If it stays so, other OSDs of the cluster fill a new store (`sepiola osd replace`)",
        path = path.display()
    )]
    LogUnreadable {
        path: PathBuf,
        missing: u64,
        #[source]
        error: io::Error,
    },
    #[error("a clone in the log has no copy of its source")]
    CloneWithoutCopy,
    #[error("a checkpoint failed")]
    CheckpointFailed,
    #[error("the committing thread panicked")]
    Panicked,
}

impl FilesError {
    /// For `map_err` on file operations.
    pub fn at(path: &Path) -> impl Fn(io::Error) -> FilesError + '_ {
        |error| FilesError::Path { path: path.to_owned(), error }
    }

    pub fn is_no_space(&self) -> bool {
        match self {
            FilesError::Path { error, .. } | FilesError::Io { error, .. } => {
                matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            _ => false,
        }
    }

    /// The error and its sources, in one line.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(error) = source {
            text = format!("{text}: {error}");
            source = error.source();
        }
        text
    }
}
