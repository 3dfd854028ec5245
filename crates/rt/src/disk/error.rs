//! Errors of disks, with advice.

use std::io;
use std::path::{Path, PathBuf};
use stdx::format_bytes;
use thiserror::Error;

/// A file or device cannot be used.
#[derive(Debug, Error)]
#[error("{}: {reason}", path.display())]
pub struct DiskError {
    pub path: PathBuf,
    pub reason: DiskReason,
}

/// Reason of a [`DiskError`].
#[derive(Debug, Error)]
pub enum DiskReason {
    #[error(
        "in use: it is mounted, swap, part of a RAID or of a volume group, or another process has \
         it (`lsblk` and `fuser -v` tell which)"
    )]
    InUse,
    #[error("may not be opened: run as root, or as a member of the group that owns it")]
    Denied,
    #[error("not found")]
    Absent,
    #[error("exists already")]
    Exists,
    #[error(
        "its file system cannot do direct I/O; use a directory on ext4, XFS or btrfs, or a block \
         device"
    )]
    NoDirect,
    #[error("neither a regular file nor a block device")]
    WrongKind,
    #[error("logical blocks of {0} bytes; at most 4096 are supported")]
    LargeBlocks(u32),
    #[error("no space for {}", format_bytes(*.0))]
    NoSpace(u64),
    #[error("{what}: {error}")]
    Failed { what: &'static str, error: io::Error },
}

impl DiskReason {
    pub(crate) fn at(self, path: &Path) -> DiskError {
        DiskError { path: path.to_owned(), reason: self }
    }
}

/// One operation has failed.
#[derive(Debug, Error)]
#[error("{what} of {length} bytes at {offset} of {}: {error}", path.display())]
pub struct DiskFault {
    pub what: &'static str,
    pub path: PathBuf,
    pub offset: u64,
    pub length: u64,
    pub error: io::Error,
}
