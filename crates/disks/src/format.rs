//! A new block store: its devices chosen, checked, and formatted.

use crate::devices::{OpenDevice, Owner, StoreDevices};
use crate::kind::{fast_path, main_path};
use anyhow::{Context, Result, bail};
use block::device::BLOCK;
use machine::{random_bytes, total_memory};
use rt::{DiskError, DiskFile, DiskReason};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use stdx::{AlignedBuffer, format_bytes};

/// A log of this share of the device it is on,
const LOG_SHARE: u64 = 32;
/// within these bounds, and never more than a quarter of the device.
const LOG_LEN_MIN: u64 = 64 << 20;
const LOG_LEN_MAX: u64 = 1 << 30;
/// Where there is a device of its own for it, the log may have more of it.
const FAST_LOG_SHARE: u64 = 4;
/// A file for log and metadata that does not exist yet.
const FAST_FILE_LEN: u64 = 4 << 30;
/// A device counts as empty if so much at its start is zeros: file systems, partition tables and
/// volume groups all have something there.
const BLANK_LEN: u64 = 1 << 20;
const ZEROS_LEN: usize = 1 << 20;
/// Start of the log, behind the copies of the superblock.
const LOG_START: u64 = 2 * BLOCK as u64;

/// Medium for a new store.
#[derive(Debug, Clone)]
pub struct Preparation {
    /// The device, or the file, which is made if it does not exist. If none, a file in the OSD's
    /// directory.
    pub main: Option<PathBuf>,
    /// For log and metadata.
    pub fast: Option<PathBuf>,
    /// Of a file that is made.
    pub bytes: u64,
    /// Whether to overwrite what is there.
    pub wipe: bool,
}

/// Opens the devices for a new store in an OSD's directory, and makes sure that nothing on them is lost.
/// The caller has made sure that the directory may be taken ([`crate::begin_creation`]).
pub fn prepare(directory: &Path, preparation: &Preparation) -> Result<StoreDevices> {
    let Preparation { main, fast, bytes, wipe } = preparation;
    let main = match main {
        Some(path) => adopt(path, &main_path(directory), *bytes, *wipe)?,
        None => create_anew(&main_path(directory), *bytes)?,
    };
    let link = fast_path(directory);
    let fast = match fast {
        Some(path) => Some(adopt(path, &link, FAST_FILE_LEN, *wipe)?),
        None => {
            // Of the store that was there before: it would be taken for this one's.
            remove_if_there(&link)?;
            None
        }
    };
    Ok(StoreDevices { main, fast })
}

/// A file that is the store's alone. One that is there is not needed, or left from a creation that did
/// not end.
fn create_anew(path: &Path, bytes: u64) -> Result<OpenDevice> {
    remove_if_there(path)?;
    OpenDevice::new(DiskFile::create(path, whole_blocks(bytes))?)
}

/// Takes what the user named, and links to it.
fn adopt(path: &Path, link: &Path, bytes: u64, wipe: bool) -> Result<OpenDevice> {
    let path = std::path::absolute(path)?;
    let device = match DiskFile::open(&path) {
        Err(DiskError { reason: DiskReason::Absent, .. }) if !path.starts_with("/dev") => {
            OpenDevice::new(DiskFile::create(&path, whole_blocks(bytes))?)?
        }
        opened => {
            let device = OpenDevice::new(opened?)?;
            if !wipe {
                check_blank(&device)?;
            }
            if !device.info.is_block_device {
                device.file.allocate(device.info.bytes)?;
            }
            device
        }
    };
    remove_if_there(link)?;
    symlink(&path, link).with_context(|| format!("linking {}", link.display()))?;
    Ok(device)
}

fn check_blank(device: &OpenDevice) -> Result<()> {
    let path = device.file.path().display();
    if let Some(owner) = device.owner() {
        bail!("{path} holds the store of {owner}; if it is not needed, say --wipe");
    }
    let blocks = (device.info.bytes.min(BLANK_LEN) / BLOCK as u64) as u32;
    if blocks > 0 && device.read(0, blocks)?.iter().any(|&byte| byte != 0) {
        bail!("{path} holds something (`lsblk -f {path}` may tell); to overwrite it, say --wipe");
    }
    Ok(())
}

fn remove_if_there(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Bytes that are free in the file system of a directory.
pub fn free_space(directory: &Path) -> Result<u64> {
    let stat = rustix::fs::statvfs(directory).context("asking for the free space")?;
    Ok(stat.f_bavail * stat.f_frsize)
}

/// Makes an empty store.
pub fn format(devices: &StoreDevices, owner: Owner) -> Result<()> {
    let store = random_bytes()?;
    let log_len = log_len(devices);
    assert!(log_len.is_multiple_of(BLOCK as u64), "a log of {log_len} bytes");
    let log_device = devices.fast.as_ref().unwrap_or(&devices.main);
    let path = devices.main.file.path().display();
    let options = devices.options(block::Options::default().memory.max(total_memory() / 2));
    let writes = block::format(&options, store, &owner.to_bytes(), Some(log_len / BLOCK as u64))
        .with_context(|| format!("{path} with {}", format_bytes(devices.main.info.bytes)))?;
    if !log_device.info.is_block_device {
        write_zeros(log_device, LOG_START + log_len)?;
    }
    for io in &writes {
        devices.perform(io)?;
    }
    Ok(devices.flush()?)
}

/// The first writes to a file's space change the file system's metadata; then each flush has to wait
/// for the file system's own log, too. Those of the store's log shall not.
fn write_zeros(device: &OpenDevice, length: u64) -> Result<()> {
    let zeros = bytes::Bytes::from(AlignedBuffer::zeroed(ZEROS_LEN));
    let end = length.min(device.info.bytes) / BLOCK as u64;
    let step = (ZEROS_LEN / BLOCK) as u64;
    for block in (0..end).step_by(step as usize) {
        let count = step.min(end - block) as usize;
        device.write(block, &[zeros.slice(..count * BLOCK)])?;
    }
    Ok(())
}

fn log_len(devices: &StoreDevices) -> u64 {
    let (bytes, share) = match &devices.fast {
        Some(fast) => (fast.info.bytes, FAST_LOG_SHARE),
        None => (devices.main.info.bytes, LOG_SHARE),
    };
    whole_blocks((bytes / share).clamp(LOG_LEN_MIN, LOG_LEN_MAX).min(bytes / 4))
}

fn whole_blocks(bytes: u64) -> u64 {
    bytes / BLOCK as u64 * BLOCK as u64
}
