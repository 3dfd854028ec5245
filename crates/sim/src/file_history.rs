//! Calls of users of the file system, their answers, and what was lost.

use crate::file_snapshots::Known;
use crate::files::{
    FILE_BYTES_MAX, FileSystem, SALT, draw_directory, draw_file, draw_quota, draw_subdirectory,
};
use crate::model::ActorId;
use bytes::Bytes;
use engine::Time;
use fsclient::{Answer, Call, Outcome};
use std::collections::BTreeMap;
use stdx::Prng;

/// Calls of one run.
const CALLS_MAX: usize = 600;
/// Files that a user has open at most.
const OPEN_MAX: usize = 3;

/// One in so many calls is about snapshots, where there are any.
const SNAPSHOTS_ONE_IN: u64 = 4;

/// One in so many calls sets a quota, where there are any.
const QUOTAS_ONE_IN: u64 = 12;

/// A call in the history.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The life of a client that made it.
    pub actor: ActorId,
    /// The call.
    pub call: Call,
    /// When it was made.
    pub invoked: Time,
    /// When it was answered, and how.
    pub completed: Option<(Time, Outcome)>,
    /// When its effect on names was durable.
    pub durable: Option<Time>,
}

impl Entry {
    /// When it was answered, if it succeeded.
    pub fn succeeded(&self) -> Option<Time> {
        self.completed.as_ref().filter(|(_, outcome)| outcome.is_ok()).map(|(at, _)| *at)
    }

    /// The file that it has made or opened.
    pub fn opened(&self) -> Option<u64> {
        match (&self.call, &self.completed) {
            (Call::Create(_) | Call::Open(_), Some((_, Ok(Answer::Inode(stat))))) => Some(stat.ino),
            _ => None,
        }
    }
}

/// Users of the file system, and all that they have done.
#[derive(Debug)]
pub struct FileHistory {
    prng: Prng,
    entries: Vec<Entry>,
    /// When lives of clients, or sessions of theirs, ended with all that was not durable.
    losses: Vec<(ActorId, Time)>,
    /// Files that each life has open.
    open: BTreeMap<ActorId, Vec<u64>>,
    values: u64,
    shape: Option<FileSystem>,
    known: Known,
    /// Searches for an order that exceeded their bound.
    undecided: usize,
}

impl FileHistory {
    /// Nothing has been done yet.
    pub fn new(seed: u64, shape: Option<FileSystem>) -> Self {
        FileHistory {
            prng: Prng::new(seed ^ SALT ^ 1),
            entries: Vec::new(),
            losses: Vec::new(),
            open: BTreeMap::new(),
            values: 0,
            shape,
            known: Known::default(),
            undecided: 0,
        }
    }

    /// All calls.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Ends of lives and of sessions.
    pub fn losses(&self) -> &[(ActorId, Time)] {
        &self.losses
    }

    /// Searches for an order that exceeded their bound.
    pub fn undecided(&self) -> usize {
        self.undecided
    }

    /// Notes that searches exceeded their bound.
    pub fn note_undecided(&mut self, count: usize) {
        self.undecided += count;
    }

    /// True if the history has enough calls.
    pub fn is_full(&self) -> bool {
        self.entries.len() >= CALLS_MAX
    }

    /// A random time around an average, in microseconds.
    pub fn think_us(&mut self, average: u64) -> u64 {
        1 + self.prng.below(2 * average)
    }

    /// Notes a call; returns its index.
    pub fn invoke(&mut self, now: Time, actor: ActorId, call: Call) -> usize {
        if let (Call::Close(ino), Some(open)) = (&call, self.open.get_mut(&actor))
            && let Some(at) = open.iter().position(|other| other == ino)
        {
            open.remove(at);
        }
        self.entries.push(Entry { actor, call, invoked: now, completed: None, durable: None });
        self.entries.len() - 1
    }

    /// Notes the answer to a call.
    pub fn complete(&mut self, index: usize, now: Time, outcome: Outcome) {
        let entry = &mut self.entries[index];
        if outcome.is_ok() {
            self.known.note(&entry.call);
        }
        entry.completed = Some((now, outcome));
        if let Some(ino) = entry.opened() {
            self.open.entry(entry.actor).or_default().push(ino);
        }
    }

    /// Notes that the effect of a call is durable.
    pub fn note_durable(&mut self, index: usize, now: Time) {
        self.entries[index].durable.get_or_insert(now);
    }

    /// A client or its session has ended, with all that was not durable.
    pub fn lost(&mut self, now: Time, actor: ActorId) {
        self.losses.push((actor, now));
        self.open.remove(&actor);
    }

    /// A read of the whole content of a file.
    pub fn read_all(&self, ino: u64) -> Call {
        read_all(self.shape, ino)
    }

    /// The next call of a client.
    pub fn next(&mut self, actor: ActorId) -> Call {
        let open = self.open.get(&actor).cloned().unwrap_or_default();
        let shape = self.shape;
        let p = &mut self.prng;
        if p.chance(1, 30) {
            return Call::Sync;
        }
        if shape.is_some_and(|shape| shape.has_snapshots) && p.chance(1, SNAPSHOTS_ONE_IN) {
            return self.known.draw(p);
        }
        if shape.is_some_and(|shape| shape.has_quotas) && p.chance(1, QUOTAS_ONE_IN) {
            return draw_quota(p);
        }
        if !open.is_empty() && p.chance(3, 5) {
            let ino = *p.choose(&open);
            return match p.below(10) {
                0..4 => {
                    self.values += 1;
                    let length = 16 * (1 + p.below(FILE_BYTES_MAX as u64 / 16));
                    let offset = start_of(shape, ino);
                    Call::Write { ino, offset, data: value(self.values, length as usize) }
                }
                4..7 => read_all(shape, ino),
                7..9 => Call::Fsync(ino),
                _ => Call::Close(ino),
            };
        }
        if open.len() >= OPEN_MAX {
            return Call::Close(open[0]);
        }
        match p.below(20) {
            0..6 => Call::Create(draw_file(p)),
            6..10 => Call::Open(draw_file(p)),
            10..12 => Call::Unlink(draw_file(p)),
            12..14 => Call::Rename(draw_file(p), draw_file(p)),
            14 => Call::Stat(draw_file(p)),
            15..17 => Call::List(draw_directory(p)),
            17..19 => Call::Mkdir(draw_subdirectory(p)),
            _ => Call::Rmdir(draw_subdirectory(p)),
        }
    }
}

fn start_of(shape: Option<FileSystem>, ino: u64) -> u64 {
    shape.map_or(0, |shape| shape.start_of(ino))
}

/// A read of the whole content of a file.
fn read_all(shape: Option<FileSystem>, ino: u64) -> Call {
    Call::Read { ino, offset: start_of(shape, ino), length: 2 * FILE_BYTES_MAX as u64 }
}

/// Content that says which write it is from.
fn value(number: u64, length: usize) -> Bytes {
    let mut data = number.to_le_bytes().to_vec();
    data.resize(length, number as u8);
    data.into()
}
