//! The stored form of a rank: opens it, writes its journal, and checkpoints.
//!
//! ```text
//! Store::open(setup) -> poll_opened -> Opened        pump(now, rank): records -> writes, rows, head
//! source(task): ClusterRequests                      handle_response(task, id, answer)
//! ```
//!
//! Invariants:
//! * Nothing is written to the journal before the head names its generation.
//! * A row is written when all records that made it are durable, the head when all rows of its checkpoint
//!   are.
//! * After a failed write the rank answers nothing more: its process ends, and a successor replays.

mod eviction;
mod failure;
pub mod fsck;
pub(crate) mod objects;
mod open;
mod purge_rows;
mod purger;
mod replayed;
pub(crate) mod scrub;
mod setup;
mod snap_removal;
#[cfg(test)]
mod tests;

use crate::log::Opened;
use crate::rank::{Rank, evictions, purging, snapshots};
use crate::rows::{RowQueue, place, purges_object, write};
use engine::{Duration, Time};
use eviction::Refusal;
pub(crate) use failure::Failure;
use fsjournal::{SegmentWrite, head_name};
use purge_rows::PurgePage;
use purger::Purger;
use rados::{
    ClusterRequest, ClusterRequestId, ClusterResponse, Operation, Part, Procedure, RequestSource,
};
use scrub::Scrubs;
pub(crate) use setup::{Setup, StoreError};
use std::collections::VecDeque;
use types::{EntityAddrVec, Epoch, Errno, SnapId};
use wire::OsdOp;

/// Bytes of the journal at which a checkpoint begins.
const CHECKPOINT_BYTES: u64 = 32 << 20;
/// Time after which one begins if anything has changed.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(30);
/// Time for which records collect for a frame if no client waits for them.
const COLLECT: Duration = Duration::from_millis(10);
/// Pause before more of what removed snapshots showed is looked at, if no other input comes.
const TRIM_PAUSE: Duration = Duration::from_millis(1);
/// Bytes of the journal at which changes wait.
const JOURNAL_MAX_BYTES: u64 = 128 << 20;
/// Requests of a checkpoint in flight: for rows, and for removed segments.
const ROWS_IN_FLIGHT: usize = 16;
const REMOVALS_IN_FLIGHT: usize = 4;

/// Purpose of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Task {
    /// To open the rank.
    Opening,
    /// A frame of the journal.
    Frame,
    /// A part of a checkpoint.
    Checkpoint,
    /// To evict a client.
    Eviction,
    /// To remove or cut data.
    Purge,
    /// To read which data is to be removed.
    PurgeRows,
    /// To have data of snapshots removed.
    SnapRemoval,
    /// To compare rows.
    Scrub,
}

impl Task {
    /// All tasks.
    pub const ALL: [Task; 8] = [
        Task::Opening,
        Task::Frame,
        Task::Checkpoint,
        Task::Eviction,
        Task::Purge,
        Task::PurgeRows,
        Task::SnapRemoval,
        Task::Scrub,
    ];
}

/// Progress of a checkpoint.
#[derive(Debug)]
enum Stage {
    Rows { queue: RowQueue, waiting: VecDeque<(u64, Operation)> },
    Head,
    Removal(VecDeque<String>),
}

#[derive(Debug)]
struct Checkpoint {
    /// All records up to it are in rows when the checkpoint has ended.
    lsn: u64,
    /// The last record that was seen when the last row was taken: a row that is not written may be one that a
    /// later record has removed.
    seen: Option<u64>,
    stage: Stage,
    in_flight: usize,
}

#[derive(Debug)]
struct Eviction {
    client: u64,
    addrs: EntityAddrVec,
    procedure: Procedure<Result<Epoch, Refusal>>,
}

/// The stored form of a rank. See the module's description.
#[derive(Debug)]
pub(crate) struct Store {
    setup: Setup,
    opening: Option<Procedure<Result<Opened, StoreError>>>,
    frames: VecDeque<SegmentWrite>,
    /// When records are written for which no client waits.
    frame_due: Option<Time>,
    /// When more of what removed snapshots showed is to be forgotten.
    trim_due: Option<Time>,
    /// Requests of the checkpoint.
    rows: VecDeque<Operation>,
    checkpoint: Option<Checkpoint>,
    /// When the last checkpoint began.
    begun: Time,
    /// Whether another one begins without delay.
    is_asked: bool,
    /// Time of the last turn.
    now: Time,
    eviction: Option<Eviction>,
    purger: Purger,
    purge_rows: Option<Procedure<Result<PurgePage, StoreError>>>,
    snap_removal: Option<Procedure<SnapId>>,
    /// The scrub, and what it has found.
    pub scrub: Scrubs,
    failure: Option<Failure>,
}

impl Store {
    /// Begins to open a rank.
    pub fn open(now: Time, setup: Setup) -> Self {
        let own = setup.clone();
        Store {
            opening: Some(Procedure::new(move |steps| open::open(steps, own))),
            setup,
            frames: VecDeque::new(),
            frame_due: None,
            trim_due: None,
            rows: VecDeque::new(),
            checkpoint: None,
            begun: now,
            is_asked: false,
            now,
            eviction: None,
            purger: Purger::default(),
            purge_rows: None,
            snap_removal: None,
            scrub: Scrubs::default(),
            failure: None,
        }
    }

    /// The rank, once it is open.
    pub fn poll_opened(&mut self) -> Option<Opened> {
        match self.opening.as_mut()?.poll_outcome()? {
            Ok(opened) => {
                self.opening = None;
                Some(opened)
            }
            Err(error) => {
                self.fail(Failure::of(&error, &self.setup));
                None
            }
        }
    }

    /// Why the rank cannot be served.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    /// Whether changes must wait for a checkpoint to free space in the journal.
    pub fn is_full(rank: &mut Rank) -> bool {
        rank.log_mut().journal().is_some_and(|journal| journal.bytes() >= JOURNAL_MAX_BYTES)
    }

    /// Ends a turn: records of the rank become frames, and a checkpoint goes on.
    pub fn pump(&mut self, now: Time, rank: &mut Rank) {
        if self.failure.is_some() {
            return;
        }
        self.now = now;
        rank.log_mut().close();
        if rank.log_mut().is_broken() {
            let reason = "a change does not fit into the journal";
            return self.fail(Failure::Passing(reason.to_owned()));
        }
        self.trim_due = snapshots::trim(rank).then(|| now + TRIM_PAUSE);
        self.purger.pump(now, rank);
        self.read_purges(rank);
        self.remove_snapshots(rank);
        self.scrub.pump(now, rank, &self.setup, self.checkpoint.is_some());
        self.begin_checkpoint(now, rank);
        self.write_frames(now, rank);
        self.advance_checkpoint(rank);
        if self.is_asked && self.checkpoint.is_none() {
            // The one before has just ended, and no other input may follow.
            self.begin_checkpoint(now, rank);
            self.advance_checkpoint(rank);
        }
    }

    /// Writes the records for which clients wait, and older ones.
    fn write_frames(&mut self, now: Time, rank: &mut Rank) {
        let awaited = rank.awaited();
        let Some(journal) = rank.log_mut().journal() else { return };
        if journal.framed() < journal.last() {
            let due = *self.frame_due.get_or_insert(now + COLLECT);
            if awaited > journal.framed() || due <= now {
                journal.flush();
            }
        }
        if journal.framed() == journal.last() {
            self.frame_due = None;
        }
        while let Some(write) = journal.poll_write() {
            self.frames.push_back(write);
        }
    }

    /// Reads purges that are not in memory, if there is room for them.
    fn read_purges(&mut self, rank: &Rank) {
        if self.purge_rows.is_none()
            && let Some(after) = purging::wants_rows(rank)
        {
            let name = purges_object(self.setup.rank);
            let place = self.setup.place(name.clone());
            let read = move |steps| purge_rows::read(steps, place, name, after);
            self.purge_rows = Some(Procedure::new(read));
        }
    }

    /// Has data of the next removed snapshot removed.
    fn remove_snapshots(&mut self, rank: &mut Rank) {
        if self.snap_removal.is_none()
            && let Some((snap, pools)) = snapshots::next_removal(rank)
        {
            let remove = move |steps| snap_removal::remove(steps, snap, pools);
            self.snap_removal = Some(Procedure::new(remove));
        }
    }

    fn begin_checkpoint(&mut self, now: Time, rank: &mut Rank) {
        let Some(journal) = rank.log_mut().journal() else { return };
        // A scrub may have rows written again that no record has changed.
        let has_changed = journal.last() > journal.checkpoint() || self.is_asked;
        let is_due = self.is_asked
            || journal.bytes() >= CHECKPOINT_BYTES
            || now >= self.begun + CHECKPOINT_INTERVAL;
        match (self.checkpoint.is_none() && is_due, has_changed) {
            (true, true) => self.start_checkpoint(now, rank),
            (true, false) => (self.begun, self.is_asked) = (now, false),
            (false, _) => {}
        }
    }

    fn start_checkpoint(&mut self, now: Time, rank: &mut Rank) {
        let log = rank.log_mut();
        let lsn = log.close();
        let stage = Stage::Rows { queue: RowQueue::freeze(log), waiting: VecDeque::new() };
        self.checkpoint = Some(Checkpoint { lsn, seen: None, stage, in_flight: 0 });
        (self.begun, self.is_asked) = (now, false);
    }

    /// Begins a checkpoint without delay, or after the one that is being written.
    pub fn ask_checkpoint(&mut self) {
        self.is_asked = true;
    }

    /// When [`Store::pump`] has something to do without a response.
    pub fn poll_timeout(&self) -> Option<Time> {
        let checkpoint = self.checkpoint.is_none().then_some(self.begun + CHECKPOINT_INTERVAL);
        // A frame that is overdue waits for others to be stored.
        let frame = self.frame_due.filter(|due| *due > self.now);
        let scrub = self.scrub.poll_timeout().filter(|due| *due > self.now);
        let parts = [checkpoint, frame, scrub, self.trim_due, self.purger.poll_timeout()];
        parts.into_iter().flatten().min()
    }

    fn advance_checkpoint(&mut self, rank: &mut Rank) {
        let Some(checkpoint) = &mut self.checkpoint else { return };
        let setup = &self.setup;
        let mut ask = |operation| self.rows.push_back(operation);
        match &mut checkpoint.stage {
            Stage::Rows { queue, waiting } => {
                while checkpoint.in_flight + waiting.len() < ROWS_IN_FLIGHT
                    && let Some((lsn, rows)) = rank.next_rows(setup.rank, queue)
                {
                    waiting.push_back((lsn, rows.operation(setup.pool)));
                }
                while waiting.front().is_some_and(|(lsn, _)| rank.log_mut().is_durable(*lsn)) {
                    let (_, operation) = waiting.pop_front().expect("it was seen");
                    checkpoint.in_flight += 1;
                    ask(operation);
                }
                let is_drained = queue.is_empty() && waiting.is_empty();
                let are_stored = is_drained && checkpoint.in_flight == 0;
                if queue.is_empty() && checkpoint.seen.is_none() {
                    checkpoint.seen = Some(rank.log_mut().close());
                }
                if are_stored && checkpoint.seen.is_some_and(|lsn| rank.log_mut().is_durable(lsn)) {
                    let numbers = rank.numbers();
                    let journal = rank.log_mut().journal().expect("a checkpoint has a journal");
                    let head = setup.head(checkpoint.lsn, numbers, journal);
                    let place = place(setup.pool, head_name(setup.rank));
                    let ops = vec![OsdOp::write_full(head.encode())];
                    ask(write(place, ops));
                    (checkpoint.stage, checkpoint.in_flight) = (Stage::Head, 1);
                }
            }
            Stage::Head if checkpoint.in_flight == 0 => {
                let log = rank.log_mut();
                log.rows.thaw();
                let journal = log.journal().expect("a checkpoint has a journal");
                checkpoint.stage = Stage::Removal(journal.trim(checkpoint.lsn).into());
                purging::checkpointed(rank);
                self.advance_checkpoint(rank);
            }
            Stage::Head => {}
            Stage::Removal(names) => {
                while checkpoint.in_flight < REMOVALS_IN_FLIGHT
                    && let Some(name) = names.pop_front()
                {
                    checkpoint.in_flight += 1;
                    let place = place(setup.pool, name);
                    ask(write(place, vec![OsdOp::remove()]));
                }
                if checkpoint.in_flight == 0 {
                    self.checkpoint = None;
                }
            }
        }
    }

    /// Evicts a client: its address is put on the blocklist, and OSDs that are asked from now on know it.
    pub fn evict(&mut self, client: u64, addrs: &EntityAddrVec) {
        if self.eviction.is_none() {
            let asked = addrs.clone();
            let procedure = Procedure::new(move |steps| eviction::evict(steps, client, asked));
            self.eviction = Some(Eviction { client, addrs: addrs.clone(), procedure });
        }
    }

    /// The requests of a task.
    pub fn source(&mut self, task: Task) -> TaskSource<'_> {
        TaskSource { store: self, task }
    }

    /// Handles the response to a request.
    pub fn handle_response(
        &mut self,
        rank: Option<&mut Rank>,
        task: Task,
        id: ClusterRequestId,
        answer: ClusterResponse,
    ) {
        match (task, rank) {
            (Task::Opening, _) => {
                if let Some(opening) = &mut self.opening {
                    opening.handle_response(id, answer);
                }
            }
            (Task::Eviction, Some(rank)) => self.handle_eviction(rank, id, answer),
            (Task::Frame, Some(rank)) => match (answer, rank.log_mut().journal()) {
                (Ok(_), Some(journal)) => journal.handle_written(id.number),
                (Err(error), _) => {
                    self.fail(Failure::of_request(error, "the journal cannot be written"))
                }
                _ => {}
            },
            (Task::Checkpoint, Some(_)) => match answer {
                // Rows or a segment that were not there need not be removed.
                Ok(_) | Err(Errno::NOENT) => {
                    if let Some(checkpoint) = &mut self.checkpoint {
                        checkpoint.in_flight -= 1;
                    }
                }
                Err(error) => {
                    self.fail(Failure::of_request(error, "a checkpoint cannot be written"))
                }
            },
            (Task::Purge, Some(_)) => match answer {
                Err(Errno::BLOCKLISTED) => self.fail(Failure::ShutOut),
                answer => self.purger.handle_response(id.number, answer.map(drop)),
            },
            (Task::PurgeRows, Some(rank)) => self.handle_purge_rows(rank, id, answer),
            (Task::Scrub, Some(rank)) => {
                let is_writing = self.checkpoint.is_some();
                self.is_asked |= self.scrub.handle_response(rank, id, answer, is_writing);
            }
            (Task::SnapRemoval, Some(rank)) => {
                let Some(procedure) = &mut self.snap_removal else { return };
                procedure.handle_response(id, answer);
                if let Some(snap) = procedure.poll_outcome() {
                    snapshots::removed(rank, snap);
                    self.snap_removal = None;
                }
            }
            (_, None) => {}
        }
    }

    fn handle_purge_rows(
        &mut self,
        rank: &mut Rank,
        id: ClusterRequestId,
        answer: ClusterResponse,
    ) {
        let Some(procedure) = &mut self.purge_rows else { return };
        procedure.handle_response(id, answer);
        match procedure.poll_outcome() {
            Some(Ok(PurgePage { rows, more })) => {
                purging::add_rows(rank, rows, more);
                self.purge_rows = None;
            }
            Some(Err(error)) => self.fail(Failure::of(&error, &self.setup)),
            None => {}
        }
    }

    fn handle_eviction(&mut self, rank: &mut Rank, id: ClusterRequestId, answer: ClusterResponse) {
        let Some(eviction) = &mut self.eviction else { return };
        eviction.procedure.handle_response(id, answer);
        match eviction.procedure.poll_outcome() {
            Some(Ok(epoch)) => {
                evictions::evicted(rank, eviction.client, &eviction.addrs, epoch);
                self.eviction = None;
            }
            Some(Err(refusal)) => self.fail(Failure::Passing(refusal.to_string())),
            None => {}
        }
    }
}

/// The requests of one task. Their responses go to [`Store::handle_response`].
pub(crate) struct TaskSource<'a> {
    store: &'a mut Store,
    task: Task,
}

impl RequestSource for TaskSource<'_> {
    fn poll_request(&mut self) -> Option<(ClusterRequestId, ClusterRequest)> {
        let own = |number| ClusterRequestId { part: Part(Part::FIRST_OWN), number };
        let store = &mut self.store;
        match self.task {
            Task::Opening => store.opening.as_mut()?.poll_request(),
            Task::Eviction => store.eviction.as_mut()?.procedure.poll_request(),
            Task::PurgeRows => store.purge_rows.as_mut()?.poll_request(),
            Task::SnapRemoval => store.snap_removal.as_mut()?.poll_request(),
            Task::Scrub => store.scrub.poll_request(),
            Task::Checkpoint => Some((own(0), ClusterRequest::Operate(store.rows.pop_front()?))),
            Task::Purge => {
                let (number, operation) = store.purger.poll_request()?;
                Some((own(number), ClusterRequest::Operate(operation)))
            }
            Task::Frame => {
                let frame = store.frames.pop_front()?;
                let place = place(store.setup.pool, frame.object);
                let ops = vec![OsdOp::write(frame.offset, frame.frame)];
                Some((own(frame.id), ClusterRequest::Operate(write(place, ops))))
            }
        }
    }

    fn handle_response(&mut self, id: ClusterRequestId, _answer: ClusterResponse) {
        unreachable!("the response to {id:?} goes to the store, with its rank");
    }
}
