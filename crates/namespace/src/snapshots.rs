//! Snapshots: their numbers, the directories of which they were taken, and which of them show an inode.

use crate::realms::{realm_chain, realm_of};
use crate::{Ino, Inode, OldKey, Realm, Snapshot, Tree};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use types::{SnapId, UTime};

/// A place among old versions: the last snapshot that shows one, and the version behind which the place is.
pub type TrimPlace = (SnapId, Option<OldKey>);

/// The greatest number with which no snapshot can be that does not exist yet.
pub(crate) fn last(tree: &Tree) -> SnapId {
    tree.snap_numbers().last
}

/// A number that was not used before: 1 is that of realms without snapshots.
pub(crate) fn next(tree: &Tree) -> SnapId {
    SnapId(last(tree).0.max(1) + 1)
}

/// A number for a realm that has changed: clients take only what is newer than what they have. Records of
/// the numbers are needed if it is not the last one.
pub(crate) fn next_seq(tree: &Tree, old: Option<&Realm>) -> SnapId {
    let last = SnapId(last(tree).0.max(1));
    if old.is_none_or(|old| old.seq < last) { last } else { next(tree) }
}

/// Snapshots that show, or could show, an inode as it is now: those of its realm and of realms above.
pub fn of(tree: &Tree, ino: Ino) -> BTreeSet<SnapId> {
    shown_realm(tree, ino).map(|realm| of_realm(tree, realm)).unwrap_or_default()
}

/// Snapshots of a realm and of realms above, as far as they exist.
pub fn of_realm(tree: &Tree, realm: Ino) -> BTreeSet<SnapId> {
    match realm == Ino::SHARED {
        true => tree.existing_snaps().keys().copied().collect(),
        false => along_chain(tree, realm).collect(),
    }
}

/// The newest snapshot of an inode; see [`of`].
pub fn newest(tree: &Tree, ino: Ino) -> Option<SnapId> {
    let realm = shown_realm(tree, ino)?;
    match realm == Ino::SHARED {
        true => tree.existing_snaps().keys().next_back().copied(),
        false => along_chain(tree, realm).max(),
    }
}

/// The realm whose snapshots may show an inode.
fn shown_realm(tree: &Tree, ino: Ino) -> Option<Ino> {
    let is_lost = is_nameless(tree, ino) && realm_part(tree, ino).is_none();
    (!tree.existing_snaps().is_empty() && !is_lost).then(|| realm_of(tree, ino))
}

fn along_chain(tree: &Tree, realm: Ino) -> impl Iterator<Item = SnapId> {
    let parts = realm_chain(tree, realm).into_iter().filter_map(|realm| realm_part(tree, realm));
    let with_since = parts.scan(SnapId(0), |since, part| {
        let from = *since;
        *since = from.max(part.parent_since);
        Some((from, part))
    });
    let own = with_since.flat_map(|(from, part)| {
        part.snaps.keys().chain(&part.prior).copied().filter(move |snap| *snap >= from)
    });
    own.filter(|snap| tree.existing_snaps().contains_key(snap))
}

/// Whether a snapshot behind `after`, up to `last`, exists.
pub(crate) fn is_shown(tree: &Tree, after: SnapId, last: SnapId) -> bool {
    let range = (Bound::Excluded(after), Bound::Included(last.max(after)));
    tree.existing_snaps().range(range).next().is_some()
}

pub(crate) fn realm_part(tree: &Tree, ino: Ino) -> Option<&Realm> {
    tree.get(ino)?.policy.realm.as_ref()
}

/// The realm that an inode becomes. Its `.snap` has had the attributes of that of the realm around it.
pub fn new_realm(tree: &Tree, ino: Ino) -> Realm {
    let around = realm_part(tree, realm_of(tree, ino));
    let made = tree.get(Ino::ROOT).map_or(UTime::ZERO, |root| root.btime);
    Realm {
        last_modified: around.map_or(made, |realm| realm.last_modified),
        change_attr: around.map_or(0, |realm| realm.change_attr),
        ..Realm::default()
    }
}

pub(crate) fn is_nameless(tree: &Tree, ino: Ino) -> bool {
    ino != Ino::ROOT && tree.home(ino).is_none()
}

/// Snapshots that `.snap` of a directory shows, with their names there: those of directories above have
/// theirs in them.
pub fn listed(tree: &Tree, directory: Ino) -> BTreeMap<Bytes, SnapId> {
    let mut found = BTreeMap::new();
    for snap in of(tree, directory) {
        let Some((owner, snapshot)) = get(tree, snap) else { continue };
        if owner == directory {
            found.insert(snapshot.name.clone(), snap);
        } else if inode_at(tree, directory, snap).is_some() {
            let number = format!("_{}", owner.0);
            let name = [b"_", &snapshot.name[..], number.as_bytes()].concat();
            found.insert(Bytes::from(name), snap);
        }
    }
    found
}

/// A snapshot, and the directory of which it was taken.
pub fn get(tree: &Tree, snap: SnapId) -> Option<(Ino, &Snapshot)> {
    let owner = *tree.existing_snaps().get(&snap)?;
    Some((owner, realm_part(tree, owner)?.snaps.get(&snap)?))
}

/// An inode as a snapshot shows it; `None` if it does not.
pub fn inode_at(tree: &Tree, ino: Ino, snap: SnapId) -> Option<&Inode> {
    let old = tree.old_versions().inode(ino, snap);
    old.or_else(|| tree.get(ino).filter(|inode| inode.policy.after < snap))
}

/// The inode that a name stands for in a snapshot.
pub fn entry_at(tree: &Tree, directory: Ino, name: &Bytes, snap: SnapId) -> Option<Ino> {
    let old = tree.old_versions().entry(directory, name, snap);
    old.or_else(|| {
        let entry = tree.entry(directory, name)?;
        (entry.after < snap).then_some(entry.ino)
    })
}

/// Whether a directory has snapshots of its own.
pub(crate) fn has_own(tree: &Tree, directory: Ino) -> bool {
    realm_part(tree, directory).is_some_and(|realm| !realm.snaps.is_empty())
}

/// Number of entries and inodes that are kept for snapshots.
pub fn kept(tree: &Tree) -> usize {
    tree.old_versions().len()
}

/// Whether a directory exists, or snapshots show entries of it.
pub fn keep_rows_of(tree: &Tree, directory: Ino) -> bool {
    tree.get(directory).is_some() || tree.old_versions().has_entries(directory)
}

/// Old versions from a place on that no snapshot may show any more, of `max` parts that are looked at,
/// and the place behind them; `None` if there are no more.
pub fn stale(
    tree: &Tree,
    from: &TrimPlace,
    max: usize,
) -> (Vec<(SnapId, OldKey)>, Option<TrimPlace>) {
    let looked: Vec<_> = tree.old_versions().behind(from).take(max).collect();
    let behind = looked.last().map(|(last, key, _)| (*last, Some((*key).clone())));
    let next = behind.filter(|_| looked.len() == max);
    let stale = looked.into_iter().filter(|(last, _, after)| !is_shown(tree, *after, *last));
    (stale.map(|(last, key, _)| (last, key.clone())).collect(), next)
}
