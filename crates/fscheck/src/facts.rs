//! Facts: the part of rows that contradictions are about. The rows themselves are not kept.

use crate::finding::Totals;
use bytes::Bytes;
use namespace::{EntryImage, EntryKey, Ino, Inode, Kind, OldEntry, Row, RowKey, SnapNumbers};
use std::collections::{BTreeMap, BTreeSet};
use types::SnapId;

/// A name of an inode.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    /// The directory.
    pub directory: Ino,
    /// Its place there.
    pub key: EntryKey,
    /// Snapshots up to this one do not show it.
    pub after: SnapId,
}

impl Name {
    /// Its row.
    pub fn row_key(&self) -> RowKey {
        RowKey::Entry(self.directory, self.key.clone())
    }
}

/// Where an inode is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Entry(Name),
    Root,
    Link,
    Orphan,
}

impl Place {
    /// Its row.
    pub fn row_key(&self, ino: Ino) -> RowKey {
        match self {
            Place::Entry(name) => name.row_key(),
            Place::Root => RowKey::Root(ino),
            Place::Link => RowKey::Link(ino),
            Place::Orphan => RowKey::Orphan(ino),
        }
    }
}

/// An inode, as one row has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Image {
    /// The row.
    pub place: Place,
    /// Counts changes.
    pub version: u64,
    /// Counts changes for NFS.
    pub change_attr: u64,
    /// Number of links.
    pub nlink: u32,
    /// Its type.
    pub kind: Kind,
    /// Bytes of a file.
    pub size: u64,
    /// Snapshots up to this one do not show it.
    pub after: SnapId,
    /// Whether a file says where its data is.
    pub has_layout: bool,
}

/// All that rows say of an inode.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct InodeFacts {
    /// Rows that have the inode.
    pub images: Vec<Image>,
    /// Names that are rows without an inode.
    pub remotes: Vec<Name>,
}

impl InodeFacts {
    /// The newest image.
    pub fn best(&self) -> Option<&Image> {
        self.images.iter().max_by_key(|image| (image.version, image.change_attr))
    }

    /// All names, those of the newest images first.
    pub fn names(&self) -> Vec<Name> {
        let mut images: Vec<&Image> = self.images.iter().collect();
        images.sort_by_key(|image| std::cmp::Reverse((image.version, image.change_attr)));
        let primary = images.into_iter().filter_map(|image| match &image.place {
            Place::Entry(name) => Some(name.clone()),
            _ => None,
        });
        primary.chain(self.remotes.iter().cloned()).collect()
    }

    /// Whether it is a directory, if that is known.
    pub fn is_directory(&self) -> bool {
        self.best().is_some_and(|image| image.kind == Kind::Directory)
    }

    /// All rows.
    pub fn row_keys(&self, ino: Ino) -> Vec<RowKey> {
        let images = self.images.iter().map(|image| image.place.row_key(ino));
        images.chain(self.remotes.iter().map(Name::row_key)).collect()
    }
}

/// An inode as snapshots show it: those behind `after`, up to `last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shown {
    /// The last snapshot that shows it.
    pub last: SnapId,
    /// Snapshots up to this one do not show it.
    pub after: SnapId,
}

/// The part of an inode that begins a realm.
#[derive(Debug, Clone, Default)]
pub(crate) struct RealmFacts {
    /// Snapshots of the directory, and of realms in which it was before.
    pub snaps: BTreeSet<SnapId>,
    /// Snapshots of realms above count from this one on.
    pub parent_since: SnapId,
}

/// All facts.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// Inodes by number.
    pub inodes: BTreeMap<Ino, InodeFacts>,
    /// Number of entries by directory.
    pub entries: BTreeMap<Ino, u64>,
    /// Objects of directories that exist.
    pub objects: BTreeSet<Ino>,
    /// Names that snapshots show, with the last snapshot of each.
    pub old_entries: BTreeMap<(Ino, EntryKey, SnapId), OldEntry>,
    /// Inodes that snapshots show.
    pub old_inodes: BTreeMap<Ino, Vec<Shown>>,
    /// The row with the numbers of snapshots.
    pub numbers: Option<SnapNumbers>,
    /// Realms by their inodes.
    pub realms: BTreeMap<Ino, RealmFacts>,
    /// Owners of snapshots.
    pub snaps: BTreeMap<SnapId, BTreeSet<Ino>>,
    /// The greatest number of a snapshot that any row names.
    pub greatest_snap: SnapId,
    /// Inodes whose data is to be removed.
    pub purges: BTreeSet<Ino>,
    /// Delegated numbers: (first, count, client).
    pub delegated: Vec<(u64, u64, u64)>,
    /// Entries of the root whose names begin as that of the directory for what is found.
    pub found_places: BTreeMap<Bytes, Ino>,
    /// Counts of all of it.
    pub totals: Totals,
}

/// Name of the directory for what is found without a place.
pub(crate) const FOUND: &[u8] = b"lost+found";

impl Facts {
    /// Takes a row that decodes.
    pub fn add(&mut self, key: &RowKey, row: &Row) {
        match (key, row) {
            (RowKey::Entry(directory, entry), Row::Entry(image, after)) => {
                let (directory, key) = (*directory, entry.clone());
                self.add_entry(Name { directory, key, after: *after }, image);
            }
            (RowKey::Root(_), Row::Inode(inode)) => self.add_image(inode, Place::Root),
            (RowKey::Link(_), Row::Inode(inode)) => self.add_image(inode, Place::Link),
            (RowKey::Orphan(_), Row::Inode(inode)) => self.add_image(inode, Place::Orphan),
            (RowKey::OldEntry(directory, entry, last), Row::OldEntry(old)) => {
                self.old_entries.insert((*directory, entry.clone(), *last), *old);
                self.name_snap(*last);
                self.totals.old_versions += 1;
            }
            (RowKey::OldInode(ino, last), Row::Inode(inode)) => {
                let after = inode.policy.after;
                self.old_inodes.entry(*ino).or_default().push(Shown { last: *last, after });
                self.name_snap(*last);
                self.totals.old_versions += 1;
            }
            (RowKey::Snapshots, Row::Snapshots(numbers)) => self.numbers = Some(numbers.clone()),
            _ => unreachable!("a row is decoded as its key says"),
        }
    }

    fn add_entry(&mut self, name: Name, image: &EntryImage) {
        *self.entries.entry(name.directory).or_default() += 1;
        self.totals.names += 1;
        self.name_snap(name.after);
        let ino = match image {
            EntryImage::Primary(inode) => inode.ino,
            EntryImage::Remote(ino) => *ino,
            EntryImage::Absent => return,
        };
        if name.directory == Ino::ROOT && name.key.name.starts_with(FOUND) {
            self.found_places.insert(name.key.name.clone(), ino);
        }
        match image {
            EntryImage::Primary(inode) => self.add_image(inode, Place::Entry(name)),
            _ => self.inodes.entry(ino).or_default().remotes.push(name),
        }
    }

    fn add_image(&mut self, inode: &Inode, place: Place) {
        self.name_snap(inode.policy.after);
        let realm = inode.policy.realm.iter();
        for realm in realm {
            let snaps = realm.snaps.keys().chain(&realm.prior).copied().collect();
            let facts = RealmFacts { snaps, parent_since: realm.parent_since };
            self.realms.insert(inode.ino, facts);
            for snap in realm.snaps.keys() {
                self.snaps.entry(*snap).or_default().insert(inode.ino);
                self.name_snap(*snap);
            }
            realm.prior.iter().for_each(|snap| self.name_snap(*snap));
            // 1 is the number of a realm without snapshots.
            if realm.seq > SnapId(1) {
                self.name_snap(realm.seq);
            }
        }
        let layout = inode.layout.as_ref();
        let has_layout = !inode.is_file()
            || layout.is_some_and(|layout| layout.object_size > 0 && layout.stripe_count > 0);
        self.inodes.entry(inode.ino).or_default().images.push(Image {
            place,
            version: inode.version,
            change_attr: inode.change_attr,
            nlink: inode.nlink,
            kind: inode.kind(),
            size: inode.size,
            after: inode.policy.after,
            has_layout,
        });
    }

    fn name_snap(&mut self, snap: SnapId) {
        self.greatest_snap = self.greatest_snap.max(snap);
    }

    /// Snapshots that exist behind `after`, up to `last`.
    pub fn shown(&self, after: SnapId, last: SnapId) -> impl Iterator<Item = SnapId> {
        use std::ops::Bound;
        let range = (Bound::Excluded(after), Bound::Included(last.max(after)));
        self.snaps.range(range).map(|(snap, _)| *snap)
    }
}
