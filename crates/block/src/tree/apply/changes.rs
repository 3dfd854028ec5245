//! A frozen table as seen by one layer of the tree: keys without the prefix of the layer.

use crate::table::{PointKey, Table};
use bytes::Bytes;
use std::borrow::Cow;
use std::collections::btree_map;
use std::ops::Bound;

#[derive(Clone, Copy)]
pub(super) struct Changes<'a> {
    table: &'a Table,
    prefix: &'a [u8],
}

impl<'a> Changes<'a> {
    pub(super) fn new(table: &'a Table, prefix: &'a [u8]) -> Self {
        Changes { table, prefix }
    }

    fn absolute<'k>(&self, key: &'k [u8]) -> Cow<'k, [u8]> {
        match self.prefix.is_empty() {
            true => Cow::Borrowed(key),
            false => Cow::Owned([self.prefix, key].concat()),
        }
    }

    fn end(&self, upper: Option<&[u8]>) -> Bound<Vec<u8>> {
        match upper {
            Some(upper) => Bound::Excluded(self.absolute(upper).into_owned()),
            None => successor(self.prefix).map_or(Bound::Unbounded, Bound::Excluded),
        }
    }

    /// Changed keys from `from` to `upper` (exclusive).
    pub(super) fn points(&self, from: &[u8], upper: Option<&[u8]>) -> Points<'a> {
        let (from, end) = (self.absolute(from), self.end(upper));
        let empty = matches!(&end, Bound::Excluded(end) if end.as_slice() <= &from[..]);
        let bounds = (Bound::Included(&from[..]), end.as_ref().map(Vec::as_slice));
        let inner = (!empty).then(|| self.table.points.range::<[u8], _>(bounds));
        Points { inner, skip: self.prefix.len() }
    }

    /// Removed ranges that end after `from`.
    pub(super) fn ranges(&self, from: &[u8]) -> Ranges<'a> {
        let from = self.absolute(from);
        let before = self
            .table
            .ranges
            .range::<[u8], _>((Bound::Unbounded, Bound::Included(&from[..])))
            .next_back();
        let start = match before {
            Some((first, last)) if last[..] > from[..] => first,
            _ => &from[..],
        };
        let bounds = (Bound::Included(start), Bound::Unbounded);
        let inner = self.table.ranges.range::<[u8], _>(bounds);
        let mut ranges = Ranges { inner: Some(inner), prefix: self.prefix, current: None };
        ranges.advance();
        ranges
    }

    /// First key from `from` on that may be changed.
    pub(super) fn next_from<'k>(&self, from: &'k [u8]) -> Option<&'k [u8]>
    where
        'a: 'k,
    {
        let point = self.points(from, None).next().map(|(key, _)| key);
        let range = self.ranges(from).current.map(|range| range.first.max(from));
        match (point, range) {
            (Some(point), Some(range)) => Some(point.min(range)),
            (point, range) => point.or(range),
        }
    }

    /// Set if all keys from `lower` to `upper` (exclusive) are removed and none is put again.
    pub(super) fn removes_all(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        let covered = self.ranges(lower).current.is_some_and(|range| range.covers(lower, upper));
        covered && self.points(lower, upper).next().is_none()
    }

    /// Set if a range removes some key from `lower` to `upper` (exclusive).
    pub(super) fn removes_some(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        let range = self.ranges(lower).current;
        range.is_some_and(|range| upper.is_none_or(|upper| range.first < upper))
    }
}

/// First key after all keys that begin with `prefix`.
pub fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut key = prefix[..=last].to_vec();
    key[last] += 1;
    Some(key)
}

pub(super) struct Points<'a> {
    inner: Option<btree_map::Range<'a, PointKey, Option<Bytes>>>,
    skip: usize,
}

impl Points<'_> {
    pub(super) fn none() -> Self {
        Points { inner: None, skip: 0 }
    }
}

impl<'a> Iterator for Points<'a> {
    type Item = (&'a [u8], &'a Option<Bytes>);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, value) = self.inner.as_mut()?.next()?;
        Some((&key[self.skip..], value))
    }
}

#[derive(Clone, Copy)]
struct Range<'a> {
    first: &'a [u8],
    /// `None` if the range extends beyond the layer.
    last: Option<&'a [u8]>,
}

impl Range<'_> {
    fn covers(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        let to_the_end = match (self.last, upper) {
            (None, _) => true,
            (Some(last), Some(upper)) => last >= upper,
            (Some(_), None) => false,
        };
        self.first <= lower && to_the_end
    }

    fn ends_before(&self, key: &[u8]) -> bool {
        self.last.is_some_and(|last| last <= key)
    }
}

/// Removed ranges, queried by ascending keys.
pub(super) struct Ranges<'a> {
    inner: Option<btree_map::Range<'a, Bytes, Bytes>>,
    prefix: &'a [u8],
    current: Option<Range<'a>>,
}

impl<'a> Ranges<'a> {
    pub(super) fn none() -> Self {
        Ranges { inner: None, prefix: &[], current: None }
    }

    fn advance(&mut self) {
        let next = self.inner.as_mut().and_then(|inner| inner.next());
        self.current = next.and_then(|(first, last)| self.relative(first, last));
    }

    /// The range without the layer's prefix; `None` if it lies after the layer, like all following
    /// ones.
    fn relative(&self, first: &'a [u8], last: &'a [u8]) -> Option<Range<'a>> {
        let first = match first.strip_prefix(self.prefix) {
            Some(first) => first,
            None if first < self.prefix => &[],
            None => return None,
        };
        Some(Range { first, last: last.strip_prefix(self.prefix) })
    }

    /// Set if the key is removed. Keys must be queried in order.
    pub(super) fn cover(&mut self, key: &[u8]) -> bool {
        while self.current.is_some_and(|range| range.ends_before(key)) {
            self.advance();
        }
        self.current.is_some_and(|range| range.first <= key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_successor_lies_behind_all_continuations() {
        assert_eq!(successor(b"a\xff"), Some(b"b".to_vec()));
        assert_eq!(successor(b"\xff\xff"), None);
        assert_eq!(successor(b""), None);
    }

    fn key() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255)], 0..4)
    }

    fn table() -> impl Strategy<Value = Table> {
        let ranges = proptest::collection::btree_set(key(), 0..8);
        let points = proptest::collection::btree_set(key(), 0..8);
        (ranges, points).prop_map(|(ranges, points)| {
            let ends: Vec<_> = ranges.into_iter().map(Bytes::from).collect();
            let ranges = ends.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
            let points = points.into_iter().map(|key| (key.into(), None));
            Table { points: points.collect(), ranges: ranges.collect(), ..Table::default() }
        })
    }

    proptest! {
        #[test]
        fn a_layer_sees_what_the_table_says_of_its_keys(
            table in table(), prefix in key(), keys in proptest::collection::btree_set(key(), 1..20),
        ) {
            let changes = Changes::new(&table, &prefix);
            let first = keys.first().expect("at least one");
            let mut ranges = changes.ranges(first);
            for key in &keys {
                let full = [prefix.as_slice(), key].concat();
                let removed = table.ranges.iter().any(|(a, b)| a[..] <= full[..] && full[..] < b[..]);
                prop_assert_eq!(ranges.cover(key), removed);
                let changed = removed || table.points.contains_key(&full[..]);
                let next = changes.next_from(key);
                prop_assert_eq!(next == Some(key.as_slice()), changed);
                prop_assert!(next.is_none_or(|next| next >= key.as_slice()));
            }
        }
    }
}
