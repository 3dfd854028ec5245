//! An open store: routes requests, completions of devices and timers to their owners.
//!
//! [`CommitQueue`], [`Queries`] and [`Checkpoint`] do the work, each with a state of its own. What
//! they share is in [`Volume`]. When something that one of them waits for has happened, it is
//! continued from here.

use super::admission::Admission;
use super::checkpoint::Checkpoint;
use super::commits::{CommitQueue, Job};
use super::contents::Contents;
use super::deferred::DeferredWrites;
use super::devices::{Devices, Use};
use super::failure::MountedFault;
use super::io::READ_ATTEMPTS_MAX;
use super::journal::{Journal, PendingAck};
use super::meta::Meta;
use super::pages::TreePages;
use super::queries::Queries;
use super::turn::{POINTS_MAX, Turn, Work};
use super::volume::Volume;
use super::waits::{PageWaits, Waiter};
use crate::device::{Extent, Io, IoDone, ReadError};
use crate::fsck::Repairs;
use crate::log::{Counters, LogPoint, Record};
use crate::options::{Budget, MEMORY_MIN, Options};
use crate::slices::Slice;
use crate::space::Space;
use crate::superblock::Superblock;
use crate::tree::{PageFlaw, PageRead, PageSpace};
use bytes::Bytes;
use engine::{RequestToken, Time};
use std::collections::VecDeque;
use store::{Completion, DeviceFault, Outcome, RequestKind, StoreError};

pub(crate) struct Mounted {
    volume: Volume,
    commits: CommitQueue,
    queries: Queries,
    checkpoint: Option<Checkpoint>,
    /// Set once the store has stopped.
    failure: Option<StoreError>,
}

impl Mounted {
    /// Takes the state found on the devices, the end of the log, and the slices to be cleaned up.
    pub fn new(
        options: &Options,
        next_io: u64,
        superblock: Superblock,
        meta: Meta,
        pages: PageSpace,
        space: Space,
        deferred: DeferredWrites,
        counters: Counters,
        end: LogPoint,
        garbage: Vec<Slice>,
    ) -> Self {
        let bitmap = space.map().memory() as u64;
        let budget = Budget::new(options.memory, bitmap);
        if bitmap > options.memory / 2 && bitmap > MEMORY_MIN {
            let [granted, bitmap, advised] =
                [options.memory, bitmap, options.memory_advised()].map(stdx::format_bytes);
            tracing::warn!(
                "the bitmap of the device's blocks takes {bitmap} of the {granted} of memory that the \
                 store is granted: it will be slow; grant {advised} (--memory)"
            );
        }
        let pages = TreePages::new(pages, superblock.metadata.device);
        let volume = Volume {
            now: Time::default(),
            budget,
            meta,
            space,
            contents: Contents::new(deferred, budget.cached_blocks),
            admission: Admission::new(pages),
            journal: Journal::new(&superblock, counters, end),
            devices: Devices::new(options, &superblock, next_io),
            superblock,
            waits: PageWaits::default(),
            turn: Turn::default(),
            wants_checkpoint: false,
            wants_shards: false,
            completions: VecDeque::new(),
        };
        Mounted {
            volume,
            commits: CommitQueue::new(options.deferred_blocks, garbage),
            queries: Queries::default(),
            checkpoint: None,
            failure: None,
        }
    }

    /// Reserves the pages of the next checkpoint, before anything else takes them.
    pub fn reserve_pages_ahead(&mut self) {
        let Volume { admission, meta, space, .. } = &mut self.volume;
        admission.reserve_ahead(meta, space);
    }

    /// Begins to execute requests, once [`Mounted::reserve_pages_ahead`] has been called.
    pub fn begin(&mut self) {
        self.volume.plan_retry();
        let result = self.commits.clean_up(&mut self.volume);
        self.stop_after(result);
    }

    /// Makes the repairs of a check. Nothing was allocated since the store was opened, so blocks
    /// that are in use but not marked still have their content.
    pub fn repair(&mut self, repairs: Repairs) {
        let Repairs { ops, taken, freed, counters } = repairs;
        if let Some(counters) = counters {
            self.volume.journal.repair_counters(counters.next_id, counters.objects);
        }
        let record = Record {
            counters: self.volume.journal.counters(),
            ops,
            taken: taken.into(),
            freed: freed.into(),
            ..Record::default()
        };
        if let Err(error) = self.volume.repair(record) {
            self.fail(StoreError::Device(DeviceFault::new(MountedFault::Repair(error))));
        }
    }

    /// Reason why the store has stopped.
    pub fn failure(&self) -> Option<&StoreError> {
        self.failure.as_ref()
    }

    /// Notes the time of a call of the host; time does not go back.
    pub fn set_time(&mut self, now: Time) {
        self.volume.now = self.volume.now.max(now);
    }

    /// Id of the next operation on a device.
    pub fn next_io(&self) -> u64 {
        self.volume.devices.next_io()
    }

    /// Set if nothing is queued, in flight or planned: no event will follow without a new request.
    pub fn is_idle(&self) -> bool {
        self.volume.devices.is_idle()
            && self.has_no_commits()
            && self.queries.is_empty()
            && self.checkpoint.is_none()
            && !self.awaits_checkpoint()
            && !self.has_more()
    }

    /// Set if a checkpoint will begin, which a store that has stopped does not do.
    fn awaits_checkpoint(&self) -> bool {
        self.volume.wants_checkpoint && self.failure.is_none()
    }

    fn has_no_commits(&self) -> bool {
        self.commits.is_empty() && self.volume.journal.is_idle()
    }

    /// Set if no commit is in flight and all of them are marked as durable.
    pub fn is_closed(&self) -> bool {
        self.failure.is_some() || (self.has_no_commits() && !self.volume.journal.lacks_mark())
    }

    /// Marks all durable batches, now and whenever another one becomes durable.
    pub fn close(&mut self) {
        self.volume.journal.close(self.volume.now);
    }

    /// Lets a checkpoint begin as soon as possible, if it has anything to write.
    pub fn request_checkpoint(&mut self) {
        self.volume.wants_checkpoint = true;
    }

    /// Next completed request.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.volume.completions.pop_front()
    }

    /// Begins a request; once the store has stopped, it fails at once.
    pub fn submit(&mut self, token: RequestToken, kind: RequestKind) {
        if let Some(error) = &self.failure {
            return self.volume.complete(token, Err(error.clone()));
        }
        self.begin_turn();
        match kind {
            RequestKind::Commit(transaction) => {
                self.enqueue(Job::Transaction { token, transaction, is_append: false });
            }
            RequestKind::Append(transaction) => {
                self.enqueue(Job::Transaction { token, transaction, is_append: true });
            }
            RequestKind::Resume(collection) => {
                self.commits.open_fence(collection);
                self.volume.complete(token, Ok(Outcome::Resumed));
            }
            kind => self.queries.submit(token, kind, &mut self.volume),
        }
    }

    /// Next operation to submit to the devices; `None` if there is none for now.
    pub fn poll_io(&mut self) -> Option<Io> {
        if let Some(io) = self.volume.devices.poll() {
            return Some(io);
        }
        if self.failure.is_some() {
            return None;
        }
        // The end of a checkpoint may admit commits, whose batch is then to be sealed.
        self.run_checkpoint();
        let Volume { now, journal, contents, devices, .. } = &mut self.volume;
        // The checkpoint, or a commit that it admitted, may have stopped the store.
        if self.failure.is_none() {
            journal.seal_if_due(*now, contents, devices);
        }
        devices.poll()
    }

    /// Handles a completed operation. Completions that came too late for a stopped store are
    /// dropped.
    pub fn handle_io(&mut self, now: Time, done: IoDone) {
        self.set_time(now);
        let Some(what) = self.volume.devices.finish(&done) else { return };
        if self.failure.is_some() {
            return;
        }
        self.begin_turn();
        let result = done.result.map_err(DeviceFault::from);
        match what {
            Use::Page { read, failures } => self.page_read(read, failures, result),
            Use::Block { block } => {
                let result = self.commits.block_read(block, result, &mut self.volume);
                self.stop_after(result);
            }
            Use::Data { query, part } => {
                self.data_read(query, part, result.map_err(StoreError::Device))
            }
            // A refused discard loses nothing.
            Use::Discard { extent } => {
                self.volume.space.unpin(extent).expect("withdrawn when the discard began");
                self.resume_if_space();
            }
            written => match result {
                Ok(_) => self.written(written),
                Err(fault) => self.fail(StoreError::Device(fault)),
            },
        }
    }

    fn written(&mut self, what: Use) {
        let Volume { journal, contents, devices, .. } = &mut self.volume;
        match what {
            Use::Log { seq } | Use::Flush { seq } => {
                journal.progress(seq, devices);
                self.acknowledge();
            }
            Use::Large { seq, start } => {
                contents.end_large(start);
                journal.large_written(seq, devices);
                self.acknowledge();
            }
            Use::Deferred { extent } => {
                for block in contents.end_deferred(extent) {
                    self.volume.unpin(Extent::new(block, 1));
                }
                self.resume_if_space();
                self.checkpoint_write_done();
            }
            Use::Checkpoint => self.checkpoint_write_done(),
            Use::Page { .. } | Use::Block { .. } | Use::Data { .. } | Use::Discard { .. } => {
                unreachable!("reads and discards are handled by the caller")
            }
        }
    }

    fn checkpoint_write_done(&mut self) {
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.write_done();
        }
    }

    /// Answers commits of batches that have become durable, and continues what waited for them.
    fn acknowledge(&mut self) {
        let mut any = false;
        while let Some(acks) = self.volume.journal.pop_durable(self.volume.now) {
            any = true;
            for ack in acks {
                match ack {
                    PendingAck::Complete(token) => {
                        self.volume.complete(token, Ok(Outcome::Committed));
                    }
                    PendingAck::Fail(token, error) => self.volume.complete(token, Err(error)),
                    PendingAck::CleanUp(slice) => self.enqueue(Job::Cleanup { slice }),
                }
            }
        }
        if any {
            self.volume.release_durable();
            self.resume_if_space();
            self.volume.journal.plan_mark(self.volume.now);
        }
    }

    fn enqueue(&mut self, job: Job) {
        let result = self.commits.enqueue(job, &mut self.volume);
        self.stop_after(result);
    }

    fn resume_commits(&mut self) {
        let result = self.commits.resume(&mut self.volume);
        self.stop_after(result);
    }

    /// Resumes commits that wait for space or log.
    fn resume_if_space(&mut self) {
        if self.commits.waits_for_space() {
            self.resume_commits();
        }
    }

    /// Repeats the read of a page that is not as expected; in the end, damage fails the operation
    /// that needs the page.
    fn page_read(&mut self, read: PageRead, failures: u32, result: Result<Bytes, DeviceFault>) {
        let flaw = match result {
            Ok(bytes) => self.volume.meta.supply(read.page, bytes).err(),
            Err(fault) => Some(PageFlaw::Unreadable(ReadError::Device(fault))),
        };
        if let Some(flaw) = flaw {
            let failures = failures + 1;
            if matches!(flaw, PageFlaw::Checksum { .. }) && failures < READ_ATTEMPTS_MAX {
                return self.volume.devices.read_page(read, failures);
            }
            tracing::error!(page = read.page, %flaw, "a page of the metadata cannot be read");
            self.volume.meta.supply_failed(read.page, flaw);
            self.volume.plan_retry();
        }
        for waiter in self.volume.waits.done(read.page) {
            match waiter {
                Waiter::Commit => self.resume_commits(),
                Waiter::Query(key) => self.queries.run(key, &mut self.volume),
                Waiter::Checkpoint => self.resume_checkpoint(),
                Waiter::Prefetch => {}
            }
        }
    }

    fn data_read(&mut self, query: u64, part: usize, result: Result<Bytes, StoreError>) {
        let verified = self.queries.data_read(query, part, result, &mut self.volume);
        let Some(verified) = verified else { return };
        if verified.has_released {
            self.resume_if_space();
        }
        self.queries.end_read(verified, &mut self.volume);
    }

    fn resume_checkpoint(&mut self) {
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.resume();
        }
    }

    /// Starts a checkpoint if one is due, and advances a running one.
    fn run_checkpoint(&mut self) {
        self.advance_checkpoint();
        // The previous checkpoint may have ended just now.
        if self.checkpoint.is_none() && self.failure.is_none() {
            let volume = &mut self.volume;
            volume.wants_checkpoint = volume.wants_checkpoint && volume.has_reason_for_checkpoint();
            if Checkpoint::is_due(volume) {
                self.commits.give_up_dry_run(volume);
                self.checkpoint = Some(Checkpoint::begin(volume));
                self.advance_checkpoint();
            }
        }
    }

    fn advance_checkpoint(&mut self) {
        let Some(checkpoint) = &mut self.checkpoint else { return };
        match checkpoint.advance(&mut self.volume) {
            Ok(false) => {}
            Ok(true) => {
                let checkpoint = self.checkpoint.take().expect("it was advanced");
                checkpoint.install(&mut self.volume);
                self.resume_if_space();
            }
            Err(error) => self.fail(error),
        }
    }

    /// Time at which [`Mounted::handle_timeout`] must be called.
    pub fn poll_timeout(&self) -> Option<Time> {
        let Volume { journal, waits, .. } = &self.volume;
        let timers = [journal.poll_timeout(), waits.poll_timeout(), self.commits.poll_timeout()];
        match self.failure {
            None if self.has_more() => Some(Time::ZERO),
            None => timers.into_iter().flatten().min(),
            Some(_) => None,
        }
    }

    /// Runs due timers and work that was put off to this turn.
    pub fn handle_timeout(&mut self, now: Time) {
        self.set_time(now);
        if self.failure.is_some() {
            return;
        }
        self.begin_turn();
        self.work_on();
        let Volume { journal, contents, devices, meta, waits, wants_checkpoint, .. } =
            &mut self.volume;
        // The superblock of a checkpoint says what is durable, too.
        *wants_checkpoint |= !journal.handle_timeout(now, contents, devices);
        if waits.take_due_retry(now) {
            meta.forget_failures();
            self.resume_checkpoint();
        }
        let result = self.commits.handle_timeout(now, &mut self.volume);
        self.stop_after(result);
    }

    fn begin_turn(&mut self) {
        self.volume.turn.begin(&self.volume.meta);
    }

    /// Set if work is left that waits for nothing.
    fn has_more(&self) -> bool {
        self.failure.is_none()
            && (self.volume.turn.has_more()
                || self.queries.has_more()
                || self.commits.has_more()
                || self.volume.meta.has_more())
    }

    /// Does the next piece of all unfinished work.
    fn work_on(&mut self) {
        let Volume { turn, meta, .. } = &mut self.volume;
        turn.forget_stale(meta);
        meta.work_on(POINTS_MAX);
        if meta.is_applying() {
            return;
        }
        self.queries.work_on(&mut self.volume);
        if self.commits.has_more() {
            self.resume_commits();
        }
    }

    /// Work done since the store was opened.
    pub fn work(&self) -> Work {
        self.volume.turn.work(&self.volume.meta)
    }

    /// Maximum of each counter in any turn so far.
    pub fn most_work(&self) -> Work {
        self.volume.turn.most_work(&self.volume.meta)
    }

    /// Bytes of changed metadata and of deferred writes that are in memory.
    pub fn buffered(&self) -> (usize, usize) {
        (self.volume.meta.changed_bytes(), self.volume.contents.deferred_bytes())
    }

    fn stop_after(&mut self, result: Result<(), StoreError>) {
        if let Err(error) = result {
            self.fail(error);
        }
    }

    /// Stops the store after an error of a device that leaves the state of a write unknown, or of
    /// metadata.
    fn fail(&mut self, error: StoreError) {
        tracing::error!(%error, "the store stops");
        self.commits.fail(&error, &mut self.volume);
        self.queries.fail(&error, &mut self.volume);
        self.checkpoint = None;
        self.failure = Some(error);
    }

    /// Panics if parts of the state contradict each other. Examines everything.
    pub fn check_invariants(&self) {
        self.volume.check_invariants();
        if self.failure.is_some() {
            return;
        }
        self.volume.check_in_flight();
        self.commits.check_invariants();
        self.queries.check_invariants();
        assert_eq!(self.checkpoint.is_some(), self.volume.is_checkpointing());
        if let Some(checkpoint) = &self.checkpoint {
            checkpoint.check_invariants(&self.volume);
        }
    }
}
