//! The missing set: objects that a copy's log knows and its store does not have (`pg_missing_t`).
//!
//! An item is stored beside the log, under a key of its own, and is removed in the transaction that stores
//! the object. While an object is missing, its content in the store is not valid: it may be older, or
//! partly recovered.

use crate::{PgLog, info};
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use types::{EVersion, HObject};

/// The version of an object that is needed, and the one that is stored here, or zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Item {
    /// The version that the log requires.
    pub need: EVersion,
    /// The version that the store has; zero if it has none.
    pub have: EVersion,
}

/// The missing set of one copy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Missing {
    items: BTreeMap<HObject, Item>,
    /// Oldest first: the order in which objects are recovered.
    by_need: BTreeSet<(EVersion, HObject)>,
    /// Items of objects that a held change replaces or removes, oldest first, and its version. They count as
    /// not missing. Their stored items go when the change is settled; if it is dropped, they are missing
    /// again. An object may be missing in a version above: a later entry was followed.
    superseded: BTreeMap<HObject, Vec<(EVersion, Item)>>,
}

/// Stands for the change that superseded an item, until the log is asked for it.
const UNKNOWN: EVersion = EVersion::ZERO;

impl Missing {
    /// Whether no object is missing.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Objects that are missing.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether the object is missing.
    pub fn contains(&self, object: &HObject) -> bool {
        !self.items.is_empty() && self.items.contains_key(object)
    }

    /// The needed and stored version of a missing object.
    pub fn get(&self, object: &HObject) -> Option<Item> {
        self.items.get(object).copied()
    }

    /// The version that is needed of a missing object.
    pub fn need(&self, object: &HObject) -> Option<EVersion> {
        self.items.get(object).map(|item| item.need)
    }

    /// Adds an object, or replaces its items.
    pub fn add(&mut self, object: HObject, item: Item) {
        self.superseded.remove(&object);
        self.add_above(object, item);
    }

    /// Adds an object, or replaces its item. Items that held changes superseded stay.
    pub(crate) fn add_above(&mut self, object: HObject, item: Item) {
        self.take_item(&object);
        self.by_need.insert((item.need, object.clone()));
        self.items.insert(object, item);
        assert_eq!(self.items.len(), self.by_need.len(), "each item has one need");
    }

    /// Adds an item as it was stored or told. Of several of an object, the later ones lie above.
    pub(crate) fn add_stored(&mut self, object: HObject, item: Item) {
        let below = self.get(&object).filter(|below| below.need < item.need);
        if let Some(below) = below {
            self.superseded.entry(object.clone()).or_default().push((UNKNOWN, below));
        }
        self.add_above(object, item);
    }

    /// Removes an object that was recovered or deleted; whether it was missing.
    pub fn remove(&mut self, object: &HObject) -> bool {
        let was_missing = self.take_item(object);
        if was_missing {
            self.superseded.remove(object);
        }
        was_missing
    }

    /// Removes the item of an object; items that held changes superseded stay.
    pub(crate) fn take_item(&mut self, object: &HObject) -> bool {
        if self.items.is_empty() {
            return false;
        }
        let Some(item) = self.items.remove(object) else { return false };
        let had_need = self.by_need.remove(&(item.need, object.clone()));
        assert!(had_need, "each item has a need");
        true
    }

    /// Forgets an object, also if it is superseded.
    pub(crate) fn forget(&mut self, object: &HObject) {
        self.remove(object);
        self.superseded.remove(object);
    }

    /// Forgets all objects.
    pub fn clear(&mut self) {
        self.items.clear();
        self.by_need.clear();
        self.superseded.clear();
    }

    /// A held change of this version replaces or removes the object; whether it was missing in an older one.
    pub(crate) fn supersede(&mut self, object: &HObject, by: EVersion) -> bool {
        let Some(item) = self.get(object).filter(|item| item.need < by) else { return false };
        self.take_item(object);
        self.superseded.entry(object.clone()).or_default().push((by, item));
        true
    }

    /// Finds the superseded items of a shard with this log. An entry above the needed version is one that
    /// this copy had not followed, but stored as a write, so it holds the change.
    pub(crate) fn find_superseded(&mut self, log: &PgLog, settled: EVersion) {
        self.superseded.retain(|object, below| {
            let unknown = below.iter_mut().filter(|(by, _)| *by == UNKNOWN);
            unknown.for_each(|(by, item)| *by = change_of(log, object, item.need));
            below.retain(|(by, _)| *by > settled);
            !below.is_empty()
        });
        let Some(oldest) = self.oldest_need() else { return };
        for entry in log.above(oldest.max(settled)).filter(|entry| entry.changes_object()) {
            self.supersede(&entry.object, entry.version);
        }
    }

    /// The item of an object that the change of this version superseded is missing again.
    pub(crate) fn take_superseded(&mut self, object: &HObject, by: EVersion) -> Option<Item> {
        let below = self.superseded.get_mut(object)?;
        let (_, item) = below.pop_if(|(version, _)| *version == by)?;
        if below.is_empty() {
            self.superseded.remove(object);
        }
        Some(item)
    }

    /// Changes up to this version are settled. Returns the objects whose stored items go.
    pub(crate) fn settle(&mut self, through: EVersion) -> Vec<HObject> {
        if self.superseded.is_empty() {
            return Vec::new();
        }
        let mut gone = Vec::new();
        self.superseded.retain(|object, below| {
            below.retain(|(by, _)| *by > through);
            // The stored value of an object that is missing in a later version names it, too.
            if below.is_empty() && !self.items.contains_key(object) {
                gone.push(object.clone());
            }
            !below.is_empty()
        });
        gone
    }

    /// Whether a held change replaces or removes a missing object.
    pub(crate) fn has_superseded(&self) -> bool {
        !self.superseded.is_empty()
    }

    /// The stored item of an object, also if it is superseded. With one, the stored content is not valid.
    pub(crate) fn stored(&self, object: &HObject) -> Option<Item> {
        self.items_of(object).last()
    }

    /// All items of an object: those that held changes superseded, oldest first, then the one above.
    pub(crate) fn items_of(&self, object: &HObject) -> impl Iterator<Item = Item> {
        let below = self.superseded.get(object).into_iter().flatten().map(|(_, item)| *item);
        below.chain(self.get(object))
    }

    /// All objects with stored items.
    pub(crate) fn all_stored(&self) -> impl Iterator<Item = &HObject> {
        let superseded = self.superseded.keys().filter(|object| !self.contains(object));
        self.items.keys().chain(superseded)
    }

    /// The number of objects with stored items.
    pub(crate) fn stored_len(&self) -> usize {
        let is_below = |object: &&HObject| self.contains(object);
        self.items.len() + self.superseded.len() - self.superseded.keys().filter(is_below).count()
    }

    /// The same of some objects.
    pub(crate) fn part(&self, holds: impl Fn(&HObject) -> bool) -> Missing {
        let mut part = Missing::default();
        let own = self.items.iter().filter(|(object, _)| holds(object));
        own.for_each(|(object, item)| part.add(object.clone(), *item));
        let superseded = self.superseded.iter().filter(|(object, _)| holds(object));
        part.superseded = superseded.map(|(object, by)| (object.clone(), by.clone())).collect();
        part
    }

    /// All items in object order.
    pub fn iter(&self) -> impl Iterator<Item = (&HObject, &Item)> {
        self.items.iter()
    }

    /// Items in object order, from one (inclusive) on.
    pub fn items_from(&self, from: Option<&HObject>) -> impl Iterator<Item = (&HObject, &Item)> {
        let from = from.map_or(Bound::Unbounded, Bound::Included);
        self.items.range::<HObject, _>((from, Bound::Unbounded))
    }

    /// Objects by needed version, oldest first, after a position (exclusive).
    pub fn by_need_after(
        &self,
        after: Option<&(EVersion, HObject)>,
    ) -> impl Iterator<Item = (EVersion, &HObject)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let items = self.by_need.range((from, Bound::Unbounded));
        items.map(|(need, object)| (*need, object))
    }

    /// The objects from `from` (inclusive) on.
    pub fn range_from(&self, from: &HObject) -> impl Iterator<Item = &HObject> {
        self.items.range(from.clone()..).map(|(object, _)| object)
    }

    /// Whether both list the same objects with the same needed versions.
    pub(crate) fn has_same_needs(&self, other: &Missing) -> bool {
        self.by_need == other.by_need
    }

    /// The oldest version that is needed.
    pub fn oldest_need(&self) -> Option<EVersion> {
        self.by_need.first().map(|(need, _)| *need)
    }

    /// The stored key and value of a missing object: its items, mostly one.
    pub(crate) fn pair(&self, object: &HObject) -> Option<(Bytes, Bytes)> {
        let mut w = Writer::new();
        self.items_of(object).for_each(|item| w.value(&item));
        (!w.is_empty()).then(|| (info::missing_key(object), w.into_bytes()))
    }

    /// Takes the stored value of a missing object.
    pub(crate) fn load(&mut self, object: &HObject, value: &[u8]) -> Result<()> {
        let mut r = Reader::new(value);
        self.add_stored(object.clone(), r.value()?);
        while !r.is_empty() {
            self.add_stored(object.clone(), r.value()?);
        }
        Ok(())
    }
}

/// The change that superseded an object's item which needs this version; zero if the log does not have it any
/// more: then it is settled.
fn change_of(log: &PgLog, object: &HObject, need: EVersion) -> EVersion {
    let mut later = log.above(need).filter(|entry| entry.changes_object());
    let next = later.find(|entry| entry.object == *object);
    next.filter(|entry| entry.prior_version == need).map_or(EVersion::ZERO, |entry| entry.version)
}

impl Encode for Item {
    fn encode(&self, w: &mut Writer) {
        w.value(&self.need);
        w.value(&self.have);
    }
}

impl Decode for Item {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Item { need: r.value()?, have: r.value()? })
    }
}

impl Encode for Missing {
    fn encode(&self, w: &mut Writer) {
        let below = self.superseded.values().map(Vec::len).sum::<usize>();
        w.count(self.items.len() + below);
        for object in self.all_stored() {
            for item in self.items_of(object) {
                w.value(object);
                w.value(&item);
            }
        }
    }
}

impl Decode for Missing {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let items = r.list("missing objects", |r| Ok((r.value()?, r.value()?)))?;
        let mut missing = Missing::default();
        items.into_iter().for_each(|(object, item)| missing.add_stored(object, item));
        Ok(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::PoolId;

    #[test]
    fn the_oldest_need_comes_first_and_a_newer_need_replaces_it() {
        let object = |hash| HObject::hash_start(PoolId(1), hash);
        let need = |version| Item { need: EVersion::new(1, version), ..Item::default() };
        let mut missing = Missing::default();
        missing.add(object(1), need(5));
        missing.add(object(2), need(3));
        assert_eq!(missing.oldest_need(), Some(EVersion::new(1, 3)));
        missing.add(object(2), need(9));
        let by_need: Vec<_> = missing.by_need_after(None).collect();
        let (first, last) = (EVersion::new(1, 5), EVersion::new(1, 9));
        assert_eq!(by_need, [(first, &object(1)), (last, &object(2))]);
        let after = (first, object(1));
        assert_eq!(missing.by_need_after(Some(&after)).collect::<Vec<_>>(), [(last, &object(2))]);
        let bytes = codec::encode_to_bytes(&missing);
        assert_eq!(codec::decode_all::<Missing>("missing", &bytes).unwrap(), missing);
        assert!(missing.remove(&object(1)) && !missing.remove(&object(1)));
        assert_eq!(missing.len(), 1);
    }
}
