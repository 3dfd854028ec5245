//! Operations that wait for pages of the tree.

use crate::tree::PageRead;
use stdx::{FastMap, FastSet};

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

    pub fn has_expired(&self) -> bool {
        !self.expired.is_empty()
    }

    /// Handles the completion of a read; returns the waiters that need nothing else.
    pub fn done(&mut self, page: u64) -> Vec<Waiter> {
        self.expired.remove(&page);
        let waiters = self.reads.remove(&page).unwrap_or_default();
        waiters.into_iter().filter(|waiter| self.one_less(*waiter)).collect()
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
