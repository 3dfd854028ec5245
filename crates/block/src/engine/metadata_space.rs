//! Allocation of the metadata space: runs of blocks that the tree gets for its pages, and gives
//! back.
//!
//! Runs are as long as possible and grow with the tree, because each costs a few bytes in every
//! checkpoint and the superblock names only few of them. On fragmented free space there are many
//! short ones. A run that is added during a checkpoint is set aside until the checkpoint ends: its
//! superblock would name the run, but its bitmap of the space would not contain it.

use super::mounted::Mounted;
use crate::device::{Device, Extent};
use crate::tree::{Load, RUNS_MAX};

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

impl Mounted {
    /// Pages that are free for the tree, or were when the running checkpoint began: a checkpoint
    /// frees as many as it rewrites.
    pub fn pages_at_hand(&self) -> u64 {
        self.pages.free_pages() + self.pages.taken_pages() + self.pages_set_aside()
    }

    fn pages_set_aside(&self) -> u64 {
        self.runs_set_aside.iter().map(|run| run.count).sum()
    }

    /// Upper bound for the bytes of the page bitmap that runs set aside will add.
    pub fn encoded_length_later(&self) -> usize {
        self.runs_set_aside.iter().map(|run| RUN_BYTES_MAX + run.count as usize / 8).sum()
    }

    /// Blocks of the metadata space that hold no page.
    pub fn idle_pages(&self) -> u64 {
        match self.meta_device {
            Device::Main => self.pages.free_pages() + self.pages_set_aside(),
            Device::Fast => 0,
        }
    }

    /// Adds at least `missing` pages to the metadata space; false if there is not enough free
    /// space.
    pub fn grow_metadata_space(&mut self, mut missing: u64) -> bool {
        while missing > 0 {
            let Some(run) = self.allocate_metadata_run(missing) else { return false };
            missing = missing.saturating_sub(run.count);
            match self.checkpoint.is_some() {
                true => self.runs_set_aside.push(run),
                false => self.pages.add_run(run),
            }
        }
        true
    }

    /// Allocates a run for the metadata space; its length grows with the tree.
    fn allocate_metadata_run(&mut self, missing: u64) -> Option<Extent> {
        let runs = self.pages.run_count() + self.runs_set_aside.len();
        if self.meta_device != Device::Main || runs >= RUNS_MAX {
            return None;
        }
        let first =
            (self.space.total() / RUN_SPACE_SHARE).clamp(RUN_BLOCKS_MIN, RUN_BLOCKS_FIRST_MAX);
        let pages = self.pages.used_pages() + self.pages.free_pages();
        let growth = (pages / RUN_GROWTH_SHARE).max(first);
        let growth = growth.min(self.space.allocatable() / RUN_FREE_SHARE);
        let run = self.space.allocate_run(RUN_BLOCKS_MIN.min(missing), missing.max(growth));
        match run {
            None if runs < RUNS_SHORT_MAX => self.space.allocate_run(1, missing),
            run => run,
        }
    }

    /// Adds the runs that were set aside. No checkpoint may be running.
    pub fn add_set_aside_runs(&mut self) {
        for run in std::mem::take(&mut self.runs_set_aside) {
            self.pages.add_run(run);
        }
    }

    /// Takes free runs out of the metadata space, as far as the frozen changes do not need them.
    /// They are free as of this checkpoint and must not be used before it is durable.
    pub fn take_back_pages(&mut self, frozen: &Load) -> Vec<Extent> {
        let surplus = self.page_surplus(frozen);
        if surplus == 0 {
            return Vec::new();
        }
        self.pages.rewind();
        let returned = self.pages.take_free_runs(surplus, self.piece_min());
        let seq = self.commits.sealed_seq;
        for run in &returned {
            self.space.pin(*run).expect("runs lie in the space");
            self.space.free_after(seq, *run).expect("a run of the tree is in use");
        }
        returned
    }

    /// Set if a checkpoint without changes would free blocks.
    pub fn has_page_surplus(&self) -> bool {
        self.pages.has_free_runs(self.page_surplus(&Load::default()), self.piece_min())
    }

    /// Shortest piece that is taken back in blocks; splitting runs is the last resort.
    fn piece_min(&self) -> u64 {
        let is_scarcest = self.space.free() < self.space.total() / SCARCEST_SHARE;
        if is_scarcest { 1 } else { PIECE_BLOCKS_MIN }
    }

    /// Free pages beyond those that the changes may need. None are taken back before data needs
    /// them, because a tree that grows would need them again soon.
    fn page_surplus(&self, frozen: &Load) -> u64 {
        let is_scarce = self.space.free() < self.space.total() / SCARCE_SHARE;
        if self.meta_device != Device::Main || !is_scarce {
            return 0;
        }
        let bound = self.pages_bound(frozen).pages;
        let kept = PAGES_KEPT_FACTOR * (bound + self.bitmap_pages()) + RUN_BLOCKS_MIN;
        self.pages.free_pages().saturating_sub(kept + self.reserves())
    }
}
