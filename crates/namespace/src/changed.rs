//! Rows that have changed since they were stored: those of the running checkpoint, and those since.

use crate::directory::EntryKey;
use crate::row::RowKey;
use crate::{Record, Tree};
use std::collections::BTreeMap;

/// Keys of changed rows. Their values are the tree's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChangedRows {
    /// With each key, whether no row can be stored under it.
    active: BTreeMap<RowKey, bool>,
    frozen: BTreeMap<RowKey, bool>,
}

impl ChangedRows {
    /// Notes the rows that records will change in a tree, to which they are applied next.
    pub fn note(&mut self, tree: &Tree, records: &[Record]) {
        for record in records {
            match record {
                Record::Dentry { directory, name, .. } => {
                    self.mark(tree, RowKey::Entry(*directory, EntryKey::of(name)));
                }
                Record::Touch { directory, .. } => {
                    if let Some(key) = tree.row_key(*directory) {
                        self.mark(tree, key);
                    }
                }
                Record::Inode(inode) if inode.ino == crate::Ino::ROOT => {
                    self.mark(tree, RowKey::Root(inode.ino));
                }
                Record::Inode(inode) => self.mark(tree, RowKey::Link(inode.ino)),
                Record::Orphan(inode) => {
                    self.mark(tree, RowKey::Orphan(inode.ino));
                    if let Some(key @ RowKey::Link(_)) = tree.row_key(inode.ino) {
                        self.mark(tree, key);
                    }
                }
                Record::Snapshots(_) => self.mark(tree, RowKey::Snapshots),
                Record::OldEntry { directory, name, last, entry } => {
                    self.mark(tree, RowKey::OldEntry(*directory, EntryKey::of(name), *last));
                    if entry.is_none() && tree.get(*directory).is_none() {
                        self.active.insert(RowKey::Directory(*directory), false);
                    }
                }
                Record::OldInode { ino, last, .. } => {
                    self.mark(tree, RowKey::OldInode(*ino, *last));
                }
                Record::Gone(ino) => {
                    self.mark(tree, RowKey::Orphan(*ino));
                    if tree.get(*ino).is_some_and(|inode| inode.is_directory()) {
                        self.active.insert(RowKey::Directory(*ino), false);
                    }
                }
            }
        }
    }

    fn mark(&mut self, tree: &Tree, key: RowKey) {
        if !self.active.contains_key(&key) {
            // A row that the tree has, or whose removal is to be written, may be stored.
            let is_new = tree.row(&key).is_none() && !self.frozen.contains_key(&key);
            self.active.insert(key, is_new);
        }
    }

    /// Forgets what is stored of a row: the next checkpoint writes it, or removes it.
    pub fn mark_unknown(&mut self, key: RowKey) {
        self.active.insert(key, false);
    }

    /// Whether a row has changed and was not stored since.
    pub fn has(&self, key: &RowKey) -> bool {
        self.active.contains_key(key) || self.frozen.contains_key(key)
    }

    /// Begins a checkpoint: returns the keys of all rows that have changed, by object.
    ///
    /// # Panics
    ///
    /// If the last one has not ended.
    pub fn freeze(&mut self) -> Vec<RowKey> {
        assert!(self.frozen.is_empty(), "one checkpoint runs at a time");
        self.frozen = std::mem::take(&mut self.active);
        self.frozen.keys().cloned().collect()
    }

    /// Whether a row that the tree does not have must be removed, since it may be stored.
    pub fn may_be_stored(&self, key: &RowKey) -> bool {
        self.frozen.get(key) != Some(&true)
    }

    /// All rows of the checkpoint are stored.
    pub fn thaw(&mut self) {
        self.frozen.clear();
    }

    /// Number of rows that have changed since the last checkpoint began.
    pub fn len(&self) -> usize {
        self.active.len()
    }

    /// Whether none has.
    pub fn is_empty(&self) -> bool {
        self.active.is_empty()
    }
}
