//! Bounded work per turn, so that the host serves others in between.
//!
//! A turn is one call of the host: a request, a completion of a device, or a timer. Unfinished work
//! asks for a timer at once.

use super::meta::{Meta, WALK_MAX};
use crate::device::Extent;

/// Points per turn that are removed from a table, because a removed range covers them or the table
/// is obsolete.
pub(crate) const POINTS_MAX: usize = 2048;
/// Chunks of the space bitmap that one turn freezes.
const CHUNKS_MAX: usize = 1024;
/// Pages of the tree that one turn of a checkpoint writes, frees or reads, besides those of its
/// last step.
const PAGES_MAX: u64 = 256;
/// Pages that one turn frees after a checkpoint.
const FREED_MAX: u64 = 4096;
/// Commits of the queue that one turn executes.
const COMMITS_MAX: usize = 128;

/// Counters of work since the store was opened, or in one turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Entries that scans passed without finding a pair.
    pub passed: u64,
    /// Points removed from tables.
    pub points: u64,
    /// Chunks of the space bitmap that were frozen.
    pub chunks: u64,
    /// Pages of the tree that checkpoints wrote, freed or read.
    pub pages: u64,
    /// Pages freed after checkpoints.
    pub freed: u64,
    /// Commits executed.
    pub commits: u64,
}

impl Work {
    fn since(&self, earlier: &Work) -> Work {
        Work {
            passed: self.passed - earlier.passed,
            points: self.points - earlier.points,
            chunks: self.chunks - earlier.chunks,
            pages: self.pages - earlier.pages,
            freed: self.freed - earlier.freed,
            commits: self.commits - earlier.commits,
        }
    }

    fn or_more(&self, other: &Work) -> Work {
        Work {
            passed: self.passed.max(other.passed),
            points: self.points.max(other.points),
            chunks: self.chunks.max(other.chunks),
            pages: self.pages.max(other.pages),
            freed: self.freed.max(other.freed),
            commits: self.commits.max(other.commits),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Turn {
    /// Current counters.
    work: Work,
    /// Counters at the beginning of the turn.
    before: Work,
    /// Maximum of each counter in one turn.
    most: Work,
    /// Pages that the tree does not refer to any more and that may be cached.
    stale: Vec<Extent>,
    /// Set if the checkpoint continues in the next turn without waiting for an event.
    is_checkpoint_waiting: bool,
    /// Checkpoints since the store was opened.
    checkpoints: u64,
}

impl Turn {
    /// Begins a turn: its budget is that of all counters anew.
    pub fn begin(&mut self, meta: &Meta) {
        self.count_meta(meta);
        self.most = self.most.or_more(&self.work.since(&self.before));
        self.before = self.work;
        self.is_checkpoint_waiting = false;
    }

    fn count_meta(&mut self, meta: &Meta) {
        (self.work.passed, self.work.points) = meta.counted();
    }

    /// Work since the store was opened.
    pub fn work(&self, meta: &Meta) -> Work {
        let (passed, points) = meta.counted();
        Work { passed, points, ..self.work }
    }

    /// Maximum of each counter in any turn so far.
    pub fn most_work(&self, meta: &Meta) -> Work {
        self.most.or_more(&self.work(meta).since(&self.before))
    }

    /// Set if this turn may execute another commit.
    pub fn has_commits_left(&self) -> bool {
        self.work.commits - self.before.commits < COMMITS_MAX as u64
    }

    /// Counts a commit against the budget.
    pub fn count_commit(&mut self) {
        self.work.commits += 1;
    }

    /// Set if this turn may continue another query.
    pub fn has_walks_left(&mut self, meta: &Meta) -> bool {
        self.count_meta(meta);
        self.work.passed - self.before.passed < WALK_MAX as u64
    }

    /// Set if this turn may write further pages of a checkpoint.
    pub fn has_pages_left(&self) -> bool {
        self.work.pages - self.before.pages < PAGES_MAX
    }

    /// Counts the work of a checkpoint: pages written, freed and read, and merged changes as fractions.
    pub fn count_pages(&mut self, pages: u64) {
        self.work.pages += pages;
    }

    /// Counts a completed checkpoint.
    pub fn count_checkpoint(&mut self) {
        self.checkpoints += 1;
    }

    /// Checkpoints completed since the store was opened.
    pub fn checkpoints(&self) -> u64 {
        self.checkpoints
    }

    /// Chunks of the space bitmap that this turn may still freeze.
    pub fn chunks_left(&self) -> usize {
        CHUNKS_MAX.saturating_sub((self.work.chunks - self.before.chunks) as usize)
    }

    /// Counts chunks of the space bitmap that were frozen.
    pub fn count_chunks(&mut self, chunks: usize) {
        self.work.chunks += chunks as u64;
    }

    /// Lets the checkpoint continue in the next turn.
    pub fn put_off_checkpoint(&mut self) {
        self.is_checkpoint_waiting = true;
    }

    /// Takes pages that the tree does not refer to any more; later turns drop them from its cache.
    pub fn forget_later(&mut self, pages: Vec<Extent>) {
        self.stale.extend(pages);
    }

    /// Set if work is left that waits for nothing.
    pub fn has_more(&self) -> bool {
        self.is_checkpoint_waiting || !self.stale.is_empty()
    }

    /// Evicts pages that the tree does not refer to any more.
    pub fn forget_stale(&mut self, meta: &mut Meta) {
        let mut left = FREED_MAX;
        while left > 0
            && let Some(mut extent) = self.stale.pop()
        {
            let count = extent.count.min(left);
            extent.count -= count;
            left -= count;
            (extent.end()..extent.end() + count).for_each(|page| meta.forget_page(page));
            if extent.count > 0 {
                self.stale.push(extent);
            }
        }
        self.work.freed += FREED_MAX - left;
    }
}
