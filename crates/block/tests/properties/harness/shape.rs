//! Devices and options of a store.

use block::disk::{DiskOptions, Driver, FaultyDisk, Unwritten};
use block::{BlockStore, Options, format};
use engine::{Duration, Time};
use stdx::Prng;

pub const BLOCKS_PER_MIB: u64 = 256;

/// Everything is evicted all the time, and checkpoints happen often.
pub const MEMORY_TINY: u64 = 1 << 20;
pub const MEMORY_USUAL: u64 = 32 << 20;

const LOG_SMALL_MIB: u64 = 8;

/// Size in bytes that objects reach on devices that are large enough.
const OBJECT_LARGE: u64 = 2 << 20;
const OBJECT_SMALL: u64 = 192 << 10;

#[derive(Debug, Clone)]
pub struct Shape {
    pub store: Options,
    pub disk: DiskOptions,
    /// Blocks of the log, if the store shall not choose.
    pub log_blocks: Option<u64>,
    /// Approximate size of objects in bytes.
    pub object_size: u64,
}

impl Shape {
    /// Random devices with enough space for the output of the generator.
    pub fn draw(prng: &mut Prng) -> Shape {
        let large = prng.chance(1, 3);
        let main_mib = if large { prng.range(128..257) } else { prng.range(32..65) };
        let fast_mib = if prng.chance(1, 3) { prng.range(24..65) } else { 0 };
        let mut shape = Shape::new(main_mib, fast_mib);
        shape.object_size = if large { OBJECT_LARGE } else { OBJECT_SMALL };
        // A log that wraps all the time, and forces checkpoints.
        shape.log_blocks = prng.chance(1, 3).then_some(LOG_SMALL_MIB * BLOCKS_PER_MIB);
        shape.store.deferred_blocks = *prng.choose(&[0, 1, 8, 8, 64]);
        shape.store.memory = *prng.choose(&[MEMORY_TINY, MEMORY_USUAL]);
        shape.set_caches(prng.chance(4, 5), prng.chance(4, 5));
        shape.store.discard = prng.chance(1, 2);
        if prng.chance(1, 2) {
            shape.disk.unwritten = Unwritten::Garbage;
        }
        if prng.chance(1, 4) {
            // Slow writes, so that much is in flight in a crash.
            shape.disk.write_delay = Duration::from_micros(1)..=Duration::from_millis(20);
        }
        shape
    }

    pub fn new(main_mib: u64, fast_mib: u64) -> Shape {
        let main_blocks = main_mib * BLOCKS_PER_MIB;
        let fast_blocks = fast_mib * BLOCKS_PER_MIB;
        let store =
            Options { main_blocks, fast_blocks, memory: MEMORY_USUAL, ..Options::default() };
        let disk = DiskOptions { main_blocks, fast_blocks, ..DiskOptions::default() };
        let mut shape = Shape { store, disk, log_blocks: None, object_size: OBJECT_SMALL };
        shape.set_caches(true, true);
        shape
    }

    /// Sets whether completed writes are volatile, in the devices and in the store's options.
    fn set_caches(&mut self, main: bool, fast: bool) {
        (self.disk.main_cache, self.disk.fast_cache) = (main, fast);
        (self.store.flush_main, self.store.flush_fast) = (main, fast);
    }

    pub fn format(&self, seed: u64) -> FaultyDisk {
        let mut disk = FaultyDisk::new(seed, self.disk.clone());
        self.format_over(&mut disk, 1);
        disk
    }

    /// Formats a store over the content of the devices. Each store has a number of its own.
    pub fn format_over(&self, disk: &mut FaultyDisk, store: u8) {
        let writes = format(&self.store, [store; 16], b"osd.7", self.log_blocks);
        disk.perform(writes.expect("the devices are large enough"));
    }

    /// Opens the store without waiting until it is open.
    pub fn start(&self, disk: FaultyDisk, now: Time) -> Driver<BlockStore> {
        Driver::new(BlockStore::open(self.store.clone()), disk, now)
    }
}
