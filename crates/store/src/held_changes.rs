//! Held changes of a store: their order, their limits, and what moves with objects.
//!
//! Stores use it, or agree with it.

use crate::{Change, Collection, HELD_MAX, Hashes, HeldChange, HoldFault, StoreError, check_held};
use std::collections::BTreeMap;
use types::EVersion;

/// The held changes of all collections, each with a value: the changes, or nothing for names alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldChanges<V = Vec<Change>>(BTreeMap<Collection, BTreeMap<HeldChange, V>>);

impl<V> Default for HeldChanges<V> {
    fn default() -> Self {
        HeldChanges(BTreeMap::new())
    }
}

impl<V> HeldChanges<V> {
    /// Names of those of some collections.
    pub fn names(&self, of: impl IntoIterator<Item = Collection>) -> HeldChanges<()> {
        let names = |held: &BTreeMap<HeldChange, V>| held.keys().map(|name| (*name, ())).collect();
        let some = of.into_iter().filter_map(|at| Some((at, names(self.0.get(&at)?))));
        HeldChanges(some.collect())
    }

    /// Copy of those of some collections.
    pub fn part(&self, of: &[Collection]) -> Self
    where
        V: Clone,
    {
        let some = of.iter().filter_map(|at| Some((*at, self.0.get(at)?.clone())));
        HeldChanges(some.collect())
    }

    /// Replaces those of some collections.
    pub fn replace(&mut self, of: &[Collection], part: Self) {
        self.0.retain(|at, _| !of.contains(at));
        self.0.extend(part.0);
    }

    /// Those of a collection, in order.
    pub fn of(&self, at: Collection) -> impl Iterator<Item = (HeldChange, &V)> {
        self.0.get(&at).into_iter().flatten().map(|(name, value)| (*name, value))
    }

    /// Holds changes under a new version.
    pub fn hold(
        &mut self,
        at: Collection,
        version: EVersion,
        changes: &[Change],
        value: V,
    ) -> Result<(), StoreError> {
        let refusal = |fault| StoreError::CannotHold { collection: at, version, fault };
        let hash = check_held(changes).map_err(refusal)?;
        let name = HeldChange { version, hash };
        let held = self.0.entry(at).or_default();
        let newest = held.last_key_value().map(|(newest, _)| *newest);
        if let Some(newest) = newest.filter(|newest| name <= *newest) {
            return Err(refusal(HoldFault::Order { newest: newest.version }));
        }
        if held.len() >= HELD_MAX {
            return Err(refusal(HoldFault::TooMany));
        }
        held.insert(name, value);
        Ok(())
    }

    /// Adds a held change that was stored, whatever the limits say.
    pub fn insert(&mut self, at: Collection, name: HeldChange, value: V) {
        self.0.entry(at).or_default().insert(name, value);
    }

    /// Takes out those of the versions from `from` to `through` (inclusive), in order.
    pub fn take(
        &mut self,
        at: Collection,
        from: EVersion,
        through: EVersion,
    ) -> Vec<(HeldChange, V)> {
        self.extract(at, |name| from <= name.version && name.version <= through)
    }

    fn extract(
        &mut self,
        at: Collection,
        is_taken: impl Fn(&HeldChange) -> bool,
    ) -> Vec<(HeldChange, V)> {
        let Some(held) = self.0.get_mut(&at) else { return Vec::new() };
        let names: Vec<HeldChange> = held.keys().filter(|name| is_taken(name)).copied().collect();
        names.into_iter().filter_map(|name| held.remove_entry(&name)).collect()
    }

    /// Removes those of a collection.
    pub fn remove_collection(&mut self, at: Collection) {
        self.0.remove(&at);
    }

    /// Moves those of some hashes to another collection, where they replace all of such hashes.
    pub fn move_objects(&mut self, source: Collection, target: Collection, hashes: Hashes) {
        if source == target {
            return;
        }
        let moved = self.extract(source, |name| hashes.contains(name.hash));
        let held = self.0.entry(target).or_default();
        held.retain(|name, _| !hashes.contains(name.hash));
        held.extend(moved);
    }

    /// A page of those of a collection, behind `after`, and whether more follow.
    pub fn page(
        &self,
        at: Collection,
        after: Option<HeldChange>,
        entries_max: usize,
    ) -> (Vec<HeldChange>, bool) {
        let held = self.0.get(&at).into_iter().flat_map(BTreeMap::keys);
        let mut names = held.filter(|name| after.is_none_or(|after| **name > after)).copied();
        let page = names.by_ref().take(entries_max).collect();
        (page, names.next().is_some())
    }

    /// Value of a held change.
    pub fn get(&self, at: Collection, name: HeldChange) -> Option<&V> {
        self.0.get(&at)?.get(&name)
    }

    /// All held changes of all collections, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Collection, HeldChange, &V)> {
        self.0.iter().flat_map(|(at, held)| held.iter().map(|(name, value)| (*at, *name, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use types::{HObject, PgId, PoolId};

    const AT: Collection = Collection::replicated(PgId { pool: PoolId(1), seed: 0 });
    const OTHER: Collection = Collection::replicated(PgId { pool: PoolId(1), seed: 1 });

    fn object(name: &'static str, hash: u32) -> HObject {
        HObject::head(PoolId(1), Bytes::new(), Bytes::new(), name.into(), hash)
    }

    fn touch(hash: u32) -> Vec<Change> {
        vec![Change::Touch { object: object("a", hash) }]
    }

    fn write(offset: u64, length: usize) -> Change {
        Change::Write { object: object("a", 1), offset, data: vec![1; length].into() }
    }

    #[test]
    fn changes_that_cannot_be_held_are_refused_by_type() {
        let a = object("a", 1);
        let refused = |changes: &[Change]| check_held(changes).unwrap_err();
        assert_eq!(refused(&[]), HoldFault::Empty);
        assert_eq!(refused(&[Change::CreateCollection]), HoldFault::Kind);
        assert_eq!(refused(&[write(0, 4096), Change::RemoveCollection]), HoldFault::Kind);
        let through = EVersion::ZERO;
        assert_eq!(refused(&[write(0, 4096), Change::Settle { through }]), HoldFault::Kind);
        let nested = Change::Hold { version: through, changes: touch(1) };
        assert_eq!(refused(&[nested]), HoldFault::Kind);
        let header = Change::OmapSetHeader { object: a.clone(), header: Bytes::new() };
        assert_eq!(refused(&[header]), HoldFault::Kind);
        assert_eq!(refused(&[Change::Touch { object: object("", 1) }]), HoldFault::NoName);
        let source = Change::Clone { object: object("", 1), target: a.clone() };
        assert_eq!(refused(&[source]), HoldFault::NoName);
        let far = Change::Clone { object: object("b", 2), target: a.clone() };
        assert_eq!(refused(&[far]), HoldFault::Hashes { first: 1, other: 2 });
        assert_eq!(refused(&[write(1, 4096)]), HoldFault::Unaligned { bytes: 1 });
        assert_eq!(refused(&[write(0, 4097)]), HoldFault::Unaligned { bytes: 4097 });
        let zero = Change::Zero { object: a.clone(), offset: 4096, length: 5 };
        assert_eq!(refused(&[zero]), HoldFault::Unaligned { bytes: 5 });
        let truncate = Change::Truncate { object: a.clone(), size: 6 };
        assert_eq!(refused(&[truncate]), HoldFault::Unaligned { bytes: 6 });
        assert_eq!(check_held(&[write(4096, 8192), Change::Remove { object: a }]), Ok(1));
    }

    #[test]
    fn versions_ascend_and_their_number_is_bounded() {
        let mut held = HeldChanges::default();
        let mut hold = |at, epoch, version| {
            held.hold(at, EVersion::new(epoch, version), &touch(1), ()).map_err(|error| match error
            {
                StoreError::CannotHold { fault, .. } => fault,
                other => panic!("{other}"),
            })
        };
        let order = |epoch, version| HoldFault::Order { newest: EVersion::new(epoch, version) };
        hold(AT, 2, 5).unwrap();
        assert_eq!(hold(AT, 2, 5), Err(order(2, 5)));
        assert_eq!(hold(AT, 1, 9), Err(order(2, 5)));
        hold(OTHER, 1, 1).unwrap();
        hold(AT, 3, 4).unwrap();
        for version in 6..HELD_MAX as u64 + 4 {
            hold(AT, 3, version).unwrap();
        }
        assert_eq!(hold(AT, 4, 6000), Err(HoldFault::TooMany));
    }

    #[test]
    fn held_changes_move_by_hash_and_merge_in_order() {
        let mut held = HeldChanges::default();
        for (version, hash) in [(1, 0), (2, 1), (3, 0), (4, 1)] {
            held.hold(AT, EVersion::new(1, version), &touch(hash), version).unwrap();
        }
        for (version, hash) in [(1, 1), (2, 0), (3, 1)] {
            held.hold(OTHER, EVersion::new(1, version), &touch(hash), version + 10).unwrap();
        }
        held.move_objects(AT, OTHER, Hashes::new(1, 1));
        let values = |held: &mut HeldChanges<u64>, at| -> Vec<u64> {
            let all = held.take(at, EVersion::ZERO, EVersion::new(9, 0));
            all.into_iter().map(|(_, value)| value).collect()
        };
        assert_eq!(values(&mut held.clone(), AT), [1, 3]);
        assert_eq!(values(&mut held.clone(), OTHER), [12, 2, 4], "one of each hash of version 2");
        let (page, more) = held.page(OTHER, None, 2);
        assert!(more && page.iter().all(|name| name.version.version == 2), "{page:?}");
        let (page, more) = held.page(OTHER, Some(page[1]), 2);
        assert!(!more && page.len() == 1);
    }
}
