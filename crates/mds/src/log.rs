//! Changes of a rank on their way to the journal, and rows that they make old.

use crate::change::Change;
use crate::purges::Purges;
use crate::sessions::SessionImage;
use fsjournal::{Journal, RawRecord};
use namespace::{ChangedRows, Record, Tree};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use types::Epoch;

/// The log of a rank.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// `None` if nothing is stored: then everything counts as durable.
    journal: Option<Journal>,
    /// Changes that belong together and are not appended yet.
    open: Vec<RawRecord>,
    /// Whether more changes belong to them.
    is_group: bool,
    /// Rows that are not stored as they are.
    pub rows: ChangedRows,
    /// Sessions whose rows are not stored as they are.
    pub sessions: BTreeSet<u64>,
    /// Purges whose rows are not stored as they are.
    pub purges: BTreeSet<u64>,
    /// The client whose changes are noted, if any.
    author: Option<u64>,
    /// Whether other clients can see what `open` changes.
    is_visible: bool,
    seen: Authors,
    /// The record that lets the rank use the newest inode numbers.
    numbers: u64,
    is_broken: bool,
}

/// Records that clients can see, by the client that has caused them. Of all authors only the newest one is
/// told from the others.
#[derive(Debug, Default)]
struct Authors {
    newest: Option<u64>,
    /// LSN of the last record of the newest author, and of all others.
    own: u64,
    foreign: u64,
}

impl Authors {
    fn note(&mut self, author: Option<u64>, lsn: u64) {
        if author != self.newest {
            self.foreign = self.own.max(self.foreign);
            self.newest = author;
        }
        self.own = lsn;
    }

    /// The last record of another author than a client, or a later one.
    fn foreign_to(&self, client: u64) -> u64 {
        if self.newest == Some(client) { self.foreign } else { self.own.max(self.foreign) }
    }
}

impl Log {
    /// A log that continues a journal. `rows`, `sessions` and `purges` are not stored as they are.
    pub fn new(
        journal: Journal,
        rows: ChangedRows,
        sessions: BTreeSet<u64>,
        purges: BTreeSet<u64>,
    ) -> Self {
        Log { journal: Some(journal), rows, sessions, purges, ..Log::default() }
    }

    /// The journal, unless nothing is stored.
    pub fn journal(&mut self) -> Option<&mut Journal> {
        self.journal.as_mut()
    }

    /// Whether changes are stored.
    pub fn is_stored(&self) -> bool {
        self.journal.is_some()
    }

    /// Changes from now on are those of a client, or of the server itself.
    pub fn set_author(&mut self, author: Option<u64>) {
        if author != self.author {
            assert!(!self.is_group, "a group has one author");
            self.close();
            self.author = author;
        }
    }

    /// The client whose changes are noted, if any.
    pub fn author(&self) -> Option<u64> {
        self.author
    }

    /// Notes records that are applied to the tree next.
    pub fn change_tree(&mut self, tree: &Tree, records: &[Record]) {
        if self.journal.is_some() {
            self.is_visible |= !records.is_empty();
            self.rows.note(tree, records);
            self.open.extend(records.iter().map(Change::of_tree));
        }
    }

    /// Notes a change of a session.
    pub fn change_session(&mut self, client: u64, change: &Change) {
        if self.journal.is_some() {
            // Others may get what it had.
            self.is_visible |= matches!(change, Change::SessionGone(_));
            self.sessions.insert(client);
            self.open.push(change.encode());
        }
    }

    /// Notes a change of a purge.
    pub fn change_purge(&mut self, ino: u64, change: &Change) {
        if self.journal.is_some() {
            self.purges.insert(ino);
            self.open.push(change.encode());
        }
    }

    /// Counters of the journal; `None` if nothing is stored.
    pub fn measured(&self) -> Option<Value> {
        let journal = self.journal.as_ref()?;
        Some(json!({
            "segments": journal.segment_count(),
            "bytes": journal.bytes(),
            "last_record": journal.last(),
            "durable_record": journal.durable(),
            "checkpoint_record": journal.checkpoint(),
        }))
    }

    /// Records of the journal, from the first one of its first server on.
    pub fn records(&self) -> u64 {
        self.journal.as_ref().map_or(0, Journal::last)
    }

    /// Segments of the journal that are not removed.
    pub fn segments(&self) -> usize {
        self.journal.as_ref().map_or(0, Journal::segment_count)
    }

    /// The last record of a checkpoint that is stored; `None` if nothing is.
    pub fn checkpoint(&self) -> Option<u64> {
        self.journal.as_ref().map(Journal::checkpoint)
    }

    /// The last record that is stored.
    pub fn durable(&self) -> u64 {
        self.journal.as_ref().map_or(0, Journal::durable)
    }

    /// Notes that numbers are used.
    pub fn change_numbers(&mut self, until: u64) {
        if let Some(journal) = &self.journal {
            self.open.push(Change::Numbers(until).encode());
            self.numbers = journal.last() + self.open.len() as u64;
        }
    }

    /// The last record of another author than a client: until it is durable, the client may be told nothing.
    pub fn foreign_to(&mut self, client: u64) -> u64 {
        self.close();
        self.seen.foreign_to(client)
    }

    /// The record that must be durable before a client is told the number of a new inode: otherwise a
    /// successor could give it to another one.
    pub fn numbers_recorded(&self) -> u64 {
        self.numbers
    }

    /// Changes from now on belong together, until [`Log::end_group`]. Messages that are sent in between wait
    /// for the changes so far, and so for all of them: a frame has a whole group or nothing of it.
    pub fn begin_group(&mut self) {
        assert!(!self.is_group, "groups are not nested");
        self.is_group = true;
    }

    /// All changes of the group are noted.
    pub fn end_group(&mut self) {
        self.is_group = false;
    }

    /// The changes so far belong together; returns the LSN of the last one, or of the last of all before.
    pub fn close(&mut self) -> u64 {
        let Some(journal) = &mut self.journal else { return 0 };
        if self.open.is_empty() {
            return journal.last();
        }
        if self.is_group {
            let lsn = journal.last() + self.open.len() as u64;
            if self.is_visible {
                self.seen.note(self.author, lsn);
            }
            return lsn;
        }
        let appended = journal.append(std::mem::take(&mut self.open));
        let lsn = appended.unwrap_or_else(|error| {
            // The tree has it already, so nothing that follows may be answered.
            tracing::error!(%error, "a change cannot be stored; the server ends");
            self.is_broken = true;
            u64::MAX
        });
        if std::mem::take(&mut self.is_visible) {
            self.seen.note(self.author, lsn);
        }
        lsn
    }

    /// Whether a change could not be stored.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Whether a change is stored.
    pub fn is_durable(&self, lsn: u64) -> bool {
        self.journal.as_ref().is_none_or(|journal| lsn <= journal.durable())
    }
}

/// A rank as it was stored.
#[derive(Debug)]
pub(crate) struct Opened {
    /// All inodes and entries.
    pub tree: Tree,
    /// Sessions of clients, by global id.
    pub sessions: BTreeMap<u64, SessionImage>,
    /// Data that is still to be removed.
    pub purges: Purges,
    /// The log that continues the journal.
    pub log: Log,
    /// Numbers of inodes below this one may have been used.
    pub numbers: u64,
    /// The OSD map that shuts out predecessors, and all clients that they have evicted.
    pub epoch: Epoch,
}
