//! Errors that keep the store from opening, or stop it.

use std::io;
use std::path::{Path, PathBuf};
use store::DeviceFault;
use thiserror::Error;

/// Reason why the store cannot be opened, or has stopped.
#[derive(Debug, Error)]
pub enum FilesError {
    /// An operation on a file or directory failed.
    #[error("{path}", path = path.display())]
    Path {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// Another operation of the system failed.
    #[error("{what}")]
    Io {
        /// The operation.
        what: &'static str,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The database reports damage or an I/O error.
    #[error("metadata database")]
    Database(#[source] Box<redb::Error>),
    /// A value of the database does not decode.
    #[error("metadata cannot be read")]
    Decode(#[from] codec::DecodeError),
    /// The file belongs to another store, or is no log.
    #[error("{path} is not the log of this store", path = path.display())]
    WrongLog {
        /// The file.
        path: PathBuf,
    },
    /// A new store was to have its log where another store has its own, or where something else lies.
    #[error(
        "{path} holds the log of another store, or something else: name another place for the log (--log), or \
         remove the file if nothing needs it",
        path = path.display()
    )]
    LogTaken {
        /// The file.
        path: PathBuf,
    },
    /// Another process, or another store of this one, has the log open.
    #[error("{path} is the log of a store that is open; stop that process, or name another place for the log (--log)", path = path.display())]
    LogInUse {
        /// The file.
        path: PathBuf,
    },
    #[error(
        "{path} is damaged: transaction {missing} is not there, but transaction {found}, which was written \
         after it was durable; acknowledged changes are missing. Other OSDs of the cluster have them and \
         fill a new store (`sepiola osd replace`)",
        path = path.display()
    )]
    /// The log has lost transactions that were acknowledged.
    LogDamaged {
        /// The log.
        path: PathBuf,
        /// Number of the transaction that is not there.
        missing: u64,
        /// Number of a later one that is.
        found: u64,
    },
    #[error(
        "{path} cannot be read where transaction {missing} would be, which may have been acknowledged; look \
         at the device. If it stays so, other OSDs of the cluster fill a new store (`sepiola osd replace`)",
        path = path.display()
    )]
    /// The device does not return a part of the log that may have acknowledged transactions.
    LogUnreadable {
        /// The log.
        path: PathBuf,
        /// Number of the first transaction in that part.
        missing: u64,
        /// The device's error.
        #[source]
        error: io::Error,
    },
    /// A record of the log has fewer copies than clones.
    #[error("a clone in the log has no copy of its source")]
    CloneWithoutCopy,
    /// The reason was logged before.
    #[error("a checkpoint failed")]
    CheckpointFailed,
    /// A defect of this program; its message is on the standard error.
    #[error("the committing thread panicked")]
    Panicked,
}

impl FilesError {
    /// For `map_err` on file operations.
    pub fn at(path: &Path) -> impl Fn(io::Error) -> FilesError + '_ {
        |error| FilesError::Path { path: path.to_owned(), error }
    }

    /// True if the file system is full.
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

/// An error that is shown with its sources, in one line.
#[derive(Debug, Error)]
#[error("{}", .0.chain())]
pub(crate) struct Chain(pub FilesError);

impl From<FilesError> for DeviceFault {
    fn from(error: FilesError) -> Self {
        DeviceFault::new(Chain(error))
    }
}
