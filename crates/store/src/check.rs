//! Checks of a transaction that do not depend on its objects.

use crate::{Change, Collection, HeldChanges, StoreError, Transaction};
use std::collections::BTreeSet;
use types::EVersion;

/// Follows collections and held changes through a transaction. Fails with the first change whose collection
/// does not exist by then, that creates an invalid one, or that cannot be held.
pub fn check_changes<V>(
    transaction: &Transaction,
    exists: impl Fn(Collection) -> bool,
    held: &HeldChanges<V>,
) -> Result<(), StoreError> {
    let mut made = BTreeSet::new();
    let mut removed = BTreeSet::new();
    let is_hold = |(_, change): &(Collection, Change)| matches!(change, Change::Hold { .. });
    let holds = transaction.changes.iter().any(is_hold);
    let mut held =
        if holds { held.names(transaction.collections()) } else { HeldChanges::default() };
    for (collection, change) in &transaction.changes {
        match change {
            Change::CreateCollection if !collection.is_valid() => {
                return Err(StoreError::InvalidCollection(*collection));
            }
            Change::CreateCollection => {
                made.insert(*collection);
            }
            Change::RemoveCollection => {
                made.remove(collection);
                removed.insert(*collection);
            }
            change => {
                let named = std::iter::once(*collection).chain(change.target_collection());
                let is_there =
                    |at: &Collection| made.contains(at) || !removed.contains(at) && exists(*at);
                if let Some(absent) = named.into_iter().find(|at| !is_there(at)) {
                    return Err(StoreError::NoCollection(absent));
                }
            }
        }
        if holds {
            follow(&mut held, *collection, change)?;
        }
    }
    Ok(())
}

fn follow(held: &mut HeldChanges<()>, at: Collection, change: &Change) -> Result<(), StoreError> {
    match change {
        Change::RemoveCollection => held.remove_collection(at),
        Change::MoveObjects { target, hashes } => held.move_objects(at, *target, *hashes),
        Change::Hold { version, changes } => return held.hold(at, *version, changes, ()),
        Change::Settle { through } => drop(held.take(at, EVersion::ZERO, *through)),
        Change::Drop { from, through } => drop(held.take(at, *from, *through)),
        _ => {}
    }
    Ok(())
}
