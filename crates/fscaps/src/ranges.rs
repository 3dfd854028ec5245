//! Ranges up to which clients may write files.
//!
//! A client learns a range only when it is durable, so that the size of a file can be found from its objects
//! although the client that wrote them is gone.

use crate::requests::InodeId;
use std::collections::BTreeMap;

/// Objects beyond the size of a file that a range has at most.
const AHEAD_OBJECTS: u64 = 1024;

/// Sizes of a layout that a range depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit {
    /// Bytes of an object.
    pub object: u32,
    /// Bytes of a stripe unit.
    pub stripe: u32,
}

/// End of the range of a client that wants to write behind a size: twice the size, but not more than 1,024
/// objects beyond it, in whole stripe units.
pub fn range_end(unit: Unit, size: u64) -> u64 {
    let ahead = u64::from(unit.object).saturating_mul(AHEAD_OBJECTS);
    let next = size.saturating_add(1);
    let end = next.saturating_mul(2).min(next.saturating_add(ahead));
    let stripe = u64::from(unit.stripe).max(1);
    end.div_ceil(stripe).saturating_mul(stripe)
}

#[derive(Debug, Clone, Copy, Default)]
struct Range {
    durable: u64,
    recording: u64,
}

/// The ranges of all writers.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    ranges: BTreeMap<(InodeId, u64), Range>,
}

impl Ranges {
    /// The range of a client that is durable; 0 for none.
    pub fn durable(&self, ino: InodeId, client: u64) -> u64 {
        self.ranges.get(&(ino, client)).map_or(0, |range| range.durable)
    }

    /// A client wants to write up to `wanted`: returns the range to be recorded, if one must be.
    pub fn extend(&mut self, ino: InodeId, client: u64, end: u64) -> Option<u64> {
        let range = self.ranges.entry((ino, client)).or_default();
        if end <= range.durable.max(range.recording) {
            return None;
        }
        range.recording = end;
        Some(end)
    }

    /// A range is durable; whether that is news.
    pub fn recorded(&mut self, ino: InodeId, client: u64, end: u64) -> bool {
        let Some(range) = self.ranges.get_mut(&(ino, client)) else { return false };
        let is_news = end > range.durable;
        range.durable = range.durable.max(end);
        is_news
    }

    /// A range is known to be durable, since it is in the record of an open or a create.
    pub fn adopt(&mut self, ino: InodeId, client: u64, end: u64) {
        let range = self.ranges.entry((ino, client)).or_default();
        range.durable = range.durable.max(end);
    }

    /// Inodes and clients of all ranges.
    pub fn all(&self) -> Vec<(InodeId, u64)> {
        self.ranges.keys().copied().collect()
    }

    /// Whether a client has any range.
    pub fn has_any(&self, client: u64) -> bool {
        self.ranges.keys().any(|(_, writer)| *writer == client)
    }

    /// Forgets a range; whether there was one.
    pub fn remove(&mut self, ino: InodeId, client: u64) -> bool {
        self.ranges.remove(&(ino, client)).is_some()
    }

    /// Forgets the ranges of a client; returns the inodes.
    pub fn remove_client(&mut self, client: u64) -> Vec<InodeId> {
        let own = self.ranges.keys().filter(|(_, writer)| *writer == client);
        let own: Vec<InodeId> = own.map(|(ino, _)| *ino).collect();
        for ino in &own {
            self.remove(*ino, client);
        }
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_twice_the_size_and_at_most_1024_objects_more() {
        let unit = Unit { object: 4 << 20, stripe: 4 << 20 };
        assert_eq!(range_end(unit, 0), 4 << 20);
        assert_eq!(range_end(unit, 10 << 20), 24 << 20);
        assert_eq!(range_end(unit, 1 << 40), (1 << 40) + (4 << 30) + (4 << 20));
        assert_eq!(range_end(Unit { object: 0, stripe: 0 }, u64::MAX), u64::MAX);
    }

    #[test]
    fn a_range_is_recorded_once_and_known_when_it_is_durable() {
        let (mut ranges, ino) = (Ranges::default(), InodeId(7));
        assert_eq!(ranges.extend(ino, 1, 100), Some(100));
        assert_eq!(ranges.extend(ino, 1, 100), None, "it is on its way");
        assert_eq!(ranges.durable(ino, 1), 0);
        assert!(ranges.recorded(ino, 1, 100));
        assert_eq!((ranges.durable(ino, 1), ranges.durable(ino, 2)), (100, 0));
        assert_eq!((ranges.has_any(1), ranges.has_any(2)), (true, false));
        assert_eq!(ranges.remove_client(1), [ino]);
        assert!(!ranges.recorded(ino, 1, 200), "a range that was removed does not come back");
    }
}
