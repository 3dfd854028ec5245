//! Blocks of the space that the tree has for its pages: runs that are lent to it and taken back.
//!
//! Runs are as long as possible and lent in steps that grow with the tree: each costs a few bytes in
//! every checkpoint, and the superblock names only few of them. Where free space lies scattered there
//! are many short ones. A run that is lent while a checkpoint is running is set aside until that ends: its superblock
//! would name the run, but its bitmap of the space would not have it.

use super::mounted::Mounted;
use crate::device::{Device, Extent};
use crate::tree::{Load, RUNS_MAX};

/// The first run has this part of the space, within bounds, and later ones this part of what the tree
/// has, but not too much of what is left.
const RUN_SPACE_SHARE: u64 = 512;
const RUN_BLOCKS_MIN: u64 = 64;
const RUN_BLOCKS_FIRST_MAX: u64 = 16 << 10;
const RUN_GROWTH_SHARE: u64 = 4;
const RUN_FREE_SHARE: u64 = 16;
/// Shorter runs are lent while there are no more than this: there must be some left for long ones.
const RUNS_SHORT_MAX: usize = RUNS_MAX * 3 / 4;
/// Bytes of a run in the bitmap of pages, besides its bits.
const RUN_BYTES_MAX: usize = 16 + 8;
/// Nothing is taken back while more than this part of the space is free, then nothing short,
const SCARCE_SHARE: u64 = 8;
const PIECE_BLOCKS_MIN: u64 = 8;
/// unless no more than this is free,
const SCARCEST_SHARE: u64 = 64;
/// and then while the tree has so many times the pages that it may need.
const PAGES_KEPT_FACTOR: u64 = 2;

impl Mounted {
    /// Pages that are free for the tree, or were when the running checkpoint began: it gives back as
    /// many as it rewrites.
    pub fn pages_at_hand(&self) -> u64 {
        self.pages.free_pages() + self.pages.taken_pages() + self.pages_lent_later()
    }

    fn pages_lent_later(&self) -> u64 {
        self.lent_later.iter().map(|run| run.count).sum()
    }

    /// Bytes of the bitmap of pages for runs that do not count yet, at most.
    pub fn encoded_length_later(&self) -> usize {
        self.lent_later.iter().map(|run| RUN_BYTES_MAX + run.count as usize / 8).sum()
    }

    /// Blocks of the space that the tree has and does not use.
    pub fn idle_pages(&self) -> u64 {
        match self.meta_device {
            Device::Main => self.pages.free_pages() + self.pages_lent_later(),
            Device::Fast => 0,
        }
    }

    /// Lends so many pages, or some more.
    pub fn lend_pages(&mut self, mut missing: u64) -> bool {
        while missing > 0 {
            let Some(run) = self.lent_run(missing) else { return false };
            missing = missing.saturating_sub(run.count);
            match self.checkpoint.is_some() {
                true => self.lent_later.push(run),
                false => self.pages.add_run(run),
            }
        }
        true
    }

    /// Blocks for a run of the tree; the more it has, the longer.
    fn lent_run(&mut self, missing: u64) -> Option<Extent> {
        let runs = self.pages.run_count() + self.lent_later.len();
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

    /// No checkpoint is running: all that was lent counts.
    pub fn add_lent_runs(&mut self) {
        for run in std::mem::take(&mut self.lent_later) {
            self.pages.add_run(run);
        }
    }

    /// Takes back runs of which the tree needs no page, not even for what is being frozen. They are free
    /// as of this checkpoint, but must not be used before it is durable.
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

    /// Whether a checkpoint of nothing would give blocks back.
    pub fn has_page_surplus(&self) -> bool {
        self.pages.has_free_runs(self.page_surplus(&Load::default()), self.piece_min())
    }

    /// Blocks that are taken back in one piece at least: what tears runs apart comes last.
    fn piece_min(&self) -> u64 {
        let is_scarcest = self.space.free() < self.space.total() / SCARCEST_SHARE;
        if is_scarcest { 1 } else { PIECE_BLOCKS_MIN }
    }

    /// Free pages beyond those that the changes may need. Not before data needs them: the tree would
    /// hardly get back runs as long as it gave.
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
