//! Where transactions leave their marks: each has a key of its own while it is under way.
//!
//! Two that shared one would hide each other: if the answer of the first is lost, and the second is applied
//! before the first is asked for again, the first would seem to have lost against another
//! transaction, and be done twice.

use std::time::Duration;
use tokio::time::Instant;

/// A transaction that was given up may still be on its way to be applied, and leave its mark then.
const LINGERING_MAX: Duration = Duration::from_secs(120);

#[derive(Debug, Default)]
pub(crate) struct Marks {
    free: Vec<u64>,
    /// Of transactions whose fate is unknown, the oldest first.
    lingering: Vec<(Instant, u64)>,
    made: u64,
}

impl Marks {
    /// A slot that no transaction has which is or may be under way.
    pub(crate) fn take(&mut self, now: Instant) -> u64 {
        if let Some(slot) = self.free.pop() {
            return slot;
        }
        if self.lingering.first().is_some_and(|(since, _)| now - *since >= LINGERING_MAX) {
            return self.lingering.remove(0).1;
        }
        self.made += 1;
        self.made - 1
    }

    /// Its transaction was decided, or given up.
    pub(crate) fn give_back(&mut self, now: Instant, slot: u64, is_decided: bool) {
        assert!(slot < self.made, "slot {slot} was never taken");
        debug_assert!(!self.free.contains(&slot), "slot {slot} is free already");
        match is_decided {
            true => self.free.push(slot),
            false => self.lingering.push((now, slot)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_transactions_under_way_have_one_mark_and_one_that_was_given_up_keeps_its_own() {
        let (mut marks, start) = (Marks::default(), Instant::now());
        let under_way: Vec<u64> = (0..20).map(|_| marks.take(start)).collect();
        let mut different = under_way.clone();
        different.dedup();
        assert_eq!(different.len(), 20);
        marks.give_back(start, 3, false);
        marks.give_back(start, 7, true);
        assert_eq!(marks.take(start), 7);
        assert_eq!(marks.take(start + LINGERING_MAX / 2), 20);
        assert_eq!(marks.take(start + LINGERING_MAX), 3);
    }
}
