//! A file or block device, opened for direct I/O by this process alone.

use super::error::{DiskError, DiskReason};
use super::probe::{self, DiskInfo};
use rustix::fs::{FallocateFlags, FileType, FlockOperation, IFlags, Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

const FLAGS: OFlags = OFlags::RDWR.union(OFlags::DIRECT).union(OFlags::CLOEXEC);

/// An open file. While it is open, no other process can open it in this way or mount it.
#[derive(Debug)]
pub struct DiskFile {
    pub(crate) fd: OwnedFd,
    path: PathBuf,
    is_block_device: bool,
}

impl DiskFile {
    /// Opens an existing regular file or a block device that is not in use.
    pub fn open(path: &Path) -> Result<Self, DiskError> {
        let fail = |reason: DiskReason| reason.at(path);
        let stat = rustix::fs::stat(path).map_err(|errno| fail(reason("opening it", errno)))?;
        let (flags, is_block_device) = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => (FLAGS, false),
            // O_EXCL on a block device fails if the device is claimed (mounted, for example).
            FileType::BlockDevice => (FLAGS | OFlags::EXCL, true),
            _ => return Err(fail(DiskReason::WrongKind)),
        };
        Self::claim(path, flags, is_block_device).map_err(fail)
    }

    /// Creates a regular file of `bytes` zeros with its space allocated.
    pub fn create(path: &Path, bytes: u64) -> Result<Self, DiskError> {
        let fail = |reason: DiskReason| reason.at(path);
        let file = Self::claim(path, FLAGS | OFlags::CREATE | OFlags::EXCL, false);
        let file = file.map_err(fail)?;
        file.forbid_copying();
        file.allocate(bytes).inspect_err(|_| {
            // A file of partial length is useless; the first error is the one worth reporting.
            let _ = std::fs::remove_file(path);
        })?;
        Ok(file)
    }

    /// Extends a regular file to at least `bytes` and allocates its space, so that later writes cannot fail
    /// for lack of space.
    pub fn allocate(&self, bytes: u64) -> Result<(), DiskError> {
        let fail = |reason: DiskReason| Err(reason.at(&self.path));
        match rustix::fs::fallocate(&self.fd, FallocateFlags::empty(), 0, bytes) {
            Ok(()) => Ok(()),
            Err(Errno::NOSPC | Errno::FBIG | Errno::DQUOT) => fail(DiskReason::NoSpace(bytes)),
            // Without support, space is allocated by writes.
            Err(Errno::OPNOTSUPP) => rustix::fs::ftruncate(&self.fd, bytes)
                .or_else(|errno| fail(reason("setting its size", errno))),
            Err(errno) => fail(reason("allocating its space", errno)),
        }
    }

    /// Disables copy-on-write on btrfs, which must happen on an empty file; unsupported and unneeded
    /// elsewhere.
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

    /// The path by which the file was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// False for a regular file.
    pub fn is_block_device(&self) -> bool {
        self.is_block_device
    }

    /// Properties of the device. Fails for devices that cannot hold a store.
    pub fn probe(&self) -> Result<DiskInfo, DiskError> {
        probe::probe(&self.fd).map_err(|reason| reason.at(&self.path))
    }

    /// Blocks until `buffer`, which must be aligned for direct I/O, is filled from `offset` on.
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

    /// Blocks until all of `bytes`, which must be aligned for direct I/O, is written.
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

    /// Blocks until all writes are durable.
    pub fn flush(&self) -> io::Result<()> {
        Ok(rustix::fs::fdatasync(&self.fd)?)
    }

    /// Blocks until the range is discarded.
    pub fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(&self.fd, punch, offset, length)?)
    }
}

fn reason(what: &'static str, errno: Errno) -> DiskReason {
    match errno {
        // EWOULDBLOCK means that another process holds the lock.
        Errno::BUSY | Errno::WOULDBLOCK => DiskReason::InUse,
        Errno::ACCESS | Errno::PERM => DiskReason::Denied,
        Errno::NOENT => DiskReason::Absent,
        Errno::EXIST => DiskReason::Exists,
        Errno::INVAL => DiskReason::NoDirect,
        errno => DiskReason::Failed { what, error: errno.into() },
    }
}
