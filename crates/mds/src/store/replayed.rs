//! Records and rows of a rank besides its tree: sessions, purges, and the numbers that were given out.

use crate::change::Change;
use crate::purges::Purge;
use crate::sessions::SessionImage;
use fsjournal::RawRecord;
use namespace::{Record, decode_ino_key};
use std::collections::{BTreeMap, BTreeSet};

/// Records and rows, as far as they are read. Records come first.
#[derive(Debug, Default)]
pub(super) struct Replayed {
    /// Sessions of clients, by global id.
    pub sessions: BTreeMap<u64, SessionImage>,
    /// Sessions of which the journal has something.
    pub changed: BTreeSet<u64>,
    gone: BTreeSet<u64>,
    /// Data that is still to be removed, or was removed, as the journal tells.
    pub purges: BTreeMap<u64, Option<Purge>>,
    /// Numbers of inodes below this one may have been used.
    pub numbers: u64,
    /// Changes of sessions, which come on top of their rows, in order.
    later: Vec<(u64, Later)>,
}

/// A change of a session: numbers of a completed request, or a range of numbers that was delegated.
#[derive(Debug)]
enum Later {
    Completed([u64; 3]),
    Delegated(u64, u64),
}

impl Replayed {
    /// Without records.
    pub fn new(numbers: u64) -> Self {
        Replayed { numbers, ..Replayed::default() }
    }

    /// Takes a record; returns it if it is one of the tree.
    pub fn record(&mut self, record: &RawRecord) -> codec::Result<Option<Record>> {
        match Change::decode(record)? {
            Change::Tree(record) => return Ok(Some(record)),
            Change::Session(client, image) => {
                self.changed.insert(client);
                self.gone.remove(&client);
                self.later.retain(|(other, _)| *other != client);
                self.sessions.insert(client, image);
            }
            Change::SessionGone(client) => {
                self.changed.insert(client);
                self.gone.insert(client);
                self.later.retain(|(other, _)| *other != client);
                self.sessions.remove(&client);
            }
            Change::Completed { client, tid, created, oldest } => {
                self.changed.insert(client);
                self.later.push((client, Later::Completed([tid, created, oldest])));
            }
            Change::Delegated { client, first, count } => {
                self.changed.insert(client);
                self.later.push((client, Later::Delegated(first, count)));
            }
            Change::Numbers(until) => self.numbers = self.numbers.max(until),
            Change::Purge(ino, purge) => drop(self.purges.insert(ino, Some(purge))),
            Change::Purged(ino) => drop(self.purges.insert(ino, None)),
        }
        Ok(None)
    }

    /// A stored session: what the journal says of it comes later.
    pub fn session_row(&mut self, key: &[u8], value: &[u8]) -> codec::Result<()> {
        let client = decode_ino_key(key)?.0;
        let image = codec::decode_all("row of a session", value)?;
        if !self.gone.contains(&client) {
            self.sessions.entry(client).or_insert(image);
        }
        Ok(())
    }

    /// All rows were given: sessions have what the journal says of them.
    pub fn complete(&mut self) {
        for (client, change) in std::mem::take(&mut self.later) {
            match (self.sessions.get_mut(&client), change) {
                (Some(session), Later::Completed([tid, created, oldest])) => {
                    session.complete(tid, created, oldest);
                }
                (Some(session), Later::Delegated(first, count)) => {
                    session.delegated.add(first, count);
                }
                (None, _) => {}
            }
        }
    }
}
