//! Allocation of the metadata space: runs of blocks that the tree gets for its pages, and gives
//! back.
//!
//! Runs are as long as possible and grow with the tree, because each costs a few bytes in every
//! checkpoint and the superblock names only few of them. On fragmented free space there are many
//! short ones. A run that is added during a checkpoint is set aside until the checkpoint ends: its
//! superblock would name the run, but its bitmap of the space would not contain it.

use crate::device::{BLOCK, Device, Extent};
use crate::space::Space;
use crate::superblock::{BITMAP_EXTENTS_MAX, SCATTERED_EXTENTS_MAX, Superblock};
use crate::tree::{NotInUse, PageSource, PageSpace, RUNS_MAX};
use thiserror::Error;

/// The first run has this share of the space, within bounds. Later runs have this share of the
/// tree's pages, limited by the free space.
const RUN_SPACE_SHARE: u64 = 512;
const RUN_BLOCKS_MIN: u64 = 64;
const RUN_BLOCKS_FIRST_MAX: u64 = 16 << 10;
const RUN_GROWTH_SHARE: u64 = 4;
const RUN_FREE_SHARE: u64 = 16;
/// Short runs are added only below this number, so that some remain for long ones.
const RUNS_SHORT_MAX: usize = RUNS_MAX * 3 / 4;
/// Bytes of a run in the bitmap of pages, besides its bits.
const RUN_BYTES_MAX: usize = 16 + 8;
/// While more than this share of the space is free, nothing is taken back; then only long runs are.
const SCARCE_SHARE: u64 = 8;
const PIECE_BLOCKS_MIN: u64 = 8;
/// When no more than this share is free, short runs are taken back, too,
const SCARCEST_SHARE: u64 = 64;
/// as long as the tree has more than this multiple of the pages that it may need.
const PAGES_KEPT_FACTOR: u64 = 2;

pub(crate) struct TreePages {
    pages: PageSpace,
    device: Device,
    /// Runs that the running checkpoint must not name.
    set_aside: Vec<Extent>,
}

/// There is no place for the bitmap of pages.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum NoPlace {
    /// As many pages are missing.
    #[error("{0} pages are missing for the bitmap of pages")]
    Pages(u64),
    /// As many pages have no place in few pieces.
    #[error(
        "free pages of the metadata lie too scattered: {0} pages of their bitmap have no place in \
         {SCATTERED_EXTENTS_MAX} pieces"
    )]
    Scattered(u64),
}

impl TreePages {
    /// Pages of the tree on this device.
    pub fn new(pages: PageSpace, device: Device) -> Self {
        TreePages { pages, device, set_aside: Vec::new() }
    }

    /// Device of the metadata space.
    pub fn device(&self) -> Device {
        self.device
    }

    /// Pages that are free for the tree, or were when the running checkpoint began: a checkpoint
    /// frees as many as it rewrites.
    pub fn at_hand(&self) -> u64 {
        self.pages.free_pages() + self.pages.taken_pages() + self.set_aside_pages()
    }

    /// Pages that can be allocated now.
    pub fn free(&self) -> u64 {
        self.pages.free_pages()
    }

    /// Pages in use, including those that are free after the running checkpoint.
    pub fn used(&self) -> u64 {
        self.pages.used_pages()
    }

    /// Pages of all runs, but for those that are set aside.
    pub fn total(&self) -> u64 {
        self.pages.used_pages() + self.pages.free_pages()
    }

    /// Blocks of the main device that hold no page.
    pub fn idle_blocks(&self) -> u64 {
        match self.device {
            Device::Main => self.pages.free_pages() + self.set_aside_pages(),
            Device::Fast => 0,
        }
    }

    fn set_aside_pages(&self) -> u64 {
        self.set_aside.iter().map(|run| run.count).sum()
    }

    /// Pages that the bitmap of pages needs.
    pub fn bitmap_pages(&self) -> u64 {
        self.pages.encoded_length().div_ceil(BLOCK) as u64
    }

    /// The same, including the runs that are added after the checkpoint.
    pub fn bitmap_pages_later(&self) -> u64 {
        let later: usize =
            self.set_aside.iter().map(|run| RUN_BYTES_MAX + run.count as usize / 8).sum();
        (self.pages.encoded_length() + later).div_ceil(BLOCK) as u64
    }

    /// Adds at least `missing` pages; false if there is not enough free space. While a checkpoint
    /// runs they are set aside.
    pub fn grow(&mut self, space: &mut Space, mut missing: u64, in_checkpoint: bool) -> bool {
        while missing > 0 {
            let Some(run) = self.allocate_run_in(space, missing) else { return false };
            missing = missing.saturating_sub(run.count);
            match in_checkpoint {
                true => self.set_aside.push(run),
                false => self.pages.add_run(run),
            }
        }
        true
    }

    /// Allocates a run of the space; its length grows with the tree.
    fn allocate_run_in(&self, space: &mut Space, missing: u64) -> Option<Extent> {
        let runs = self.pages.run_count() + self.set_aside.len();
        if self.device != Device::Main || runs >= RUNS_MAX {
            return None;
        }
        let first = (space.total() / RUN_SPACE_SHARE).clamp(RUN_BLOCKS_MIN, RUN_BLOCKS_FIRST_MAX);
        let growth = (self.total() / RUN_GROWTH_SHARE).max(first);
        let growth = growth.min(space.allocatable() / RUN_FREE_SHARE);
        let run = space.allocate_run(RUN_BLOCKS_MIN.min(missing), missing.max(growth));
        match run {
            None if runs < RUNS_SHORT_MAX => space.allocate_run(1, missing),
            run => run,
        }
    }

    /// Adds the runs that were set aside. No checkpoint may be running.
    pub fn add_set_aside(&mut self) {
        for run in std::mem::take(&mut self.set_aside) {
            self.pages.add_run(run);
        }
    }

    /// Takes free runs out of the metadata space, all but `kept` free pages. They are free as of this
    /// checkpoint, whose last batch is `seq`, and stay pinned until the caller unpins them: they must
    /// not be used before it is durable.
    pub fn take_back(&mut self, space: &mut Space, kept: u64, seq: u64) -> Vec<Extent> {
        let surplus = self.surplus(space, kept);
        if surplus == 0 {
            return Vec::new();
        }
        self.pages.rewind();
        let returned = self.pages.take_free_runs(surplus, piece_min(space));
        for run in &returned {
            space.pin(*run).expect("runs lie in the space");
            space.free_after(seq, *run).expect("a run of the tree is in use");
        }
        returned
    }

    /// Set if a checkpoint that keeps so many free pages would free blocks.
    pub fn has_surplus(&self, space: &Space, kept: u64) -> bool {
        self.pages.has_free_runs(self.surplus(space, kept), piece_min(space))
    }

    /// Free pages beyond those to keep. None are taken back before data needs them, because a tree
    /// that grows would need them again soon.
    fn surplus(&self, space: &Space, kept: u64) -> u64 {
        let is_scarce = space.free() < space.total() / SCARCE_SHARE;
        if self.device != Device::Main || !is_scarce {
            return 0;
        }
        self.pages.free_pages().saturating_sub(kept)
    }

    /// Free pages that are kept if changes may need `bound` pages, besides reserves.
    pub fn kept_for(&self, bound: u64) -> u64 {
        PAGES_KEPT_FACTOR * (bound + self.bitmap_pages()) + RUN_BLOCKS_MIN
    }

    /// Frees pages as of the next [`TreePages::commit`].
    pub fn free_later(&mut self, extent: Extent) -> Result<(), NotInUse> {
        self.pages.free_later(extent)
    }

    /// Ends a checkpoint: its superblock is durable.
    pub fn commit(&mut self) {
        self.pages.commit();
    }

    /// Allocates the pages of the bitmap of pages, which covers its own.
    pub fn allocate_bitmap(&mut self) -> Result<Vec<Extent>, NoPlace> {
        let mut extents = Vec::new();
        let mut missing = self.bitmap_pages();
        while missing > 0 && extents.len() < BITMAP_EXTENTS_MAX / 2 {
            let extent = self.pages.allocate_run(missing).ok_or(NoPlace::Pages(missing))?;
            missing -= extent.count;
            extents.push(extent);
        }
        // The superblock names few extents; as these run short, long runs are preferred.
        if missing > 0 {
            let pieces_max = SCATTERED_EXTENTS_MAX - extents.len();
            let longest = self.pages.allocate_longest(missing, pieces_max);
            missing -= longest.iter().map(|extent| extent.count).sum::<u64>();
            extents.extend(longest);
        }
        if missing > 0 { Err(NoPlace::Scattered(missing)) } else { Ok(extents) }
    }

    /// The bitmap of pages.
    pub fn encode(&self) -> Vec<u8> {
        self.pages.encode()
    }

    /// Names the runs in the superblock, as far as it has space.
    pub fn name_runs(&self, superblock: &mut Superblock) {
        superblock.name_runs(self.pages.run_count(), self.pages.runs());
    }

    /// Panics if the page space contradicts itself or the space of the device.
    pub fn check_invariants(&self) {
        self.pages.check_invariants();
    }
}

impl PageSource for TreePages {
    fn allocate(&mut self) -> Option<u64> {
        self.pages.allocate()
    }

    fn allocate_run(&mut self, pages: u64) -> Option<Extent> {
        self.pages.allocate_run(pages)
    }
}

/// Shortest piece that is taken back in blocks; splitting runs is the last resort.
fn piece_min(space: &Space) -> u64 {
    let is_scarcest = space.free() < space.total() / SCARCEST_SHARE;
    if is_scarcest { 1 } else { PIECE_BLOCKS_MIN }
}
