//! The check: takes rows and records, and says what contradicts what.

use crate::facts::Place;
use crate::finding::{Finding, Problem, Report};
use crate::fix::{Fix, RowChange, decode_row};
use crate::object::{INODES_SHIFT, Table};
use crate::overlay::{Overlay, inode_mut, last_shown};
use crate::state::State;
use crate::{numbers, paths, settle, snapshots};
use bytes::Bytes;
use codec::{DecodeError, DecodeErrorKind, Reader};
use namespace::{Ino, Row, RowKey, decode_entry_key, decode_ino_key, decode_old_key};
use types::SnapId;

/// Takes what is stored. Records come before rows; else the order does not matter.
#[derive(Debug, Default)]
pub struct Check {
    overlay: Overlay,
    state: State,
    /// Changes that put the journal into rows.
    changes: Vec<RowChange>,
}

/// The result of a check.
#[derive(Debug)]
pub struct Checked {
    /// For people.
    pub report: Report,
    /// Changes that put the records of the journal into rows. A repair makes them, writes a head whose
    /// checkpoint has all records, and checks again.
    pub journal_rows: Vec<RowChange>,
    pub(crate) state: State,
}

impl Check {
    /// Without rows.
    pub fn new(rank: u32) -> Self {
        Check { state: State { rank, ..State::default() }, ..Check::default() }
    }

    /// Takes a record of the journal.
    pub fn record(&mut self, record: namespace::Record) {
        self.overlay.record(record);
    }

    /// Numbers of inodes below this one may have been used, as the head and the journal say.
    pub fn used_below(&mut self, numbers: u64) {
        self.state.numbers = self.state.numbers.max(numbers);
    }

    /// Takes a session, with the ranges of numbers that are delegated to it.
    pub fn session(&mut self, client: u64, ranges: impl IntoIterator<Item = (u64, u64)>) {
        self.state.facts.totals.sessions += 1;
        let ranges = ranges.into_iter().map(|(first, count)| (first, count, client));
        self.state.facts.delegated.extend(ranges);
    }

    /// Takes a purge of an inode that is gone.
    pub fn purge(&mut self, ino: Ino) {
        self.state.facts.totals.purges += 1;
        self.state.facts.purges.insert(ino);
    }

    /// An object exists.
    pub fn object(&mut self, name: &[u8], table: Table) {
        match table {
            Table::Directory(ino) => drop(self.state.facts.objects.insert(ino)),
            Table::Unknown => {
                let name = String::from_utf8_lossy(name);
                let text = "it is not an object of this file system";
                self.state.report.add(Finding::new(Problem::UnknownObject, name, text));
            }
            _ => {}
        }
    }

    /// An object that is left over: `text` says of what.
    pub fn leftover_object(&mut self, name: &str, text: &str) {
        self.state.leftover_object(name, text);
    }

    /// A row of any table does not decode.
    pub fn undecodable(&mut self, object: &str, key: &Bytes, value: &Bytes, error: &DecodeError) {
        let text = format!("the row does not decode: {error}");
        if is_newer(error) {
            let text = format!("{text}; a newer program wrote it, check with that one");
            return self
                .state
                .report
                .add(Finding::new(Problem::Newer, object, text).at(key.clone()));
        }
        let (finding, is_full) =
            (Finding::new(Problem::Undecodable, object, text), self.state.report.is_full());
        let finding = finding.at(key.clone());
        self.state.report.add(finding.mended_by("the row is put aside, into the object 'damaged'"));
        // The values of what is put aside are kept until then: of no more rows than there are findings.
        if !is_full {
            let (object, key, value) = (object.to_owned(), key.clone(), value.clone());
            self.state.fixes.push(Fix::PutAside { object, key, value });
        }
    }

    /// Takes a row of the tree.
    pub fn row(&mut self, object: &str, table: Table, key: &Bytes, value: &Bytes) {
        let place = match row_key(table, key) {
            Ok(place) => place,
            Err(error) => return self.undecodable(object, key, value, &error),
        };
        if self.overlay.hides(&place) {
            return;
        }
        if self.overlay.is_of_removed(&place) {
            let (object, key) = (object.to_owned(), key.clone());
            return self.changes.push(RowChange { object, key, value: None });
        }
        match decode_row(&place, value) {
            Ok(row) => self.add(place, row),
            Err(error) => self.undecodable(object, key, value, &error),
        }
    }

    fn add(&mut self, key: RowKey, mut row: Row) {
        let is_touched = last_shown(&key).is_none()
            && inode_mut(&mut row).is_some_and(|inode| self.overlay.touch(inode));
        if is_touched {
            self.changes.push(RowChange::of(&key, self.state.rank, Some(&row)));
        }
        self.state.facts.add(&key, &row);
    }

    /// All was given: compares everything with everything.
    pub fn finish(mut self) -> Checked {
        self.state.facts.totals.records = self.overlay.records();
        for (key, row) in self.overlay.take_rows() {
            let before = self.changes.len();
            if let Some(row) = row.clone() {
                self.add(key.clone(), row);
            }
            if self.changes.len() == before {
                self.changes.push(RowChange::of(&key, self.state.rank, row.as_ref()));
            }
        }
        settle::check(&mut self.state);
        paths::check(&mut self.state);
        snapshots::check(&mut self.state);
        numbers::check(&mut self.state);
        self.leftovers();
        paths::name(&mut self.state);
        self.count();
        let Check { mut state, changes, .. } = self;
        let mut report = std::mem::take(&mut state.report);
        report.totals = state.facts.totals;
        Checked { report, journal_rows: changes, state }
    }

    /// Objects of directories that are gone.
    fn leftovers(&mut self) {
        let is_known = |ino: &Ino| {
            self.state.facts.inodes.contains_key(ino)
                || self.state.facts.entries.contains_key(ino)
                || self.overlay.is_gone(*ino)
        };
        let kept = |ino: &Ino| {
            let first = namespace::EntryKey { hash: 0, name: Bytes::new() };
            let next = self.state.facts.old_entries.range((*ino, first, SnapId(0))..).next();
            next.is_some_and(|((at, ..), _)| at == ino)
        };
        let objects = self.state.facts.objects.iter();
        let left: Vec<Ino> = objects.filter(|ino| !is_known(ino) && !kept(ino)).copied().collect();
        for ino in left {
            let name = namespace::directory_object(ino);
            self.leftover_object(&name, "the directory is gone, and its object is empty");
        }
    }

    fn count(&mut self) {
        let totals = &mut self.state.facts.totals;
        for inode in self.state.facts.inodes.values() {
            let Some(image) = inode.best() else { continue };
            match (image.kind, &image.place) {
                (_, Place::Orphan) => totals.orphans += 1,
                (namespace::Kind::Directory, _) => totals.directories += 1,
                _ => {
                    totals.files += 1;
                    totals.bytes = totals.bytes.wrapping_add(image.size);
                }
            }
        }
        totals.snapshots = self.state.facts.snaps.len() as u64;
    }
}

/// Greatest version that a newer program is thought to write. More is taken for damage, as most bytes are.
const VERSION_MAX: u8 = 32;

fn is_newer(error: &DecodeError) -> bool {
    match error.kind {
        DecodeErrorKind::TooNew { compat, .. } => compat <= VERSION_MAX,
        _ => error.is_newer(),
    }
}

/// The place of a row of the tree.
fn row_key(table: Table, key: &Bytes) -> codec::Result<RowKey> {
    let at = Reader::new(key);
    let within = |ino: Ino, part: u64| match ino.0 >> INODES_SHIFT == part {
        true => Ok(ino),
        false => Err(at.error("key of an inode", DecodeErrorKind::InvalidValue { value: ino.0 })),
    };
    Ok(match table {
        Table::Directory(directory) => match decode_entry_key(key)? {
            (entry, SnapId::HEAD) => RowKey::Entry(directory, entry),
            (entry, last) => RowKey::OldEntry(directory, entry, last),
        },
        Table::Links(part) => RowKey::Link(within(decode_ino_key(key)?, part)?),
        Table::Roots => RowKey::Root(decode_ino_key(key)?),
        Table::Orphans => RowKey::Orphan(decode_ino_key(key)?),
        Table::Past(part) => {
            let (ino, last) = decode_old_key(key)?;
            RowKey::OldInode(within(ino, part)?, last)
        }
        Table::Snapshots if key == &RowKey::Snapshots.key() => RowKey::Snapshots,
        _ => return Err(at.error("key of a row", DecodeErrorKind::InvalidValue { value: 0 })),
    })
}
