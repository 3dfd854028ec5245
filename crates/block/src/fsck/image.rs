//! Devices as a check sees them: blocks to be read, and for a repair to be written, one after another.

use crate::device::{BLOCK, Device, Extent};
use bytes::Bytes;
use std::cell::RefCell;

/// The devices of a store that nobody has opened. A host implements it over files.
pub trait Image {
    /// As many whole blocks as are asked for, or why they cannot be read.
    fn read(&mut self, device: Device, block: u64, blocks: u32) -> Result<Bytes, String>;

    /// Blocks of a device, 0 if there is none.
    fn blocks(&self, device: Device) -> u64;
}

/// Devices that may be changed.
pub trait ImageMut: Image {
    /// Whole blocks, in memory that is aligned as `stdx::AlignedBuffer` is.
    fn write(&mut self, device: Device, block: u64, data: Bytes) -> Result<(), String>;

    /// Makes durable what was written.
    fn flush(&mut self, device: Device) -> Result<(), String>;
}

/// An image that several parts of a check read from in turn. Nothing is read from outside of the
/// devices, whatever damaged metadata says.
pub(crate) struct Source<'a> {
    image: RefCell<&'a mut dyn Image>,
}

impl<'a> Source<'a> {
    pub fn new(image: &'a mut dyn Image) -> Self {
        Source { image: RefCell::new(image) }
    }

    pub fn blocks(&self, device: Device) -> u64 {
        self.image.borrow().blocks(device)
    }

    pub fn read(&self, device: Device, extent: Extent) -> Result<Bytes, String> {
        let Extent { start, count } = extent;
        let limit = self.blocks(device);
        let is_within = start.checked_add(count).is_some_and(|end| end <= limit);
        let blocks = u32::try_from(count).ok().filter(|_| is_within);
        let Some(blocks) = blocks else {
            return Err(format!("{} is not within {limit} blocks", describe_extent(extent)));
        };
        let bytes = self.image.borrow_mut().read(device, start, blocks)?;
        match bytes.len() == count as usize * BLOCK {
            true => Ok(bytes),
            false => Err(format!("{} bytes came instead of {count} blocks", bytes.len())),
        }
    }
}

/// An extent for people.
pub(crate) fn describe_extent(extent: Extent) -> String {
    match extent.count {
        1 => format!("block {}", extent.start),
        _ => format!("blocks {}..{}", extent.start, extent.start.saturating_add(extent.count)),
    }
}

/// A device for people.
pub(crate) fn describe_device(device: Device) -> &'static str {
    match device {
        Device::Main => "main",
        Device::Fast => "fast",
    }
}
