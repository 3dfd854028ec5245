//! Formatting: the initial content of an empty store.

use crate::device::{BLOCK, Device, Io, IoId};
use crate::log::{Counters, LogPoint};
use crate::options::{MEMORY_MIN, Options};
use crate::superblock::{
    self, FastLabel, Features, GeometryError, MetadataSpace, OWNER_BYTES_MAX, PageBitmap,
    Superblock, layout,
};
use bytes::Bytes;
use thiserror::Error;
use types::Uuid;

/// Reason why devices cannot be formatted. Nothing has been written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FormatError {
    /// The sizes of the devices do not suit a store.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The memory does not suffice for a device of this size. All numbers are bytes.
    #[error(
        "a device of {} needs {} of memory, {} of it for the bitmap of its blocks, and its store is \
         granted {}: grant at least as much as it needs, or better {} (--memory)",
        stdx::format_bytes(*device), stdx::format_bytes(*needed), stdx::format_bytes(*bitmap),
        stdx::format_bytes(*granted), stdx::format_bytes(*advised)
    )]
    Memory {
        /// Size of the main device.
        device: u64,
        /// Memory of the bitmap of its blocks.
        bitmap: u64,
        /// Minimum memory.
        needed: u64,
        /// Memory with room for caches.
        advised: u64,
        /// Memory in the options.
        granted: u64,
    },
    /// Length of the owner's name in bytes, which is too long.
    #[error("the owner's name has {0} bytes, at most {OWNER_BYTES_MAX} are kept")]
    Owner(usize),
}

/// Writes that create an empty store. Perform all of them, then flush both devices. `store` must be
/// an id that was never used before, because it tells this store's log from remains of other ones.
pub fn format(
    options: &Options,
    store: [u8; 16],
    owner: &[u8],
    log_blocks: Option<u64>,
) -> Result<Vec<Io>, FormatError> {
    if owner.len() > OWNER_BYTES_MAX {
        return Err(FormatError::Owner(owner.len()));
    }
    check_memory(options)?;
    let geometry = layout(options.main_blocks, options.fast_blocks, log_blocks)?;
    let store = Uuid(store);
    let is_fast = options.fast_blocks > 0;
    let device = if is_fast { Device::Fast } else { Device::Main };
    let runs = if is_fast { vec![geometry.fast_space] } else { Vec::new() };
    let mut superblock = Superblock {
        features: Features::default(),
        store,
        sequence: 1,
        generation: 0,
        geometry,
        owner: Bytes::copy_from_slice(owner),
        log: LogPoint::BEGINNING,
        resumed: LogPoint::BEGINNING,
        counters: Counters { next_id: 1, ..Counters::default() },
        tree_root: Bytes::new(),
        metadata: MetadataSpace { device, runs, bitmap: PageBitmap::default() },
    };
    let mut writes = Vec::new();
    let mut write = |device, block, data| {
        let id = IoId(writes.len() as u64);
        writes.push(Io::Write { id, device, block, data: vec![data], durable: true });
    };
    if is_fast {
        let label = FastLabel { store, blocks: options.fast_blocks };
        write(Device::Fast, 0, label.encode());
    }
    // Two versions, so that all four copies belong to this store.
    for _ in 0..2 {
        for slot in superblock::slots(options.main_blocks, superblock.sequence) {
            write(Device::Main, slot, superblock.encode());
        }
        superblock.sequence += 1;
    }
    Ok(writes)
}

/// Checks that the memory suffices for formatting devices of this size.
fn check_memory(options: &Options) -> Result<(), FormatError> {
    let (needed, granted) = (options.memory_needed(), options.memory.max(MEMORY_MIN));
    // The minimum always suffices for a small device.
    if granted >= needed || options.memory_of_bitmap() < MEMORY_MIN {
        return Ok(());
    }
    Err(FormatError::Memory {
        device: options.main_blocks * BLOCK as u64,
        bitmap: options.memory_of_bitmap(),
        needed,
        advised: options.memory_advised(),
        granted,
    })
}

/// Identity of the store on a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Id of the store (UUID).
    pub store: [u8; 16],
    /// Owner given at formatting, not interpreted.
    pub owner: Bytes,
}

/// Identity in a copy of the superblock; `None` if the block is no superblock or is damaged.
pub fn identify(block: &[u8]) -> Option<Identity> {
    let Superblock { store, owner, .. } = Superblock::read_copy(block)?;
    Some(Identity { store: store.0, owner })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::BLOCK;

    #[test]
    fn a_formatted_device_identifies_its_store() {
        let options = Options { main_blocks: 8192, ..Options::default() };
        for io in format(&options, [7; 16], b"osd.3", None).unwrap() {
            let Io::Write { data, .. } = io else { panic!("{io:?}") };
            let identity = identify(&data[0]).unwrap();
            assert_eq!((identity.store, &identity.owner[..]), ([7; 16], &b"osd.3"[..]));
        }
        assert_eq!(identify(&[0; BLOCK]), None);
        assert_eq!(identify(b"short"), None);
    }
}
