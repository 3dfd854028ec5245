//! Changed metadata that the tree does not contain yet: pairs in memory, ordered by key.
//!
//! A [`Table`] contains all changes since some point in time. At most two are in use: the *active*
//! one, which commits change, and during a checkpoint the *frozen* one below it, which is being
//! written to the tree. A [`View`] looks through both.
//!
//! Memory: incoming values may be slices of a message or of a page, whose buffer would live as long
//! as any slice. So values are copied, with two exceptions: values longer than [`COPIED_MAX`] keep
//! their buffer and cost no time to copy; and a value with a single reference was made to be stored
//! here. [`Table::set_value`] alone decides this. Keys always have memory of their own.

mod point;

use crate::keys;
use crate::tree::Load;
use bytes::Bytes;
pub use point::PointKey;
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Values longer than this number of bytes keep their buffer.
pub const COPIED_MAX: usize = 32 << 10;

/// Memory of an entry besides its bytes: its share of the map's nodes, which are two thirds full,
/// and the allocator's overhead for key and value.
const ENTRY_OVERHEAD: usize = 180;

/// A change of metadata. Later ones override earlier ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Sets the value of a pair.
    Put {
        /// Encoded key.
        key: PointKey,
        /// Encoded value.
        value: Bytes,
    },
    /// Removes a pair.
    Delete {
        /// Encoded key.
        key: PointKey,
    },
    /// Removes all keys from `first` (inclusive) to `last` (exclusive).
    DeleteRange {
        /// First key (inclusive).
        first: Bytes,
        /// Last key (exclusive).
        last: Bytes,
    },
}

impl Op {
    /// The key, or the first key of a range.
    pub fn key(&self) -> &[u8] {
        match self {
            Op::Put { key, .. } | Op::Delete { key } => key,
            Op::DeleteRange { first, .. } => first,
        }
    }
}

/// State of a key in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// Memory has a value.
    Value(Bytes),
    /// Memory says that there is no pair, whatever the tree has.
    Removed,
    /// Memory does not decide; the layer below does.
    Unknown,
}

/// The changes since some point in time. A point within a range is newer than the range: adding a
/// range removes the points that it covers.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// Values, or `None` where the key was removed.
    pub points: BTreeMap<PointKey, Option<Bytes>>,
    /// Removed ranges, first key (inclusive) to last (exclusive); disjoint and not touching.
    pub ranges: BTreeMap<Bytes, Bytes>,
    /// Estimated memory, in bytes.
    pub bytes: usize,
    /// Cost of applying the table to the tree.
    pub load: Load,
    /// The tree below has no pair of an object or shared extent with this id or a later one.
    pub(crate) fresh_from: Option<u64>,
}

/// An entry of a table, in key order; a range comes before the points within it, which are newer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry<'a> {
    /// All keys from `first` to `last` are removed.
    Range {
        /// First key (inclusive).
        first: &'a Bytes,
        /// Last key (exclusive).
        last: &'a Bytes,
    },
    /// A pair.
    Value {
        /// Encoded key.
        key: &'a [u8],
        /// Encoded value.
        value: &'a Bytes,
    },
    /// A key without a pair.
    Removed {
        /// Encoded key.
        key: &'a [u8],
    },
}

impl Table {
    /// For changes of a tree without pairs of objects with ids from `next_id` on.
    pub fn above(next_id: u64) -> Self {
        Table { fresh_from: Some(next_id), ..Table::default() }
    }

    /// Makes a change, over all before it.
    pub fn apply(&mut self, op: Op) {
        match op {
            Op::Put { key, value } => self.set_value(key, value),
            Op::Delete { key } => self.remove(key),
            Op::DeleteRange { first, last } => self.delete_range(&first, &last),
        }
    }

    /// Sets the value of a pair.
    pub fn put(&mut self, key: &[u8], value: Bytes) {
        self.set_value(key.into(), value);
    }

    fn set_value(&mut self, key: PointKey, value: Bytes) {
        let is_kept = value.is_unique();
        let value = if is_kept { value } else { detached(&value) };
        self.set(key, Some(value));
    }

    /// Removes a pair, also if only the tree has it.
    pub fn delete(&mut self, key: &[u8]) {
        self.remove(key.into());
    }

    fn remove(&mut self, key: PointKey) {
        if self.is_in_range(&key) {
            return self.forget(&key);
        }
        if !self.is_fresh(&key) {
            return self.set(key, None);
        }
        match self.points.remove(&key) {
            // Put since then for the first time, so that its removal leaves nothing.
            Some(value @ Some(_)) => self.uncount(&key, &value),
            removed => {
                removed.inspect(|value| self.uncount(&key, value));
                self.set(key, None);
            }
        }
    }

    /// Removes all keys from `first` (inclusive) to `last` (exclusive).
    pub fn delete_range(&mut self, first: &[u8], last: &[u8]) {
        let mut left = usize::MAX;
        let done = self.delete_range_within(first, last, &mut left);
        debug_assert!(done, "it was allowed to take out all points");
    }

    /// The same in pieces: removes at most `left` points and counts them down. Until the last piece
    /// the table is in an intermediate state.
    pub fn delete_range_within(&mut self, first: &[u8], last: &[u8], left: &mut usize) -> bool {
        if first >= last {
            return true;
        }
        while let Some(key) = first_key(&self.points, Bound::Included(first), Bound::Excluded(last))
        {
            if *left == 0 {
                return false;
            }
            *left -= 1;
            self.forget(&key);
        }
        self.add_range(first, last);
        true
    }

    /// Removes a range by its first key, so that the layers below it are visible again.
    pub fn forget_range(&mut self, first: &[u8]) {
        if let Some((first, last)) = self.ranges.remove_entry(first) {
            self.bytes -= cost(first.len(), last.len());
            self.load.subtract(Load::range(first.len(), last.len()));
        }
    }

    /// State of a key, without the layers below.
    pub fn get(&self, key: &PointKey) -> Lookup {
        match self.points.get(key) {
            Some(Some(value)) => Lookup::Value(value.clone()),
            Some(None) => Lookup::Removed,
            None if self.is_in_range(key) => Lookup::Removed,
            None => Lookup::Unknown,
        }
    }

    /// End of the removed range that contains `key`. Points are ignored.
    pub fn range_end(&self, key: &[u8]) -> Option<&Bytes> {
        if self.ranges.is_empty() {
            return None;
        }
        let until = (Bound::Unbounded, Bound::Included(key));
        let (_, last) = self.ranges.range::<[u8], _>(until).next_back()?;
        (key < &last[..]).then_some(last)
    }

    /// Start of the first removed range after `key`.
    pub fn next_range(&self, key: &[u8]) -> Option<&Bytes> {
        let behind = (Bound::Excluded(key), Bound::Unbounded);
        self.ranges.range::<[u8], _>(behind).next().map(|(first, _)| first)
    }

    /// Set if the table changes nothing.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty() && self.ranges.is_empty()
    }

    /// Removes all changes; the ids of [`Table::above`] remain.
    pub fn clear(&mut self) {
        *self = Table { fresh_from: self.fresh_from, ..Table::default() };
    }

    /// All entries in key order.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        let mut points = self.points.iter().peekable();
        let mut ranges = self.ranges.iter().peekable();
        std::iter::from_fn(move || {
            let mut is_point =
                |key: &PointKey| ranges.peek().is_none_or(|(first, _)| **key < **first);
            match points.next_if(|(key, _)| is_point(key)) {
                Some((key, Some(value))) => Some(Entry::Value { key, value }),
                Some((key, None)) => Some(Entry::Removed { key }),
                None => ranges.next().map(|(first, last)| Entry::Range { first, last }),
            }
        })
    }

    /// Panics if ranges touch, a point is removed twice, or the sums are wrong. Examines
    /// everything.
    pub fn check_invariants(&self) {
        let points = self.points.iter().map(|(key, value)| cost(key.len(), value_len(value)));
        let ranges = self.ranges.iter().map(|(first, last)| cost(first.len(), last.len()));
        assert_eq!(self.bytes, points.chain(ranges).sum::<usize>(), "bytes are all entries'");
        let mut end: Option<&Bytes> = None;
        for (first, last) in &self.ranges {
            assert!(first < last && end.is_none_or(|end| end < first), "range {first:?}..{last:?}");
            end = Some(last);
        }
        for (key, value) in &self.points {
            assert!(value.is_some() || !self.is_in_range(key), "{key:?} is removed twice");
        }
    }

    fn is_in_range(&self, key: &[u8]) -> bool {
        self.range_end(key).is_some()
    }

    fn set(&mut self, key: PointKey, value: Option<Bytes>) {
        let (length, is_behind) = (key.len(), self.is_behind_all(&key));
        self.bytes += cost(length, value_len(&value));
        self.load.add(load(length, is_behind, &value));
        if let Some(old) = self.points.insert(key, value) {
            self.bytes -= cost(length, value_len(&old));
            self.load.subtract(load(length, is_behind, &old));
        }
    }

    fn forget(&mut self, key: &[u8]) {
        if let Some(value) = self.points.remove(key) {
            self.uncount(key, &value);
        }
    }

    fn uncount(&mut self, key: &[u8], value: &Option<Bytes>) {
        self.bytes -= cost(key.len(), value_len(value));
        self.load.subtract(self.point_load(key, value));
    }

    pub(crate) fn point_load(&self, key: &[u8], value: &Option<Bytes>) -> Load {
        load(key.len(), self.is_behind_all(key), value)
    }

    /// Set if the tree below cannot contain the key.
    fn is_fresh(&self, key: &[u8]) -> bool {
        self.fresh_from.is_some_and(|from| keys::counted_id(key).is_some_and(|id| id >= from))
    }

    /// Set if the key lies behind all keys of its kind that the tree below can contain, because keys of its
    /// kind begin with a counted id. Those of held changes end with one, and lie among old ones.
    fn is_behind_all(&self, key: &[u8]) -> bool {
        self.is_fresh(key) && key[0] != keys::HELD
    }

    /// Upper bound of the load that a change adds.
    pub fn load_of_op(&self, op: &Op) -> Load {
        match op {
            Op::Put { key, value } => {
                load_of(key.len(), self.is_behind_all(key), Some(value.len()))
            }
            Op::Delete { key } => load_of(key.len(), self.is_behind_all(key), None),
            Op::DeleteRange { first, last } => Load::range(first.len(), last.len()),
        }
    }

    /// Adds a range, merged with all that it overlaps or touches.
    fn add_range(&mut self, first: &[u8], last: &[u8]) {
        let (mut first, mut last) = (first, Bytes::copy_from_slice(last));
        let until = (Bound::Unbounded, Bound::Included(first));
        let before = self.ranges.range::<[u8], _>(until).next_back();
        let joined = before.filter(|(_, end)| first <= &end[..]).map(|(start, _)| start.clone());
        first = joined.as_deref().unwrap_or(first);
        let (from, to) = (Bound::Included(first), last.clone());
        while let Some(start) = first_key(&self.ranges, from, Bound::Included(&to)) {
            let end = self.ranges.remove(&start).expect("it was just found");
            self.bytes -= cost(start.len(), end.len());
            self.load.subtract(Load::range(start.len(), end.len()));
            last = last.max(end);
        }
        self.bytes += cost(first.len(), last.len());
        self.load.add(Load::range(first.len(), last.len()));
        self.ranges.insert(Bytes::copy_from_slice(first), last);
    }
}

fn load(key_len: usize, is_behind: bool, value: &Option<Bytes>) -> Load {
    load_of(key_len, is_behind, value.as_ref().map(Bytes::len))
}

fn load_of(key_len: usize, is_behind: bool, value: Option<usize>) -> Load {
    match is_behind {
        true => Load::fresh_point(key_len, value),
        false => Load::point(key_len, value),
    }
}

/// Copies a value that may be a slice of a larger buffer.
pub fn detached(value: &Bytes) -> Bytes {
    if value.len() > COPIED_MAX { value.clone() } else { Bytes::copy_from_slice(value) }
}

fn cost(key_len: usize, value_len: usize) -> usize {
    key_len + value_len + ENTRY_OVERHEAD
}

fn value_len(value: &Option<Bytes>) -> usize {
    value.as_ref().map_or(0, Bytes::len)
}

fn first_key<K, V>(map: &BTreeMap<K, V>, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Option<K>
where
    K: Borrow<[u8]> + Ord + Clone,
{
    map.range::<[u8], _>((from, to)).next().map(|(key, _)| key.clone())
}

/// The active table over the frozen one.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// Changes that no checkpoint has begun to write.
    pub active: &'a Table,
    /// Changes that a checkpoint is writing.
    pub frozen: Option<&'a Table>,
}

impl<'a> View<'a> {
    /// `Unknown` means that the tree decides.
    pub fn get(&self, key: &PointKey) -> Lookup {
        match (self.active.get(key), self.frozen) {
            (Lookup::Unknown, Some(frozen)) => frozen.get(key),
            (known, _) => known,
        }
    }

    /// The value, from `tree` if memory does not decide.
    pub fn get_or<Fault>(
        &self,
        key: &[u8],
        tree: impl FnOnce(&[u8]) -> Result<Option<Bytes>, Fault>,
    ) -> Result<Option<Bytes>, Fault> {
        match self.get(&PointKey::from(key)) {
            Lookup::Value(value) => Ok(Some(value)),
            Lookup::Removed => Ok(None),
            Lookup::Unknown => tree(key),
        }
    }

    /// Newest first.
    pub fn layers(&self) -> impl Iterator<Item = &'a Table> + use<'a> {
        [Some(self.active), self.frozen].into_iter().flatten()
    }
}

#[cfg(test)]
pub(crate) mod tests;
