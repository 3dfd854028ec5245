//! The entries of a directory, in the order in which clients read them.

use crate::Ino;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Bound;
use types::SnapId;

/// The part of the hash that orders entries: 24 bits, as positions of clients have them.
const HASH_MASK: u32 = 0xff_ffff;

/// The hash that orders the entries of a directory.
pub fn name_hash(name: &[u8]) -> u32 {
    maps::name_hash::rjenkins(name) & HASH_MASK
}

/// Place of an entry in its directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryKey {
    /// Hash of the name.
    pub hash: u32,
    /// The name.
    pub name: Bytes,
}

impl EntryKey {
    /// The place of a name.
    pub fn of(name: &Bytes) -> Self {
        EntryKey { hash: name_hash(name), name: name.clone() }
    }
}

/// The meaning of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The inode.
    pub ino: Ino,
    /// Whether it is stored with this entry: it has no other one.
    pub is_primary: bool,
    /// Snapshots up to this one show something else, or nothing.
    pub after: SnapId,
}

/// Where a page of a directory begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageStart {
    /// With the first entry.
    Begin,
    /// Behind a name, whether it is still there or not.
    After(Bytes),
    /// With the first entry of this hash or a greater one.
    Hash(u32),
}

impl PageStart {
    /// The place of the first entry.
    pub(crate) fn bound(&self) -> Bound<EntryKey> {
        match self {
            PageStart::Begin => Bound::Unbounded,
            PageStart::After(name) => Bound::Excluded(EntryKey::of(name)),
            PageStart::Hash(hash) => Bound::Included(EntryKey { hash: *hash, name: Bytes::new() }),
        }
    }
}

/// Some entries of a directory, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// Names and what they stand for.
    pub entries: Vec<(Bytes, Entry)>,
    /// Whether there are no entries behind it.
    pub is_last: bool,
}

/// The entries of one directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Directory {
    entries: BTreeMap<EntryKey, Entry>,
}

impl Directory {
    pub(crate) fn get(&self, name: &Bytes) -> Option<Entry> {
        self.entries.get(&EntryKey::of(name)).copied()
    }

    /// Sets an entry; returns the one that had the name.
    pub(crate) fn insert(&mut self, name: &Bytes, entry: Entry) -> Option<Entry> {
        self.entries.insert(EntryKey::of(name), entry)
    }

    pub(crate) fn remove(&mut self, name: &Bytes) -> Option<Entry> {
        self.entries.remove(&EntryKey::of(name))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Bytes, &Entry)> {
        self.entries.iter().map(|(key, entry)| (&key.name, entry))
    }

    /// Entries from a place on, in order.
    pub(crate) fn from(&self, begin: Bound<EntryKey>) -> impl Iterator<Item = (&EntryKey, &Entry)> {
        self.entries.range((begin, Bound::Unbounded))
    }

    /// At most `max` entries from `start` on.
    pub(crate) fn page(&self, start: &PageStart, max: usize) -> Page {
        let mut rest = self.from(start.bound());
        let taken = rest.by_ref().take(max);
        let entries = taken.map(|(key, entry)| (key.name.clone(), *entry)).collect();
        Page { entries, is_last: rest.next().is_none() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_hash_as_clients_hash_them() {
        // Positions of readdir as ceph-fuse and kernels have them depend on these values.
        assert_eq!(name_hash(b""), 0x49_d10d);
        assert_eq!(name_hash(b"foo"), 0xc1_f406, "of 0x7fc1f406, as `ceph osd map` prints it");
        assert_eq!(name_hash(b"a longer name than twelve bytes"), 0xd8_4842);
    }

    proptest! {
        #[test]
        fn pages_give_each_entry_once_and_in_order(
            names in prop::collection::btree_set("[a-d]{1,3}", 0..40), size in 1usize..9
        ) {
            let mut directory = Directory::default();
            for name in &names {
                let entry = Entry { ino: Ino(7), is_primary: true, after: SnapId(0) };
                directory.insert(&Bytes::from(name.clone()), entry);
            }
            let (mut seen, mut start) = (Vec::new(), PageStart::Begin);
            loop {
                let page = directory.page(&start, size);
                seen.extend(page.entries.iter().map(|(name, _)| EntryKey::of(name)));
                let Some((last, _)) = page.entries.last() else { break };
                prop_assert!(page.is_last || page.entries.len() == size);
                // The entry that the position names may go meanwhile.
                start = PageStart::After(last.clone());
                directory.remove(last);
            }
            prop_assert!(seen.is_sorted());
            prop_assert_eq!(seen.len(), names.len());
        }

        #[test]
        fn a_position_by_hash_is_at_or_behind_it(hash in 0u32..0x100_0000) {
            let mut directory = Directory::default();
            for number in 0..50 {
                let name = Bytes::from(format!("{number}"));
                directory.insert(&name, Entry { ino: Ino(7), is_primary: true, after: SnapId(0) });
            }
            let page = directory.page(&PageStart::Hash(hash), 50);
            prop_assert!(page.is_last);
            let behind = (0..50).filter(|number| name_hash(number.to_string().as_bytes()) >= hash);
            prop_assert_eq!(page.entries.len(), behind.count());
        }
    }
}
