//! The devices of one block store, open.

use crate::kind::{fast_path, main_path};
use anyhow::{Context, Result, bail};
use block::device::{BLOCK, Device, Io, IoError};
use block::{Identity, Options};
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Writer};
use rt::{DiskError, DiskFile, DiskInfo, DiskReason, WriteCache};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fmt, io};
use stdx::AlignedBuffer;
use types::Uuid;

/// How long a killed predecessor's operations may hold its disks.
const RELEASE_TIME_MAX: Duration = Duration::from_secs(5);
const RELEASE_POLL: Duration = Duration::from_millis(20);
/// Blocks of the first superblock's near copies, each of which tells the owner.
const IDENTITY_BLOCKS: std::ops::Range<u64> = 0..2;

/// The OSD that a store belongs to; the superblock has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// Its cluster's id.
    pub cluster: Uuid,
    /// Its OSD's number.
    pub osd: i32,
}

impl Owner {
    /// As the superblock has it.
    pub fn to_bytes(self) -> Bytes {
        let mut w = Writer::new();
        self.cluster.encode(&mut w);
        w.i32(self.osd);
        w.into_bytes()
    }

    fn read(bytes: &[u8]) -> codec::Result<Owner> {
        let mut r = Reader::new(bytes);
        let owner = Owner { cluster: Uuid::decode(&mut r)?, osd: r.i32("osd")? };
        r.finish("owner")?;
        Ok(owner)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "osd.{} of cluster {}", self.osd, self.cluster)
    }
}

/// A file or block device and what is known of it.
#[derive(Debug)]
pub struct OpenDevice {
    /// The file itself, locked.
    pub file: DiskFile,
    /// Its size and abilities.
    pub info: DiskInfo,
}

impl OpenDevice {
    /// Asks the kernel about an open file.
    pub fn new(file: DiskFile) -> Result<Self> {
        let info = file.probe()?;
        Ok(OpenDevice { file, info })
    }

    /// Whole blocks that it holds.
    pub fn blocks(&self) -> u64 {
        self.info.bytes / BLOCK as u64
    }

    /// The owner of the store on it, as far as the first superblocks tell: `None` if there is no store, or
    /// if these blocks are damaged or unreadable. The store has further copies, and checks its owner when
    /// it is opened ([`Options::owner`]).
    pub fn owner(&self) -> Option<Owner> {
        owner_in(|block| self.read(block, 1))
    }

    /// Reads whole blocks.
    pub fn read(&self, block: u64, blocks: u32) -> Result<Bytes, IoError> {
        let mut buffer = AlignedBuffer::zeroed(blocks as usize * BLOCK);
        let result = self.file.read_at(&mut buffer, block * BLOCK as u64);
        result.map_err(|error| self.fault("reading", Some(block), error))?;
        Ok(buffer.into())
    }

    /// Writes pieces of whole blocks, one behind the other.
    pub fn write(&self, block: u64, pieces: &[Bytes]) -> Result<(), IoError> {
        let length: usize = pieces.iter().map(Bytes::len).sum();
        assert!(length.is_multiple_of(BLOCK), "{length} bytes are no whole blocks");
        let mut offset = block * BLOCK as u64;
        for piece in pieces {
            let result = self.file.write_at(piece, offset);
            result.map_err(|error| self.fault("writing", Some(block), error))?;
            offset += piece.len() as u64;
        }
        Ok(())
    }

    /// Makes durable what was written.
    pub fn flush(&self) -> Result<(), IoError> {
        self.file.flush().map_err(|error| self.fault("flushing", None, error))
    }

    fn fault(&self, what: &'static str, block: Option<u64>, error: io::Error) -> IoError {
        let path = self.file.path().to_owned();
        IoError::new(FileFault { what, path, block, error })
    }
}

/// One bad block does not hide what the other tells.
fn owner_in(read: impl Fn(u64) -> Result<Bytes, IoError>) -> Option<Owner> {
    let mut readable = IDENTITY_BLOCKS.filter_map(|block| match read(block) {
        Ok(content) => Some(content),
        Err(error) => {
            tracing::warn!(%error, "a copy of the superblock cannot be read");
            None
        }
    });
    let Identity { owner, .. } = readable.find_map(|content| block::identify(&content))?;
    Owner::read(&owner).ok()
}

/// An operation on a file has failed.
#[derive(Debug)]
struct FileFault {
    what: &'static str,
    path: PathBuf,
    block: Option<u64>,
    error: io::Error,
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.what, self.path.display())?;
        if let Some(block) = self.block {
            write!(f, " from block {block} on")?;
        }
        write!(f, ": {}", self.error)
    }
}

impl std::error::Error for FileFault {}

/// A store's devices.
#[derive(Debug)]
pub struct StoreDevices {
    /// Data, and all the rest if there is no other.
    pub main: OpenDevice,
    /// Log and metadata.
    pub fast: Option<OpenDevice>,
}

impl StoreDevices {
    /// Opens what `path` is or has: an OSD's directory, or a device of its own.
    pub fn open(path: &Path) -> Result<Self> {
        if !path.is_dir() {
            return Ok(StoreDevices { main: open_patiently(path)?, fast: None });
        }
        let fast = fast_path(path);
        // A link to a disk that is away is no reason to go on without it.
        let has_fast = fast.symlink_metadata().is_ok();
        let fast = has_fast.then(|| open_patiently(&fast)).transpose()?;
        Ok(StoreDevices { main: open_patiently(&main_path(path))?, fast })
    }

    /// Refuses a store that belongs to another OSD or cluster, and names that one.
    pub fn check_owner(&self, expected: Owner) -> Result<()> {
        match self.main.owner() {
            Some(owner) if owner != expected => bail!(
                "{} holds the store of {owner}, not that of {expected}",
                self.main.file.path().display()
            ),
            _ => Ok(()),
        }
    }

    /// How the store is to use them, with so many bytes of memory.
    pub fn options(&self, memory: u64) -> Options {
        let flush = |device: &OpenDevice| device.info.write_cache == WriteCache::Volatile;
        Options {
            main_blocks: self.main.blocks(),
            fast_blocks: self.fast.as_ref().map_or(0, OpenDevice::blocks),
            memory,
            flush_main: flush(&self.main),
            flush_fast: self.fast.as_ref().is_some_and(flush),
            // A file's space is its own and shall stay so.
            discard: self.main.info.is_block_device && self.main.info.discard,
            ..Options::default()
        }
    }

    /// The device of that name; the main one if there is no other.
    pub fn device(&self, device: Device) -> &OpenDevice {
        match (device, &self.fast) {
            (Device::Fast, Some(fast)) => fast,
            _ => &self.main,
        }
    }

    /// Does it and waits for it.
    pub fn perform(&self, io: &Io) -> Result<Bytes, IoError> {
        match io {
            Io::Read { device, block, blocks, .. } => {
                return self.device(*device).read(*block, *blocks);
            }
            Io::Write { device, block, data, durable, .. } => {
                self.device(*device).write(*block, data)?;
                if *durable {
                    self.device(*device).flush()?;
                }
            }
            Io::Flush { device, .. } => self.device(*device).flush()?,
            Io::Discard { device, block, blocks, .. } => {
                let device = self.device(*device);
                let (offset, length) = (block * BLOCK as u64, blocks * BLOCK as u64);
                let result = device.file.discard(offset, length);
                result.map_err(|error| device.fault("discarding", Some(*block), error))?;
            }
        }
        Ok(Bytes::new())
    }

    /// Makes durable what was written to any of them.
    pub fn flush(&self) -> Result<(), IoError> {
        self.main.flush()?;
        self.fast.as_ref().map_or(Ok(()), OpenDevice::flush)
    }
}

/// The kernel takes a killed process's ring apart in the background; until it has, the files in there
/// are in use.
fn open_patiently(path: &Path) -> Result<OpenDevice> {
    let give_up = Instant::now() + RELEASE_TIME_MAX;
    loop {
        match DiskFile::open(path) {
            Err(DiskError { reason: DiskReason::InUse, .. }) if Instant::now() < give_up => {
                std::thread::sleep(RELEASE_POLL);
            }
            opened => return OpenDevice::new(opened?).context("examining the disk"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_unreadable_block_does_not_hide_the_owner() {
        let owner = Owner { cluster: Uuid([7; 16]), osd: 3 };
        let options = Options { main_blocks: 8192, ..Options::default() };
        let writes = block::format(&options, [1; 16], &owner.to_bytes(), None).unwrap();
        let read = |wanted: u64| {
            let content = writes.iter().find_map(|io| match io {
                Io::Write { block, data, .. } if *block == wanted => Some(data[0].clone()),
                _ => None,
            });
            Ok(content.expect("both copies are written").slice(..BLOCK))
        };
        let failed = || IoError::new(io::Error::other("bad sector"));
        for bad in IDENTITY_BLOCKS {
            let partly = |block| if block == bad { Err(failed()) } else { read(block) };
            assert_eq!(owner_in(partly), Some(owner));
        }
        assert_eq!(owner_in(|_| Err(failed())), None);
    }

    #[test]
    fn an_owner_reads_back_and_every_truncation_is_an_error() {
        let owner = Owner { cluster: Uuid([7; 16]), osd: -3 };
        let bytes = owner.to_bytes();
        assert_eq!(Owner::read(&bytes).unwrap(), owner);
        for end in 0..bytes.len() {
            assert!(Owner::read(&bytes[..end]).is_err());
        }
    }
}
