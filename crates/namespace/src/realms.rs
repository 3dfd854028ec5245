//! Realms: inodes from which clients count quotas, and whose snapshots they respect when they write.
//!
//! An inode is in the realm of the nearest inode with one on the path of its home, itself included. The root
//! is always a realm, also without a section of its own. Inodes with several names are in a realm that has
//! all snapshots.

use crate::{Ino, Tree};

/// The realm of an inode. One without a name is in that of the root, unless it is one.
pub fn realm_of(tree: &Tree, ino: Ino) -> Ino {
    if is_shared(tree, ino) {
        return Ino::SHARED;
    }
    if tree.realms().is_empty() {
        return Ino::ROOT;
    }
    let mut next = Some(ino);
    while let Some(current) = next {
        if tree.realms().contains(&current) {
            return current;
        }
        next = tree.home(current).map(|link| link.0);
    }
    Ino::ROOT
}

/// Whether an inode has, or had, several names: any snapshot may show it.
pub fn is_shared(tree: &Tree, ino: Ino) -> bool {
    let home = tree.home(ino);
    let entry = home.and_then(|(directory, name)| tree.entry(*directory, name));
    entry.is_some_and(|entry| !entry.is_primary)
}

/// The realm above a realm; `None` above that of the root, and above one without a name.
pub fn realm_above(tree: &Tree, realm: Ino) -> Option<Ino> {
    let (directory, _) = tree.home(realm)?;
    Some(realm_of(tree, *directory))
}

/// A realm and all above it.
pub fn realm_chain(tree: &Tree, realm: Ino) -> Vec<Ino> {
    std::iter::successors(Some(realm), |realm| realm_above(tree, *realm)).collect()
}

/// Directories with a quota at or above a directory.
pub fn quotas_above(tree: &Tree, directory: Ino) -> Vec<Ino> {
    let mut found = Vec::new();
    let mut next = Some(directory).filter(|_| !tree.realms().is_empty());
    while let Some(ino) = next {
        if tree.get(ino).is_some_and(|inode| inode.has_quota()) {
            found.push(ino);
        }
        next = tree.home(ino).map(|link| link.0);
    }
    found
}

/// An inode and all below it, by their homes; at most about `max`, or `None`.
pub fn all_within(tree: &Tree, ino: Ino, max: u64) -> Option<Vec<Ino>> {
    let sum = tree.statistics(ino);
    if sum.files.saturating_add(sum.directories) > max {
        return None;
    }
    let mut found = vec![ino];
    let mut at = 0;
    while let Some(ino) = found.get(at).copied() {
        found.extend(tree.children(ino));
        at += 1;
    }
    Some(found)
}
