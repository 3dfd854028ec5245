//! Entries and inodes as they were: what snapshots show and the tree has not any more.
//!
//! Each has the range of snapshots that show it: those behind `after`, up to `last`. Ranges of one entry, or
//! of one inode, do not overlap, and the tree's own range is behind all of them.

use crate::directory::EntryKey;
use crate::{Ino, Inode};
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use std::collections::{BTreeMap, BTreeSet};
use types::SnapId;

/// The meaning that a name had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OldEntry {
    /// Snapshots up to this one do not show it.
    pub after: SnapId,
    /// The inode.
    pub ino: Ino,
}

impl Encode for OldEntry {
    fn encode(&self, w: &mut Writer) {
        w.value(&self.after);
        w.value(&self.ino);
    }
}

impl Decode for OldEntry {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(OldEntry { after: r.value()?, ino: r.value()? })
    }
}

/// An old version, without the last snapshot that shows it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum OldKey {
    /// An entry.
    Entry(Ino, EntryKey),
    /// An inode.
    Inode(Ino),
}

/// All that is kept for snapshots.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct OldVersions {
    entries: BTreeMap<(Ino, EntryKey, SnapId), OldEntry>,
    inodes: BTreeMap<(Ino, SnapId), Box<Inode>>,
    by_last: BTreeSet<(SnapId, OldKey)>,
}

impl OldVersions {
    /// Keeps an entry up to a snapshot, or removes it.
    pub fn set_entry(
        &mut self,
        directory: Ino,
        name: &Bytes,
        last: SnapId,
        entry: Option<OldEntry>,
    ) {
        let key = EntryKey::of(name);
        let index = (last, OldKey::Entry(directory, key.clone()));
        match entry {
            Some(entry) => {
                self.entries.insert((directory, key, last), entry);
                self.by_last.insert(index);
            }
            None => {
                self.entries.remove(&(directory, key, last));
                self.by_last.remove(&index);
            }
        }
    }

    /// Keeps an inode up to a snapshot, or removes it.
    pub fn set_inode(&mut self, ino: Ino, last: SnapId, inode: Option<Box<Inode>>) {
        let index = (last, OldKey::Inode(ino));
        match inode {
            Some(inode) => {
                self.inodes.insert((ino, last), inode);
                self.by_last.insert(index);
            }
            None => {
                self.inodes.remove(&(ino, last));
                self.by_last.remove(&index);
            }
        }
    }

    /// The row of an entry.
    pub fn entry_row(&self, directory: Ino, key: &EntryKey, last: SnapId) -> Option<OldEntry> {
        self.entries.get(&(directory, key.clone(), last)).copied()
    }

    /// The row of an inode.
    pub fn inode_row(&self, ino: Ino, last: SnapId) -> Option<&Inode> {
        self.inodes.get(&(ino, last)).map(|inode| &**inode)
    }

    /// The inode that a name stood for.
    pub fn entry(&self, directory: Ino, name: &Bytes, snap: SnapId) -> Option<Ino> {
        let key = EntryKey::of(name);
        let end = (directory, key.clone(), SnapId::HEAD);
        let mut found = self.entries.range((directory, key, snap)..=end);
        let (_, entry) = found.next()?;
        (entry.after < snap).then_some(entry.ino)
    }

    /// An inode as it was.
    pub fn inode(&self, ino: Ino, snap: SnapId) -> Option<&Inode> {
        let (_, inode) = self.inodes.range((ino, snap)..=(ino, SnapId::HEAD)).next()?;
        (inode.policy.after < snap).then_some(&**inode)
    }

    /// The versions of an inode from a snapshot on, with the last snapshot that shows each.
    pub fn versions_from(&self, ino: Ino, snap: SnapId) -> impl Iterator<Item = (SnapId, &Inode)> {
        let found = self.inodes.range((ino, snap)..=(ino, SnapId::HEAD));
        found.map(|((_, last), inode)| (*last, &**inode))
    }

    /// Entries of a directory in a snapshot, in order, from a place on.
    pub fn entries_of(
        &self,
        directory: Ino,
        from: &EntryKey,
        snap: SnapId,
    ) -> impl Iterator<Item = (&EntryKey, Ino)> {
        let rows = self.entries.range((directory, from.clone(), SnapId(0))..);
        let own = rows.take_while(move |((at, ..), _)| *at == directory);
        let shown = own.filter(move |((.., last), entry)| entry.after < snap && *last >= snap);
        shown.map(|((_, key, _), entry)| (key, entry.ino))
    }

    /// All that is kept of a directory's entries from one on, in order.
    pub fn keys_from(
        &self,
        directory: Ino,
        from: &EntryKey,
    ) -> impl Iterator<Item = (&EntryKey, SnapId)> {
        let rows = self.entries.range((directory, from.clone(), SnapId(0))..);
        let own = rows.take_while(move |((at, ..), _)| *at == directory);
        own.map(|((_, key, last), _)| (key, *last))
    }

    /// Whether anything is kept of a directory's entries.
    pub fn has_entries(&self, directory: Ino) -> bool {
        let first = EntryKey { hash: 0, name: Bytes::new() };
        let next = self.entries.range((directory, first, SnapId(0))..).next();
        next.is_some_and(|((at, ..), _)| *at == directory)
    }

    /// Snapshots up to which something is kept, behind `key`, with the first snapshot that does not show it.
    pub fn behind(
        &self,
        place: &(SnapId, Option<OldKey>),
    ) -> impl Iterator<Item = (SnapId, &OldKey, SnapId)> {
        use std::ops::Bound;
        let begin = match &place.1 {
            Some(key) => Bound::Excluded((place.0, key.clone())),
            None => Bound::Included((
                place.0,
                OldKey::Entry(Ino(0), EntryKey { hash: 0, name: Bytes::new() }),
            )),
        };
        self.by_last.range((begin, Bound::Unbounded)).map(|(last, key)| {
            let after = match key {
                OldKey::Entry(directory, entry) => {
                    self.entries.get(&(*directory, entry.clone(), *last)).map(|entry| entry.after)
                }
                OldKey::Inode(ino) => {
                    self.inodes.get(&(*ino, *last)).map(|inode| inode.policy.after)
                }
            };
            (*last, key, after.unwrap_or_default())
        })
    }

    /// Number of entries and inodes.
    pub fn len(&self) -> usize {
        self.by_last.len()
    }
}
