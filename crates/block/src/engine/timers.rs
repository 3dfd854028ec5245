//! What the store does when time has passed, and at once where a step has left something over: it says in the log what is durable, and looks again at what
//! failed.
//!
//! **Marks.** Each batch says which batches before it are durable, so of a log that ends nobody knows this
//! of the last one: if a block of its large data is not there, a crash may have cut it off, and replay
//! leaves it out. On a store that is busy that is a matter of milliseconds. On one that is idle the last
//! batch would stay in doubt for as long as it is idle, and one bad block in it would undo all
//! that it holds. So a second after the last batch, and when the store is about to be closed, a *mark* is
//! written: a batch without records, which says that all is durable.
//!
//! **Failures.** A page of the tree that cannot be read fails what needs it, for a second. Then it is read
//! again: what was wrong with the device may be over.

use super::mounted::Mounted;
use crate::slices::Slice;
use engine::{Duration, Time};
use store::StoreError;

/// How long after the last batch a mark is written.
const MARK_DELAY: Duration = Duration::from_secs(1);
/// How long a page that could not be read counts as such.
const FAILURE_TIME: Duration = Duration::from_secs(1);
/// After this time what a refused cleaning step was to do is tried again.
const CLEANUP_DELAY: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct Timers {
    pub now: Time,
    mark: Option<Time>,
    /// The host is about to close the store: marks are written at once.
    is_closing: bool,
    failures: Option<Time>,
    cleanup: Option<Time>,
}

impl Timers {
    /// Something else will say what is durable.
    pub fn forget_mark(&mut self) {
        self.mark = None;
    }
}

impl Mounted {
    pub fn poll_timeout(&self) -> Option<Time> {
        let Timers { mark, failures, cleanup, .. } = self.timers;
        match self.failure {
            None if self.has_more() => Some(Time::ZERO),
            None => [mark, failures, cleanup].into_iter().flatten().min(),
            Some(_) => None,
        }
    }

    pub fn handle_timeout(&mut self, now: Time) {
        self.timers.now = self.timers.now.max(now);
        if self.failure.is_some() {
            return;
        }
        self.begin_turn();
        self.work_on();
        if is_due(&mut self.timers.mark, now) {
            self.mark_durable();
        }
        if is_due(&mut self.timers.failures, now) {
            self.meta.tree.forget_failures();
            self.resume_checkpoint();
        }
        if is_due(&mut self.timers.cleanup, now) {
            self.clean_up();
        }
    }

    /// All that is durable is said to be, now and whenever something else becomes durable.
    pub fn close(&mut self) {
        self.timers.is_closing = true;
        self.plan_mark();
    }

    /// Whether replay would have to find out by itself what is durable.
    pub fn lacks_mark(&self) -> bool {
        self.commits.told_durable < self.commits.sealed_records
    }

    /// Batches became durable. If no other follows, which would say so, a mark does.
    pub fn plan_mark(&mut self) {
        let is_last = self.commits.batches.is_empty() && !self.log.is_open();
        self.timers.mark = match is_last && self.lacks_mark() {
            true if self.timers.is_closing => Some(self.timers.now),
            true => Some(self.timers.now + MARK_DELAY),
            false => None,
        };
    }

    fn mark_durable(&mut self) {
        let is_last = self.commits.batches.is_empty() && !self.log.is_open();
        if !is_last || !self.lacks_mark() {
            return;
        }
        match self.log.seal_mark(self.commits.durable) {
            Some(mark) => self.send(mark),
            // Its superblock says it, too.
            None => self.want_checkpoint = true,
        }
    }

    /// What waits for pages that failed may ask for them again later.
    pub fn plan_retry(&mut self) {
        if self.meta.tree.has_failures() && self.timers.failures.is_none() {
            self.timers.failures = Some(self.timers.now + FAILURE_TIME);
        }
    }

    /// The objects of a removed collection are not forgotten because one of them could not be read.
    pub fn put_off_cleanup(&mut self, slice: Slice, error: &StoreError) {
        tracing::error!(%error, "objects of a removed collection cannot be removed yet");
        self.garbage.push(slice);
        self.timers.cleanup.get_or_insert(self.timers.now + CLEANUP_DELAY);
    }
}

/// Whether its time has come; if so, it is over.
fn is_due(timer: &mut Option<Time>, now: Time) -> bool {
    timer.take_if(|due| *due <= now).is_some()
}
