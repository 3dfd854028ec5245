//! What the host knows about the devices, and what it grants.

use crate::device::BLOCK;
use crate::format::FormatError;
use crate::space::BlockMap;

/// Memory below this cannot hold what one transaction may need.
pub const MEMORY_MIN: u64 = 1 << 20;
const MEMORY_DEFAULT: u64 = 1 << 30;
/// Writes of at most so many blocks travel in the log. Measured: see `docs/BENCHMARKS.md`.
pub const DEFERRED_BLOCKS_DEFAULT: u64 = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    pub main_blocks: u64,
    /// Blocks of the device for log and metadata; 0 if there is none.
    pub fast_blocks: u64,
    /// Bytes of memory that the store may use.
    pub memory: u64,
    /// Whether the devices have write caches that lose power; if not, a write is durable when done.
    pub flush_main: bool,
    pub flush_fast: bool,
    /// Whether the main device should be told of blocks that are free.
    pub discard: bool,
    /// Writes of at most so many blocks travel in the log, larger ones beside it.
    pub deferred_blocks: u64,
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
        }
    }
}

impl Options {
    /// Bytes of memory that the bitmap of the main device takes, which are in memory all the time.
    pub fn memory_of_bitmap(&self) -> u64 {
        BlockMap::memory_for(self.main_blocks) as u64
    }

    /// Bytes of memory below which no store is made on devices of this size: the bitmap, a quarter of
    /// that for all else, and what one transaction may need.
    pub fn memory_needed(&self) -> u64 {
        let bitmap = self.memory_of_bitmap();
        bitmap + bitmap / 4 + MEMORY_MIN
    }

    /// Whether the memory suffices for a store on a device of this size.
    pub fn check_memory(&self) -> Result<(), FormatError> {
        let (needed, granted) = (self.memory_needed(), self.memory.max(MEMORY_MIN));
        // What a store of a small device takes is what is granted at least.
        if granted >= needed || self.memory_of_bitmap() < MEMORY_MIN {
            return Ok(());
        }
        Err(FormatError::Memory {
            device: self.main_blocks * BLOCK as u64,
            bitmap: self.memory_of_bitmap(),
            needed,
            advised: self.memory_advised(),
            granted,
        })
    }

    /// Bytes of memory with which the bitmap takes no more than a third.
    pub fn memory_advised(&self) -> u64 {
        3 * self.memory_of_bitmap() + MEMORY_MIN
    }
}

/// How the memory is shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Pages of the tree that are kept.
    pub cache_pages: usize,
    /// Bytes of changed metadata at which a checkpoint begins. While it runs, as much again may gather.
    pub table_bytes: usize,
    /// Bytes of small data that wait for their way home at which a checkpoint begins.
    pub home_bytes: usize,
    /// Blocks of data that are kept after they were read or written.
    pub recent_blocks: usize,
}

impl Budget {
    /// `fixed` bytes are taken by what cannot be bounded: the bitmap of the space.
    pub fn new(memory: u64, fixed: u64) -> Self {
        let rest = memory.max(MEMORY_MIN).saturating_sub(fixed).max(MEMORY_MIN / 2);
        Budget {
            cache_pages: (rest / 4 / (BLOCK as u64 + 64)) as usize,
            // Twice, for the frozen and the active half; so are homes.
            table_bytes: (rest / 6) as usize,
            home_bytes: (rest / 12) as usize,
            recent_blocks: (rest / 8 / (BLOCK as u64 + 64)) as usize,
        }
    }
}
