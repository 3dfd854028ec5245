//! Rows whose changes are not settled, in memory: what the store will have once all of them are.
//!
//! The primary keeps the rows of data shards that it has sent (the *overlay*), a parity its own. A change
//! that is no write of rows (a truncation, a removal, a copy into the object) is not followed: rows of its
//! object that were not written since are read from the store, once that change is settled.

use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use store::{Change, HELD_UNIT};
use types::{EVersion, HObject};

/// Bytes of rows in memory. Beyond it, rows are not kept: readers of their objects wait for the store.
const LAYERS_BYTES_MAX: u64 = 16 << 20;

/// The newest content of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// A change that is not settled wrote it.
    Row(Bytes),
    /// The store has it.
    Stored,
    /// The store has it when the changes up to this version are settled.
    Behind(EVersion),
}

/// Unsettled rows by object. See the module.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    objects: BTreeMap<HObject, Stack>,
    /// Objects in the order of their changes.
    by_version: BTreeSet<(EVersion, HObject)>,
    bytes: u64,
}

/// The unsettled changes of one object.
#[derive(Debug, Default)]
struct Stack {
    /// Oldest first.
    layers: VecDeque<Layer>,
    /// The newest change that is no write of rows; zero if there is none.
    barrier: EVersion,
}

/// Rows of one shard that one write wrote.
#[derive(Debug)]
struct Layer {
    version: EVersion,
    position: usize,
    first: u64,
    data: Bytes,
}

impl Layer {
    fn row(&self, position: usize, row: u64) -> Option<Bytes> {
        let at = row.checked_sub(self.first)?.checked_mul(HELD_UNIT)? as usize;
        let is_here = position == self.position && at < self.data.len();
        is_here.then(|| self.data.slice(at..at + HELD_UNIT as usize))
    }
}

impl Stack {
    fn clear(&mut self) -> u64 {
        self.layers.drain(..).map(|layer| layer.data.len() as u64).sum()
    }
}

impl Layers {
    /// The newest content of a row.
    pub fn find(&self, object: &HObject, position: usize, row: u64) -> Found {
        let Some(stack) = self.objects.get(object) else { return Found::Stored };
        match stack.layers.iter().rev().find_map(|layer| layer.row(position, row)) {
            Some(row) => Found::Row(row),
            None if stack.barrier == EVersion::ZERO => Found::Stored,
            None => Found::Behind(stack.barrier),
        }
    }

    /// The newest unsettled change of the object that is no write of rows; zero if there is none.
    pub fn barrier(&self, object: &HObject) -> EVersion {
        self.objects.get(object).map_or(EVersion::ZERO, |stack| stack.barrier)
    }

    /// Notes a change of a shard by the write of a version, in the order of the object's versions. Writes
    /// have whole rows.
    pub fn note(&mut self, version: EVersion, position: usize, change: &Change) {
        match change {
            Change::Write { object, offset, data } => {
                assert!(offset.is_multiple_of(HELD_UNIT), "shards are written in rows");
                let first = offset / HELD_UNIT;
                self.put(object, Layer { version, position, first, data: data.clone() });
            }
            Change::Zero { object, .. }
            | Change::Truncate { object, .. }
            | Change::Remove { object }
            | Change::Clone { target: object, .. } => self.bar(object, version),
            _ => {}
        }
    }

    fn put(&mut self, object: &HObject, layer: Layer) {
        let bytes = layer.data.len() as u64;
        if self.bytes + bytes > LAYERS_BYTES_MAX {
            return self.bar(object, layer.version);
        }
        self.bytes += bytes;
        self.by_version.insert((layer.version, object.clone()));
        self.objects.entry(object.clone()).or_default().layers.push_back(layer);
    }

    fn bar(&mut self, object: &HObject, version: EVersion) {
        self.by_version.insert((version, object.clone()));
        let stack = self.objects.entry(object.clone()).or_default();
        if stack.barrier == version {
            return; // noted with another shard
        }
        self.bytes -= stack.clear();
        stack.barrier = version;
    }

    /// The store shows changes up to this version.
    pub fn forget(&mut self, settled: EVersion) {
        while self.by_version.first().is_some_and(|(version, _)| *version <= settled) {
            let (_, object) = self.by_version.pop_first().expect("there is a first");
            self.forget_of(&object, settled);
        }
        assert!(!self.by_version.is_empty() || self.bytes == 0, "bytes are of changes");
    }

    fn forget_of(&mut self, object: &HObject, settled: EVersion) {
        let Some(stack) = self.objects.get_mut(object) else { return };
        while stack.layers.front().is_some_and(|layer| layer.version <= settled) {
            let layer = stack.layers.pop_front().expect("there is a front");
            self.bytes -= layer.data.len() as u64;
        }
        if stack.barrier <= settled {
            stack.barrier = EVersion::ZERO;
        }
        if stack.layers.is_empty() && stack.barrier == EVersion::ZERO {
            self.objects.remove(object);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: usize = HELD_UNIT as usize;

    fn object(hash: u32) -> HObject {
        HObject::hash_start(types::PoolId(1), hash)
    }

    fn version(number: u64) -> EVersion {
        EVersion::new(3, number)
    }

    fn write(row: u64, rows: usize, byte: u8) -> Change {
        let data = vec![byte; rows * ROW].into();
        Change::Write { object: object(1), offset: row * HELD_UNIT, data }
    }

    #[test]
    fn the_newest_write_of_a_row_counts_until_it_is_settled() {
        let mut layers = Layers::default();
        let row = |layers: &Layers, row| layers.find(&object(1), 0, row);
        layers.note(version(4), 0, &write(2, 3, 4));
        layers.note(version(5), 0, &write(3, 1, 5));
        layers.note(version(5), 1, &write(4, 1, 6));
        let of = |byte| Found::Row(vec![byte; ROW].into());
        assert_eq!([2, 3, 4].map(|at| row(&layers, at)), [of(4), of(5), of(4)]);
        assert_eq!([1, 5].map(|at| row(&layers, at)), [Found::Stored, Found::Stored]);
        layers.forget(version(4));
        assert_eq!([2, 3].map(|at| row(&layers, at)), [Found::Stored, of(5)]);
        layers.forget(version(5));
        assert!(layers.objects.is_empty() && layers.bytes == 0);
    }

    #[test]
    fn rows_from_before_another_change_are_forgotten_and_later_ones_count() {
        let mut layers = Layers::default();
        layers.note(version(4), 0, &write(2, 3, 4));
        layers.note(version(5), 0, &Change::Truncate { object: object(1), size: HELD_UNIT });
        layers.note(version(6), 0, &write(3, 1, 6));
        assert_eq!(layers.find(&object(1), 0, 2), Found::Behind(version(5)));
        assert_eq!(layers.find(&object(1), 0, 3), Found::Row(vec![6; ROW].into()));
        layers.forget(version(5));
        assert_eq!(layers.find(&object(1), 0, 2), Found::Stored);
        assert_eq!(layers.barrier(&object(1)), EVersion::ZERO);
        layers.forget(version(6));
        assert!(layers.objects.is_empty() && layers.bytes == 0);
    }

    #[test]
    fn more_than_the_bound_is_not_kept() {
        let mut layers = Layers::default();
        let rows = (LAYERS_BYTES_MAX / HELD_UNIT) as usize;
        layers.note(version(4), 0, &write(0, rows, 4));
        layers.note(version(5), 0, &write(0, 1, 5));
        assert_eq!(layers.find(&object(1), 0, 7), Found::Behind(version(5)));
        assert_eq!(layers.bytes, 0);
    }
}
