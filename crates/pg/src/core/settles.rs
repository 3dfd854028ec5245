//! The state of settling: transactions on their way, and what they will remove from the clone index.

use bytes::Bytes;
use std::collections::VecDeque;
use types::EVersion;

/// The progress of settling in this copy's store.
#[derive(Debug, Default)]
pub(crate) struct Settling {
    /// Transactions of this copy that were submitted, and that completed. They complete in order.
    pub(super) submitted: u64,
    completed: u64,
    /// Transactions that settle, by number, and the version that was settled before.
    pub(super) on_way: VecDeque<(u64, EVersion)>,
    /// Keys of the clone index that go when the change of a version is settled. Keys that a restart forgets
    /// are surplus, which is harmless.
    pub(super) unindexed: VecDeque<(EVersion, Vec<Bytes>)>,
}

impl Settling {
    /// A transaction is submitted.
    pub fn note_commit(&mut self) {
        self.submitted += 1;
    }

    /// A transaction has completed; whether one that settles did.
    pub fn note_completed(&mut self) -> bool {
        self.completed += 1;
        assert!(self.completed <= self.submitted, "each transaction completes once");
        let before = self.on_way.len();
        while self.on_way.front().is_some_and(|(number, _)| *number <= self.completed) {
            self.on_way.pop_front();
        }
        self.on_way.len() < before
    }

    /// Keys that are to be removed from the clone index with the change of this version.
    pub fn unindex(&mut self, version: EVersion, keys: Vec<Bytes>) {
        self.unindexed.push_back((version, keys));
    }

    /// Changes above this version are dropped.
    pub fn forget_above(&mut self, version: EVersion) {
        self.unindexed.retain(|(of, _)| *of <= version);
    }
}
