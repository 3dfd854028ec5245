//! Inode numbers that are delegated to one client, and that it has not used yet.
//!
//! A number is in the set of one session at most, and leaves it with the record of the inode that has it.

use codec::{Decode, Encode, Reader, Writer};
use std::collections::BTreeMap;

/// Numbers that one reply delegates.
pub(crate) const AT_ONCE: u64 = 1024;
/// A client that knows fewer unused numbers is given more.
pub(crate) const LOW: u64 = 512;
/// Unused numbers of one client, with those that it has forgotten. Of more, the lowest are given up: they are
/// of its earliest connections.
const UNUSED_MAX: u64 = 8192;

/// Unused numbers of one client.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Delegated {
    /// Length by first number. Ranges neither overlap nor are empty.
    ranges: BTreeMap<u64, u64>,
}

impl Delegated {
    /// Adds a range of numbers.
    pub fn add(&mut self, first: u64, count: u64) {
        for number in first..first.saturating_add(count) {
            self.take(number);
        }
        if count > 0 {
            self.ranges.insert(first, count);
        }
        while self.len() > UNUSED_MAX {
            self.ranges.pop_first();
        }
    }

    /// Removes a number that is used; whether it was there.
    pub fn take(&mut self, number: u64) -> bool {
        let Some((first, count)) = self.range_of(number) else { return false };
        self.ranges.remove(&first);
        let (before, behind) = (number - first, first + count - number - 1);
        if before > 0 {
            self.ranges.insert(first, before);
        }
        if behind > 0 {
            self.ranges.insert(number + 1, behind);
        }
        true
    }

    /// Whether a number is delegated and unused.
    pub fn has(&self, number: u64) -> bool {
        self.range_of(number).is_some()
    }

    fn range_of(&self, number: u64) -> Option<(u64, u64)> {
        let (first, count) = self.ranges.range(..=number).next_back()?;
        (number - first < *count).then_some((*first, *count))
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.ranges.values().sum()
    }

    /// Ranges: first number and length.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        self.ranges.iter().map(|(first, count)| (*first, *count))
    }

    /// All numbers.
    #[cfg(test)]
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        self.ranges().flat_map(|(first, count)| first..first + count)
    }
}

impl Encode for Delegated {
    fn encode(&self, w: &mut Writer) {
        w.value(&self.ranges);
    }
}

impl Decode for Delegated {
    fn decode(r: &mut Reader<'_>) -> codec::Result<Self> {
        let ranges: BTreeMap<u64, u64> = r.value()?;
        let mut end = 0;
        for (first, count) in &ranges {
            let next = first.checked_add(*count).filter(|_| *first >= end && *count > 0);
            end = next.ok_or_else(|| r.unknown("range of delegated numbers", *first))?;
        }
        let delegated = Delegated { ranges };
        match delegated.len() > UNUSED_MAX {
            true => Err(r.unknown("count of delegated numbers", delegated.len())),
            false => Ok(delegated),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_taken_once_and_its_range_is_divided() {
        let mut delegated = Delegated::default();
        delegated.add(100, 5);
        assert!(delegated.take(102) && !delegated.take(102) && !delegated.take(105));
        assert_eq!(delegated.ranges().collect::<Vec<_>>(), [(100, 2), (103, 2)]);
        assert!(delegated.take(100) && delegated.take(104));
        assert_eq!(delegated.numbers().collect::<Vec<_>>(), [101, 103]);
        assert!(delegated.has(101) && !delegated.has(99) && !delegated.has(102));
    }

    #[test]
    fn a_range_that_is_added_again_counts_once() {
        let mut delegated = Delegated::default();
        delegated.add(100, 10);
        delegated.take(105);
        delegated.add(100, 10);
        assert_eq!(delegated.ranges().collect::<Vec<_>>(), [(100, 10)]);
    }

    #[test]
    fn the_lowest_numbers_beyond_the_bound_are_given_up() {
        let mut delegated = Delegated::default();
        for round in 1..=9 {
            delegated.add(round * 10_000, AT_ONCE);
        }
        assert_eq!((delegated.len(), delegated.has(10_000)), (UNUSED_MAX, false));
    }

    #[test]
    fn ranges_round_trip_and_contradictions_are_refused() {
        let mut delegated = Delegated::default();
        delegated.add(100, 10);
        delegated.add(200, 1);
        let bytes = codec::encode_to_bytes(&delegated);
        assert_eq!(codec::decode_all::<Delegated>("numbers", &bytes).unwrap(), delegated);
        for wrong in [&[(1, 0)][..], &[(1, 5), (3, 1)], &[(5, u64::MAX)], &[(0, 10_000)]] {
            let ranges: BTreeMap<u64, u64> = wrong.iter().copied().collect();
            let bytes = codec::encode_to_bytes(&ranges);
            assert!(codec::decode_all::<Delegated>("numbers", &bytes).is_err(), "{wrong:?}");
        }
    }
}
