//! Removes the data objects of files that are gone, a bounded number at a time.
//!
//! Files that were not begun go first. One with many objects, or one of which an object could not be removed,
//! waits for its next turn, so that it holds up no other.

use crate::purges::Purge;
use crate::rank::{Rank, purging};
use bytes::Bytes;
use engine::{Duration, Time};
use rados::{Operation, Place};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use types::Errno;
use wire::OsdOp;

/// Files at which it works at once: a very large one does not hold up the others.
const FILES_AT_ONCE: usize = 4;
/// Objects of one file that are removed at once.
const OBJECTS_AT_ONCE: usize = 16;
/// Objects after which progress is recorded. A successor repeats at most so many removals of a file.
const OBJECTS_PER_RECORD: u64 = 4096;
/// Pause before a file is tried again of which an object could not be removed.
const RETRY: Duration = Duration::from_secs(10);
/// Files that wait for their next turn. With more, no other is begun.
const WAITING_MAX: usize = if cfg!(test) { 4 } else { 1024 };

/// Work at one file.
#[derive(Debug)]
struct Work {
    purge: Purge,
    /// The next object that is asked for.
    next: u64,
    /// Where progress is recorded.
    until: u64,
    in_flight: usize,
    has_failed: bool,
}

impl Work {
    fn new(purge: Purge) -> Self {
        let (next, until) = (purge.next, purge.end.min(purge.next + OBJECTS_PER_RECORD));
        Work { purge, next, until, in_flight: 0, has_failed: false }
    }

    fn operation(&self, ino: u64, object: u64) -> Operation {
        let layout = &self.purge.layout;
        let name = Bytes::from(format!("{ino:x}.{object:08x}"));
        let namespace = Bytes::from(layout.namespace.clone());
        let place = Place { namespace, ..Place::new(layout.pool, name) };
        Operation::write(place, vec![OsdOp::remove()])
    }
}

/// The work at purges.
#[derive(Debug, Default)]
pub(super) struct Purger {
    files: BTreeMap<u64, Work>,
    /// Files that were begun, with the time from which on they may go on.
    waiting: BTreeSet<(Time, u64)>,
    /// File of each removal in flight.
    asked: BTreeMap<u64, u64>,
    last: u64,
    requests: VecDeque<(u64, Operation)>,
}

impl Purger {
    /// Goes on: records progress, and asks for further removals.
    pub fn pump(&mut self, now: Time, rank: &mut Rank) {
        loop {
            self.end_parts(now, rank);
            while self.files.len() < FILES_AT_ONCE
                && let Some((ino, purge)) = self.next(now, rank)
            {
                self.files.insert(ino, Work::new(purge));
            }
            self.ask();
            if self.files.values().all(|work| work.in_flight > 0) {
                return;
            }
        }
    }

    fn next(&mut self, now: Time, rank: &mut Rank) -> Option<(u64, Purge)> {
        if self.waiting.len() < WAITING_MAX
            && let Some(new) = purging::next_new(rank)
        {
            return Some(new);
        }
        let first = *self.waiting.first().filter(|(due, _)| *due <= now)?;
        self.waiting.remove(&first);
        let purge = purging::get(rank, first.1);
        Some((first.1, purge.expect("a purge that was begun is in memory")))
    }

    fn end_parts(&mut self, now: Time, rank: &mut Rank) {
        let is_over = |(_, work): &(&u64, &Work)| {
            work.in_flight == 0 && (work.has_failed || work.next >= work.until)
        };
        let over: Vec<u64> = self.files.iter().filter(is_over).map(|(ino, _)| *ino).collect();
        for ino in over {
            let work = self.files.remove(&ino).expect("it was listed");
            if work.has_failed {
                self.waiting.insert((now + RETRY, ino));
            } else if purging::advance(rank, ino, work.until) {
                self.waiting.insert((now, ino));
            }
        }
    }

    fn ask(&mut self) {
        for (ino, work) in &mut self.files {
            while !work.has_failed && work.in_flight < OBJECTS_AT_ONCE && work.next < work.until {
                self.last += 1;
                self.asked.insert(self.last, *ino);
                self.requests.push_back((self.last, work.operation(*ino, work.next)));
                work.next += 1;
                work.in_flight += 1;
            }
        }
    }

    /// The next removal.
    pub fn poll_request(&mut self) -> Option<(u64, Operation)> {
        self.requests.pop_front()
    }

    /// A removal was answered. An object that was not there need not be removed.
    pub fn handle_response(&mut self, number: u64, result: Result<(), Errno>) {
        let Some(ino) = self.asked.remove(&number) else { return };
        let Some(work) = self.files.get_mut(&ino) else { return };
        work.in_flight -= 1;
        match result {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) if !work.has_failed => {
                tracing::warn!(ino, %error, "data of a removed file cannot be removed; it is tried again");
                work.has_failed = true;
            }
            Err(_) => {}
        }
    }

    /// When it has something to do without an answer.
    pub fn poll_timeout(&self) -> Option<Time> {
        let has_room = self.files.len() < FILES_AT_ONCE;
        self.waiting.first().filter(|_| has_room).map(|(due, _)| *due)
    }
}
