//! Layout of the devices.

use crate::device::{Device, Extent};
use crate::log::{decode_extent, encode_extent};
use codec::{Decode, DecodeError, Encode, Reader, Writer};
use thiserror::Error;

/// Copies of the superblock at either end of the main device.
pub const SUPERBLOCK_BLOCKS: u64 = 2;
/// The label of a fast device.
pub const LABEL_BLOCKS: u64 = 1;
/// 8 MiB.
pub const MAIN_BLOCKS_MIN: u64 = 2048;
/// 1 MiB.
pub const LOG_BLOCKS_MIN: u64 = 256;
/// Default share of the log in its device, within these bounds: 16 MiB, 1 GiB.
const LOG_SHARE: u64 = 16;
const LOG_BLOCKS_DEFAULT_MIN: u64 = 4096;
const LOG_BLOCKS_DEFAULT_MAX: u64 = 262_144;
/// Maximum share of a log of default size in a small device.
const LOG_SHARE_MAX: u64 = 8;
/// Maximum share of a log of requested size.
const LOG_SHARE_ASKED_MAX: u64 = 2;
/// The space begins at a multiple of 1 MiB.
const SPACE_ALIGNMENT: u64 = 256;
/// No device has this many blocks; the bound keeps sums of addresses within their type.
const DEVICE_BLOCKS_MAX: u64 = 1 << 52;

/// Sizes of the devices, and their parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Blocks of the main device at formatting.
    pub main_blocks: u64,
    /// 0 without a fast device.
    pub fast_blocks: u64,
    /// The fast device if there is one.
    pub log_device: Device,
    /// Ring of the log on `log_device`.
    pub log: Extent,
    /// Space for data, on the main device.
    pub space: Extent,
    /// Space for metadata on the fast device; empty if there is none.
    pub fast_space: Extent,
}

/// Reason why devices have no usable layout. All sizes are in blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum GeometryError {
    /// The main device has fewer blocks than a store needs, or than at formatting.
    #[error("the main device has {found} blocks of 4 KiB, at least {least} are needed")]
    MainTooSmall {
        /// Blocks of the device.
        found: u64,
        /// Minimum number of blocks.
        least: u64,
    },
    /// The fast device has fewer blocks than a log needs, or than at formatting.
    #[error("the fast device has {found} blocks of 4 KiB, at least {least} are needed")]
    FastTooSmall {
        /// Blocks of the device.
        found: u64,
        /// Minimum number of blocks.
        least: u64,
    },
    /// The requested log is too short or takes too much of its device.
    #[error("a log of {asked} blocks of 4 KiB is not between {least} and {most}")]
    LogSize {
        /// Blocks of the log.
        asked: u64,
        /// Minimum for any device.
        least: u64,
        /// Maximum for this device.
        most: u64,
    },
    /// A device has more blocks than addresses are safe for.
    #[error("a device has {0} blocks, which is beyond what is supported")]
    TooLarge(u64),
}

/// Divides the devices into log, data and metadata. `fast_blocks` is 0 without a fast device; the
/// size of the log is chosen if none is given.
pub fn layout(
    main_blocks: u64,
    fast_blocks: u64,
    log_blocks: Option<u64>,
) -> Result<Geometry, GeometryError> {
    if main_blocks < MAIN_BLOCKS_MIN {
        return Err(GeometryError::MainTooSmall { found: main_blocks, least: MAIN_BLOCKS_MIN });
    }
    if main_blocks.max(fast_blocks) > DEVICE_BLOCKS_MAX {
        return Err(GeometryError::TooLarge(main_blocks.max(fast_blocks)));
    }
    let fast_least = LABEL_BLOCKS + LOG_BLOCKS_MIN * LOG_SHARE_MAX;
    if fast_blocks > 0 && fast_blocks < fast_least {
        return Err(GeometryError::FastTooSmall { found: fast_blocks, least: fast_least });
    }
    let log_device = if fast_blocks > 0 { Device::Fast } else { Device::Main };
    let (first, device_blocks) = match log_device {
        Device::Main => (SUPERBLOCK_BLOCKS, main_blocks),
        Device::Fast => (LABEL_BLOCKS, fast_blocks),
    };
    let log = Extent::new(first, log_size(device_blocks, log_blocks)?);
    let space_start = match log_device {
        Device::Main => log.end(),
        Device::Fast => SUPERBLOCK_BLOCKS,
    };
    let fast_space_start = if fast_blocks > 0 { log.end() } else { 0 };
    Ok(Geometry {
        main_blocks,
        fast_blocks,
        log_device,
        log,
        space: aligned(space_start, main_blocks - SUPERBLOCK_BLOCKS),
        fast_space: aligned(fast_space_start, fast_blocks),
    })
}

fn log_size(device_blocks: u64, asked: Option<u64>) -> Result<u64, GeometryError> {
    let usual = (device_blocks / LOG_SHARE).clamp(LOG_BLOCKS_DEFAULT_MIN, LOG_BLOCKS_DEFAULT_MAX);
    let asked = asked.unwrap_or(usual.min(device_blocks / LOG_SHARE_MAX));
    let (least, most) = (LOG_BLOCKS_MIN, device_blocks / LOG_SHARE_ASKED_MAX);
    if asked < least || asked > most {
        return Err(GeometryError::LogSize { asked, least, most });
    }
    Ok(asked)
}

fn aligned(start: u64, end: u64) -> Extent {
    let start = start.next_multiple_of(SPACE_ALIGNMENT).min(end);
    Extent::new(start, end - start)
}

impl Geometry {
    /// Checks that devices of these sizes can be those described; they may have grown.
    pub fn check(&self, main_blocks: u64, fast_blocks: u64) -> Result<(), GeometryError> {
        if main_blocks < self.main_blocks {
            let (found, least) = (main_blocks, self.main_blocks);
            return Err(GeometryError::MainTooSmall { found, least });
        }
        if fast_blocks < self.fast_blocks {
            let (found, least) = (fast_blocks, self.fast_blocks);
            return Err(GeometryError::FastTooSmall { found, least });
        }
        Ok(())
    }

    /// Set if the parts lie on their devices and do not overlap.
    fn is_sound(&self) -> bool {
        let far = self.main_blocks.saturating_sub(SUPERBLOCK_BLOCKS);
        let (log_first, log_limit, space_first, fast_space_first) = match self.log_device {
            Device::Main => (SUPERBLOCK_BLOCKS, far, self.log.end(), 0),
            Device::Fast => (LABEL_BLOCKS, self.fast_blocks, SUPERBLOCK_BLOCKS, self.log.end()),
        };
        self.main_blocks.max(self.fast_blocks) <= DEVICE_BLOCKS_MAX
            && self.log.count > 0
            && is_within(self.log, log_first, log_limit)
            && is_within(self.space, space_first, far)
            && is_within(self.fast_space, fast_space_first, self.fast_blocks)
    }
}

fn is_within(extent: Extent, first: u64, limit: u64) -> bool {
    extent.start >= first && extent.end() <= limit
}

impl Encode for Geometry {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.main_blocks);
        w.u64(self.fast_blocks);
        encode_device(w, self.log_device);
        encode_extent(w, &self.log);
        encode_extent(w, &self.space);
        encode_extent(w, &self.fast_space);
    }
}

impl Decode for Geometry {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let at = *r;
        let geometry = Geometry {
            main_blocks: r.u64("main blocks")?,
            fast_blocks: r.u64("fast blocks")?,
            log_device: decode_device(r, "device of the log")?,
            log: decode_extent(r)?,
            space: decode_extent(r)?,
            fast_space: decode_extent(r)?,
        };
        if geometry.is_sound() {
            Ok(geometry)
        } else {
            Err(at.invalid("geometry", geometry.main_blocks))
        }
    }
}

pub(super) fn encode_device(w: &mut Writer, device: Device) {
    w.u8(match device {
        Device::Main => 0,
        Device::Fast => 1,
    });
}

pub(super) fn decode_device(
    r: &mut Reader<'_>,
    field: &'static str,
) -> Result<Device, DecodeError> {
    let at = *r;
    match r.u8(field)? {
        0 => Ok(Device::Main),
        1 => Ok(Device::Fast),
        other => Err(at.invalid(field, other.into())),
    }
}
