//! Operations that wait for pages of the tree.
//!
//! An unreadable page fails the operations that need it for a second. Then it is read again,
//! because the device may have recovered.

use crate::tree::PageRead;
use engine::{Duration, Time};
use stdx::{FastMap, FastSet};

/// Time for which an unreadable page counts as such.
const FAILURE_TIME: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Waiter {
    /// The first commit of the queue.
    Commit,
    Query(u64),
    Checkpoint,
    /// A prefetch: no operation waits yet.
    Prefetch,
}

#[derive(Debug, Default)]
pub(crate) struct PageWaits {
    /// By the first page of a read in flight.
    reads: FastMap<u64, Vec<Waiter>>,
    /// Number of reads that each waiter still needs.
    left: FastMap<Waiter, usize>,
    /// Reads in flight whose pages may be free by now. Their bytes are dropped. Their pages must
    /// not be reused before these reads complete, or a read of the new content could be taken for
    /// one of them.
    expired: FastSet<u64>,
    /// Time at which unreadable pages are read again.
    retry: Option<Time>,
}

impl PageWaits {
    /// Notes that `waiter` needs these reads; returns those that are not in flight yet.
    pub fn wait(&mut self, waiter: Waiter, reads: Vec<PageRead>) -> Vec<PageRead> {
        let mut fresh = Vec::new();
        for read in reads {
            let waiters = self.reads.entry(read.page).or_insert_with(|| {
                fresh.push(read);
                Vec::new()
            });
            if waiter != Waiter::Prefetch && !waiters.contains(&waiter) {
                waiters.push(waiter);
                *self.left.entry(waiter).or_default() += 1;
            }
        }
        fresh
    }

    /// Marks all reads in flight as outdated after a change of the tree.
    pub fn expire(&mut self) {
        self.expired = self.reads.keys().copied().collect();
    }

    /// Set if a read is in flight that began before the last change of the tree.
    pub fn has_expired(&self) -> bool {
        !self.expired.is_empty()
    }

    /// Handles the completion of a read; returns the waiters that need nothing else.
    pub fn done(&mut self, page: u64) -> Vec<Waiter> {
        self.expired.remove(&page);
        let waiters = self.reads.remove(&page).unwrap_or_default();
        waiters.into_iter().filter(|waiter| self.one_less(*waiter)).collect()
    }

    /// Plans that unreadable pages are read again.
    pub fn plan_retry(&mut self, now: Time) {
        self.retry.get_or_insert(now + FAILURE_TIME);
    }

    /// Time at which [`PageWaits::take_due_retry`] is true.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.retry
    }

    /// Ends the plan if it is due; true if unreadable pages are to be read again.
    pub fn take_due_retry(&mut self, now: Time) -> bool {
        self.retry.take_if(|due| *due <= now).is_some()
    }

    /// Panics if parts of the state contradict each other.
    pub fn check_invariants(&self) {
        let waiting: usize = self.reads.values().map(Vec::len).sum();
        assert_eq!(waiting, self.left.values().sum::<usize>(), "each waiter counts its reads");
        assert!(self.expired.iter().all(|page| self.reads.contains_key(page)));
    }

    fn one_less(&mut self, waiter: Waiter) -> bool {
        let left = self.left.get_mut(&waiter).expect("counted when it began to wait");
        *left -= 1;
        let is_ready = *left == 0;
        if is_ready {
            self.left.remove(&waiter);
        }
        is_ready
    }
}
