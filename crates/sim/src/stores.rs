//! Kind of store and devices of each OSD.
//!
//! In some seeds all OSDs use the reference store, in others all use the block store, and in others they
//! are mixed: then the copies of a group must agree across both kinds of store.

use block::Options;
use block::disk::{DiskOptions, Unwritten};
use engine::Duration;
use std::ops::RangeInclusive;
use stdx::Prng;
use store::crash::CrashOptions;
use types::OsdId;

const BLOCKS_PER_MIB: u64 = 256;
/// Size of the main device in MiB: much more than a scenario writes.
const MAIN_MIB: (u64, u64) = (32, 65);
/// Size in MiB in tight clusters: a few large objects.
const MAIN_MIB_TIGHT: (u64, u64) = (8, 17);
const FAST_MIB: (u64, u64) = (16, 33);
/// Blocks of the log; the default for a device of this size is several times as large. The record of a
/// split of a group with a full log, of up to 300 KiB, fits.
const LOG_BLOCKS_SMALL: u64 = 512;
/// Blocks of the log per block of a deferred write: a record may take at most a quarter of the log.
const LOG_BLOCKS_PER_DEFERRED: u64 = 16;
const MEMORY_SMALL: u64 = 1 << 20;
const MEMORY_USUAL: u64 = 64 << 20;
/// One in so many seeds has one device that is up to so many times slower than the others.
const SLOW_ONE_IN: u64 = 8;
const SLOW_FACTOR_MAX: u64 = 60;
const READ_DELAY_MAX: Duration = Duration::from_millis(1);

/// A kind of store with its options.
#[derive(Debug, Clone)]
pub enum StoreKind {
    /// `store::crash` over `store::mem`.
    Crash(CrashOptions),
    /// `block` over simulated devices.
    Block(Box<BlockShape>),
}

impl StoreKind {
    /// True if data lies on a device of its own, without metadata other than superblocks.
    pub fn can_rot(&self) -> bool {
        matches!(self, StoreKind::Block(shape) if shape.store.fast_blocks > 0)
    }
}

/// Options of a block store and its devices.
#[derive(Debug, Clone)]
pub struct BlockShape {
    /// Options of the store.
    pub store: Options,
    /// Options of the devices.
    pub disk: DiskOptions,
    /// `None`: the store's default.
    pub log_blocks: Option<u64>,
    /// A checkpoint follows one in so many turns with commits; zero: only the store's own checkpoints.
    pub checkpoint_one_in: u64,
}

/// Draws a store for each OSD, and the slow one among them. `commit_us` is the usual time of a commit. In a
/// tight cluster all devices have the smallest size.
pub fn draw(
    p: &mut Prng,
    osds: usize,
    commit_us: (u64, u64),
    is_tight: bool,
) -> (Vec<StoreKind>, Option<OsdId>) {
    // Probability of a block store, in quarters.
    let block = if is_tight { 4 } else { *p.choose(&[0, 0, 4, 4, 4, 2]) };
    let low = Duration::from_micros(commit_us.0);
    let commit = low..=Duration::from_micros(commit_us.1).max(low);
    let slow = p.chance(1, SLOW_ONE_IN).then(|| p.below(osds as u64) as usize);
    let factor = 10 + p.below(SLOW_FACTOR_MAX - 9) as u32;
    let one = |number| {
        let delay = match slow == Some(number) {
            true => *commit.start() * factor..=*commit.end() * factor,
            false => commit.clone(),
        };
        match p.chance(block, 4) {
            true => StoreKind::Block(Box::new(BlockShape::draw(p, &delay, is_tight))),
            false => {
                StoreKind::Crash(CrashOptions { commit_delay: delay, ..CrashOptions::default() })
            }
        }
    };
    ((0..osds).map(one).collect(), slow.map(|number| OsdId(number as i32)))
}

impl BlockShape {
    fn draw(p: &mut Prng, commit: &RangeInclusive<Duration>, is_tight: bool) -> Self {
        let main_mib = if is_tight { MAIN_MIB_TIGHT } else { MAIN_MIB };
        let main_blocks = p.range(main_mib.0..main_mib.1) * BLOCKS_PER_MIB;
        let has_fast = p.chance(1, 3);
        let fast_mib = if has_fast { p.range(FAST_MIB.0..FAST_MIB.1) } else { 0 };
        let fast_blocks = fast_mib * BLOCKS_PER_MIB;
        let (main_cache, fast_cache) = (p.chance(4, 5), p.chance(4, 5));
        let store = Options {
            main_blocks,
            fast_blocks,
            memory: *p.choose(&[MEMORY_SMALL, MEMORY_USUAL]),
            flush_main: main_cache,
            flush_fast: fast_cache,
            discard: p.chance(1, 2),
            deferred_blocks: *p.choose(&[0, 8, 8, 64]),
            owner: None,
        };
        let log_blocks_small =
            LOG_BLOCKS_SMALL.max(store.deferred_blocks * LOG_BLOCKS_PER_DEFERRED);
        let unwritten = if p.chance(1, 2) { Unwritten::Garbage } else { Unwritten::Zeros };
        let disk = DiskOptions {
            main_blocks,
            fast_blocks,
            main_cache,
            fast_cache,
            read_delay: Duration::from_micros(5)..=READ_DELAY_MAX,
            write_delay: commit.clone(),
            flush_delay: commit.clone(),
            unwritten,
            ..DiskOptions::default()
        };
        BlockShape {
            store,
            disk,
            log_blocks: (is_tight || p.chance(2, 3)).then_some(log_blocks_small),
            checkpoint_one_in: *p.choose(&[0, 0, 20, 300]),
        }
    }
}
