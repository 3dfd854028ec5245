//! Files opened O_DIRECT, read, written and flushed through the ring.

use rustix::fs::{Mode, OFlags};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use stdx::AlignedBuffer;

/// Names an open file of one reactor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub(crate) usize);

/// An open file, not yet given to a reactor.
#[derive(Debug)]
pub struct DiskFile {
    pub(crate) fd: OwnedFd,
}

impl DiskFile {
    /// Opens (creating a regular file if needed) for direct I/O.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::DIRECT | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(DiskFile { fd })
    }
}

/// A disk operation under way; holds the buffer until the kernel is done with it.
pub(crate) struct DiskOperation {
    pub token: u64,
    pub buffer: Option<AlignedBuffer>,
}
