//! Options of a store: devices, memory and limits granted by the host.

use crate::device::BLOCK;
use crate::space::BlockMap;
use bytes::Bytes;

/// Minimum memory in bytes: less may not hold the changes of one transaction.
pub const MEMORY_MIN: u64 = 1 << 20;
const MEMORY_DEFAULT: u64 = 1 << 30;
/// Default of [`Options::deferred_blocks`]. Measured: see `docs/BENCHMARKS.md`.
pub const DEFERRED_BLOCKS_DEFAULT: u64 = 8;

/// Devices and limits of a store. Sizes of devices have no default: the host measures them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Size of the main device in blocks.
    pub main_blocks: u64,
    /// Size of the device for log and metadata in blocks; 0 if there is none.
    pub fast_blocks: u64,
    /// Memory that the store may use, in bytes.
    pub memory: u64,
    /// Set if the main device has a volatile write cache; otherwise a completed write is durable.
    pub flush_main: bool,
    /// The same for the fast device.
    pub flush_fast: bool,
    /// Set if free blocks of the main device should be discarded.
    pub discard: bool,
    /// Writes of at most this number of blocks are deferred (their data goes to the log); longer
    /// ones are large writes.
    pub deferred_blocks: u64,
    /// Owner of the store, given at formatting; the store of another one is not opened. `None`
    /// opens any.
    pub owner: Option<Bytes>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            main_blocks: 0,
            fast_blocks: 0,
            memory: MEMORY_DEFAULT,
            flush_main: true,
            flush_fast: true,
            discard: false,
            deferred_blocks: DEFERRED_BLOCKS_DEFAULT,
            owner: None,
        }
    }
}

impl Options {
    /// Bytes of memory that the bitmap of the main device takes permanently.
    pub fn memory_of_bitmap(&self) -> u64 {
        BlockMap::memory_for(self.main_blocks) as u64
    }

    /// Minimum memory for formatting devices of this size, in bytes: the bitmap, a quarter of that
    /// for everything else, and the needs of one transaction.
    pub fn memory_needed(&self) -> u64 {
        let bitmap = self.memory_of_bitmap();
        bitmap + bitmap / 4 + MEMORY_MIN
    }

    /// Recommended memory in bytes, of which the bitmap takes no more than a third.
    pub fn memory_advised(&self) -> u64 {
        3 * self.memory_of_bitmap() + MEMORY_MIN
    }
}

/// Division of the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Pages of the tree in the cache.
    pub cache_pages: usize,
    /// Bytes of changed metadata at which a checkpoint begins. While it runs, the same amount may
    /// gather.
    pub table_bytes: usize,
    /// Bytes of deferred writes at which a checkpoint begins.
    pub deferred_bytes: usize,
    /// Blocks of data in the cache.
    pub cached_blocks: usize,
}

impl Budget {
    /// Divides `memory` bytes, of which the bitmap of the space takes `fixed`.
    pub fn new(memory: u64, fixed: u64) -> Self {
        let rest = memory.max(MEMORY_MIN).saturating_sub(fixed).max(MEMORY_MIN / 2);
        Budget {
            cache_pages: (rest / 4 / (BLOCK as u64 + 64)) as usize,
            // Twice, for the frozen and the active half; the same holds for deferred writes.
            table_bytes: (rest / 6) as usize,
            deferred_bytes: (rest / 12) as usize,
            cached_blocks: (rest / 8 / (BLOCK as u64 + 64)) as usize,
        }
    }
}
