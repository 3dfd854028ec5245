//! Errors of disks, with advice.

use std::io;
use std::path::{Path, PathBuf};
use stdx::format_bytes;
use thiserror::Error;

/// A file or device cannot be used.
#[derive(Debug, Error)]
#[error("{}: {reason}", path.display())]
pub struct DiskError {
    /// The file or device.
    pub path: PathBuf,
    /// The cause, with advice for the user.
    pub reason: DiskReason,
}

/// Reason of a [`DiskError`].
#[derive(Debug, Error)]
pub enum DiskReason {
    /// Another user of the device has it exclusively, or another process has locked the file.
    #[error(
        "in use: it is mounted, swap, part of a RAID or of a volume group, or another process has \
         it (`lsblk` and `fuser -v` tell which)"
    )]
    InUse,
    /// EACCES or EPERM.
    #[error("may not be opened: run as root, or as a member of the group that owns it")]
    Denied,
    /// Nothing has that path.
    #[error("not found")]
    Absent,
    /// A new file would replace another one.
    #[error("exists already")]
    Exists,
    /// The file system refuses `O_DIRECT`.
    #[error(
        "its file system cannot do direct I/O; use a directory on ext4, XFS or btrfs, or a block \
         device"
    )]
    NoDirect,
    /// A directory, a character device, or the like.
    #[error("neither a regular file nor a block device")]
    WrongKind,
    /// The device's logical block is larger than a block of the store; its bytes.
    #[error("logical blocks of {0} bytes; at most 4096 are supported")]
    LargeBlocks(u32),
    /// The file system has not this many bytes for the file.
    #[error("no space for {}", format_bytes(*.0))]
    NoSpace(u64),
    /// Another error of the kernel.
    #[error("{what}: {error}")]
    Failed {
        /// The step that failed, such as `opening it`.
        what: &'static str,
        /// The answer of the kernel.
        error: io::Error,
    },
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
    /// The operation, `read` or `write`.
    pub what: &'static str,
    /// The file or device.
    pub path: PathBuf,
    /// First byte of the operation.
    pub offset: u64,
    /// Bytes of the operation.
    pub length: u64,
    /// The answer of the kernel.
    pub error: io::Error,
}
