//! Records of the journal: changes of the tree, of sessions, and of the numbers that are given out.

use crate::purges::Purge;
use crate::sessions::SessionImage;
use codec::{Decode, Encode, Reader, Result, Writer};
use fsjournal::RawRecord;
use namespace::Record;

/// Version of each record.
const VERSION: u8 = 1;

mod kind {
    pub(super) const TREE: u8 = 1;
    pub(super) const SESSION: u8 = 2;
    pub(super) const SESSION_GONE: u8 = 3;
    pub(super) const COMPLETED: u8 = 4;
    pub(super) const NUMBERS: u8 = 5;
    pub(super) const PURGE: u8 = 6;
    pub(super) const PURGED: u8 = 7;
    pub(super) const DELEGATED: u8 = 8;
}

/// A record of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// A change of the tree.
    Tree(Record),
    /// A session is open, in this state.
    Session(u64, SessionImage),
    /// A session has ended.
    SessionGone(u64),
    /// A client's request was executed.
    Completed {
        /// The client.
        client: u64,
        /// Its number.
        tid: u64,
        /// The inode that it created, 0 for none.
        created: u64,
        /// The client has seen the replies of all requests below.
        oldest: u64,
    },
    /// Inode numbers below this one may be used.
    Numbers(u64),
    /// Data of an inode that is gone is to be removed, or is removed up to here.
    Purge(u64, Purge),
    /// All of it is removed.
    Purged(u64),
    /// A client may use inode numbers.
    Delegated {
        /// The client.
        client: u64,
        /// The first number.
        first: u64,
        /// How many.
        count: u64,
    },
}

impl Change {
    fn kind(&self) -> u8 {
        match self {
            Change::Tree(_) => kind::TREE,
            Change::Session(..) => kind::SESSION,
            Change::SessionGone(_) => kind::SESSION_GONE,
            Change::Completed { .. } => kind::COMPLETED,
            Change::Numbers(_) => kind::NUMBERS,
            Change::Purge(..) => kind::PURGE,
            Change::Purged(_) => kind::PURGED,
            Change::Delegated { .. } => kind::DELEGATED,
        }
    }

    /// The record of a change of the tree.
    pub fn of_tree(record: &Record) -> RawRecord {
        RawRecord { kind: kind::TREE, version: VERSION, body: codec::encode_to_bytes(record) }
    }

    /// The record of it.
    pub fn encode(&self) -> RawRecord {
        let mut w = Writer::new();
        match self {
            Change::Tree(record) => record.encode(&mut w),
            Change::Session(client, image) => {
                w.u64(*client);
                image.encode(&mut w);
            }
            Change::SessionGone(client) => w.u64(*client),
            Change::Completed { client, tid, created, oldest } => {
                [client, tid, created, oldest].into_iter().for_each(|number| w.u64(*number));
            }
            Change::Numbers(until) => w.u64(*until),
            Change::Purge(ino, purge) => {
                w.u64(*ino);
                purge.encode(&mut w);
            }
            Change::Purged(ino) => w.u64(*ino),
            Change::Delegated { client, first, count } => {
                [client, first, count].into_iter().for_each(|number| w.u64(*number));
            }
        }
        RawRecord { kind: self.kind(), version: VERSION, body: w.into_bytes() }
    }

    /// The change of a record.
    ///
    /// # Errors
    ///
    /// It does not decode, or a newer program wrote it.
    pub fn decode(record: &RawRecord) -> Result<Change> {
        let mut r = Reader::new(&record.body);
        if record.version > VERSION {
            return Err(r.unknown("version of a record", record.version.into()));
        }
        let change = decode(record.kind, &mut r)?;
        r.finish("record of the journal")?;
        Ok(change)
    }
}

fn decode(kind: u8, r: &mut Reader<'_>) -> Result<Change> {
    Ok(match kind {
        kind::TREE => Change::Tree(r.value()?),
        kind::SESSION => Change::Session(r.u64("client")?, SessionImage::decode(r)?),
        kind::SESSION_GONE => Change::SessionGone(r.u64("client")?),
        kind::COMPLETED => Change::Completed {
            client: r.u64("client")?,
            tid: r.u64("tid")?,
            created: r.u64("created inode")?,
            oldest: r.u64("oldest tid")?,
        },
        kind::NUMBERS => Change::Numbers(r.u64("numbers")?),
        kind::PURGE => Change::Purge(r.u64("ino")?, Purge::decode(r)?),
        kind::PURGED => Change::Purged(r.u64("ino")?),
        kind::DELEGATED => Change::Delegated {
            client: r.u64("client")?,
            first: r.u64("first number")?,
            count: r.u64("count of numbers")?,
        },
        other => return Err(r.unknown("kind of a record", other.into())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delegated::Delegated;
    use bytes::Bytes;
    use namespace::Ino;
    use types::PoolId;
    use wire::FileLayout;

    #[test]
    fn changes_round_trip_and_truncations_are_refused() {
        let image = SessionImage {
            metadata: [("hostname".into(), "here".into())].into(),
            features: 5,
            completed: [(3, 0), (4, 9)].into(),
            delegated: {
                let mut delegated = Delegated::default();
                delegated.add(1 << 40, 5);
                delegated
            },
            ..SessionImage::default()
        };
        let snaps = wire::SnapContext { seq: types::SnapId(3), snaps: vec![types::SnapId(2)] };
        let purge = Purge {
            layout: FileLayout::simple(PoolId(3)),
            next: 1,
            end: 9,
            is_of_numbers: false,
            snaps,
        };
        let changes = [
            Change::Tree(Record::Gone(Ino(7))),
            Change::Session(4123, image),
            Change::SessionGone(4123),
            Change::Completed { client: 4123, tid: 7, created: 8, oldest: 6 },
            Change::Numbers(1 << 40),
            Change::Purge(7, purge.clone()),
            Change::Purge(
                7,
                Purge::of_numbers(FileLayout::simple(PoolId(3)), 4, Default::default()),
            ),
            Change::Purged(7),
            Change::Delegated { client: 4123, first: 1 << 40, count: 1024 },
        ];
        for change in changes {
            let record = change.encode();
            assert_eq!(Change::decode(&record).unwrap(), change);
            for end in 0..record.body.len() {
                let torn = RawRecord { body: record.body.slice(..end), ..record.clone() };
                assert!(Change::decode(&torn).is_err());
            }
            assert!(Change::decode(&RawRecord { version: 2, ..record }).is_err());
        }
        let unknown = RawRecord { kind: 99, version: 1, body: Bytes::new() };
        assert!(Change::decode(&unknown).is_err());
    }
}
