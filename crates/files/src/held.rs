//! Held changes: kept with their data in memory and, from the next checkpoint on, in the database.
//!
//! The log has `Settle` as it was submitted, and not the changes that it applies: these are in the database
//! or in an earlier record. So settling writes data only to its place, and its record is small.

use crate::error::FilesError;
use bytes::Bytes;
use codec::{Reader, Writer};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use store::key::{collection_key, read_collection};
use store::{
    Change, Collection, HeldChange, HeldChanges, Transaction, VERSION_MAX, check_held, join_held,
    split_held,
};
use types::{EVersion, Epoch};

/// Length of a collection in a key.
const COLLECTION_LEN: usize = 12;

/// The changes that are held under one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldValue {
    /// In the order in which they will be applied.
    pub changes: Arc<[Change]>,
    /// Bytes that settling allocates for data and for copies of cloned objects, at most.
    pub settled_bytes: u64,
}

/// Held changes that several owners share.
pub type SharedHeld = HeldChanges<HeldValue>;

/// The held changes of a store, and those that the database does not have yet.
#[derive(Debug, Default)]
pub struct Held {
    changes: SharedHeld,
    /// Bytes that settling all of them allocates, at most.
    settled_bytes: u64,
    /// Added or removed since the last checkpoint began.
    dirty: BTreeSet<(Collection, HeldChange)>,
}

/// A transaction, with the changes that each `Settle` applies behind it.
#[derive(Debug)]
pub struct Expanded<'a> {
    /// All changes.
    pub transaction: Cow<'a, Transaction>,
    /// Places of settled changes, ascending.
    settled: Vec<Range<usize>>,
}

impl Held {
    /// All of them.
    pub fn changes(&self) -> &SharedHeld {
        &self.changes
    }

    /// Bytes that settling all of them allocates, at most; and of these the bytes of those that the database
    /// does not have yet.
    pub fn settled_bytes(&self) -> (u64, u64) {
        (self.settled_bytes, self.bytes_of(&self.dirty))
    }

    /// Adds one that the database has.
    pub fn load(&mut self, at: Collection, name: HeldChange, value: HeldValue) {
        self.settled_bytes += value.settled_bytes;
        self.changes.insert(at, name, value);
    }

    /// Follows a transaction of the log. `settled_bytes` has an entry for each `Hold`.
    pub fn follow<'a>(
        &mut self,
        transaction: &'a Transaction,
        settled_bytes: &[u64],
    ) -> Expanded<'a> {
        Expanded::new(transaction, settled_bytes, |at, change, bytes| {
            let affected = self.affected(at, change);
            let before = self.bytes_of(&affected);
            let settled = follow(&mut self.changes, at, change, bytes);
            self.settled_bytes = self.settled_bytes - before + self.bytes_of(&affected);
            self.dirty.extend(affected);
            settled
        })
    }

    /// Names under which something is held before or after a change of them.
    fn affected(&self, at: Collection, change: &Change) -> Vec<(Collection, HeldChange)> {
        let range = match change {
            Change::Hold { version, changes } => {
                let hash = check_held(changes).expect("checked before the transaction was logged");
                return vec![(at, HeldChange { version: *version, hash })];
            }
            Change::MoveObjects { target, hashes } => {
                let places = [at, *target];
                let names = places.into_iter().flat_map(|place| self.changes.of(place));
                let names = names.map(|(name, _)| name).filter(|name| hashes.contains(name.hash));
                let both = names.flat_map(|name| places.map(|place| (place, name)));
                // Both may hold a change of the same name.
                return both.collect::<BTreeSet<_>>().into_iter().collect();
            }
            Change::Settle { through } => EVersion::ZERO..=*through,
            Change::Drop { from, through } => *from..=*through,
            Change::RemoveCollection => EVersion::ZERO..=VERSION_MAX,
            _ => return Vec::new(),
        };
        let names = self.changes.of(at).map(|(name, _)| name);
        names.filter(|name| range.contains(&name.version)).map(|name| (at, name)).collect()
    }

    fn bytes_of<'a>(&self, names: impl IntoIterator<Item = &'a (Collection, HeldChange)>) -> u64 {
        let held = names.into_iter().filter_map(|(at, name)| self.changes.get(*at, *name));
        held.map(|value| value.settled_bytes).sum()
    }

    /// Changes since the last call, by key, ascending; `None` removes the pair.
    pub fn freeze(&mut self) -> Vec<(Vec<u8>, Option<HeldValue>)> {
        let dirty = std::mem::take(&mut self.dirty);
        let value = |(at, name)| (held_key(at, name), self.changes.get(at, name).cloned());
        dirty.into_iter().map(value).collect()
    }
}

/// Follows one change of a transaction that can be executed, and returns what it settles.
fn follow(
    held: &mut SharedHeld,
    at: Collection,
    change: &Change,
    settled_bytes: u64,
) -> Vec<(HeldChange, HeldValue)> {
    match change {
        Change::Settle { through } => return held.take(at, EVersion::ZERO, *through),
        Change::Hold { version, changes } => {
            let value = HeldValue { changes: changes[..].into(), settled_bytes };
            let result = held.hold(at, *version, changes, value);
            result.expect("checked before the transaction was logged");
        }
        Change::Drop { from, through } => drop(held.take(at, *from, *through)),
        Change::RemoveCollection => held.remove_collection(at),
        Change::MoveObjects { target, hashes } => held.move_objects(at, *target, *hashes),
        _ => {}
    }
    Vec::new()
}

impl<'a> Expanded<'a> {
    /// A transaction that settles nothing.
    pub fn plain(transaction: &'a Transaction) -> Self {
        Expanded { transaction: Cow::Borrowed(transaction), settled: Vec::new() }
    }

    /// `held` follows the transaction, which can be executed; `settled_bytes` has an entry for each `Hold`.
    pub fn of(
        held: &mut SharedHeld,
        transaction: &'a Transaction,
        settled_bytes: &[u64],
    ) -> Expanded<'a> {
        Self::new(transaction, settled_bytes, |at, change, bytes| follow(held, at, change, bytes))
    }

    fn new(
        transaction: &'a Transaction,
        settled_bytes: &[u64],
        mut follow: impl FnMut(Collection, &Change, u64) -> Vec<(HeldChange, HeldValue)>,
    ) -> Self {
        let is_settle = |(_, change): &(_, Change)| matches!(change, Change::Settle { .. });
        let mut expanded = Expanded::plain(transaction);
        if transaction.changes.iter().any(is_settle) {
            expanded.transaction = Cow::Owned(Transaction::new());
        }
        let mut settled_bytes = settled_bytes.iter();
        for (at, change) in &transaction.changes {
            let bytes = match change {
                Change::Hold { .. } => *settled_bytes.next().expect("one for each hold"),
                _ => 0,
            };
            let settled = follow(*at, change, bytes);
            if let Cow::Owned(own) = &mut expanded.transaction {
                own.push(*at, change.clone());
                let start = own.changes.len();
                let changes = settled.iter().flat_map(|(_, value)| value.changes.iter());
                changes.for_each(|change| own.push(*at, change.clone()));
                expanded.settled.push(start..own.changes.len());
            }
        }
        expanded
    }

    /// Whether the change at this place is a settled one.
    pub fn is_settled(&self, place: usize) -> bool {
        self.settled.iter().any(|places| places.contains(&place))
    }
}

/// Whether it holds changes.
pub fn has_holds(transaction: &Transaction) -> bool {
    transaction.changes.iter().any(|(_, change)| matches!(change, Change::Hold { .. }))
}

/// Whether held changes matter to it.
pub fn concerns_held(transaction: &Transaction) -> bool {
    transaction.changes.iter().any(|(_, change)| {
        matches!(
            change,
            Change::Hold { .. }
                | Change::Settle { .. }
                | Change::Drop { .. }
                | Change::RemoveCollection
                | Change::MoveObjects { .. }
        )
    })
}

/// Whether there is a clone among changes.
pub fn clones(changes: &[Change]) -> bool {
    changes.iter().any(|change| matches!(change, Change::Clone { .. }))
}

/// Whether it holds clones, whose sources are measured, or may settle some, whose sources are copied.
pub fn concerns_held_clones(held: &SharedHeld, transaction: &Transaction) -> bool {
    transaction.changes.iter().any(|(at, change)| match change {
        Change::Hold { changes, .. } => clones(changes),
        Change::Settle { .. } => {
            let all = transaction.collections().chain([*at]);
            all.into_iter().any(|at| held.of(at).any(|(_, value)| clones(&value.changes)))
        }
        _ => false,
    })
}

fn held_key(at: Collection, name: HeldChange) -> Vec<u8> {
    let mut key = collection_key(at).to_vec();
    key.extend(name.version.epoch.0.to_be_bytes());
    key.extend(name.version.version.to_be_bytes());
    key.extend(name.reversed_hash().to_be_bytes());
    key
}

impl HeldValue {
    /// The value of its pair in the database: settled bytes, changes without data, the data of all writes.
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = Writer::new();
        let data = split_held(&self.changes, &mut fields);
        let mut w = Writer::new();
        w.u64(self.settled_bytes);
        w.blob(fields.as_slice());
        data.iter().for_each(|data| w.raw(data));
        w.into_vec()
    }

    fn decode(value: &[u8]) -> codec::Result<Self> {
        let mut r = Reader::new(value);
        let settled_bytes = r.u64("settled bytes")?;
        let fields = r.blob("held changes")?;
        let data = Bytes::copy_from_slice(r.rest());
        let mut f = Reader::new(fields);
        let changes = join_held(&mut f, &data)?;
        f.finish("held changes")?;
        let used: u64 = changes.iter().map(Change::data_len).sum();
        Reader::new(&data[used as usize..]).finish("held data")?;
        Ok(HeldValue { changes: changes.into(), settled_bytes })
    }
}

/// Decodes a pair of the database.
pub fn decode(key: &[u8], value: &[u8]) -> Result<(Collection, HeldChange, HeldValue), FilesError> {
    let mut r = Reader::new(key);
    let at = read_collection(r.take("collection", COLLECTION_LEN)?)?;
    let epoch = Epoch(u32::from_be_bytes(r.array("epoch")?));
    let version = EVersion { epoch, version: u64::from_be_bytes(r.array("version")?) };
    let name = HeldChange::of_reversed(version, u32::from_be_bytes(r.array("hash")?));
    r.finish("held change key")?;
    Ok((at, name, HeldValue::decode(value)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use types::{HObject, PgId, PoolId, SnapId};

    const AT: Collection = Collection::replicated(PgId { pool: PoolId(2), seed: 5 });

    fn object(snap: u64) -> HObject {
        let head = HObject::head(PoolId(2), Bytes::new(), Bytes::new(), "rows".into(), 0x1234_5678);
        HObject { snap: SnapId(snap), ..head }
    }

    /// Stores of earlier versions have these pairs.
    #[test]
    fn the_pair_of_a_held_change_stays_what_it_is() {
        let attrs = BTreeMap::from([("_".into(), Bytes::from("info"))]);
        let changes = [
            Change::Clone { object: object(u64::MAX - 1), target: object(7) },
            Change::Write { object: object(u64::MAX - 1), offset: 8192, data: "data".into() },
            Change::Zero { object: object(u64::MAX - 1), offset: 4096, length: 4096 },
            Change::SetAttrs { object: object(u64::MAX - 1), attrs },
        ];
        let value = HeldValue { changes: changes.into(), settled_bytes: 0x1122 };
        let name = HeldChange { version: EVersion::new(3, 9), hash: 0x1234_5678 };
        let key = held_key(AT, name);
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        assert_eq!(hex(&key), "8000000000000002000000050000000300000000000000091e6a2c48");
        let bytes = value.encode();
        assert_eq!(
            hex(&bytes),
            concat!(
                "22110000000000000c010000040000000e0403250000000000000004000000726f7773feffffffffffff",
                "ff78563412000000000002000000000000000403250000000000000004000000726f7773070000000000",
                "00007856341200000000000200000000000000030403250000000000000004000000726f7773feffffff",
                "ffffffff7856341200000000000200000000000000002000000000000004000000040403250000000000",
                "000004000000726f7773feffffffffffffff785634120000000000020000000000000000100000000000",
                "000010000000000000070403250000000000000004000000726f7773feffffffffffffff785634120000",
                "000000020000000000000001000000010000005f04000000696e666f64617461"
            )
        );
        assert_eq!(decode(&key, &bytes).unwrap(), (AT, name, value));
        for end in 0..bytes.len() {
            assert!(HeldValue::decode(&bytes[..end]).is_err());
        }
        assert!(HeldValue::decode(&[&bytes[..], &[0]].concat()).is_err(), "more data than writes");
    }
}
