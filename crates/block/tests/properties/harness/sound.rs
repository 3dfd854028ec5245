//! Checks of the devices by `fsck`, as a crash left them.

use super::shape::Shape;
use block::device::{Device, IoError};
use block::disk::{FaultyDisk, View};
use block::fsck::{CheckOptions, Contents, Image, check};
use bytes::Bytes;

/// Read-only devices.
pub struct DiskImage<'a> {
    disk: &'a FaultyDisk,
    main_blocks: u64,
    fast_blocks: u64,
}

impl<'a> DiskImage<'a> {
    pub fn new(shape: &Shape, disk: &'a FaultyDisk) -> Self {
        let (main_blocks, fast_blocks) = (shape.store.main_blocks, shape.store.fast_blocks);
        DiskImage { disk, main_blocks, fast_blocks }
    }
}

impl Image for DiskImage<'_> {
    fn read(&mut self, device: Device, block: u64, blocks: u32) -> Result<Bytes, IoError> {
        Ok(self.disk.read_now(device, block, blocks, View::Completed))
    }

    fn blocks(&self, device: Device) -> u64 {
        match device {
            Device::Main => self.main_blocks,
            Device::Fast => self.fast_blocks,
        }
    }
}

/// Asserts that nothing is found and all data has its checksum.
pub fn assert_sound(shape: &Shape, disk: &FaultyDisk, when: &str) -> Contents {
    let mut image = DiskImage::new(shape, disk);
    let report = check(&mut image, &CheckOptions { deep: true, ..CheckOptions::default() });
    assert!(report.is_clean(), "{when}:\n{report}{}", report.log.as_ref().expect("a log"));
    report.contents
}
