//! Commits: from the queue into the log, and out again as durable.
//!
//! Transactions are executed in order of submission. All transactions of one turn of the host share
//! a batch of the log; a batch is durable when its own writes and all earlier batches are.

use super::effects::{Effects, Interrupt};
use super::execute::{Executor, Loaded};
use super::io::READ_ATTEMPTS_MAX;
use super::mounted::{Mounted, Use};
use super::room::ROOM_CHECKPOINTS_MAX;
use super::trial::Trial;
use super::turn::{COMMITS_MAX, POINTS_MAX};
use super::waits::Waiter;
use crate::device::{Device, Extent};
use crate::keys;
use crate::log::{LogPoint, Room, SealedBatch};
use crate::slices::Slice;
use bytes::Bytes;
use engine::RequestToken;
use std::collections::VecDeque;
use store::{Change, Collection, Completion, Fence, Outcome, StoreError, Transaction};

/// Batches whose writes or flush are in flight. More batches would be smaller, at the same cost per
/// flush.
const BATCHES_IN_FLIGHT_MAX: usize = 1;
/// Queued transactions behind the first whose metadata is prefetched.
const PREFETCH_MAX: usize = 64;
/// Objects of a removed collection that one transaction removes.
const CLEANUP_OBJECTS_MAX: usize = 16;

#[derive(Debug)]
pub(crate) enum Work {
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
pub(crate) struct Queued {
    work: Work,
    loaded: Loaded,
    /// Reads of blocks that are in flight.
    blocks_left: usize,
    /// Blocks with a wrong checksum, one entry for each attempt to read them.
    suspicious: Vec<u64>,
    /// Sequence of the superblock when the transaction first lacked space.
    waits_since: Option<u64>,
    /// The dry run that measures its pages.
    trial: Option<Box<Trial>>,
}

/// Reason why the first commit of the queue is not executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stall {
    /// Pages or blocks are being read.
    Reading,
    /// Space or log becomes free when a batch is durable or a checkpoint ends.
    Room,
    /// The next turn continues.
    Turn,
}

/// Action when a batch becomes durable.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    Complete(RequestToken),
    Fail(RequestToken, StoreError),
    CleanUp(Slice),
}

/// The batch that collects records.
#[derive(Debug, Default)]
pub(crate) struct OpenBatch {
    promises: Vec<Promise>,
    has_large: bool,
    larges_left: usize,
}

#[derive(Debug)]
pub(crate) struct Batch {
    seq: u64,
    promises: Vec<Promise>,
    has_large: bool,
    /// Writes in flight, then flushes in flight.
    left: usize,
    is_flushing: bool,
}

#[derive(Debug)]
pub(crate) struct Commits {
    pub queue: VecDeque<Queued>,
    pub stall: Option<Stall>,
    fence: Fence,
    pub open: OpenBatch,
    pub batches: VecDeque<Batch>,
    /// Number of the last batch that is durable together with all before it.
    pub durable: u64,
    /// End of the last sealed batch.
    pub sealed: LogPoint,
    pub sealed_seq: u64,
    /// Number of the last sealed batch that has records.
    pub sealed_records: u64,
    /// Number of the last batch that a replay would find recorded as durable, by the last sealed
    /// batch or by the superblock.
    pub told_durable: u64,
}

impl Commits {
    /// Everything before `end` is durable.
    pub fn new(end: LogPoint) -> Self {
        let durable = end.seq - 1;
        Commits {
            queue: VecDeque::new(),
            stall: None,
            fence: Fence::default(),
            open: OpenBatch::default(),
            batches: VecDeque::new(),
            durable,
            sealed: end,
            sealed_seq: durable,
            sealed_records: durable,
            told_durable: durable,
        }
    }

    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.batches.is_empty() && self.open.promises.is_empty()
    }
}

impl Queued {
    pub fn new(work: Work) -> Self {
        Queued {
            work,
            loaded: Loaded::default(),
            blocks_left: 0,
            suspicious: Vec::new(),
            waits_since: None,
            trial: None,
        }
    }
}

impl Mounted {
    pub fn submit_commit(
        &mut self,
        token: RequestToken,
        transaction: Transaction,
        is_append: bool,
    ) {
        self.enqueue(Work::Transaction { token, transaction, is_append });
    }

    pub fn resume(&mut self, token: RequestToken, collection: Collection) {
        self.commits.fence.open(collection);
        self.completions.push_back(Completion { token, outcome: Ok(Outcome::Resumed) });
    }

    pub fn enqueue(&mut self, work: Work) {
        self.commits.queue.push_back(Queued::new(work));
        let waiting = self.commits.queue.len();
        if waiting > 1 && waiting <= PREFETCH_MAX {
            self.prefetch_last();
        }
        self.run_commits();
    }

    /// Executes commits from the queue until one must wait.
    pub fn run_commits(&mut self) {
        while self.commits.stall.is_none() && !self.commits.queue.is_empty() {
            if self.meta.is_applying() || self.turn.commits() >= COMMITS_MAX as u64 {
                self.commits.stall = Some(Stall::Turn);
                return;
            }
            let mut queued = self.commits.queue.pop_front().expect("checked above");
            self.turn.work.commits += 1;
            self.meta.begin();
            let outcome = self.execute(&mut queued);
            self.meta.end(&outcome);
            match outcome {
                Ok(effects) => self.take_effect(queued.work, effects),
                Err(interrupt) => self.interrupted(queued, interrupt),
            }
        }
    }

    pub fn resume_commits(&mut self) {
        self.commits.stall = None;
        self.run_commits();
    }

    fn execute(&mut self, queued: &mut Queued) -> Result<Effects, Interrupt> {
        if self.tried.is_some() {
            return Err(Interrupt::LogFull);
        }
        if let Work::Transaction { transaction, .. } = &queued.work {
            self.commits.fence.check(transaction).map_err(Interrupt::Refused)?;
            if self.is_behind() {
                return Err(Interrupt::LogFull);
            }
        }
        if let Some(trial) = queued.trial.take() {
            return self.try_out_queued(*trial, queued);
        }
        let executor = Executor::new(
            &mut self.meta,
            &mut self.space,
            &self.homes,
            &self.landing,
            &mut queued.loaded,
            self.counters,
            self.deferred_blocks,
        );
        let effects = match &queued.work {
            Work::Transaction { transaction, .. } => executor.run(transaction)?,
            Work::Cleanup { slice } => executor.run_cleanup(*slice, CLEANUP_OBJECTS_MAX)?,
        };
        let room = self.check_room(&effects, &queued.work);
        match room.and_then(|()| self.check_log(&effects)) {
            Ok(()) => Ok(effects),
            Err(Interrupt::Room { missing }) if self.can_try_out() => {
                let trial = self.begin_trial(effects, missing);
                self.try_out_queued(trial, queued)
            }
            Err(interrupt) => {
                self.undo(&effects);
                Err(interrupt)
            }
        }
    }

    /// Returns the allocations of a dry run that waits for pages; otherwise the checkpoint that
    /// begins now would store them as used. The dry run restarts later.
    pub(super) fn give_up_trial(&mut self) {
        if let Some(trial) = self.commits.queue.front_mut().and_then(|queued| queued.trial.take()) {
            self.undo(trial.effects());
        }
    }

    fn try_out_queued(&mut self, trial: Trial, queued: &mut Queued) -> Result<Effects, Interrupt> {
        let (outcome, trial) = self.try_out(trial, &queued.work);
        queued.trial = trial.map(Box::new);
        outcome
    }

    /// Returns the allocations of a transaction that was not executed.
    pub fn undo(&mut self, effects: &Effects) {
        for extent in &effects.record.taken {
            self.space.give_back(*extent).expect("taken by this attempt");
        }
    }

    pub fn check_log(&mut self, effects: &Effects) -> Result<(), Interrupt> {
        loop {
            match self.log.room(&effects.record) {
                Room::Fits => return Ok(()),
                Room::BatchFull => self.seal(),
                Room::RingFull => return Err(Interrupt::LogFull),
                Room::RecordTooLarge => {
                    return Err(Interrupt::Refused(StoreError::TooLarge {
                        what: "a transaction",
                        size: effects.record.log_bytes(),
                        limit: self.log.record_bytes_max(),
                    }));
                }
            }
        }
    }

    fn take_effect(&mut self, work: Work, effects: Effects) {
        let Effects { record, data, large, objects, garbage } = effects;
        let seq = self.log.append(&record, &data);
        for (write, data) in record.small.iter().zip(data) {
            self.recent.forget(Extent::new(write.block, 1));
            self.homes.insert(write.block, seq, write.crc, data);
        }
        for extent in &record.freed {
            if let Err(error) = self.free(seq, *extent) {
                return self.fail(StoreError::Device(format!("the metadata is damaged: {error}")));
            }
        }
        for (extent, data) in large {
            self.commits.open.has_large = true;
            self.commits.open.larges_left += 1;
            self.landing.insert(extent, data.clone());
            let what = Use::Large { seq, start: extent.start };
            self.io.write(what, Device::Main, extent.start, vec![data], false);
        }
        self.counters = record.counters;
        let is_last =
            matches!(work, Work::Cleanup { .. }) && record.freed.is_empty() && objects == 0;
        self.meta.apply(record.ops, POINTS_MAX);
        let promises = &mut self.commits.open.promises;
        match work {
            Work::Transaction { token, .. } => promises.push(Promise::Complete(token)),
            Work::Cleanup { .. } if is_last => {}
            Work::Cleanup { slice } => promises.push(Promise::CleanUp(slice)),
        }
        promises.extend(garbage.into_iter().map(Promise::CleanUp));
    }

    fn interrupted(&mut self, mut queued: Queued, interrupt: Interrupt) {
        match interrupt {
            Interrupt::Pages(pages) => {
                self.commits.stall = Some(Stall::Reading);
                self.read_pages(Waiter::Commit, pages);
            }
            Interrupt::Block { block, fault } => {
                if queued.loaded.blocks.remove(&block).is_some() {
                    queued.suspicious.push(block);
                    let attempts = queued.suspicious.iter().filter(|other| **other == block);
                    if attempts.count() >= READ_ATTEMPTS_MAX as usize {
                        return self.refuse(queued, fault);
                    }
                }
                self.commits.stall = Some(Stall::Reading);
                queued.blocks_left += 1;
                self.io.read(Use::Block { block }, Device::Main, block, 1);
            }
            Interrupt::Room { missing } => {
                let since = *queued.waits_since.get_or_insert(self.superblock.sequence);
                let waited = self.superblock.sequence - since;
                if waited >= ROOM_CHECKPOINTS_MAX || !self.wait_for_room() {
                    let error = self.no_space(missing);
                    return self.refuse(queued, error);
                }
                self.commits.stall = Some(Stall::Room);
            }
            Interrupt::LogFull => {
                self.commits.stall = Some(Stall::Room);
                self.want_checkpoint = true;
            }
            Interrupt::Turn => self.commits.stall = Some(Stall::Turn),
            Interrupt::Refused(error) => return self.refuse(queued, error),
        }
        self.commits.queue.push_front(queued);
    }

    /// Refusals complete in order of submission.
    fn refuse(&mut self, queued: Queued, error: StoreError) {
        let (token, transaction, is_append) = match queued.work {
            Work::Transaction { token, transaction, is_append } => (token, transaction, is_append),
            Work::Cleanup { slice } => return self.put_off_cleanup(slice, &error),
        };
        if is_append {
            self.commits.fence.close(transaction.collections());
        }
        let open = &mut self.commits.open.promises;
        let batch = self.commits.batches.back_mut().map(|batch| &mut batch.promises);
        match (open.is_empty(), batch) {
            (false, _) => open.push(Promise::Fail(token, error)),
            (true, Some(promises)) => promises.push(Promise::Fail(token, error)),
            (true, None) => {
                self.completions.push_back(Completion { token, outcome: Err(error) });
            }
        }
    }

    /// Handles the content of a block that a commit changes in part.
    pub fn block_read(&mut self, block: u64, result: Result<Bytes, StoreError>) {
        let Some(head) = self.commits.queue.front_mut() else { return };
        head.blocks_left -= 1;
        match result {
            Ok(data) => {
                head.loaded.blocks.insert(block, data);
            }
            Err(error) => {
                let head = self.commits.queue.pop_front().expect("looked at above");
                self.refuse(head, error);
            }
        }
        self.resume_commits();
    }

    /// Seals the open batch and submits it to the log, unless enough batches are in flight.
    pub fn seal_if_due(&mut self) {
        if self.commits.batches.len() < BATCHES_IN_FLIGHT_MAX {
            self.seal();
        }
    }

    pub fn seal(&mut self) {
        let Some(sealed) = self.log.seal(self.commits.durable) else { return };
        self.commits.sealed_records = sealed.seq;
        self.send(sealed);
    }

    pub fn send(&mut self, sealed: SealedBatch) {
        let SealedBatch { seq, end, writes, data, homes, .. } = sealed;
        // The batch says so; once it is durable, a replay knows.
        self.commits.told_durable = self.commits.told_durable.max(self.commits.durable);
        self.timers.forget_mark();
        for (block, data) in homes.into_iter().zip(data) {
            self.homes.settle(block, seq, data);
        }
        let OpenBatch { promises, has_large, larges_left } = std::mem::take(&mut self.commits.open);
        let left = writes.len() + larges_left;
        let device = self.log_device;
        let durable = self.needs_flush(device) && !has_large;
        for (block, pieces) in writes {
            self.io.write(Use::Log { seq }, device, block, pieces, durable);
        }
        self.commits.batches.push_back(Batch {
            seq,
            promises,
            has_large,
            left,
            is_flushing: false,
        });
        (self.commits.sealed, self.commits.sealed_seq) = (end, seq);
    }

    pub fn large_written(&mut self, seq: u64) {
        if seq > self.commits.sealed_seq {
            self.commits.open.larges_left -= 1;
        } else {
            self.batch_progress(seq);
        }
    }

    /// Handles the completion of a write or flush of a batch.
    pub fn batch_progress(&mut self, seq: u64) {
        let batch = self.commits.batches.iter_mut().find(|batch| batch.seq == seq);
        let batch = batch.expect("it stays until all of its operations are done");
        batch.left -= 1;
        if batch.left > 0 {
            return;
        }
        if batch.has_large && !batch.is_flushing {
            batch.is_flushing = true;
            let devices = self.devices_to_flush();
            let batch = self.commits.batches.iter_mut().find(|batch| batch.seq == seq);
            batch.expect("found above").left = devices.len();
            for device in devices {
                self.io.flush(Use::Flush { seq }, device);
            }
        }
        self.pop_durable();
    }

    fn pop_durable(&mut self) {
        let mut any = false;
        while self.commits.batches.front().is_some_and(|batch| batch.left == 0) {
            let batch = self.commits.batches.pop_front().expect("checked above");
            self.commits.durable = batch.seq;
            any = true;
            for promise in batch.promises {
                self.keep(promise);
            }
        }
        if any {
            let free = self.space.durable(self.commits.durable);
            self.discard(free);
            self.resume_if_room();
            self.plan_mark();
        }
    }

    fn keep(&mut self, promise: Promise) {
        let (token, outcome) = match promise {
            Promise::Complete(token) => (token, Ok(Outcome::Committed)),
            Promise::Fail(token, error) => (token, Err(error)),
            Promise::CleanUp(slice) => return self.enqueue(Work::Cleanup { slice }),
        };
        self.completions.push_back(Completion { token, outcome });
    }

    /// Prefetches the pages that the last commit of the queue needs.
    fn prefetch_last(&mut self) {
        let Some(Queued { work: Work::Transaction { transaction, .. }, .. }) =
            self.commits.queue.back()
        else {
            return;
        };
        let mut wanted = Vec::new();
        for (at, change) in &transaction.changes {
            let Some(name) = change.object() else { continue };
            if matches!(change, Change::OmapSet { .. }) {
                continue;
            }
            let Ok(Some(slices)) = self.meta.collection(*at) else {
                continue;
            };
            let key = keys::object_point(slices.id_of(name), name);
            if let Err(crate::tree::Fault::Missing(pages)) = self.meta.get(&key) {
                wanted.extend(pages);
            }
        }
        self.read_pages(Waiter::Nobody, wanted);
    }

    /// Fails all commits; nothing is written any more.
    pub fn fail_commits(&mut self, error: &StoreError) {
        let open = std::mem::take(&mut self.commits.open.promises);
        let batches = std::mem::take(&mut self.commits.batches);
        let promises = batches.into_iter().flat_map(|batch| batch.promises).chain(open);
        let promised: Vec<Promise> = promises.collect();
        for promise in promised {
            let (token, error) = match promise {
                Promise::Complete(token) => (token, error.clone()),
                Promise::Fail(token, error) => (token, error),
                Promise::CleanUp(_) => continue,
            };
            self.completions.push_back(Completion { token, outcome: Err(error) });
        }
        for queued in std::mem::take(&mut self.commits.queue) {
            if let Work::Transaction { token, .. } = queued.work {
                self.completions.push_back(Completion { token, outcome: Err(error.clone()) });
            }
        }
    }
}
