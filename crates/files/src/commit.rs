//! The committing thread: logs submitted transactions with one flush, applies and completes them, in order.
//!
//! It alone changes the state of the store, and so it alone refuses transactions: a transaction is admitted
//! before it is logged, and a logged one must succeed. If a device then fails, the store stops: this and all
//! later requests complete with the device's error.

use crate::apply::{Applier, needs_shards};
use crate::cache::Store;
use crate::checkpoint::Checkpointer;
use crate::clones::has_clones;
use crate::completions::Completions;
use crate::data::{BLOCK, OBJECT_SIZE_MAX};
use crate::error::FilesError;
use crate::held::{Expanded, SharedHeld, concerns_held, concerns_held_clones};
use crate::lock::lock;
use crate::log::{Log, LogPosition};
use crate::record::{Encoded, Record};
use engine::RequestToken;
use std::collections::{BTreeSet, VecDeque};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use store::{
    Change, Collection, Completion, Fence, Outcome, Purpose, StoreError, Transaction, check_changes,
};

/// A batch is written when its records reach this size.
const BATCH_LEN_MAX: usize = 4 << 20;
/// Growth of the log in bytes after which a checkpoint is made; bounds the memory for dirty state.
const CHECKPOINT_BYTES: u64 = 64 << 20;
/// Bytes written after which the file system's free space is read again.
const SPACE_BYTES: u64 = 16 << 20;
const SPACE_AGE: Duration = Duration::from_secs(1);

/// Work for the committing thread, done in the order of submission.
pub enum Work {
    /// A transaction that is logged and applied as a whole.
    Commit {
        /// Token of the request.
        token: RequestToken,
        /// The changes.
        transaction: Transaction,
        /// Whether later commits build on it.
        is_append: bool,
    },
    /// Accepts commits of a collection again, after one failed.
    Resume {
        /// Token of the request.
        token: RequestToken,
        /// The collection.
        collection: Collection,
    },
    /// Answered when everything submitted before is in the database.
    Checkpoint(SyncSender<()>),
    /// Answered with the first transaction that a crash would lose because the log is damaged, if there is
    /// one.
    CheckLog(SyncSender<Option<u64>>),
}

/// End of the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Makes a checkpoint.
    Close,
    /// Drops transactions that were not logged, as a crash would.
    Abandon,
}

/// Submitted work.
#[derive(Default)]
pub struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    work: VecDeque<Work>,
    stop: Option<Stop>,
    waiting: bool,
}

impl Queue {
    /// Adds work and wakes the thread.
    pub fn push(&self, work: Work) {
        let mut state = lock(&self.state);
        state.work.push_back(work);
        if state.waiting {
            state.waiting = false;
            self.changed.notify_one();
        }
    }

    /// Ends the thread after the work that `stop` names; the first call counts.
    pub fn stop(&self, stop: Stop) {
        lock(&self.state).stop.get_or_insert(stop);
        self.changed.notify_one();
    }

    /// Waits for work, until the deadline at most.
    fn take(&self, deadline: Option<Instant>) -> (VecDeque<Work>, Option<Stop>) {
        let mut state = lock(&self.state);
        while state.work.is_empty() && state.stop.is_none() {
            state.waiting = true;
            let unpoisoned = std::sync::PoisonError::into_inner;
            match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => break,
                Some(left) => {
                    let waited = self.changed.wait_timeout(state, left);
                    state = waited.unwrap_or_else(|poison| poison.into_inner()).0;
                }
                None => state = self.changed.wait(state).unwrap_or_else(unpoisoned),
            }
        }
        state.waiting = false;
        (std::mem::take(&mut state.work), state.stop)
    }
}

/// The committing thread. The fields are moved into it when it starts.
pub struct Committer {
    /// State that it shares with the other threads.
    pub store: Arc<Store>,
    /// Submitted work.
    pub queue: Arc<Queue>,
    /// Completed requests.
    pub completions: Arc<Completions>,
    /// The only one that changes objects.
    pub applier: Applier,
    /// The log, written by this thread alone.
    pub log: Log,
    /// The checkpoint thread.
    pub checkpointer: Checkpointer,
    /// Longest time between checkpoints while there are changes.
    pub checkpoint_interval: Duration,
    /// Collections that will exist once all admitted transactions are applied.
    pub collections: BTreeSet<Collection>,
    /// Held changes once all admitted transactions are applied.
    pub held: SharedHeld,
    /// Collections whose commits are refused after a failed one.
    pub fence: Fence,
    /// Free space, counted down by commits.
    pub space: Space,
    /// Requests taken and not completed.
    pub pending: VecDeque<RequestToken>,
    /// Time of the last freeze.
    pub frozen_at: Instant,
    /// The log's position at the last freeze.
    pub frozen_position: u64,
}

/// Transactions that are logged together, with their completions.
#[derive(Default)]
struct Batch {
    records: Vec<Record>,
    encoded: Vec<Encoded>,
    encoded_len: usize,
    outcomes: Vec<(RequestToken, Result<Outcome, StoreError>)>,
}

impl Committer {
    /// Runs until it is told to stop or a device fails.
    pub fn run(mut self) {
        let run = std::panic::AssertUnwindSafe(|| self.run_until_stopped());
        match std::panic::catch_unwind(run) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => self.store.fail(error),
            Err(_) => self.store.fail(FilesError::Panicked),
        }
        self.refuse_everything();
    }

    fn run_until_stopped(&mut self) -> Result<(), FilesError> {
        loop {
            let (work, stop) = self.queue.take(self.checkpoint_due());
            if stop == Some(Stop::Abandon) {
                return Ok(());
            }
            self.note_finished_checkpoint();
            self.process(work)?;
            if stop == Some(Stop::Close) {
                return self.checkpoint_and_wait();
            }
            self.begin_checkpoint_if_due()?;
        }
    }

    fn refuse_everything(&mut self) {
        let error = || self.store.failure().expect("it has just failed");
        let refuse = |token| Completion { token, outcome: Err(error()) };
        self.completions.push(self.pending.drain(..).map(refuse));
        loop {
            let (work, stop) = self.queue.take(None);
            let token = |work| match work {
                Work::Commit { token, .. } | Work::Resume { token, .. } => Some(token),
                Work::Checkpoint(_) | Work::CheckLog(_) => None,
            };
            self.completions.push(work.into_iter().filter_map(token).map(refuse));
            if stop.is_some() {
                return;
            }
        }
    }

    fn process(&mut self, work: VecDeque<Work>) -> Result<(), FilesError> {
        let token = |work: &Work| match work {
            Work::Commit { token, .. } | Work::Resume { token, .. } => Some(*token),
            Work::Checkpoint(_) | Work::CheckLog(_) => None,
        };
        self.pending.extend(work.iter().filter_map(token));
        let mut batch = Batch::default();
        for item in work {
            match item {
                Work::Commit { token, transaction, is_append } => {
                    if has_clones(&transaction) || concerns_held_clones(&self.held, &transaction) {
                        // Copies, and sizes of their sources, need all earlier transactions to be applied.
                        self.write(&mut batch)?;
                    }
                    if !self.applier.has_shards() && needs_shards(&transaction) {
                        self.write(&mut batch)?;
                        self.announce_shards()?;
                    }
                    self.admit(token, transaction, is_append, &mut batch)?;
                }
                Work::Resume { token, collection } => {
                    self.fence.open(collection);
                    batch.outcomes.push((token, Ok(Outcome::Resumed)));
                }
                Work::Checkpoint(done) => {
                    self.write(&mut batch)?;
                    self.checkpoint_and_wait()?;
                    // The waiting caller may be gone.
                    let _ = done.send(());
                }
                Work::CheckLog(done) => {
                    self.write(&mut batch)?;
                    self.note_finished_checkpoint();
                    let _ = done.send(self.log.check()?);
                }
            }
        }
        self.write(&mut batch)
    }

    /// Makes the format of shards durable, before the log may name one.
    fn announce_shards(&mut self) -> Result<(), FilesError> {
        self.applier.announce_shards();
        self.checkpoint_and_wait()
    }

    fn admit(
        &mut self,
        token: RequestToken,
        transaction: Transaction,
        is_append: bool,
        batch: &mut Batch,
    ) -> Result<(), FilesError> {
        let collections: Vec<Collection> = match is_append {
            true => transaction.collections().collect(),
            false => Vec::new(),
        };
        let (record, encoded) = match self.prepare(transaction)? {
            Ok(prepared) => prepared,
            Err(refused) => {
                self.fence.close(collections);
                batch.outcomes.push((token, Err(refused)));
                return Ok(());
            }
        };
        if batch.encoded_len + encoded.len() > self.batch_len_max() {
            self.write(batch)?;
        }
        project(&mut self.collections, &record.transaction);
        batch.encoded_len += encoded.len();
        batch.encoded.push(encoded);
        batch.records.push(record);
        batch.outcomes.push((token, Ok(Outcome::Committed)));
        Ok(())
    }

    fn batch_len_max(&self) -> usize {
        BATCH_LEN_MAX.min(self.log.record_len_max() as usize)
    }

    /// The record to log, or the reason for a refusal.
    fn prepare(
        &mut self,
        transaction: Transaction,
    ) -> Result<Result<(Record, Encoded), StoreError>, FilesError> {
        let checked = self.fence.check(&transaction);
        let checked = checked
            .and_then(|()| {
                check_changes(&transaction, |at| self.collections.contains(&at), &self.held)
            })
            .and_then(|()| check_sizes(&transaction));
        if let Err(refused) = checked {
            return Ok(Err(refused));
        }
        let settled_bytes = self.applier.settled_bytes(&transaction)?;
        // Settled changes were counted when they were held. To settle, drop or remove takes space of the
        // reserve, with the metadata that records it.
        let purpose = transaction.purpose();
        let needed = match purpose {
            Purpose::Removal => 0,
            Purpose::Bookkeeping | Purpose::Addition => bytes_needed(&transaction),
        };
        let needed =
            needed + self.applier.clone_bytes(&transaction)? + settled_bytes.iter().sum::<u64>();
        if let Err(refused) = self.space.take(&self.store, needed)?
            && !(purpose == Purpose::Bookkeeping && may_use_reserve(&self.store, needed))
        {
            return Ok(Err(refused));
        }
        let named: Vec<Collection> = match concerns_held(&transaction) {
            true => transaction.collections().collect(),
            false => Vec::new(),
        };
        let mut held = self.held.part(&named);
        let expanded = match named.is_empty() {
            true => Expanded::plain(&transaction),
            false => Expanded::of(&mut held, &transaction, &settled_bytes),
        };
        let (reserved_id, clones) = match self.applier.prepare(&expanded.transaction) {
            Ok(prepared) => prepared,
            Err(error) if error.is_no_space() => {
                return Ok(Err(StoreError::NoSpace { needed, available: 0 }));
            }
            Err(error) => return Err(error),
        };
        drop(expanded);
        let record = Record { reserved_id, clones, transaction };
        let encoded = record.encode();
        let (length, limit) = (encoded.len() as u64, self.log.record_len_max());
        if length > limit {
            self.applier.discard(record);
            return Ok(Err(too_large("a transaction", length, limit)));
        }
        if !named.is_empty() {
            self.held.replace(&named, held);
        }
        Ok(Ok((record, encoded)))
    }

    /// Logs, applies and completes a batch, and leaves it empty.
    fn write(&mut self, batch: &mut Batch) -> Result<(), FilesError> {
        let Batch { records, encoded, encoded_len, outcomes } = std::mem::take(batch);
        if !records.is_empty() {
            while !self.log.has_space(encoded_len) {
                self.make_room()?;
            }
            let path = self.log.path().to_owned();
            self.log.append(&encoded).map_err(FilesError::at(&path))?;
            records.iter().try_for_each(|record| self.applier.apply(record))?;
        }
        self.pending.drain(..outcomes.len());
        let completion = |(token, outcome)| Completion { token, outcome };
        self.completions.push(outcomes.into_iter().map(completion));
        Ok(())
    }

    /// Waits for the running checkpoint, or makes one if none is running.
    fn make_room(&mut self) -> Result<(), FilesError> {
        if !self.checkpointer.is_running() {
            self.begin_checkpoint()?;
        }
        let position = self.checkpointer.wait()?;
        self.finish_checkpoint(position);
        Ok(())
    }

    fn checkpoint_due(&self) -> Option<Instant> {
        let dirty = self.log.head().position != self.frozen_position;
        let idle = dirty && !self.checkpointer.is_running();
        idle.then(|| self.frozen_at + self.checkpoint_interval)
    }

    fn begin_checkpoint_if_due(&mut self) -> Result<(), FilesError> {
        let since = self.log.head().position - self.frozen_position;
        let enough = (self.log.size() / 2).min(CHECKPOINT_BYTES);
        let much = since > enough && !self.checkpointer.is_running();
        let late = self.checkpoint_due().is_some_and(|due| due <= Instant::now());
        if much || late { self.begin_checkpoint() } else { Ok(()) }
    }

    fn begin_checkpoint(&mut self) -> Result<(), FilesError> {
        let head = self.log.head();
        self.frozen_at = Instant::now();
        self.frozen_position = head.position;
        self.checkpointer.begin(self.applier.freeze(head))
    }

    fn note_finished_checkpoint(&mut self) {
        if let Some(position) = self.checkpointer.poll() {
            self.finish_checkpoint(position);
        }
    }

    fn finish_checkpoint(&mut self, position: LogPosition) {
        self.log.trim(position);
        self.applier.thaw();
    }

    fn checkpoint_and_wait(&mut self) -> Result<(), FilesError> {
        if self.checkpointer.is_running() {
            self.make_room()?;
        }
        self.make_room()
    }
}

/// Free space, read from the file system now and then and counted down in between.
#[derive(Debug)]
pub struct Space {
    available: u64,
    taken: u64,
    asked_at: Option<Instant>,
}

impl Space {
    /// Free space that was never read.
    pub fn new() -> Self {
        Space { available: 0, taken: 0, asked_at: None }
    }

    fn take(&mut self, store: &Store, needed: u64) -> Result<Result<(), StoreError>, FilesError> {
        if needed == 0 {
            return Ok(Ok(()));
        }
        let fresh = self.asked_at.is_some_and(|at| at.elapsed() < SPACE_AGE);
        let short = self.taken + needed > self.available;
        if !fresh || short || self.taken > SPACE_BYTES {
            let asked = store.bytes_available();
            self.available =
                asked.map_err(|error| FilesError::Io { what: "asking for free space", error })?;
            self.asked_at = Some(Instant::now());
            self.taken = 0;
        }
        let available = self.available - self.taken.min(self.available);
        if needed > available {
            return Ok(Err(StoreError::NoSpace { needed, available }));
        }
        self.taken += needed;
        Ok(Ok(()))
    }
}

/// Whether a part of the reserve is left for metadata: removals need some, and free space.
fn may_use_reserve(store: &Store, needed: u64) -> bool {
    store.reserve_available().is_ok_and(|available| needed <= available)
}

/// Bytes that a transaction allocates, in whole blocks, without those that its held changes will.
fn bytes_needed(transaction: &Transaction) -> u64 {
    let padding = |change: &Change| match change {
        Change::Write { offset, data, .. } => {
            let end = offset + data.len() as u64;
            offset % BLOCK + end.next_multiple_of(BLOCK) - end
        }
        _ => 0,
    };
    let padding: u64 = transaction.changes.iter().map(|(_, change)| padding(change)).sum();
    transaction.bytes_added() + padding
}

fn project(collections: &mut BTreeSet<Collection>, transaction: &Transaction) {
    for (collection, change) in &transaction.changes {
        match change {
            Change::CreateCollection => collections.insert(*collection),
            Change::RemoveCollection => collections.remove(collection),
            _ => continue,
        };
    }
}

/// The change, or those that it holds.
fn parts(change: &Change) -> &[Change] {
    match change {
        Change::Hold { changes, .. } => changes,
        change => std::slice::from_ref(change),
    }
}

fn too_large(what: &'static str, size: u64, limit: u64) -> StoreError {
    StoreError::TooLarge { what, size, limit }
}

fn check_sizes(transaction: &Transaction) -> Result<(), StoreError> {
    let all = transaction.changes.iter().map(|(_, change)| change);
    for change in all.flat_map(parts) {
        let end = match change {
            Change::Write { offset, data, .. } => offset.saturating_add(data.len() as u64),
            Change::Truncate { size, .. } => *size,
            _ => continue,
        };
        if end > OBJECT_SIZE_MAX {
            return Err(too_large("an object", end, OBJECT_SIZE_MAX));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
