//! Event queue that drives virtual time.
//!
//! Events of one instant run in the order in which they were scheduled, so a run is deterministic.

use engine::{Duration, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Virtual time without faults of clocks. Daemons see this time plus the jumps of their clocks.
#[derive(Debug)]
pub struct Agenda<E> {
    now: Time,
    scheduled: u64,
    entries: BinaryHeap<Reverse<Entry<E>>>,
    /// Events taken so far, and in the current instant.
    taken: u64,
    taken_now: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: Time,
    number: u64,
    event: E,
}

/// Bound for events within one instant; more are a live-lock.
const EVENTS_PER_INSTANT_MAX: u64 = 200_000;

impl<E> Agenda<E> {
    /// An agenda without events.
    pub fn new(start: Time) -> Self {
        Agenda { now: start, scheduled: 0, entries: BinaryHeap::new(), taken: 0, taken_now: 0 }
    }

    /// The current instant.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Schedules an event; an event in the past runs at the current instant.
    pub fn at(&mut self, at: Time, event: E) {
        self.scheduled += 1;
        let entry = Entry { at: at.max(self.now), number: self.scheduled, event };
        self.entries.push(Reverse(entry));
    }

    /// Number of events taken so far.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Schedules an event after a delay.
    pub fn after(&mut self, delay: Duration, event: E) {
        self.at(self.now + delay, event);
    }

    /// Takes the next event and moves time to it, or returns `None` if it is later than `limit`.
    pub fn next(&mut self, limit: Time) -> Option<E> {
        let Reverse(first) = self.entries.peek()?;
        if first.at > limit {
            return None;
        }
        let Reverse(entry) = self.entries.pop()?;
        self.taken += 1;
        self.taken_now = if entry.at == self.now { self.taken_now + 1 } else { 0 };
        assert!(self.taken_now < EVENTS_PER_INSTANT_MAX, "the cluster spins without time passing");
        self.now = entry.at;
        Some(entry.event)
    }

    /// Moves time forward over a stretch without events.
    pub fn skip_to(&mut self, at: Time) {
        let first = self.entries.peek().map(|Reverse(entry)| entry.at);
        assert!(first.is_none_or(|first| first >= at), "events are not skipped");
        self.now = self.now.max(at);
    }
}

impl<E> Entry<E> {
    fn key(&self) -> (Time, u64) {
        (self.at, self.number)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_in_the_order_of_scheduling() {
        let mut agenda = Agenda::new(Time(10));
        agenda.at(Time(30), 'c');
        agenda.at(Time(20), 'a');
        agenda.at(Time(20), 'b');
        agenda.at(Time(5), 'x');
        let order: String = std::iter::from_fn(|| agenda.next(Time(25))).collect();
        assert_eq!(order, "xab");
        assert_eq!(agenda.now(), Time(20));
        assert_eq!(agenda.next(Time(30)), Some('c'));
    }
}
