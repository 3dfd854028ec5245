//! Devices as a check sees them: synchronous reads, and writes for a repair.

use crate::device::{BLOCK, Device, Extent, IoError, ReadError};
use bytes::Bytes;
use std::cell::RefCell;

/// The devices of a store that is not open. A host implements it over files.
pub trait Image {
    /// Reads whole blocks, or returns why they are unreadable.
    fn read(&mut self, device: Device, block: u64, blocks: u32) -> Result<Bytes, IoError>;

    /// Size of a device in blocks, 0 without such a device.
    fn blocks(&self, device: Device) -> u64;
}

/// Devices of a repair.
pub trait ImageMut: Image {
    /// Writes whole blocks with the alignment of `stdx::AlignedBuffer`.
    fn write(&mut self, device: Device, block: u64, data: Bytes) -> Result<(), IoError>;

    /// Makes all completed writes durable.
    fn flush(&mut self, device: Device) -> Result<(), IoError>;
}

/// An image that several parts of a check read from in turn. Reads beyond the devices are refused,
/// whatever damaged metadata says.
pub(crate) struct Source<'a> {
    image: RefCell<&'a mut dyn Image>,
}

impl<'a> Source<'a> {
    /// The devices of `image`, read through shared references.
    pub fn new(image: &'a mut dyn Image) -> Self {
        Source { image: RefCell::new(image) }
    }

    /// Size of a device in blocks, 0 without such a device.
    pub fn blocks(&self, device: Device) -> u64 {
        self.image.borrow().blocks(device)
    }

    /// Reads the blocks of `extent`; fails if they do not lie on the device.
    pub fn read(&self, device: Device, extent: Extent) -> Result<Bytes, ReadError> {
        let Extent { start, count } = extent;
        let limit = self.blocks(device);
        let is_within = start.checked_add(count).is_some_and(|end| end <= limit);
        let blocks = u32::try_from(count).ok().filter(|_| is_within);
        let Some(blocks) = blocks else {
            return Err(ReadError::Outside { extent, limit });
        };
        let bytes = self.image.borrow_mut().read(device, start, blocks)?;
        match bytes.len() == count as usize * BLOCK {
            true => Ok(bytes),
            false => Err(ReadError::Length { found: bytes.len(), blocks: count }),
        }
    }
}
