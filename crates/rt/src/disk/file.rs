//! A file or block device, opened for direct I/O by this process alone.

use super::error::{DiskError, DiskReason};
use super::probe::{self, DiskInfo};
use rustix::fs::{FallocateFlags, FileType, FlockOperation, IFlags, Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

const FLAGS: OFlags = OFlags::RDWR.union(OFlags::DIRECT).union(OFlags::CLOEXEC);

/// An open file. While it is open nobody else opens it in this way, and nobody mounts it.
#[derive(Debug)]
pub struct DiskFile {
    pub(crate) fd: OwnedFd,
    path: PathBuf,
    is_block_device: bool,
}

impl DiskFile {
    /// Opens what is there: a regular file or a block device that is not in use.
    pub fn open(path: &Path) -> Result<Self, DiskError> {
        let fail = |reason: DiskReason| reason.at(path);
        let stat = rustix::fs::stat(path).map_err(|errno| fail(reason("opening it", errno)))?;
        let (flags, is_block_device) = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => (FLAGS, false),
            // For block devices, O_EXCL means: unless somebody has claimed it.
            FileType::BlockDevice => (FLAGS | OFlags::EXCL, true),
            _ => return Err(fail(DiskReason::WrongKind)),
        };
        Self::claim(path, flags, is_block_device).map_err(fail)
    }

    /// Makes a regular file of `bytes` bytes whose space is its own. What it reads as is zeros.
    pub fn create(path: &Path, bytes: u64) -> Result<Self, DiskError> {
        let fail = |reason: DiskReason| reason.at(path);
        let file = Self::claim(path, FLAGS | OFlags::CREATE | OFlags::EXCL, false);
        let file = file.map_err(fail)?;
        file.forbid_copying();
        file.allocate(bytes).inspect_err(|_| {
            // Half a file is of no use; the reason why it is half is what counts.
            let _ = std::fs::remove_file(path);
        })?;
        Ok(file)
    }

    /// Makes a regular file at least `bytes` long and its space its own, so that writes to it cannot
    /// fail for want of space later.
    pub fn allocate(&self, bytes: u64) -> Result<(), DiskError> {
        let fail = |reason: DiskReason| Err(reason.at(&self.path));
        match rustix::fs::fallocate(&self.fd, FallocateFlags::empty(), 0, bytes) {
            Ok(()) => Ok(()),
            Err(Errno::NOSPC | Errno::FBIG | Errno::DQUOT) => fail(DiskReason::NoSpace(bytes)),
            // Then the space is taken as it is written.
            Err(Errno::OPNOTSUPP) => rustix::fs::ftruncate(&self.fd, bytes)
                .or_else(|errno| fail(reason("setting its size", errno))),
            Err(errno) => fail(reason("allocating its space", errno)),
        }
    }

    /// Where files are copied on write (btrfs), space of one's own needs this, on an empty file;
    /// elsewhere it is not supported and not needed.
    fn forbid_copying(&self) {
        if let Ok(flags) = rustix::fs::ioctl_getflags(&self.fd) {
            let _ = rustix::fs::ioctl_setflags(&self.fd, flags | IFlags::NOCOW);
        }
    }

    fn claim(path: &Path, flags: OFlags, is_block_device: bool) -> Result<Self, DiskReason> {
        let fd = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|errno| reason("opening it", errno))?;
        rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive)
            .map_err(|errno| reason("locking it", errno))?;
        Ok(DiskFile { fd, path: path.to_owned(), is_block_device })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn is_block_device(&self) -> bool {
        self.is_block_device
    }

    /// What it is and what it can do. Refuses devices that no store can be on.
    pub fn probe(&self) -> Result<DiskInfo, DiskError> {
        probe::probe(&self.fd).map_err(|reason| reason.at(&self.path))
    }

    /// Waits until `buffer`, which direct I/O must accept, is filled from `offset` on.
    pub fn read_at(&self, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            match rustix::io::pread(&self.fd, &mut *buffer, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => {
                    buffer = &mut buffer[length..];
                    offset += length as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Waits until all of `bytes`, whose memory direct I/O must accept, is written.
    pub fn write_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match rustix::io::pwrite(&self.fd, bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(length) => {
                    bytes = &bytes[length..];
                    offset += length as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Waits until all that was written is durable.
    pub fn flush(&self) -> io::Result<()> {
        Ok(rustix::fs::fdatasync(&self.fd)?)
    }

    /// Waits until the range holds nothing any more.
    pub fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(&self.fd, punch, offset, length)?)
    }
}

fn reason(what: &'static str, errno: Errno) -> DiskReason {
    match errno {
        // The latter is what a lock says that another process holds.
        Errno::BUSY | Errno::WOULDBLOCK => DiskReason::InUse,
        Errno::ACCESS | Errno::PERM => DiskReason::Denied,
        Errno::NOENT => DiskReason::Absent,
        Errno::EXIST => DiskReason::Exists,
        Errno::INVAL => DiskReason::NoDirect,
        errno => DiskReason::Failed { what, error: errno.into() },
    }
}
