//! Bounded work per turn, so that the host serves others in between.
//!
//! A turn is one call of the host: a request, a completion of a device, or a timer. Unfinished work
//! asks for a timer at once ([`Mounted::has_more`]).

use super::commit::Stall;
use super::mounted::Mounted;
use crate::device::Extent;
use std::collections::VecDeque;

/// Removed entries that one execution may pass.
pub(crate) const WALK_MAX: usize = 2048;
/// Points per turn that are removed from a table, because a removed range covers them or the table
/// is obsolete.
pub(crate) const POINTS_MAX: usize = 2048;
/// Chunks of the space bitmap that one turn freezes.
pub(crate) const CHUNKS_MAX: usize = 1024;
/// Pages of the tree that one turn of a checkpoint writes, frees or reads, besides those of its
/// last step.
pub(crate) const PAGES_MAX: u64 = 256;
/// Pages that one turn frees after a checkpoint.
pub(crate) const FREED_MAX: u64 = 4096;
/// Commits of the queue that one turn executes.
pub(crate) const COMMITS_MAX: usize = 128;

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
    pub work: Work,
    /// Counters at the beginning of the turn.
    before: Work,
    /// Maximum of each counter in one turn.
    most: Work,
    /// Queries that continue in later turns.
    pub queries: VecDeque<u64>,
    /// Pages that the tree does not refer to any more and that may be cached.
    pub stale: Vec<Extent>,
    /// Set if the checkpoint continues in the next turn without waiting for an event.
    pub is_checkpoint_waiting: bool,
}

impl Turn {
    pub fn commits(&self) -> u64 {
        self.work.commits - self.before.commits
    }

    fn passed(&self) -> u64 {
        self.work.passed - self.before.passed
    }

    pub fn pages(&self) -> u64 {
        self.work.pages - self.before.pages
    }

    pub fn chunks(&self) -> u64 {
        self.work.chunks - self.before.chunks
    }
}

impl Mounted {
    pub fn begin_turn(&mut self) {
        self.count_meta();
        let turn = &mut self.turn;
        turn.most = turn.most.or_more(&turn.work.since(&turn.before));
        turn.before = turn.work;
        turn.is_checkpoint_waiting = false;
    }

    fn count_meta(&mut self) {
        (self.turn.work.passed, self.turn.work.points) = self.meta.counted();
    }

    /// Maximum of each counter in any turn so far.
    pub fn most_work(&self) -> Work {
        self.turn.most.or_more(&self.work().since(&self.turn.before))
    }

    pub fn work(&self) -> Work {
        let (passed, points) = self.meta.counted();
        Work { passed, points, ..self.turn.work }
    }

    /// Set if work is left that waits for nothing.
    pub fn has_more(&self) -> bool {
        self.failure.is_none()
            && (self.turn.is_checkpoint_waiting
                || !self.turn.queries.is_empty()
                || self.commits.stall == Some(Stall::Turn)
                || self.meta.has_more()
                || !self.turn.stale.is_empty())
    }

    /// Evicts pages that the tree does not refer to any more.
    fn forget_stale(&mut self) {
        let mut left = FREED_MAX;
        while left > 0
            && let Some(mut extent) = self.turn.stale.pop()
        {
            let count = extent.count.min(left);
            extent.count -= count;
            left -= count;
            (extent.end()..extent.end() + count).for_each(|page| self.meta.tree.forget(page));
            if extent.count > 0 {
                self.turn.stale.push(extent);
            }
        }
        self.turn.work.freed += FREED_MAX - left;
    }

    /// Does the next piece of all unfinished work.
    pub fn work_on(&mut self) {
        if self.failure.is_some() {
            return;
        }
        self.forget_stale();
        self.meta.work_on(POINTS_MAX);
        if self.meta.is_applying() {
            return;
        }
        for _ in 0..self.turn.queries.len() {
            self.count_meta();
            if self.turn.passed() >= WALK_MAX as u64 {
                break;
            }
            let query = self.turn.queries.pop_front().expect("as many were there");
            self.run_query(query);
        }
        if self.commits.stall == Some(Stall::Turn) {
            self.resume_commits();
        }
    }
}
