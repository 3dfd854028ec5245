//! Safe repairs of findings.
//!
//! There are two parts. [`repair`] writes to the devices of a store that is not open: copies of the
//! superblock, the label, and the bitmap of the tree's pages, for which it makes a new version of
//! the superblock. Each step leaves a store that can be opened. [`repair_ops`] returns changes of
//! the store's state, which the engine commits as one record after opening the store and before it
//! allocates anything.

use super::extents::ExtentSet;
use super::image::ImageMut;
use super::pages::{PagesInUse, has_lost_runs};
use super::repairs::Repairs;
use super::report::Report;
use crate::checksum::crc32c;
use crate::device::{BLOCK, Device, Extent, IoError};
use crate::superblock::{self, PageBitmap, SCATTERED_EXTENTS_MAX, Superblock, SuperblockError};
use crate::tree::{PageSource, PageSpace};
use bytes::Bytes;
use stdx::AlignedBuffer;
use thiserror::Error;

/// Reason why a repair ended early. The writes before it leave a store that can be opened.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RepairError {
    /// The check found no superblock that could be used.
    #[error("there is no superblock to go by")]
    NoSuperblock,
    /// The superblock belongs to a newer version, which this one must not change.
    #[error(transparent)]
    NotWritable(#[from] SuperblockError),
    /// The metadata space has no place for a new bitmap of pages.
    #[error(
        "the bitmap of pages needs {needed} pages in at most {SCATTERED_EXTENTS_MAX} extents, {free} are free"
    )]
    NoSpace {
        /// Pages of the bitmap.
        needed: u64,
        /// Pages that are free.
        free: u64,
    },
    /// A write failed.
    #[error("the {device} device failed at block {block}: {reason}")]
    Write {
        /// The device.
        device: Device,
        /// First block of the write.
        block: u64,
        /// Error of the device.
        reason: IoError,
    },
    /// A flush failed.
    #[error("the {device} device failed: {reason}")]
    Flush {
        /// The device.
        device: Device,
        /// Error of the device.
        reason: IoError,
    },
}

/// Changes that the engine commits first after opening the store.
pub fn repair_ops(report: &Report) -> Repairs {
    report.repairs.clone()
}

/// Makes the writes that a check of the same image planned, and returns a description of each.
pub fn repair(report: &Report, image: &mut dyn ImageMut) -> Result<Vec<String>, RepairError> {
    let superblock = report.superblock.as_ref().ok_or(RepairError::NoSuperblock)?;
    superblock.check_writable()?;
    let mut done = Vec::new();
    let offline = &report.offline;
    for (device, block, data) in &offline.rewrites {
        write(image, *device, *block, data.clone())?;
        done.push(format!("wrote block {block} of the {} device again", device));
    }
    if !offline.rewrites.is_empty() {
        flush(image)?;
    }
    if offline.pages.is_none() && offline.counters.is_none() {
        return Ok(done);
    }
    let mut next = Superblock { sequence: superblock.sequence + 1, ..superblock.clone() };
    // Runs that only the bitmap names must stay named there.
    if !has_lost_runs(superblock) {
        next.name_runs(superblock.metadata.runs.len(), superblock.metadata.runs.iter().copied());
    }
    if let Some(pages) = &offline.pages {
        next.metadata.bitmap = write_bitmap(pages, superblock, image)?;
        next.name_runs(pages.runs.len(), pages.runs.iter().copied());
        done.push("wrote a new bitmap of pages".into());
    }
    if let Some(counters) = offline.counters {
        next.counters = counters;
        done.push("counted objects and omaps again".into());
    }
    let main_blocks = image.blocks(Device::Main);
    for slot in superblock::slots(main_blocks, next.sequence) {
        write(image, Device::Main, slot, next.encode())?;
    }
    flush(image)?;
    done.push(format!("wrote version {} of the superblock", next.sequence));
    Ok(done)
}

/// Writes a bitmap to unused pages. The old one is kept until the superblock names the new one.
fn write_bitmap(
    pages: &PagesInUse,
    superblock: &Superblock,
    image: &mut dyn ImageMut,
) -> Result<PageBitmap, RepairError> {
    let metadata = &superblock.metadata;
    let mut space = pages.to_bitmap();
    let extents = allocate(&mut space)?;
    let replaced: ExtentSet = metadata.bitmap.extents.iter().copied().collect();
    for extent in replaced.iter() {
        space.free_later(extent).expect("the check found it in a run, and marked it");
    }
    let raw = space.encode();
    let (bytes, crc) = (raw.len() as u64, crc32c(&raw));
    let blocks: u64 = extents.iter().map(|extent| extent.count).sum();
    let mut buffer = AlignedBuffer::zeroed(blocks as usize * BLOCK);
    buffer[..raw.len()].copy_from_slice(&raw);
    let mut rest = Bytes::from(buffer);
    for extent in &extents {
        let piece = rest.split_to(extent.count as usize * BLOCK);
        write(image, metadata.device, extent.start, piece)?;
    }
    flush(image)?;
    Ok(PageBitmap { extents, bytes, crc })
}

/// Allocates pages for the bitmap itself.
fn allocate(space: &mut PageSpace) -> Result<Vec<Extent>, RepairError> {
    let needed = space.encoded_length().div_ceil(BLOCK) as u64;
    let free = space.free_pages();
    let mut extents = Vec::new();
    let mut missing = needed;
    while missing > 0 {
        let extent = space.allocate_run(missing).ok_or(RepairError::NoSpace { needed, free })?;
        missing -= extent.count;
        extents.push(extent);
    }
    match extents.len() <= SCATTERED_EXTENTS_MAX {
        true => Ok(extents),
        false => Err(RepairError::NoSpace { needed, free }),
    }
}

fn write(
    image: &mut dyn ImageMut,
    device: Device,
    block: u64,
    data: Bytes,
) -> Result<(), RepairError> {
    let written = image.write(device, block, data);
    written.map_err(|reason| RepairError::Write { device, block, reason })
}

fn flush(image: &mut dyn ImageMut) -> Result<(), RepairError> {
    for device in [Device::Main, Device::Fast] {
        if image.blocks(device) > 0 {
            let flushed = image.flush(device);
            flushed.map_err(|reason| RepairError::Flush { device, reason })?;
        }
    }
    Ok(())
}
