//! The state of settling: transactions on their way, and what they will remove from the clone index.

use bytes::Bytes;
use std::collections::VecDeque;
use types::EVersion;

/// Log entries whose changes one transaction settles: a step that a full store has space for.
const SETTLED_AT_ONCE: usize = 64;

/// After a refusal, a step is smaller by this power of two…
const REFUSED_HALVINGS: u32 = 3;
/// …down to a single entry.
const HALVINGS_MAX: u32 = SETTLED_AT_ONCE.ilog2();

/// Steps that the store settles before one halving is undone. A write that is tried again after a refusal
/// comes long before that, so it does not share a transaction with a settle once more.
const STEPS_PER_HALVING: u32 = 16;

/// The progress of settling in this copy's store.
#[derive(Debug, Default)]
pub(crate) struct Settling {
    /// Transactions of this copy that were submitted, and that completed. They complete in order.
    submitted: u64,
    completed: u64,
    /// Each halves the steps: the store refused larger ones. They are undone one by one.
    halvings: u32,
    /// Steps that were settled since the last refusal or undone halving.
    steps: u32,
    /// Transactions that settle, by number, and the version that was settled before. The last one may not be
    /// submitted yet.
    pub(super) on_way: VecDeque<(u64, EVersion)>,
    /// Keys of the clone index that go when the change of a version is settled. Keys that a restart forgets
    /// are surplus, which is harmless.
    pub(super) unindexed: VecDeque<(EVersion, Vec<Bytes>)>,
}

/// Says that a transaction settles changes. It is submitted with that transaction
/// ([`super::Core::commit_settling`]); until then, the changes do not count as settled.
#[derive(Debug)]
#[must_use]
pub(crate) struct Mark(());

/// The number of a transaction that is not submitted yet.
const UNNUMBERED: u64 = u64::MAX;

impl Settling {
    /// A transaction settles changes behind this version, and is submitted with the mark.
    pub(super) fn mark(&mut self, before: EVersion) -> Mark {
        let is_last = self.on_way.back().is_none_or(|(number, _)| *number != UNNUMBERED);
        assert!(is_last, "one transaction at a time is prepared");
        self.on_way.push_back((UNNUMBERED, before));
        Mark(())
    }

    /// A transaction is submitted, with its mark if it settles changes.
    pub(super) fn note_commit(&mut self, mark: Option<Mark>) {
        self.submitted += 1;
        if let Some(Mark(())) = mark {
            let (number, _) = self.on_way.back_mut().expect("it was marked");
            assert_eq!(*number, UNNUMBERED, "a mark belongs to one transaction");
            *number = self.submitted;
        }
    }

    /// The number of the next transaction.
    pub fn next_number(&self) -> u64 {
        self.submitted + 1
    }

    /// Whether the transaction of this number has completed.
    pub fn has_completed(&self, number: u64) -> bool {
        number <= self.completed
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

    /// Log entries whose changes one transaction settles.
    pub fn at_once(&self) -> usize {
        SETTLED_AT_ONCE >> self.halvings
    }

    /// Whether the store refused a transaction not long ago: then nothing else is settled with one.
    pub fn is_careful(&self) -> bool {
        self.halvings > 0
    }

    /// The store refused a transaction, perhaps because it settles too much at once.
    pub fn note_refused(&mut self) {
        self.halvings = (self.halvings + REFUSED_HALVINGS).min(HALVINGS_MAX);
        self.steps = 0;
    }

    /// The store has settled a step.
    pub fn note_settled(&mut self) {
        self.steps += 1;
        if self.steps >= STEPS_PER_HALVING {
            self.steps = 0;
            self.halvings = self.halvings.saturating_sub(1);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_transaction_in_between_does_not_settle_what_is_marked() {
        let mut settling = Settling::default();
        let mark = settling.mark(EVersion::ZERO);
        settling.note_commit(None);
        assert!(!settling.note_completed(), "it was another one");
        settling.note_commit(Some(mark));
        assert!(settling.note_completed() && settling.on_way.is_empty());
    }

    #[test]
    fn caution_ends_after_many_steps() {
        let mut settling = Settling::default();
        settling.note_refused();
        for _ in 1..REFUSED_HALVINGS * STEPS_PER_HALVING {
            settling.note_settled();
            assert!(settling.is_careful());
        }
        settling.note_settled();
        assert!(!settling.is_careful() && settling.at_once() == SETTLED_AT_ONCE);
    }
}
