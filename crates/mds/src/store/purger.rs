//! Removes the data objects of files that are gone, and cuts those of files that were cut, a bounded number
//! at a time.
//!
//! Files that were not begun go first. One with many objects, or one of which an object could not be changed,
//! waits for its next turn, so that it holds up no other.

use crate::cuts::Cut;
use crate::data_objects;
use crate::purges::Purge;
use crate::rank::{Rank, cutting, purging};
use crate::rows;
use engine::{Duration, Time};
use rados::Operation;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use types::Errno;
use wire::op::OpCode;
use wire::osd_op::Extent;
use wire::{FileLayout, OsdOp, SnapContext};

/// Files of each kind at which it works at once: a very large one does not hold up the others.
const fn files_at_once(kind: Kind) -> usize {
    match kind {
        // A file whose objects are not answered must not hold up the next truncation of others.
        Kind::Cut => 256,
        Kind::Purge => 4,
    }
}
/// Objects of one file that are changed at once.
const OBJECTS_AT_ONCE: usize = 16;
/// The same of files with consecutive numbers, of which most have no object.
const NUMBERS_AT_ONCE: usize = 64;
/// Objects after which the progress of a purge is recorded. A successor repeats at most so many removals of
/// a file. A cut is repeated as a whole: its size is bounded by that of a file.
const OBJECTS_PER_RECORD: u64 = 4096;
/// Pause before a file is tried again of which an object could not be changed.
const RETRY: Duration = Duration::from_secs(10);
/// Files that wait for their next turn. With more, no other purge is begun; cuts are in memory in any case.
const WAITING_MAX: usize = if cfg!(test) { 4 } else { 1024 };
/// The same for those of which an object could not be changed, which hold up no other until then: they
/// stay in memory, and each is tried every 10 s.
const FAILED_MAX: usize = if cfg!(test) { 6 } else { 8192 };

/// Kind of the work at a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Cut,
    Purge,
}

/// A file with the kind of work at it.
type Key = (Kind, u64);

#[derive(Debug)]
enum Job {
    /// Objects are cut as this truncation says.
    Cut {
        size: u64,
        seq: u32,
    },
    Purge {
        is_of_numbers: bool,
    },
}

/// Work at one file.
#[derive(Debug)]
struct Work {
    job: Job,
    layout: FileLayout,
    snaps: SnapContext,
    /// The next object that is asked for.
    next: u64,
    /// Where the work ends, or progress is recorded.
    until: u64,
    in_flight: usize,
    has_failed: bool,
}

impl Work {
    fn purge(purge: Purge) -> Self {
        let Purge { layout, next, end, is_of_numbers, snaps } = purge;
        let until = end.min(next + OBJECTS_PER_RECORD);
        Work {
            job: Job::Purge { is_of_numbers },
            layout,
            snaps,
            next,
            until,
            in_flight: 0,
            has_failed: false,
        }
    }

    fn cut(cut: Cut) -> Self {
        let Cut { layout, size, seq, first: next, end: until, snaps } = cut;
        let job = Job::Cut { size, seq };
        Work { job, layout, snaps, next, until, in_flight: 0, has_failed: false }
    }

    fn operation(&self, ino: u64, object: u64) -> Operation {
        let (ino, object) = match self.job {
            Job::Purge { is_of_numbers: true } => (ino.saturating_add(object), 0),
            _ => (ino, object),
        };
        let place = data_objects::place(&self.layout, ino, object);
        let op = match self.job {
            Job::Purge { .. } => OsdOp::remove(),
            // The object keeps the number of the truncation: a write from before it, which comes late, does
            // not make it longer. So an object without data is not removed.
            Job::Cut { size, seq: truncate_seq } => {
                let truncate_size = data_objects::size_of(&self.layout, size, object);
                let extent = Extent { truncate_size, truncate_seq, ..Extent::default() };
                OsdOp::with_extent(OpCode::TRIMTRUNC, extent)
            }
        };
        Operation { snap_context: self.snaps.clone(), ..rows::write(place, vec![op]) }
    }

    /// Objects that are changed at once.
    fn at_once(&self) -> usize {
        match self.job {
            Job::Purge { is_of_numbers: true } => NUMBERS_AT_ONCE,
            _ => OBJECTS_AT_ONCE,
        }
    }

    fn is_over(&self) -> bool {
        self.in_flight == 0 && (self.has_failed || self.next >= self.until)
    }
}

/// The work at files.
#[derive(Debug, Default)]
pub(super) struct Purger {
    files: BTreeMap<Key, Work>,
    /// Files that were begun, with the time from which on they may go on.
    waiting: BTreeSet<(Time, Key)>,
    /// Those of them of which an object could not be changed.
    failed: BTreeSet<Key>,
    /// File of each request in flight.
    asked: BTreeMap<u64, Key>,
    last: u64,
    requests: VecDeque<(u64, Operation)>,
}

impl Purger {
    /// Goes on: records progress, and asks for further changes of objects.
    pub fn pump(&mut self, now: Time, rank: &mut Rank) {
        loop {
            self.end_parts(now, rank);
            for kind in [Kind::Cut, Kind::Purge] {
                while self.files.keys().filter(|key| key.0 == kind).count() < files_at_once(kind)
                    && let Some((ino, work)) = self.next(now, rank, kind)
                {
                    self.files.insert((kind, ino), work);
                }
            }
            self.ask();
            if self.files.values().all(|work| work.in_flight > 0) {
                return;
            }
        }
    }

    fn next(&mut self, now: Time, rank: &mut Rank, kind: Kind) -> Option<(u64, Work)> {
        let has_room = kind == Kind::Cut
            || self.waiting.len() - self.failed.len() < WAITING_MAX
                && self.failed.len() < FAILED_MAX;
        let new = has_room.then(|| match kind {
            Kind::Cut => cutting::next_new(rank).map(|(ino, cut)| (ino, Work::cut(cut))),
            Kind::Purge => purging::next_new(rank).map(|(ino, purge)| (ino, Work::purge(purge))),
        });
        new.flatten().or_else(|| self.next_waiting(now, rank, kind))
    }

    fn next_waiting(&mut self, now: Time, rank: &Rank, kind: Kind) -> Option<(u64, Work)> {
        loop {
            let mut due = self.waiting.iter().take_while(|(due, _)| *due <= now);
            let (due, (_, ino)) = *due.find(|(_, key)| key.0 == kind)?;
            self.waiting.remove(&(due, (kind, ino)));
            self.failed.remove(&(kind, ino));
            let work = match kind {
                Kind::Cut => cutting::get(rank, ino).map(Work::cut),
                Kind::Purge => purging::get(rank, ino).map(Work::purge),
            };
            if let Some(work) = work {
                return Some((ino, work));
            }
        }
    }

    fn end_parts(&mut self, now: Time, rank: &mut Rank) {
        let over = self.files.iter().filter(|(_, work)| work.is_over());
        let over: Vec<Key> = over.map(|(key, _)| *key).collect();
        for key in over {
            let work = self.files.remove(&key).expect("it was listed");
            match work.job {
                _ if work.has_failed => {
                    self.waiting.insert((now + RETRY, key));
                    self.failed.insert(key);
                }
                Job::Cut { seq, .. } => cutting::done(rank, key.1, seq),
                Job::Purge { .. } if purging::advance(rank, key.1, work.until) => {
                    self.waiting.insert((now, key));
                }
                Job::Purge { .. } => {}
            }
        }
    }

    fn ask(&mut self) {
        for (key, work) in &mut self.files {
            while !work.has_failed && work.in_flight < work.at_once() && work.next < work.until {
                self.last += 1;
                self.asked.insert(self.last, *key);
                self.requests.push_back((self.last, work.operation(key.1, work.next)));
                work.next += 1;
                work.in_flight += 1;
            }
        }
    }

    /// The next request.
    pub fn poll_request(&mut self) -> Option<(u64, Operation)> {
        self.requests.pop_front()
    }

    /// A request was answered. An object that was not there need not be changed.
    pub fn handle_response(&mut self, number: u64, result: Result<(), Errno>) {
        let Some(key) = self.asked.remove(&number) else { return };
        let Some(work) = self.files.get_mut(&key) else { return };
        work.in_flight -= 1;
        match result {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) if !work.has_failed => {
                let (kind, ino) = key;
                tracing::warn!(?kind, ino, %error,
                    "data of a removed or truncated file cannot be removed; it is tried again");
                work.has_failed = true;
            }
            Err(_) => {}
        }
    }

    /// When it has something to do without an answer.
    pub fn poll_timeout(&self) -> Option<Time> {
        let running = |kind| self.files.keys().filter(|key| key.0 == kind).count();
        let mut waiting = self.waiting.iter();
        let next = waiting.find(|(_, (kind, _))| running(*kind) < files_at_once(*kind));
        next.map(|(due, _)| *due)
    }
}
