//! Properties of a device, from `/sys/dev/block`.

use super::error::DiskReason;
use rustix::fs::{FileType, SeekFrom, Stat};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use stdx::DIRECT_ALIGNMENT;

/// Whether completed writes may be lost on a power failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteCache {
    /// Writes are durable only after a flush.
    Volatile,
    /// Completed writes are durable, so flushes can be omitted.
    None,
}

/// Properties of a device, or of a file and the device below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskInfo {
    /// Size in bytes.
    pub bytes: u64,
    /// False for a regular file.
    pub is_block_device: bool,
    /// Files are always flushed, because of their file system.
    pub write_cache: WriteCache,
    /// Whether a discard has an effect.
    pub discard: bool,
    /// Bytes of a logical block, to which requests must be aligned.
    pub logical_block: u32,
    /// For files, the device of the file system; not always known.
    pub rotational: bool,
}

pub(super) fn probe(fd: &OwnedFd) -> Result<DiskInfo, DiskReason> {
    let failed = |what, errno: rustix::io::Errno| DiskReason::Failed { what, error: errno.into() };
    let stat = rustix::fs::fstat(fd).map_err(|errno| failed("examining it", errno))?;
    let bytes =
        rustix::fs::seek(fd, SeekFrom::End(0)).map_err(|errno| failed("asking its size", errno))?;
    let is_block_device = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
    let queue = queue_of(&stat, is_block_device);
    if !is_block_device {
        return Ok(DiskInfo {
            bytes,
            is_block_device,
            write_cache: WriteCache::Volatile,
            discard: true,
            logical_block: DIRECT_ALIGNMENT as u32,
            rotational: read_number(&queue, "rotational") == Some(1),
        });
    }
    let logical_block = rustix::fs::ioctl_blksszget(fd)
        .map_err(|errno| failed("asking for its block size", errno))?;
    if logical_block as usize > DIRECT_ALIGNMENT {
        return Err(DiskReason::LargeBlocks(logical_block));
    }
    Ok(DiskInfo {
        bytes,
        is_block_device,
        write_cache: write_cache(&queue),
        discard: read_number(&queue, "discard_max_bytes").is_some_and(|bytes| bytes > 0),
        logical_block,
        rotational: read_number(&queue, "rotational") == Some(1),
    })
}

/// The directory of the device's queue. Partitions have none and use their disk's.
fn queue_of(stat: &Stat, is_block_device: bool) -> PathBuf {
    let device = if is_block_device { stat.st_rdev } else { stat.st_dev };
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let own = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let queue = own.join("queue");
    if queue.exists() { queue } else { own.join("../queue") }
}

fn write_cache(queue: &std::path::Path) -> WriteCache {
    match fs::read_to_string(queue.join("write_cache")) {
        Ok(text) if text.trim() == "write through" => WriteCache::None,
        // Flushing is safe if the mode is unknown.
        _ => WriteCache::Volatile,
    }
}

fn read_number(queue: &std::path::Path, name: &str) -> Option<u64> {
    fs::read_to_string(queue.join(name)).ok()?.trim().parse().ok()
}
