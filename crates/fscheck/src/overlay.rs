//! Records of the journal, as the rows that they replace.

use namespace::{EntryImage, EntryKey, Ino, Inode, Record, Row, RowKey};
use std::collections::{BTreeMap, BTreeSet};
use types::{SnapId, UTime};

/// Attributes of a directory whose entries have changed.
#[derive(Debug, Clone, Copy)]
struct Touch {
    version: u64,
    mtime: UTime,
    ctime: UTime,
    change_attr: u64,
}

/// Rows as the journal has them; `None` if it has removed them.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    rows: BTreeMap<RowKey, Option<Row>>,
    touched: BTreeMap<Ino, Touch>,
    /// Inodes that are gone: of directories, rows may be left.
    gone: BTreeSet<Ino>,
    records: u64,
}

impl Overlay {
    /// Takes a record; they come in order.
    pub fn record(&mut self, record: Record) {
        self.records += 1;
        match record {
            Record::Dentry { directory, name, image, after } => {
                let row = (image != EntryImage::Absent).then_some(Row::Entry(image, after));
                self.rows.insert(RowKey::Entry(directory, EntryKey::of(&name)), row);
            }
            Record::Touch { directory, version, mtime, ctime, change_attr } => {
                let touch = Touch { version, mtime, ctime, change_attr };
                self.touched.insert(directory, touch);
            }
            Record::Inode(inode) if inode.ino == Ino::ROOT => {
                self.rows.insert(RowKey::Root(inode.ino), Some(Row::Inode(inode)));
            }
            Record::Inode(inode) => self.apart(inode.ino, Some(inode), None),
            Record::Orphan(inode) => self.apart(inode.ino, None, Some(inode)),
            Record::Gone(ino) => {
                self.apart(ino, None, None);
                self.gone.insert(ino);
            }
            Record::Snapshots(numbers) => {
                self.rows.insert(RowKey::Snapshots, Some(Row::Snapshots(numbers)));
            }
            Record::OldEntry { directory, name, last, entry } => {
                let key = RowKey::OldEntry(directory, EntryKey::of(&name), last);
                self.rows.insert(key, entry.map(Row::OldEntry));
            }
            Record::OldInode { ino, last, inode } => {
                self.rows.insert(RowKey::OldInode(ino, last), inode.map(Row::Inode));
            }
        }
    }

    fn apart(&mut self, ino: Ino, link: Option<Box<Inode>>, orphan: Option<Box<Inode>>) {
        self.rows.insert(RowKey::Link(ino), link.map(Row::Inode));
        self.rows.insert(RowKey::Orphan(ino), orphan.map(Row::Inode));
    }

    /// Number of records.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Whether the journal replaces a stored row.
    pub fn hides(&self, key: &RowKey) -> bool {
        self.rows.contains_key(key)
    }

    /// Whether a stored row is one of a directory that the journal has removed: rows go with their object.
    pub fn is_of_removed(&self, key: &RowKey) -> bool {
        matches!(key, RowKey::Entry(directory, _) if self.gone.contains(directory))
    }

    /// Whether the journal has removed a directory.
    pub fn is_gone(&self, directory: Ino) -> bool {
        self.gone.contains(&directory)
    }

    /// Gives a directory the attributes that it has by a later change of its entries; whether it changes.
    pub fn touch(&self, inode: &mut Inode) -> bool {
        let Some(touch) = self.touched.get(&inode.ino) else { return false };
        if touch.version <= inode.version {
            return false;
        }
        let Touch { version, mtime, ctime, change_attr } = *touch;
        *inode = Inode { version, mtime, ctime, change_attr, ..inode.clone() };
        true
    }

    /// Takes all rows.
    pub fn take_rows(&mut self) -> BTreeMap<RowKey, Option<Row>> {
        std::mem::take(&mut self.rows)
    }
}

/// The inode of a row, if it has one.
pub(crate) fn inode_mut(row: &mut Row) -> Option<&mut Inode> {
    match row {
        Row::Entry(EntryImage::Primary(inode), _) | Row::Inode(inode) => Some(inode),
        Row::Entry(EntryImage::Remote(_) | EntryImage::Absent, _)
        | Row::OldEntry(_)
        | Row::Snapshots(_) => None,
    }
}

/// The last snapshot that shows a row; `None` of one that the tree has.
pub(crate) fn last_shown(key: &RowKey) -> Option<SnapId> {
    match key {
        RowKey::OldEntry(.., last) | RowKey::OldInode(_, last) => Some(*last),
        _ => None,
    }
}
