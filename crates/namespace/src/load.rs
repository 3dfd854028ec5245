//! A tree from rows and the records behind them.
//!
//! Records of the journal come first: rows of a checkpoint that did not end are partly old and partly new,
//! and a directory may be reached only by a record. A record hides the row of the same key.

use crate::directory::EntryKey;
use crate::row::{Row, RowKey, SNAPSHOTS_OBJECT, decode_entry_key, decode_ino_key, decode_old_key};
use crate::{ChangedRows, EntryImage, Ino, Inode, OldEntry, Record, SnapNumbers, Tree};
use bytes::Bytes;
use codec::DecodeError;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use types::SnapId;

/// Rows and records contradict each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// A row or a record does not decode.
    #[error("a row of object {object} does not decode: {error}")]
    Undecodable {
        /// The object.
        object: String,
        /// The reason.
        error: DecodeError,
    },
    /// Two of them exclude each other.
    #[error(
        "inode {ino}: {problem}; the metadata pool is damaged, repair it before clients use it"
    )]
    Contradiction {
        /// The inode.
        ino: Ino,
        /// The contradiction.
        problem: &'static str,
    },
}

/// Where an inode is stored that is in no entry.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Apart {
    Root(Box<Inode>),
    Link(Box<Inode>),
    Orphan(Box<Inode>),
    Gone,
}

/// Collects rows and records. See the module's description for the order.
#[derive(Debug, Default)]
pub struct Loader {
    rank: u32,
    entries: BTreeMap<(Ino, EntryKey), (EntryImage, SnapId)>,
    apart: BTreeMap<Ino, Apart>,
    touched: BTreeMap<Ino, Record>,
    numbers: Option<SnapNumbers>,
    /// Old versions, and those that are kept no more.
    old_entries: BTreeMap<(Ino, EntryKey, SnapId), Option<OldEntry>>,
    old_inodes: BTreeMap<(Ino, SnapId), Option<Box<Inode>>>,
    changed: ChangedRows,
    /// Directories that were found, and those of them whose rows were not asked for.
    found: BTreeSet<Ino>,
    unread: VecDeque<Ino>,
}

impl Loader {
    /// Without rows.
    pub fn new(rank: u32) -> Self {
        let mut loader = Loader { rank, ..Loader::default() };
        loader.find(Ino::ROOT);
        loader
    }

    /// Takes a record of the journal; they come in order, before all rows.
    pub fn record(&mut self, record: Record) {
        match record {
            Record::Dentry { directory, name, image, after } => {
                let key = EntryKey::of(&name);
                self.changed.mark_unknown(RowKey::Entry(directory, key.clone()));
                self.find_in(&image);
                self.entries.insert((directory, key), (image, after));
            }
            Record::Touch { directory, .. } => {
                self.touched.insert(directory, record);
            }
            Record::Inode(inode) if inode.ino == Ino::ROOT => {
                self.keep_apart(inode.ino, Apart::Root(inode));
            }
            Record::Inode(inode) => self.keep_apart(inode.ino, Apart::Link(inode)),
            Record::Orphan(inode) => self.keep_apart(inode.ino, Apart::Orphan(inode)),
            Record::Snapshots(numbers) => {
                self.changed.mark_unknown(RowKey::Snapshots);
                self.numbers = Some(numbers);
            }
            Record::OldEntry { directory, name, last, entry } => {
                let key = EntryKey::of(&name);
                self.changed.mark_unknown(RowKey::OldEntry(directory, key.clone(), last));
                self.old_entries.insert((directory, key, last), entry);
                self.find(directory);
            }
            Record::OldInode { ino, last, inode } => {
                self.changed.mark_unknown(RowKey::OldInode(ino, last));
                if inode.as_ref().is_some_and(|inode| inode.is_directory()) {
                    self.find(ino);
                }
                self.old_inodes.insert((ino, last), inode);
            }
            Record::Gone(ino) => {
                // It may have been a directory; that it has no object is no error.
                if !matches!(self.apart.get(&ino), Some(Apart::Orphan(inode)) if !inode.is_directory())
                {
                    self.changed.mark_unknown(RowKey::Directory(ino));
                }
                self.keep_apart(ino, Apart::Gone);
            }
        }
    }

    fn keep_apart(&mut self, ino: Ino, apart: Apart) {
        let key = if ino == Ino::ROOT { RowKey::Root } else { RowKey::Link };
        self.changed.mark_unknown(key(ino));
        if ino != Ino::ROOT {
            self.changed.mark_unknown(RowKey::Orphan(ino));
        }
        self.apart.insert(ino, apart);
    }

    fn find(&mut self, directory: Ino) {
        if self.found.insert(directory) {
            self.unread.push_back(directory);
        }
    }

    fn find_in(&mut self, image: &EntryImage) {
        if let EntryImage::Primary(inode) = image
            && inode.is_directory()
        {
            self.find(inode.ino);
        }
    }

    /// The next directory whose rows must be read.
    pub fn next_directory(&mut self) -> Option<Ino> {
        self.unread.pop_front()
    }

    /// Takes a row of a directory.
    ///
    /// # Errors
    ///
    /// It does not decode.
    pub fn directory_row(
        &mut self,
        directory: Ino,
        key: &Bytes,
        value: &[u8],
    ) -> Result<(), LoadError> {
        let undecodable = |error| LoadError::Undecodable {
            object: RowKey::Directory(directory).object(self.rank),
            error,
        };
        let (key, last) = decode_entry_key(key).map_err(undecodable)?;
        if last != SnapId::HEAD {
            let entry = Row::decode_old_entry(value).map_err(undecodable)?;
            self.old_entries.entry((directory, key, last)).or_insert(Some(entry));
            return Ok(());
        }
        let (image, after) = Row::decode_entry(value).map_err(undecodable)?;
        let place = (directory, key);
        if !self.entries.contains_key(&place) {
            self.find_in(&image);
            self.entries.insert(place, (image, after));
        }
        Ok(())
    }

    /// Takes the row with the numbers of snapshots.
    ///
    /// # Errors
    ///
    /// It does not decode.
    pub fn snapshots_row(&mut self, value: &[u8]) -> Result<(), LoadError> {
        let object = SNAPSHOTS_OBJECT.to_owned();
        let undecodable = |error| LoadError::Undecodable { object, error };
        let numbers = Row::decode_snapshots(value).map_err(undecodable)?;
        self.numbers.get_or_insert(numbers);
        Ok(())
    }

    /// Whether there are, or were, snapshots, so that old versions of inodes must be read before directories.
    pub fn has_snapshots(&self) -> bool {
        self.numbers.is_some()
    }

    /// Takes a row of an inode as snapshots show it.
    ///
    /// # Errors
    ///
    /// It does not decode.
    pub fn old_row(&mut self, object: &str, raw: &[u8], value: &[u8]) -> Result<(), LoadError> {
        let undecodable = |error| LoadError::Undecodable { object: object.to_owned(), error };
        let key = decode_old_key(raw).map_err(undecodable)?;
        let inode = Box::new(Row::decode_inode(value).map_err(undecodable)?);
        if inode.is_directory() {
            self.find(key.0);
        }
        self.old_inodes.entry(key).or_insert(Some(inode));
        Ok(())
    }

    /// Takes a row of an inode that is in no entry; `key` makes its place of its number.
    ///
    /// # Errors
    ///
    /// It does not decode.
    pub fn inode_row(
        &mut self,
        key: fn(Ino) -> RowKey,
        raw: &[u8],
        value: &[u8],
    ) -> Result<(), LoadError> {
        let undecodable =
            |error| LoadError::Undecodable { object: key(Ino(0)).object(self.rank), error };
        let ino = decode_ino_key(raw).map_err(undecodable)?;
        let inode = Box::new(Row::decode_inode(value).map_err(undecodable)?);
        if inode.ino != ino {
            return Err(LoadError::Contradiction { ino, problem: "its row has another inode" });
        }
        let apart = match key(ino) {
            RowKey::Root(_) => Apart::Root(inode),
            RowKey::Link(_) => Apart::Link(inode),
            _ => Apart::Orphan(inode),
        };
        self.apart.entry(ino).or_insert(apart);
        Ok(())
    }

    /// Inodes with several names whose rows were not given yet, ascending.
    pub fn missing_links(&self) -> Vec<Ino> {
        let remote = self.entries.values().filter_map(|(image, _)| match image {
            EntryImage::Remote(ino) if !self.apart.contains_key(ino) => Some(*ino),
            _ => None,
        });
        remote.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The tree, and the rows that are not stored as it has them.
    ///
    /// # Errors
    ///
    /// An entry without an inode, an inode without its entry, a wrong number of links, a directory that is
    /// not below the root.
    pub fn finish(mut self) -> Result<(Tree, ChangedRows), LoadError> {
        self.entries.retain(|_, (image, _)| *image != EntryImage::Absent);
        self.check()?;
        let mut tree = Tree::unrooted();
        let mut records = Vec::with_capacity(self.apart.len() + self.entries.len());
        records.extend(self.apart.into_values().filter_map(|apart| match apart {
            Apart::Root(inode) | Apart::Link(inode) => Some(Record::Inode(inode)),
            Apart::Orphan(inode) => Some(Record::Orphan(inode)),
            Apart::Gone => None,
        }));
        records.extend(self.entries.into_iter().map(|((directory, key), (image, after))| {
            Record::Dentry { directory, name: key.name, image, after }
        }));
        records.extend(self.numbers.map(Record::Snapshots));
        records.extend(self.old_entries.into_iter().map(|((directory, key, last), entry)| {
            Record::OldEntry { directory, name: key.name, last, entry }
        }));
        records.extend(self.old_inodes.into_iter().map(|((ino, last), inode)| Record::OldInode {
            ino,
            last,
            inode,
        }));
        tree.apply(&records);
        let touched: Vec<Record> = self.touched.into_values().collect();
        for record in touched {
            let Record::Touch { directory, version, .. } = record else { continue };
            // The row may be newer than the record.
            if tree.get(directory).is_some_and(|inode| inode.version < version) {
                self.changed.note(&tree, std::slice::from_ref(&record));
                tree.apply(&[record]);
            }
        }
        Ok((tree, self.changed))
    }

    fn check(&self) -> Result<(), LoadError> {
        let wrong = |ino, problem| Err(LoadError::Contradiction { ino, problem });
        if !matches!(self.apart.get(&Ino::ROOT), Some(Apart::Root(root)) if root.is_directory() && root.nlink == 1)
        {
            return wrong(Ino::ROOT, "the root directory has no row");
        }
        let mut parents = BTreeMap::from([(Ino::ROOT, Ino::ROOT)]);
        let mut inodes = BTreeSet::new();
        let mut names: BTreeMap<Ino, u32> = BTreeMap::new();
        for ((directory, _), (image, _)) in &self.entries {
            match image {
                EntryImage::Primary(inode) => {
                    let is_apart = self.apart.get(&inode.ino).is_some_and(|at| *at != Apart::Gone);
                    if is_apart || !inodes.insert(inode.ino) {
                        return wrong(inode.ino, "it is stored at two places");
                    }
                    if inode.nlink != 1 {
                        return wrong(inode.ino, "its number of links is not that of its names");
                    }
                    if inode.is_directory() {
                        parents.insert(inode.ino, *directory);
                    }
                }
                EntryImage::Remote(ino) => *names.entry(*ino).or_default() += 1,
                EntryImage::Absent => {}
            }
        }
        self.check_apart(&names)?;
        if let Some(((directory, _), _)) =
            self.entries.iter().find(|((at, _), _)| !parents.contains_key(at))
        {
            return wrong(*directory, "it has entries and is no directory");
        }
        check_paths(&parents)
    }

    fn check_apart(&self, names: &BTreeMap<Ino, u32>) -> Result<(), LoadError> {
        let wrong = |ino, problem| Err(LoadError::Contradiction { ino, problem });
        for (ino, count) in names {
            match self.apart.get(ino) {
                Some(Apart::Link(inode)) if inode.nlink == *count && !inode.is_directory() => {}
                Some(Apart::Link(_)) => {
                    return wrong(*ino, "its number of links is not that of its names");
                }
                _ => return wrong(*ino, "it has names and no row"),
            }
        }
        for (ino, apart) in &self.apart {
            match apart {
                Apart::Link(_) if !names.contains_key(ino) => {
                    return wrong(*ino, "it has a row of links and no name");
                }
                Apart::Orphan(inode) if inode.nlink != 0 => {
                    return wrong(*ino, "it is an orphan and has links");
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Each directory is below the root: walks up from each one until a directory that was seen.
fn check_paths(parents: &BTreeMap<Ino, Ino>) -> Result<(), LoadError> {
    let mut rooted = BTreeSet::from([Ino::ROOT]);
    for start in parents.keys() {
        let (mut path, mut at) = (BTreeSet::new(), *start);
        while !rooted.contains(&at) {
            let parent = parents.get(&at).filter(|_| path.insert(at));
            let problem = "it is not below the root";
            at = *parent.ok_or(LoadError::Contradiction { ino: at, problem })?;
        }
        rooted.extend(path);
    }
    Ok(())
}
