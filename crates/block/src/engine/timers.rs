//! Timers: marks in the log, retries after read failures, and unfinished work.
//!
//! **Marks.** Each batch says which earlier batches are durable, but nothing says that of the last
//! one: if a block of its large writes is missing, a crash may have cut it off, and replay drops
//! it. On a busy store the doubt lasts milliseconds. On an idle one the last batch would stay in
//! doubt as long as the store is idle, and one bad block would undo the whole batch. So a second
//! after the last batch, and when the store is about to be closed, a *mark* is written: a batch
//! without records, which says that all is durable.
//!
//! **Failures.** An unreadable page of the tree fails the operations that need it for a second.
//! Then it is read again, because the device may have recovered.

use super::mounted::Mounted;
use crate::slices::Slice;
use engine::{Duration, Time};
use store::StoreError;

/// Delay of a mark after the last batch.
const MARK_DELAY: Duration = Duration::from_secs(1);
/// Time for which an unreadable page counts as such.
const FAILURE_TIME: Duration = Duration::from_secs(1);
/// Delay before a refused cleanup step is repeated.
const CLEANUP_DELAY: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct Timers {
    pub now: Time,
    mark: Option<Time>,
    /// Set if the host is about to close the store: marks are written at once.
    is_closing: bool,
    failures: Option<Time>,
    cleanup: Option<Time>,
}

impl Timers {
    /// Cancels the mark, because another batch or a superblock will say what is durable.
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

    /// Marks all durable batches, now and whenever another one becomes durable.
    pub fn close(&mut self) {
        self.timers.is_closing = true;
        self.plan_mark();
    }

    /// Set if a replay could not tell from the log which batches are durable.
    pub fn lacks_mark(&self) -> bool {
        self.commits.recorded_durable < self.commits.sealed_records
    }

    /// Plans a mark after batches became durable, in case that no further batch says so.
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
            // The superblock of the checkpoint says it, too.
            None => self.want_checkpoint = true,
        }
    }

    /// Plans a retry for operations that wait for failed pages.
    pub fn plan_retry(&mut self) {
        if self.meta.tree.has_failures() && self.timers.failures.is_none() {
            self.timers.failures = Some(self.timers.now + FAILURE_TIME);
        }
    }

    /// Repeats the cleanup of a removed collection later if an object could not be read.
    pub fn put_off_cleanup(&mut self, slice: Slice, error: &StoreError) {
        tracing::error!(%error, "objects of a removed collection cannot be removed yet");
        self.garbage.push(slice);
        self.timers.cleanup.get_or_insert(self.timers.now + CLEANUP_DELAY);
    }
}

/// Returns whether the timer is due, and then clears it.
fn is_due(timer: &mut Option<Time>, now: Time) -> bool {
    timer.take_if(|due| *due <= now).is_some()
}
