//! The tree: the one owner of all inodes and entries.

use crate::directory::{Directory, Entry, EntryKey, Page, PageStart};
use crate::inode::{Ino, Inode, Kind, Statistics, Truncation};
use crate::old_versions::OldVersions;
use crate::record::{EntryImage, Record};
use crate::snapshot::SnapNumbers;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use stdx::FastMap;
use types::{SnapId, UTime};
use wire::FileLayout;

/// Permissions of a new root directory.
const ROOT_MODE: u32 = Kind::DIRECTORY_MODE | 0o755;

/// An inode with its place and, of a directory, its entries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Node {
    inode: Inode,
    /// Names: directory and name. The first one is the home, where statistics count the inode.
    links: Vec<(Ino, Bytes)>,
    /// Whether it is kept although it has no name.
    is_orphan: bool,
    entries: Directory,
    /// Of a directory: entries that are not directories, and those that are.
    counts: [u64; 2],
    /// Its part of the statistics of the directories above it.
    sum: Statistics,
}

/// All inodes and entries of a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    nodes: FastMap<Ino, Node>,
    /// Inodes that begin a realm.
    realms: BTreeSet<Ino>,
    snap_numbers: SnapNumbers,
    /// Snapshots that exist, with the directories of which they were taken.
    existing_snaps: BTreeMap<SnapId, Ino>,
    old_versions: OldVersions,
}

impl Tree {
    /// A tree with an empty root directory.
    pub fn new(now: UTime) -> Self {
        let root = Inode {
            ino: Ino::ROOT,
            version: 1,
            mode: ROOT_MODE,
            nlink: 1,
            truncation: Truncation { size: u64::MAX, seq: 1, ..Truncation::default() },
            btime: now,
            ctime: now,
            mtime: now,
            atime: now,
            ..Inode::default()
        };
        let mut tree = Tree::unrooted();
        tree.set_inode(root);
        tree
    }

    /// A tree without a root, which a loader gives it.
    pub(crate) fn unrooted() -> Self {
        Tree {
            nodes: FastMap::default(),
            realms: BTreeSet::new(),
            snap_numbers: SnapNumbers::default(),
            existing_snaps: BTreeMap::new(),
            old_versions: OldVersions::default(),
        }
    }

    /// An inode.
    pub fn get(&self, ino: Ino) -> Option<&Inode> {
        self.nodes.get(&ino).map(|node| &node.inode)
    }

    /// The meaning of a name in a directory.
    pub fn entry(&self, directory: Ino, name: &Bytes) -> Option<Entry> {
        self.nodes.get(&directory)?.entries.get(name)
    }

    /// At most `max` entries of a directory, from a position on.
    pub fn page(&self, directory: Ino, start: &PageStart, max: usize) -> Option<Page> {
        Some(self.nodes.get(&directory)?.entries.page(start, max))
    }

    /// Entries of a directory from one on, in order.
    pub(crate) fn entries_from(
        &self,
        directory: Ino,
        from: &EntryKey,
    ) -> impl Iterator<Item = &EntryKey> {
        let node = self.nodes.get(&directory);
        let begin = Bound::Included(from.clone());
        node.into_iter().flat_map(move |node| node.entries.from(begin.clone())).map(|(key, _)| key)
    }

    /// Whether a directory has no entries.
    pub fn has_no_entries(&self, directory: Ino) -> bool {
        self.nodes.get(&directory).is_none_or(|node| node.entries.is_empty())
    }

    /// Entries of a directory that are not directories, and those that are.
    pub fn counts(&self, directory: Ino) -> [u64; 2] {
        self.nodes.get(&directory).map_or([0; 2], |node| node.counts)
    }

    /// Recursive statistics of a directory, with itself.
    pub fn statistics(&self, directory: Ino) -> Statistics {
        self.nodes.get(&directory).map_or(Statistics::default(), |node| node.sum)
    }

    /// The directory and name under which an inode is stored, or the first of its links.
    pub fn home(&self, ino: Ino) -> Option<&(Ino, Bytes)> {
        self.nodes.get(&ino)?.links.first()
    }

    /// All names of an inode.
    pub fn links(&self, ino: Ino) -> &[(Ino, Bytes)] {
        self.nodes.get(&ino).map_or(&[], |node| &node.links)
    }

    /// Inodes that begin a realm. The root does also if it is not among them.
    pub fn realms(&self) -> &BTreeSet<Ino> {
        &self.realms
    }

    /// Numbers of snapshots.
    pub fn snap_numbers(&self) -> &SnapNumbers {
        &self.snap_numbers
    }

    /// Snapshots that exist, with the directories of which they were taken.
    pub fn existing_snaps(&self) -> &BTreeMap<SnapId, Ino> {
        &self.existing_snaps
    }

    pub(crate) fn old_versions(&self) -> &OldVersions {
        &self.old_versions
    }

    /// At most `max` entries of a directory as a snapshot shows it.
    pub fn page_at(&self, directory: Ino, snap: SnapId, start: &PageStart, max: usize) -> Page {
        let begin = start.bound();
        let from = match &begin {
            Bound::Included(key) | Bound::Excluded(key) => key.clone(),
            Bound::Unbounded => EntryKey { hash: 0, name: Bytes::new() },
        };
        let entries = self.nodes.get(&directory).map(|node| node.entries.from(begin.clone()));
        let live = entries.into_iter().flatten().filter(|(_, entry)| entry.after < snap);
        let live = live.map(|(key, entry)| (key.clone(), entry.ino));
        let kept = self.old_versions.entries_of(directory, &from, snap);
        let kept = kept.filter(|(key, _)| begin != Bound::Excluded((*key).clone()));
        let kept = kept.map(|(key, ino)| (key.clone(), ino));
        let mut found: Vec<_> = live.take(max + 1).chain(kept.take(max + 1)).collect();
        found.sort_unstable();
        let is_last = found.len() <= max;
        found.truncate(max);
        let entry = |ino| Entry { ino, is_primary: true, after: SnapId(0) };
        let entries = found.into_iter().map(|(key, ino)| (key.name, entry(ino))).collect();
        Page { entries, is_last }
    }

    /// Inodes that have their home in a directory.
    pub(crate) fn children(&self, directory: Ino) -> impl Iterator<Item = Ino> {
        let entries = self.nodes.get(&directory).into_iter().flat_map(|node| node.entries.iter());
        entries.filter_map(move |(name, entry)| {
            let home = self.home(entry.ino)?;
            (home.0 == directory && home.1 == *name).then_some(entry.ino)
        })
    }

    /// Whether `above` is `ino` or one of the directories above it.
    pub fn is_within(&self, ino: Ino, above: Ino) -> bool {
        let mut next = Some(ino);
        while let Some(current) = next {
            if current == above {
                return true;
            }
            next = self.home(current).map(|(directory, _)| *directory);
        }
        false
    }

    /// The layout of an inode, or of the nearest directory above it that has one.
    pub fn layout_of(&self, ino: Ino) -> Option<&FileLayout> {
        let mut next = Some(ino);
        while let Some(ino) = next {
            if let Some(layout) = &self.get(ino)?.layout {
                return Some(layout);
            }
            next = self.home(ino).map(|link| link.0);
        }
        None
    }

    /// Number of inodes.
    pub fn inodes(&self) -> usize {
        self.nodes.len()
    }

    /// Orphans: inodes without a name that are kept, ascending.
    pub fn orphans(&self) -> Vec<Ino> {
        let orphans = self.nodes.iter().filter(|(_, node)| node.is_orphan);
        let mut orphans: Vec<Ino> = orphans.map(|(ino, _)| *ino).collect();
        orphans.sort_unstable();
        orphans
    }

    /// Files of which objects are still to be cut, ascending.
    pub fn pending_cuts(&self) -> Vec<Ino> {
        let is_pending = |inode: &&Inode| inode.truncation.cut_until != 0;
        let pending = self.nodes.values().map(|node| &node.inode).filter(is_pending);
        let mut pending: Vec<Ino> = pending.map(|inode| inode.ino).collect();
        pending.sort_unstable();
        pending
    }

    /// Inodes that clients may write, ascending.
    pub fn written(&self) -> Vec<Ino> {
        let has_ranges = |inode: &Inode| !inode.write_ranges.is_empty();
        let written = self.nodes.values().map(|node| &node.inode).filter(|inode| has_ranges(inode));
        let mut written: Vec<Ino> = written.map(|inode| inode.ino).collect();
        written.sort_unstable();
        written
    }

    /// The number behind the greatest one that is used, or the first one for files.
    pub fn next_ino(&self) -> Ino {
        let greatest = self.nodes.keys().max().copied().unwrap_or_default();
        Ino(greatest.0 + 1).max(Ino::FIRST)
    }

    /// Makes all records of one operation true. They may name the same inode twice, as a rename does.
    pub fn apply(&mut self, records: &[Record]) {
        let mut unlinked = BTreeSet::new();
        for record in records {
            match record {
                Record::Dentry { directory, name, image, after } => {
                    unlinked.extend(self.remove_entry(*directory, name));
                    self.add_entry(*directory, name, image, *after);
                }
                Record::Touch { directory, version, mtime, ctime, change_attr } => {
                    if let Some(node) = self.nodes.get(directory) {
                        let (version, change_attr) = (*version, *change_attr);
                        let (mtime, ctime) = (*mtime, *ctime);
                        let inode = node.inode.clone();
                        self.set_inode(Inode { version, mtime, ctime, change_attr, ..inode });
                    }
                }
                Record::Inode(inode) => self.set_inode((**inode).clone()),
                Record::Orphan(inode) => {
                    self.set_inode((**inode).clone());
                    self.node_mut(inode.ino).is_orphan = true;
                }
                Record::Gone(ino) => self.remove_node(*ino),
                Record::Snapshots(numbers) => self.snap_numbers = numbers.clone(),
                Record::OldEntry { directory, name, last, entry } => {
                    self.old_versions.set_entry(*directory, name, *last, *entry);
                }
                Record::OldInode { ino, last, inode } => {
                    self.old_versions.set_inode(*ino, *last, inode.clone());
                }
            }
        }
        for ino in unlinked {
            let is_lost = |node: &Node| node.links.is_empty() && !node.is_orphan;
            if self.nodes.get(&ino).is_some_and(is_lost) {
                self.remove_node(ino);
            }
        }
    }

    fn remove_node(&mut self, ino: Ino) {
        let node = self.nodes.remove(&ino);
        let realm = node.and_then(|node| node.inode.policy.realm).unwrap_or_default();
        for snap in realm.snaps.into_keys() {
            self.existing_snaps.remove(&snap);
        }
        self.realms.remove(&ino);
    }

    fn node_mut(&mut self, ino: Ino) -> &mut Node {
        self.nodes.entry(ino).or_default()
    }

    /// Removes an entry if there is one; returns the inode that it stood for.
    fn remove_entry(&mut self, directory: Ino, name: &Bytes) -> Option<Ino> {
        let entry = self.nodes.get_mut(&directory)?.entries.remove(name)?;
        let node = self.node_mut(entry.ino);
        let place = node.links.iter().position(|link| link.0 == directory && link.1 == *name);
        let place = place.expect("an inode knows its names");
        node.links.remove(place);
        let sum = node.sum;
        let kind = usize::from(node.inode.is_directory());
        let next_home = node.links.first().map(|link| link.0);
        self.node_mut(directory).counts[kind] -= 1;
        if place == 0 {
            self.change_above(Some(directory), |above| above.subtract(&sum));
            self.change_above(next_home, |above| above.add(&sum));
        }
        Some(entry.ino)
    }

    fn add_entry(&mut self, directory: Ino, name: &Bytes, image: &EntryImage, after: SnapId) {
        let (ino, is_primary) = match image {
            EntryImage::Absent => return,
            EntryImage::Primary(inode) => {
                self.set_inode((**inode).clone());
                (inode.ino, true)
            }
            EntryImage::Remote(ino) => (*ino, false),
        };
        self.node_mut(directory).entries.insert(name, Entry { ino, is_primary, after });
        let node = self.node_mut(ino);
        node.is_orphan = false;
        node.links.push((directory, name.clone()));
        let (is_home, sum) = (node.links.len() == 1, node.sum);
        let kind = usize::from(node.inode.is_directory());
        self.node_mut(directory).counts[kind] += 1;
        if is_home {
            self.change_above(Some(directory), |above| above.add(&sum));
        }
    }

    /// Replaces the attributes of an inode, and counts the difference in the directories above it.
    fn set_inode(&mut self, inode: Inode) {
        let ino = inode.ino;
        let home = self.home(ino).map(|link| link.0);
        let node = self.node_mut(ino);
        let (old, new) = (node.inode.statistics(), inode.statistics());
        let is_new = node.inode.ino != inode.ino;
        self.note_snapshots(&inode);
        let node = self.node_mut(ino);
        let (had_realm, has_realm) =
            (node.inode.policy.realm.is_some(), inode.policy.realm.is_some());
        node.inode = inode;
        if !is_new {
            node.sum.subtract(&old);
        }
        node.sum.add(&new);
        match has_realm {
            true => self.realms.insert(ino),
            false => had_realm && self.realms.remove(&ino),
        };
        self.change_above(home, |above| {
            above.subtract(&old);
            above.add(&new);
        });
    }

    /// Notes which snapshots exist when an inode is about to be replaced.
    fn note_snapshots(&mut self, inode: &Inode) {
        let snaps = |inode: &Inode| -> Vec<SnapId> {
            let realm = inode.policy.realm.iter();
            realm.flat_map(|realm| realm.snaps.keys().copied()).collect()
        };
        for snap in self.get(inode.ino).map(snaps).unwrap_or_default() {
            self.existing_snaps.remove(&snap);
        }
        self.existing_snaps.extend(snaps(inode).into_iter().map(|snap| (snap, inode.ino)));
    }

    /// Changes the statistics of a directory and of all that are above it.
    fn change_above(&mut self, directory: Option<Ino>, change: impl Fn(&mut Statistics)) {
        let mut next = directory;
        while let Some(ino) = next {
            let node = self.node_mut(ino);
            change(&mut node.sum);
            next = node.links.first().map(|link| link.0);
        }
    }

    /// Panics if entries, links, counts and statistics contradict each other.
    pub fn check_invariants(&self) {
        let mut links: BTreeMap<Ino, usize> = BTreeMap::new();
        for (ino, node) in &self.nodes {
            assert_eq!(node.inode.ino, *ino, "an inode has its number");
            assert_eq!(
                node.inode.policy.realm.is_some(),
                self.realms.contains(ino),
                "realm of {ino}"
            );
            assert!(node.entries.is_empty() || node.inode.is_directory(), "{ino} is a directory");
            let mut counts = [0; 2];
            let mut sum = node.inode.statistics();
            for (name, entry) in node.entries.iter() {
                *links.entry(entry.ino).or_default() += 1;
                let child = self.nodes.get(&entry.ino).expect("an entry has an inode");
                assert!(
                    child.links.contains(&(*ino, name.clone())),
                    "{} knows {name:?}",
                    entry.ino
                );
                assert!(!entry.is_primary || child.links.len() == 1, "{name:?} is the only link");
                counts[usize::from(child.inode.is_directory())] += 1;
                if child.links[0] == (*ino, name.clone()) {
                    sum.add(&child.sum);
                }
            }
            assert_eq!(node.counts, counts, "counts of {ino}");
            let parts = |sum: &Statistics| [sum.bytes, sum.files, sum.directories];
            assert_eq!(parts(&node.sum), parts(&sum), "statistics of {ino}");
            assert!(node.sum.changed >= sum.changed, "{ino} has the latest change");
        }
        for (snap, owner) in &self.existing_snaps {
            let realm = self.nodes[owner].inode.policy.realm.as_ref();
            assert!(
                realm.is_some_and(|realm| realm.snaps.contains_key(snap)),
                "{snap:?} of {owner}"
            );
            assert!(*snap <= self.snap_numbers.last, "{snap:?} has a number that was given out");
        }
        assert!(self.realms.iter().all(|ino| self.nodes.contains_key(ino)), "realms exist");
        for (ino, node) in &self.nodes {
            let found = links.get(ino).copied().unwrap_or(0);
            assert_eq!(node.links.len(), found, "names of {ino}");
            assert_eq!(node.is_orphan, found == 0 && *ino != Ino::ROOT, "{ino} is an orphan");
            let expected = if *ino == Ino::ROOT { 1 } else { found };
            assert_eq!(node.inode.nlink as usize, expected, "number of links of {ino}");
            assert!(!node.inode.is_directory() || found <= 1, "{ino} has one name");
        }
    }
}
