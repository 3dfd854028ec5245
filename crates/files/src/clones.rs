//! The origin of a clone's data.
//!
//! A clone cannot be redone from its source: when the log is replayed, the source may have changed. Therefore
//! the data that the source had *before the transaction* is copied durably to the clone's file before the
//! transaction is logged; changes by the transaction to the source before the clone are repeated on the copy.
//! This module determines the object to copy and those changes.

use std::collections::BTreeMap;
use store::{Change, Collection, Transaction};
use types::HObject;

type Name<'a> = (Collection, &'a HObject);

/// The data of an object at some point of a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin<'a> {
    /// The object whose data before the transaction is the start; `None` for no data.
    pub base: Option<Name<'a>>,
    /// Later changes, as indices into the transaction.
    pub changes: Vec<usize>,
}

/// The origins of the clones of a transaction, in order.
pub fn clone_origins(transaction: &Transaction) -> Vec<Origin<'_>> {
    let mut objects: BTreeMap<Name<'_>, Origin<'_>> = BTreeMap::new();
    // Changes of whole collections, in order.
    let mut events: Vec<(Collection, &Change)> = Vec::new();
    let mut clones = Vec::new();
    for (place, (collection, change)) in transaction.changes.iter().enumerate() {
        let untouched =
            |name| Origin { base: before(&events, *collection, name), changes: Vec::new() };
        match change {
            Change::RemoveCollection => {
                objects.retain(|(other, _), _| other != collection);
                events.push((*collection, change));
            }
            Change::MoveObjects { target, hashes } if target != collection => {
                objects.retain(|(other, name), _| other != target || !hashes.holds(name));
                let leaves = |(other, name): Name<'_>| other == *collection && hashes.holds(name);
                let rename = |(at, name)| (if leaves((at, name)) { *target } else { at }, name);
                let all = std::mem::take(&mut objects).into_iter();
                objects = all.map(|(name, origin)| (rename(name), origin)).collect();
                events.push((*collection, change));
            }
            Change::Remove { object } => {
                objects.insert((*collection, object), Origin::default());
            }
            Change::Clone { object, target } => {
                let known = objects.get(&(*collection, object)).cloned();
                let origin = known.unwrap_or_else(|| untouched(object));
                objects.insert((*collection, target), origin.clone());
                clones.push(origin);
            }
            Change::Write { object, .. }
            | Change::Zero { object, .. }
            | Change::Truncate { object, .. } => {
                let origin = objects.entry((*collection, object));
                origin.or_insert_with(|| untouched(object)).changes.push(place);
            }
            _ => {}
        }
    }
    clones
}

/// The place before the transaction of an object that no earlier change of the transaction names.
fn before<'a>(
    events: &[(Collection, &Change)],
    mut collection: Collection,
    name: &'a HObject,
) -> Option<Name<'a>> {
    for (at, change) in events.iter().rev() {
        match change {
            Change::MoveObjects { target, hashes } if hashes.holds(name) => {
                if collection == *at {
                    return None;
                }
                if collection == *target {
                    collection = *at;
                }
            }
            Change::RemoveCollection if collection == *at => return None,
            _ => {}
        }
    }
    Some((collection, name))
}

pub fn has_clones(transaction: &Transaction) -> bool {
    transaction.changes.iter().any(|(_, change)| matches!(change, Change::Clone { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PG: Collection = Collection::replicated(types::PgId { pool: types::PoolId(1), seed: 0 });

    fn object(hash: u32) -> HObject {
        HObject { hash, ..HObject::default() }
    }

    fn truncate(hash: u32) -> Change {
        Change::Truncate { object: object(hash), size: 1 }
    }

    fn clone(from: u32, to: u32) -> Change {
        Change::Clone { object: object(from), target: object(to) }
    }

    fn origins(changes: Vec<Change>) -> Vec<(Option<u32>, Vec<usize>)> {
        let changes = changes.into_iter().map(|change| (PG, change)).collect();
        let transaction = Transaction { changes };
        let origins = clone_origins(&transaction);
        origins.into_iter().map(|o| (o.base.map(|(_, name)| name.hash), o.changes)).collect()
    }

    #[test]
    fn a_clone_starts_from_its_source_before_the_transaction() {
        let chain = vec![truncate(1), clone(1, 2), truncate(1), truncate(2), clone(2, 3)];
        assert_eq!(origins(chain), [(Some(1), vec![0]), (Some(1), vec![0, 3])]);
        assert_eq!(origins(vec![clone(5, 5), clone(5, 6)]), [(Some(5), vec![]), (Some(5), vec![])]);
    }

    #[test]
    fn what_moved_comes_from_where_it_was() {
        let other = Collection::replicated(types::PgId { pool: types::PoolId(1), seed: 1 });
        let odd = Change::MoveObjects { target: other, hashes: store::Hashes::new(1, 1) };
        let changes = vec![
            (PG, truncate(3)),
            (PG, odd),
            (other, clone(3, 5)),
            (other, clone(7, 9)),
            (other, clone(4, 6)),
            (PG, clone(7, 9)),
        ];
        let transaction = Transaction { changes };
        let bases: Vec<_> = clone_origins(&transaction)
            .into_iter()
            .map(|origin| (origin.base.map(|(at, name)| (at, name.hash)), origin.changes))
            .collect();
        let expected = [
            (Some((PG, 3)), vec![0]),
            (Some((PG, 7)), vec![]),
            (Some((other, 4)), vec![]),
            (None, vec![]),
        ];
        assert_eq!(bases, expected);
    }

    #[test]
    fn what_was_removed_before_has_no_base() {
        let remade = vec![Change::Remove { object: object(1) }, truncate(1), clone(1, 2)];
        assert_eq!(origins(remade), [(None, vec![1])]);
        let emptied = vec![truncate(1), Change::RemoveCollection, clone(1, 2)];
        assert_eq!(origins(emptied), [(None, vec![])]);
    }
}
