//! Changed metadata that the tree does not hold yet: pairs in memory, ordered by key.

use bytes::Bytes;
use std::collections::BTreeMap;

/// A change of metadata. Later ones override earlier ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    Put {
        key: Bytes,
        value: Bytes,
    },
    Delete {
        key: Bytes,
    },
    /// Removes all keys from `first` (inclusive) to `last` (exclusive).
    DeleteRange {
        first: Bytes,
        last: Bytes,
    },
}

/// The changes since some point in time. Where a point lies within a range, the point is newer:
/// adding a range removes the points that it covers.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// Values, or `None` where the key was removed.
    pub points: BTreeMap<Bytes, Option<Bytes>>,
    /// Removed ranges, first key (inclusive) to last (exclusive); disjoint and not touching.
    pub ranges: BTreeMap<Bytes, Bytes>,
    /// Memory in use, roughly.
    pub bytes: usize,
}
