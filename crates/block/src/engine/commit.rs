//! Commits: from the queue into the log, and out again as durable.
//!
//! Transactions are executed in order of submission. All transactions of one turn of the host share
//! a batch of the log; a batch is durable when its own writes and all earlier batches are.

use super::admission::SPACE_CHECKPOINTS_MAX;
use super::dry_run::DryRun;
use super::effects::{Effects, Interrupt};
use super::execute::{Executor, Loaded};
use super::io::READ_ATTEMPTS_MAX;
use super::mounted::{Mounted, Use};
use super::turn::{COMMITS_MAX, POINTS_MAX};
use super::waits::Waiter;
use crate::device::{Device, Extent};
use crate::keys;
use crate::log::{Admission, LogPoint, SealedBatch};
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
    dry_run: Option<Box<DryRun>>,
}

/// Reason why the first commit of the queue is not executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stall {
    /// Pages or blocks are being read.
    Reading,
    /// Space or log becomes free when a batch is durable or a checkpoint ends.
    NoSpace,
    /// The next turn continues.
    Turn,
}

/// Action when a batch becomes durable.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PendingAck {
    Complete(RequestToken),
    Fail(RequestToken, StoreError),
    CleanUp(Slice),
}

/// The batch that collects records.
#[derive(Debug, Default)]
pub(crate) struct OpenBatch {
    acks: Vec<PendingAck>,
    has_large: bool,
    larges_left: usize,
}

#[derive(Debug)]
pub(crate) struct Batch {
    seq: u64,
    acks: Vec<PendingAck>,
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
    pub recorded_durable: u64,
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
            recorded_durable: durable,
        }
    }

    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.batches.is_empty() && self.open.acks.is_empty()
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
            dry_run: None,
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
        if self.measured.is_some() {
            return Err(Interrupt::LogFull);
        }
        if let Work::Transaction { transaction, .. } = &queued.work {
            self.commits.fence.check(transaction).map_err(Interrupt::Refused)?;
            if self.is_behind() {
                return Err(Interrupt::LogFull);
            }
        }
        if let Some(dry_run) = queued.dry_run.take() {
            return self.continue_queued_dry_run(*dry_run, queued);
        }
        let executor = Executor::new(
            &mut self.meta,
            &mut self.space,
            &self.deferred,
            &self.inflight,
            &mut queued.loaded,
            self.counters,
            self.deferred_blocks,
        );
        let effects = match &queued.work {
            Work::Transaction { transaction, .. } => executor.run(transaction)?,
            Work::Cleanup { slice } => executor.run_cleanup(*slice, CLEANUP_OBJECTS_MAX)?,
        };
        let admitted = self.check_space(&effects, &queued.work);
        match admitted.and_then(|()| self.check_log(&effects)) {
            Ok(()) => Ok(effects),
            Err(Interrupt::NoSpace { missing }) if self.can_dry_run() => {
                let dry_run = self.begin_dry_run(effects, missing);
                self.continue_queued_dry_run(dry_run, queued)
            }
            Err(interrupt) => {
                self.undo(&effects);
                Err(interrupt)
            }
        }
    }

    /// Returns the allocations of a dry run that waits for pages; otherwise the checkpoint that
    /// begins now would store them as used. The dry run restarts later.
    pub(super) fn give_up_dry_run(&mut self) {
        if let Some(dry_run) =
            self.commits.queue.front_mut().and_then(|queued| queued.dry_run.take())
        {
            self.undo(dry_run.effects());
        }
    }

    fn continue_queued_dry_run(
        &mut self,
        dry_run: DryRun,
        queued: &mut Queued,
    ) -> Result<Effects, Interrupt> {
        let (outcome, dry_run) = self.continue_dry_run(dry_run, &queued.work);
        queued.dry_run = dry_run.map(Box::new);
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
            match self.log.admit(&effects.record) {
                Admission::Fits => return Ok(()),
                Admission::BatchFull => self.seal(),
                Admission::RingFull => return Err(Interrupt::LogFull),
                Admission::RecordTooLarge => {
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
            self.block_cache.forget(Extent::new(write.block, 1));
            self.deferred.insert(write.block, seq, write.crc, data);
        }
        for extent in &record.freed {
            if let Err(error) = self.free(seq, *extent) {
                return self.fail(StoreError::Device(format!("the metadata is damaged: {error}")));
            }
        }
        for (extent, data) in large {
            self.commits.open.has_large = true;
            self.commits.open.larges_left += 1;
            self.inflight.insert(extent, data.clone());
            let what = Use::Large { seq, start: extent.start };
            self.io.write(what, Device::Main, extent.start, vec![data], false);
        }
        self.counters = record.counters;
        let is_last =
            matches!(work, Work::Cleanup { .. }) && record.freed.is_empty() && objects == 0;
        self.meta.apply(record.ops, POINTS_MAX);
        let acks = &mut self.commits.open.acks;
        match work {
            Work::Transaction { token, .. } => acks.push(PendingAck::Complete(token)),
            Work::Cleanup { .. } if is_last => {}
            Work::Cleanup { slice } => acks.push(PendingAck::CleanUp(slice)),
        }
        acks.extend(garbage.into_iter().map(PendingAck::CleanUp));
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
            Interrupt::NoSpace { missing } => {
                let since = *queued.waits_since.get_or_insert(self.superblock.sequence);
                let waited = self.superblock.sequence - since;
                if waited >= SPACE_CHECKPOINTS_MAX || !self.wait_for_space() {
                    let error = self.no_space(missing);
                    return self.refuse(queued, error);
                }
                self.commits.stall = Some(Stall::NoSpace);
            }
            Interrupt::LogFull => {
                self.commits.stall = Some(Stall::NoSpace);
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
        let open = &mut self.commits.open.acks;
        let batch = self.commits.batches.back_mut().map(|batch| &mut batch.acks);
        match (open.is_empty(), batch) {
            (false, _) => open.push(PendingAck::Fail(token, error)),
            (true, Some(acks)) => acks.push(PendingAck::Fail(token, error)),
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
        let SealedBatch { seq, end, writes, data, places, .. } = sealed;
        // The batch says so; once it is durable, a replay knows.
        self.commits.recorded_durable = self.commits.recorded_durable.max(self.commits.durable);
        self.timers.forget_mark();
        for (block, data) in places.into_iter().zip(data) {
            self.deferred.settle(block, seq, data);
        }
        let OpenBatch { acks, has_large, larges_left } = std::mem::take(&mut self.commits.open);
        let left = writes.len() + larges_left;
        let device = self.log_device;
        let durable = self.needs_flush(device) && !has_large;
        for (block, pieces) in writes {
            self.io.write(Use::Log { seq }, device, block, pieces, durable);
        }
        self.commits.batches.push_back(Batch { seq, acks, has_large, left, is_flushing: false });
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
            for ack in batch.acks {
                self.acknowledge(ack);
            }
        }
        if any {
            let free = self.space.durable(self.commits.durable);
            self.discard(free);
            self.resume_if_space();
            self.plan_mark();
        }
    }

    fn acknowledge(&mut self, ack: PendingAck) {
        let (token, outcome) = match ack {
            PendingAck::Complete(token) => (token, Ok(Outcome::Committed)),
            PendingAck::Fail(token, error) => (token, Err(error)),
            PendingAck::CleanUp(slice) => return self.enqueue(Work::Cleanup { slice }),
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
        self.read_pages(Waiter::Prefetch, wanted);
    }

    /// Fails all commits; nothing is written any more.
    pub fn fail_commits(&mut self, error: &StoreError) {
        let open = std::mem::take(&mut self.commits.open.acks);
        let batches = std::mem::take(&mut self.commits.batches);
        let acks = batches.into_iter().flat_map(|batch| batch.acks).chain(open);
        let acks: Vec<PendingAck> = acks.collect();
        for ack in acks {
            let (token, error) = match ack {
                PendingAck::Complete(token) => (token, error.clone()),
                PendingAck::Fail(token, error) => (token, error),
                PendingAck::CleanUp(_) => continue,
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
