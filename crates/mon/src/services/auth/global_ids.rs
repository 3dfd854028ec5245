//! Global ids of clients: reserved in the store in ranges, and assigned one by one.

use std::ops::Range;

/// Global ids that are reserved at once.
const RESERVED_AT_ONCE: u64 = 1000;

/// Global ids that are reserved durably and not yet assigned.
#[derive(Debug, Default)]
pub(super) struct GlobalIds {
    left: Range<u64>,
}

impl GlobalIds {
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// Whether it is time for another reservation.
    pub fn are_few(&self) -> bool {
        assert!(self.left.start <= self.left.end, "ids are in order: {:?}", self.left);
        self.left.end - self.left.start < RESERVED_AT_ONCE / 2
    }

    /// The next id, if one is left.
    pub fn next(&mut self) -> Option<u64> {
        self.left.next()
    }

    /// Takes back the id that was assigned last, which no client has seen.
    pub fn give_back(&mut self, id: u64) {
        assert_eq!(id + 1, self.left.start, "only the newest id can be given back");
        self.left.start = id;
    }

    /// Drops all ids.
    pub fn clear(&mut self) {
        self.left = 0..0;
    }

    /// Takes over a durable reservation. Unassigned ids of the one before are kept if the new one continues
    /// it; some may have been assigned while the transaction was in flight.
    pub fn take(&mut self, reserved: Range<u64>) {
        assert!(!reserved.is_empty(), "a reservation contains ids");
        let continues = self.left.end == reserved.start;
        let start = if continues { self.left.start } else { reserved.start };
        self.left = start..reserved.end;
    }

    /// Panics unless all ids are below the first one that was never reserved.
    pub fn check_invariants(&self, never_reserved: u64) {
        assert!(self.left.start <= self.left.end, "ids are in order: {:?}", self.left);
        let is_reserved = self.left.is_empty() || self.left.end <= never_reserved;
        assert!(is_reserved, "{:?} is reserved up to {never_reserved}", self.left);
    }
}

/// The range that a reservation takes from the first free id on.
pub(super) fn reservation(first: u64) -> Range<u64> {
    first..first + RESERVED_AT_ONCE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_are_left_stay_if_the_next_reservation_continues_them() {
        let mut ids = GlobalIds::default();
        ids.take(reservation(10));
        assert_eq!(ids.next(), Some(10));
        ids.take(reservation(1010));
        assert_eq!((ids.next(), ids.left.end), (Some(11), 2010));
        ids.take(reservation(5000));
        assert_eq!(ids.next(), Some(5000));
        ids.give_back(5000);
        assert_eq!(ids.next(), Some(5000));
    }

    #[test]
    #[should_panic(expected = "is reserved up to 1000")]
    fn an_id_beyond_the_reservation_is_found() {
        let mut ids = GlobalIds::default();
        ids.take(10..1001);
        ids.check_invariants(1000);
    }
}
