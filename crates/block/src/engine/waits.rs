//! Who waits for which pages of the tree.

use crate::tree::PageRead;
use stdx::{FastMap, FastSet};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Waiter {
    /// The first commit of the queue.
    Commit,
    Query(u64),
    Checkpoint,
    /// Nobody yet: somebody will ask soon.
    Nobody,
}

#[derive(Debug, Default)]
pub(crate) struct PageWaits {
    /// By first page of a read that is on its way.
    reads: FastMap<u64, Vec<Waiter>>,
    /// Reads that each still waits for.
    left: FastMap<Waiter, usize>,
    /// Reads on their way whose pages may be free by now. Their bytes are worth nothing; pages must not
    /// be used again before they are over, for then a read of the new content would be taken for one
    /// of these.
    expired: FastSet<u64>,
}

impl PageWaits {
    /// Notes that `waiter` waits for these; the reads that are not yet on their way are given back.
    pub fn wait(&mut self, waiter: Waiter, reads: Vec<PageRead>) -> Vec<PageRead> {
        let mut fresh = Vec::new();
        for read in reads {
            let waiters = self.reads.entry(read.page).or_insert_with(|| {
                fresh.push(read);
                Vec::new()
            });
            if waiter != Waiter::Nobody && !waiters.contains(&waiter) {
                waiters.push(waiter);
                *self.left.entry(waiter).or_default() += 1;
            }
        }
        fresh
    }

    /// The tree has changed.
    pub fn expire(&mut self) {
        self.expired = self.reads.keys().copied().collect();
    }

    pub fn has_expired(&self) -> bool {
        !self.expired.is_empty()
    }

    /// A read is done; those who wait for nothing else may go on.
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
