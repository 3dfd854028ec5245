//! The file of a log: its creation, its header, and the lock of the store that uses it.
//!
//! The log of another store is never overwritten, whether that store is open or not.

use crate::error::FilesError;
use crate::media::FILE_MODE;
use codec::{Reader, Writer};
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Unit in bytes of the log: the header, and each batch, takes whole ones.
pub const BLOCK: u64 = 4096;
/// The ring begins behind the block of the header.
pub const RING_START: u64 = BLOCK;
/// First bytes of the header, and of each batch.
pub const MAGIC: &[u8; 8] = b"sepiolog";
const FORMAT: u32 = 1;
const HEADER_LEN: usize = 40;
/// Smallest size in bytes of a log.
pub const LOG_SIZE_MIN: u64 = 1 << 20;

/// Makes a new log of about `size` bytes. A file of that name may be there if it is blank, or left from an
/// interrupted creation with the same instance.
pub fn create(path: &Path, instance: [u8; 16], size: u64, sync: bool) -> Result<(), FilesError> {
    let ring = (size.max(LOG_SIZE_MIN) - RING_START) / BLOCK * BLOCK;
    let mut options = File::options();
    let options = options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
    let file = options.open(path).map_err(FilesError::at(path))?;
    try_lock(&file, path)?;
    if !is_blank(&file, path)? && read(&file, path, instance).is_err() {
        return Err(FilesError::LogTaken { path: path.to_owned() });
    }
    file.set_len(0).map_err(FilesError::at(path))?;
    if fallocate(&file, FallocateFlags::empty(), 0, RING_START + ring).is_err() {
        // Without support for allocation, space is allocated by writes.
        file.set_len(RING_START + ring).map_err(FilesError::at(path))?;
    }
    let mut w = Writer::new();
    w.raw(MAGIC);
    w.u32(FORMAT);
    w.raw(&instance);
    w.u64(ring);
    w.u32(crc_fast::crc32_iscsi(w.as_slice()));
    file.write_all_at(w.as_slice(), 0).map_err(FilesError::at(path))?;
    if sync {
        file.sync_all().map_err(FilesError::at(path))?;
    }
    Ok(())
}

/// The file, locked until it is closed.
pub fn lock(path: &Path) -> Result<File, FilesError> {
    let file = File::open(path).map_err(FilesError::at(path))?;
    try_lock(&file, path)?;
    Ok(file)
}

fn try_lock(file: &File, path: &Path) -> Result<(), FilesError> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(FilesError::LogInUse { path: path.to_owned() }),
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "the log cannot be locked");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Set if nothing was written to the first block yet.
fn is_blank(file: &File, path: &Path) -> Result<bool, FilesError> {
    let length = file.metadata().map_err(FilesError::at(path))?.len().min(BLOCK);
    let mut block = vec![0; length as usize];
    file.read_exact_at(&mut block, 0).map_err(FilesError::at(path))?;
    Ok(block.iter().all(|byte| *byte == 0))
}

/// Bytes of the ring by the header, which must be of this instance.
pub fn read(file: &File, path: &Path, instance: [u8; 16]) -> Result<u64, FilesError> {
    let mut raw = [0; HEADER_LEN];
    file.read_exact_at(&mut raw, 0).map_err(FilesError::at(path))?;
    let not_ours = || FilesError::WrongLog { path: path.to_owned() };
    let mut r = Reader::new(&raw);
    let magic: [u8; 8] = r.array("magic")?;
    let format = r.u32("format")?;
    let found: [u8; 16] = r.array("instance")?;
    let ring = r.u64("ring")?;
    let intact = r.u32("checksum")? == crc_fast::crc32_iscsi(&raw[..36]);
    let plausible = ring > 0 && ring.is_multiple_of(BLOCK);
    if magic != *MAGIC || format != FORMAT || found != instance || !intact || !plausible {
        return Err(not_ours());
    }
    Ok(ring)
}
