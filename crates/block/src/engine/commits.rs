//! Commits from the queue into the log. Transactions are executed in order of submission.
//!
//! A collection's removal leaves its objects behind. They are removed by *cleanups*, jobs of the
//! queue that each remove some of them. A cleanup that is refused is repeated later.

use super::admission::SPACE_CHECKPOINTS_MAX;
use super::dry_run::DryRun;
use super::effects::{Effects, Interrupt};
use super::execute::{Executor, Loaded};
use super::failure::MountedFault;
use super::io::READ_ATTEMPTS_MAX;
use super::journal::PendingAck;
use super::turn::POINTS_MAX;
use super::volume::Volume;
use super::waits::Waiter;
use crate::keys;
use crate::slices::Slice;
use bytes::Bytes;
use engine::{Duration, RequestToken, Time};
use std::collections::{BTreeMap, VecDeque};
use store::{Change, Collection, DeviceFault, Fence, Purpose, StoreError, Transaction};

/// Queued transactions behind the first whose metadata is prefetched.
const PREFETCH_MAX: usize = 64;
/// Objects of a removed collection that one transaction removes.
const CLEANUP_OBJECTS_MAX: usize = 16;
/// Delay before a refused cleanup is repeated.
const CLEANUP_DELAY: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) enum Job {
    Transaction {
        token: RequestToken,
        transaction: Transaction,
        /// Set if later commits build on this one.
        is_append: bool,
    },
    /// Removal of some objects of a removed collection or slice.
    Cleanup { slice: Slice },
}

#[derive(Debug)]
struct Queued {
    job: Job,
    loaded: Loaded,
    /// Blocks that are being read, with the error that refuses the commit if the device fails to.
    reading: BTreeMap<u64, StoreError>,
    /// Blocks with a wrong checksum, one entry for each attempt to read them.
    suspicious: Vec<u64>,
    /// Sequence of the superblock when the transaction first lacked space.
    waits_since: Option<u64>,
    /// The dry run that measures its pages.
    dry_run: Option<Box<DryRun>>,
}

/// Reason why the first commit of the queue is not executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stall {
    /// Pages or blocks are being read.
    Reading,
    /// Space or log becomes free when a batch is durable or a checkpoint ends, which also sets features.
    NoSpace,
    /// The next turn continues.
    Turn,
}

pub(crate) struct CommitQueue {
    queue: VecDeque<Queued>,
    stall: Option<Stall>,
    fence: Fence,
    /// Writes of at most this number of blocks are deferred.
    deferred_blocks: u64,
    /// Removed slices whose cleanup must be started.
    garbage: Vec<Slice>,
    /// Time of the next cleanup of `garbage`.
    cleanup: Option<Time>,
    /// Set once all commits have failed: nothing is executed any more.
    is_stopped: bool,
}

impl Job {
    fn purpose(&self) -> Purpose {
        match self {
            Job::Transaction { transaction, .. } => transaction.purpose(),
            Job::Cleanup { .. } => Purpose::Removal,
        }
    }
}

impl CommitQueue {
    /// Takes the removed slices that opening has found, see [`CommitQueue::clean_up`].
    pub fn new(deferred_blocks: u64, garbage: Vec<Slice>) -> Self {
        CommitQueue {
            queue: VecDeque::new(),
            stall: None,
            fence: Fence::default(),
            deferred_blocks,
            garbage,
            cleanup: None,
            is_stopped: false,
        }
    }

    /// Set if no transaction and no cleanup waits or is being executed.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Set if the next turn continues without waiting for an event.
    pub fn has_more(&self) -> bool {
        self.stall == Some(Stall::Turn)
    }

    /// Set if space or log that becomes free lets the queue continue.
    pub fn waits_for_space(&self) -> bool {
        self.stall == Some(Stall::NoSpace)
    }

    /// Lets commits of a collection build on each other again after one was refused.
    pub fn open_fence(&mut self, collection: Collection) {
        self.fence.open(collection);
    }

    /// Adds a job and executes what can be. As [`CommitQueue::run`]. Cleanups are dropped once the
    /// store has stopped, and transactions must not come any more.
    pub fn enqueue(&mut self, job: Job, volume: &mut Volume) -> Result<(), StoreError> {
        if self.is_stopped {
            debug_assert!(matches!(job, Job::Cleanup { .. }), "nothing answers {job:?}");
            return Ok(());
        }
        self.queue.push_back(Queued::new(job));
        let waiting = self.queue.len();
        if waiting > 1 && waiting <= PREFETCH_MAX {
            self.prefetch_last(volume);
        }
        self.run(volume)
    }

    /// Continues to remove the objects of removed collections.
    pub fn clean_up(&mut self, volume: &mut Volume) -> Result<(), StoreError> {
        for slice in std::mem::take(&mut self.garbage) {
            self.enqueue(Job::Cleanup { slice }, volume)?;
        }
        Ok(())
    }

    /// Time of the next cleanup that was put off.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.cleanup
    }

    /// Repeats cleanups that are due.
    pub fn handle_timeout(&mut self, now: Time, volume: &mut Volume) -> Result<(), StoreError> {
        match self.cleanup.take_if(|due| *due <= now) {
            Some(_) => self.clean_up(volume),
            None => Ok(()),
        }
    }

    /// Executes commits from the queue until one must wait. An error means that the metadata is
    /// damaged and the store must stop.
    fn run(&mut self, volume: &mut Volume) -> Result<(), StoreError> {
        while self.stall.is_none() && !self.queue.is_empty() {
            if volume.meta.is_applying() || !volume.turn.has_commits_left() {
                self.stall = Some(Stall::Turn);
                return Ok(());
            }
            let mut queued = self.queue.pop_front().expect("checked above");
            volume.turn.count_commit();
            volume.meta.begin();
            let outcome = self.execute(&mut queued, volume);
            volume.meta.end(&outcome);
            match outcome {
                Ok(effects) => take_effect(queued.job, effects, volume)?,
                Err(interrupt) => self.interrupted(queued, interrupt, volume),
            }
        }
        Ok(())
    }

    /// Executes the first commit again, whatever it waited for. As [`CommitQueue::run`].
    pub fn resume(&mut self, volume: &mut Volume) -> Result<(), StoreError> {
        self.stall = None;
        self.run(volume)
    }

    fn execute(&self, queued: &mut Queued, volume: &mut Volume) -> Result<Effects, Interrupt> {
        if volume.admission.is_exclusive() {
            return Err(Interrupt::LogFull);
        }
        if let Job::Transaction { transaction, .. } = &queued.job {
            self.fence.check(transaction).map_err(Interrupt::Refused)?;
            if volume.is_behind() {
                return Err(Interrupt::LogFull);
            }
        }
        if let Some(dry_run) = queued.dry_run.take() {
            return queued.continue_dry_run(*dry_run, volume);
        }
        let effects = self.compute(queued, volume)?;
        if effects.needs_shards && !volume.superblock.features.has_shards() {
            volume.undo(&effects);
            return Err(Interrupt::Feature);
        }
        let Volume { admission, meta, space, .. } = volume;
        let admitted = admission.check(&effects, || queued.job.purpose(), meta, space);
        match admitted.and_then(|()| volume.reserve_log(&effects.record)) {
            Ok(()) => Ok(effects),
            Err(Interrupt::NoSpace { missing }) if DryRun::is_possible(volume) => {
                let dry_run = DryRun::new(effects, missing, volume);
                queued.continue_dry_run(dry_run, volume)
            }
            Err(interrupt) => {
                volume.undo(&effects);
                Err(interrupt)
            }
        }
    }

    /// Effects of a job, for which only data blocks were allocated.
    fn compute(&self, queued: &mut Queued, volume: &mut Volume) -> Result<Effects, Interrupt> {
        let executor = Executor::new(
            &mut volume.meta,
            &mut volume.space,
            &volume.contents,
            &mut queued.loaded,
            volume.journal.counters(),
            self.deferred_blocks,
        );
        match &queued.job {
            Job::Transaction { transaction, .. } => executor.run(transaction),
            Job::Cleanup { slice } => executor.run_cleanup(*slice, CLEANUP_OBJECTS_MAX),
        }
    }

    /// Returns the allocations of a dry run that waits for pages; otherwise the checkpoint that
    /// begins now would store them as used. The dry run restarts later.
    pub fn give_up_dry_run(&mut self, volume: &mut Volume) {
        if let Some(dry_run) = self.queue.front_mut().and_then(|queued| queued.dry_run.take()) {
            dry_run.give_up(volume);
        }
    }

    fn interrupted(&mut self, mut queued: Queued, interrupt: Interrupt, volume: &mut Volume) {
        match interrupt {
            Interrupt::Pages(pages) => {
                self.stall = Some(Stall::Reading);
                volume.read_pages(Waiter::Commit, pages);
            }
            Interrupt::Block { block, fault } => {
                if queued.loaded.blocks.remove(&block).is_some() {
                    queued.suspicious.push(block);
                    let attempts = queued.suspicious.iter().filter(|other| **other == block);
                    if attempts.count() >= READ_ATTEMPTS_MAX as usize {
                        return self.refuse(queued, fault, volume);
                    }
                }
                self.stall = Some(Stall::Reading);
                if queued.reading.insert(block, fault).is_none() {
                    volume.devices.read_block(block);
                }
            }
            Interrupt::NoSpace { missing } => {
                let sequence = volume.superblock.sequence;
                let waited = sequence - *queued.waits_since.get_or_insert(sequence);
                if waited >= SPACE_CHECKPOINTS_MAX || !volume.wait_for_space() {
                    return self.refuse(queued, volume.no_space(missing), volume);
                }
                self.stall = Some(Stall::NoSpace);
            }
            Interrupt::LogFull => {
                self.stall = Some(Stall::NoSpace);
                volume.wants_checkpoint = true;
            }
            Interrupt::Feature => {
                self.stall = Some(Stall::NoSpace);
                volume.wants_shards = true;
                volume.wants_checkpoint = true;
            }
            Interrupt::Turn => self.stall = Some(Stall::Turn),
            Interrupt::Refused(error) => return self.refuse(queued, error, volume),
        }
        self.queue.push_front(queued);
    }

    /// Refusals complete in order of submission.
    fn refuse(&mut self, queued: Queued, error: StoreError, volume: &mut Volume) {
        let (token, transaction, is_append) = match queued.job {
            Job::Transaction { token, transaction, is_append } => (token, transaction, is_append),
            Job::Cleanup { slice } => return self.put_off_cleanup(slice, &error, volume.now),
        };
        if is_append {
            self.fence.close(transaction.collections());
        }
        let fail = PendingAck::Fail(token, error);
        if let Some(PendingAck::Fail(token, error)) = volume.journal.after_all(fail) {
            volume.complete(token, Err(error));
        }
    }

    /// Repeats the cleanup of a removed collection later if an object could not be read.
    fn put_off_cleanup(&mut self, slice: Slice, error: &StoreError, now: Time) {
        tracing::error!(%error, "objects of a removed collection cannot be removed yet");
        self.garbage.push(slice);
        self.cleanup.get_or_insert(now + CLEANUP_DELAY);
    }

    /// Handles the content of a block that a commit changes in part. A block that the device fails
    /// to read is damage of its object, as one with a wrong checksum is: the store goes on. As
    /// [`CommitQueue::run`].
    pub fn block_read(
        &mut self,
        block: u64,
        result: Result<Bytes, DeviceFault>,
        volume: &mut Volume,
    ) -> Result<(), StoreError> {
        let Some(mut head) = self.queue.pop_front() else { return Ok(()) };
        // A commit that another block has refused no longer waits for this one.
        let Some(damage) = head.reading.remove(&block) else {
            self.queue.push_front(head);
            return Ok(());
        };
        match result {
            Ok(data) => {
                head.loaded.blocks.insert(block, data);
                self.queue.push_front(head);
            }
            Err(fault) => {
                tracing::error!(block, %fault, "a block that a write covers in part is unreadable");
                self.refuse(head, damage, volume);
            }
        }
        self.resume(volume)
    }

    /// Prefetches the pages that the last commit of the queue needs.
    fn prefetch_last(&mut self, volume: &mut Volume) {
        let Some(Queued { job: Job::Transaction { transaction, .. }, .. }) = self.queue.back()
        else {
            return;
        };
        let mut wanted = Vec::new();
        for (at, change) in &transaction.changes {
            // Objects of held changes are needed soon, when these are settled.
            let parts = match change {
                Change::OmapSet { .. } => continue,
                Change::Hold { changes, .. } => changes,
                change => std::slice::from_ref(change),
            };
            let Ok(Some(slices)) = volume.meta.collection(*at) else {
                continue;
            };
            for name in parts.iter().filter_map(Change::object) {
                let key = keys::object_point(slices.id_of(name), name);
                if let Err(crate::tree::Fault::Missing(pages)) = volume.meta.get(&key) {
                    wanted.extend(pages);
                }
            }
        }
        volume.read_pages(Waiter::Prefetch, wanted);
    }

    /// Fails all commits; nothing is written any more.
    pub fn fail(&mut self, error: &StoreError, volume: &mut Volume) {
        self.is_stopped = true;
        for ack in volume.journal.abandon() {
            match ack {
                PendingAck::Complete(token) => volume.complete(token, Err(error.clone())),
                PendingAck::Fail(token, error) => volume.complete(token, Err(error)),
                PendingAck::CleanUp(_) => {}
            }
        }
        for queued in std::mem::take(&mut self.queue) {
            if let Job::Transaction { token, .. } = queued.job {
                volume.complete(token, Err(error.clone()));
            }
        }
    }

    /// Panics if parts of the state contradict each other.
    pub fn check_invariants(&self) {
        assert!(self.stall.is_none() || !self.queue.is_empty(), "nothing stalls an empty queue");
        for queued in self.queue.iter().skip(1) {
            assert!(queued.reading.is_empty(), "only the first commit reads");
            assert!(queued.dry_run.is_none(), "only the first commit is measured");
        }
        assert!(self.cleanup.is_none() || !self.garbage.is_empty(), "nothing is to be cleaned up");
    }
}

impl Queued {
    fn new(job: Job) -> Self {
        Queued {
            job,
            loaded: Loaded::default(),
            reading: BTreeMap::new(),
            suspicious: Vec::new(),
            waits_since: None,
            dry_run: None,
        }
    }

    fn continue_dry_run(
        &mut self,
        dry_run: DryRun,
        volume: &mut Volume,
    ) -> Result<Effects, Interrupt> {
        let (outcome, dry_run) = dry_run.run(self.job.purpose(), volume);
        self.dry_run = dry_run.map(Box::new);
        outcome
    }
}

/// Puts the effects of a job into the log and into memory.
fn take_effect(job: Job, effects: Effects, volume: &mut Volume) -> Result<(), StoreError> {
    let Effects { record, data, large, held, garbage, needs_shards, ends_cleanup, .. } = effects;
    assert!(!needs_shards || volume.superblock.features.has_shards(), "a reader must be warned");
    let seq = volume.journal.append(&record, &data);
    // The batch owns the answer before a free can fail: a store that stops answers its batches.
    match job {
        Job::Transaction { token, .. } => volume.journal.when_durable(PendingAck::Complete(token)),
        Job::Cleanup { .. } if ends_cleanup => {}
        Job::Cleanup { slice } => volume.journal.when_durable(PendingAck::CleanUp(slice)),
    }
    for slice in garbage {
        volume.journal.when_durable(PendingAck::CleanUp(slice));
    }
    for (write, data) in record.small.iter().zip(data) {
        volume.contents.defer(seq, *write, data);
    }
    for extent in &record.freed {
        let freed = volume.free(seq, *extent);
        freed.map_err(|error| StoreError::Device(DeviceFault::new(MountedFault::Freed(error))))?;
    }
    for (extent, data) in large {
        volume.journal.begin_large();
        volume.contents.begin_large(extent, data.clone());
        volume.devices.write_large(seq, extent.start, data);
    }
    volume.meta.apply(record.ops, POINTS_MAX);
    volume.meta.keep_held(held);
    Ok(())
}
