//! The reader: takes the head, the journal and the rows of a rank, and gives them to the check.

use super::error::FsckError;
use crate::rows::{purges_object, sessions_object};
use crate::store::replayed::Replayed;
use bytes::Bytes;
use fscheck::{Check, Checked, RowChange, Table, table_of};
use fsjournal::{Head, Replay, Resume, head_name};
use namespace::{Ino, decode_ino_key, ino_key};
use std::collections::BTreeSet;

/// Takes what is stored of a rank: the head, then the journal, then rows in any order.
#[derive(Debug)]
pub struct Reader {
    head: Head,
    replay: Option<Replay>,
    resume: Option<Resume>,
    others: Replayed,
    check: Check,
    /// Segments of the journal that were read.
    needed: BTreeSet<String>,
    /// Whether the journal ends where it is damaged.
    accepts_loss: bool,
}

/// The result of a reading.
#[derive(Debug)]
pub struct Found {
    /// Findings, and how they are mended.
    pub checked: Checked,
    /// The head as it was read.
    pub(super) head: Head,
    pub(super) resume: Resume,
    pub(super) others: Replayed,
}

impl Reader {
    /// Takes the head's object.
    ///
    /// # Errors
    ///
    /// It is no head of this rank.
    pub fn new(rank: u32, head: &[u8], accepts_loss: bool) -> Result<Self, FsckError> {
        let head = Head::decode(head).map_err(FsckError::undecodable(&head_name(rank)))?;
        if head.rank != rank {
            return Err(FsckError::OtherFileSystem);
        }
        let mut check = Check::new(rank);
        check.used_below(head.numbers);
        Ok(Reader {
            replay: Some(Replay::new(&head)),
            resume: None,
            others: Replayed::new(head.numbers),
            check,
            needed: BTreeSet::new(),
            accepts_loss,
            head,
        })
    }

    /// The object of the journal whose data is to be given next; `None` when it is read.
    pub fn next_segment(&self) -> Option<String> {
        self.replay.as_ref()?.next_object()
    }

    /// Takes the data of that object, or that there is none.
    ///
    /// # Errors
    ///
    /// The journal is damaged.
    pub fn segment(&mut self, data: Option<&Bytes>) -> Result<(), FsckError> {
        let Some(name) = self.next_segment() else { return Ok(()) };
        let replay = self.replay.as_mut().expect("it has a next segment");
        let records = match replay.feed(data) {
            Ok(records) => records,
            Err(damage) if !self.accepts_loss => return Err(damage.into()),
            Err(_) => {
                self.needed.insert(name);
                self.resume = self.replay.take().map(Replay::give_up);
                return Ok(());
            }
        };
        for (_, record) in records {
            let of_tree = self.others.record(&record).map_err(FsckError::undecodable(&name))?;
            of_tree.into_iter().for_each(|record| self.check.record(record));
        }
        self.needed.insert(name);
        if self.next_segment().is_none() {
            self.resume = self.replay.take().map(Replay::finish);
        }
        Ok(())
    }

    /// An object exists; whether its rows are to be given.
    pub fn object(&mut self, name: &[u8]) -> bool {
        let table = table_of(name, self.head.rank);
        self.check.object(name, table);
        let text = String::from_utf8_lossy(name);
        if table == Table::Journal && !self.needed.contains(&*text) {
            self.check.leftover_object(&text, "the head does not name this part of the journal");
        }
        table.has_rows()
    }

    /// Takes a row of an object.
    pub fn row(&mut self, object: &str, key: &Bytes, value: &Bytes) {
        let table = table_of(object.as_bytes(), self.head.rank);
        let taken = match table {
            Table::Sessions => self.others.session_row(key, value),
            Table::Tasks => self.purge_row(key, value),
            _ => return self.check.row(object, table, key, value),
        };
        if let Err(error) = taken {
            self.check.undecodable(object, key, value, &error);
        }
    }

    fn purge_row(&mut self, key: &Bytes, value: &Bytes) -> codec::Result<()> {
        let ino = decode_ino_key(key)?;
        if !self.others.purges.contains_key(&ino.0) {
            codec::decode_all::<crate::purges::Purge>("row of a purge", value)?;
            self.check.purge(ino);
        }
        Ok(())
    }

    /// All was given.
    ///
    /// # Panics
    ///
    /// If the journal was not read to its end.
    pub fn finish(mut self) -> Found {
        self.others.complete();
        for (client, session) in &self.others.sessions {
            self.check.session(*client, session.delegated.ranges());
        }
        let purges = self.others.purges.iter().filter(|(_, purge)| purge.is_some());
        purges.for_each(|(ino, _)| self.check.purge(Ino(*ino)));
        self.check.used_below(self.others.numbers);
        let Reader { head, resume, others, check, .. } = self;
        let resume = resume.expect("the journal was read to its end");
        Found { checked: check.finish(), head, resume, others }
    }
}

impl Found {
    /// Changes that put the journal into rows.
    pub(super) fn journal_rows(&self) -> Vec<RowChange> {
        let mut changes = self.checked.journal_rows.clone();
        let rank = self.head.rank;
        for client in &self.others.changed {
            let session = self.others.sessions.get(client);
            changes.push(RowChange {
                object: sessions_object(rank),
                key: ino_key(Ino(*client)),
                value: session.map(codec::encode_to_bytes),
            });
        }
        for (ino, purge) in &self.others.purges {
            changes.push(RowChange {
                object: purges_object(rank),
                key: ino_key(Ino(*ino)),
                value: purge.as_ref().map(codec::encode_to_bytes),
            });
        }
        changes
    }

    /// The first number of an inode that is not used.
    pub(super) fn numbers(&self) -> u64 {
        self.others.numbers.max(self.head.numbers)
    }
}
