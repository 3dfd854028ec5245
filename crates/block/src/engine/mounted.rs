//! An open store: its parts, and the purposes of its operations on devices.

use super::block_cache::BlockCache;
use super::checkpoint::Checkpoint;
use super::commit::{Commits, Stall, Work};
use super::deferred::DeferredWrites;
use super::effects::Interrupt;
use super::inflight::InflightWrites;
use super::io::{IoQueue, READ_ATTEMPTS_MAX};
use super::meta::Meta;
use super::query::Query;
use super::timers::Timers;
use super::turn::Turn;
use super::waits::{PageWaits, Waiter};
use crate::device::{BLOCK, Device, Extent, Io, IoDone};
use crate::fsck::Repairs;
use crate::keys;
use crate::log::{Admission, Counters, Log, LogPoint, Record};
use crate::object::{ExtentSegment, Onode, SEGMENT_BLOCKS};
use crate::options::{Budget, MEMORY_MIN, Options};
use crate::slices::Slice;
use crate::space::{Extents, Space, SpaceError};
use crate::superblock::Superblock;
use crate::tree::{Load, PageFlaw, PageRead, PageSpace};
use bytes::Bytes;
use engine::{RequestToken, Time};
use std::collections::{BTreeMap, VecDeque};
use stdx::Slab;
use store::{Completion, RequestKind, StoreError};

/// Shorter runs are not worth a discard.
const DISCARD_BLOCKS_MIN: u64 = 16;

/// Purpose of an operation on a device.
#[derive(Debug)]
pub(crate) enum Use {
    Page {
        read: PageRead,
        /// Attempts that did not return the page.
        failures: u32,
    },
    /// A block that the first commit of the queue changes in part.
    Block {
        block: u64,
    },
    /// A part of the data of a query.
    Data {
        query: u64,
        part: usize,
    },
    Log {
        seq: u64,
    },
    Large {
        seq: u64,
        start: u64,
    },
    /// Makes a batch with large writes durable.
    Flush {
        seq: u64,
    },
    Deferred {
        extent: Extent,
    },
    /// Pages, flush or superblock of a checkpoint.
    Checkpoint,
    Discard {
        extent: Extent,
    },
}

pub(crate) struct Mounted {
    pub options: Options,
    pub budget: Budget,
    pub io: IoQueue<Use>,
    pub superblock: Superblock,
    pub log_device: Device,
    pub meta_device: Device,
    pub deferred_blocks: u64,
    pub meta: Meta,
    pub pages: PageSpace,
    pub space: Space,
    pub log: Log,
    pub deferred: DeferredWrites,
    pub inflight: InflightWrites,
    pub block_cache: BlockCache,
    pub counters: Counters,
    /// Removed slices whose objects must still be removed.
    pub garbage: Vec<Slice>,
    pub timers: Timers,
    pub commits: Commits,
    pub queries: Slab<Query>,
    pub waits: PageWaits,
    pub checkpoint: Option<Checkpoint>,
    /// Pages that additions may still cost before admission computes the bound again.
    pub headroom: u64,
    /// Measured load of the changes in memory, which are those of one transaction after a dry run.
    /// Others wait until a checkpoint has begun.
    pub measured: Option<Load>,
    /// Set if checkpoints of all that is in memory have the pages of the upper bound. After a
    /// restart they may have fewer, but never fewer than they really need.
    pub is_bound_met: bool,
    /// Runs of the metadata space that the running checkpoint must not name.
    pub runs_set_aside: Vec<Extent>,
    /// Set if a checkpoint should begin although there is space.
    pub want_checkpoint: bool,
    pub turn: Turn,
    pub completions: VecDeque<Completion>,
    pub failure: Option<StoreError>,
}

impl Mounted {
    /// Takes the state found on the devices, the end of the log, and the slices to be cleaned up.
    pub fn new(
        options: Options,
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
        let geometry = superblock.geometry;
        let (store, generation) = (superblock.store, superblock.generation);
        let log = Log::new(geometry.log, store, generation, superblock.log, end);
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
        Mounted {
            budget,
            block_cache: BlockCache::new(budget.cached_blocks),
            io: IoQueue::new(next_io),
            log_device: geometry.log_device,
            meta_device: superblock.metadata.device,
            deferred_blocks: options.deferred_blocks,
            commits: Commits::new(end),
            queries: Slab::new(),
            waits: PageWaits::default(),
            checkpoint: None,
            headroom: 0,
            measured: None,
            is_bound_met: true,
            runs_set_aside: Vec::new(),
            want_checkpoint: false,
            turn: Turn::default(),
            completions: VecDeque::new(),
            failure: None,
            options,
            superblock,
            meta,
            pages,
            space,
            log,
            deferred,
            inflight: InflightWrites::default(),
            counters,
            garbage,
            timers: Timers::default(),
        }
    }

    /// Continues to remove the objects of removed collections.
    pub fn clean_up(&mut self) {
        for slice in std::mem::take(&mut self.garbage) {
            self.enqueue(Work::Cleanup { slice });
        }
    }

    /// Makes the repairs of a check. Nothing was allocated since the store was opened, so blocks
    /// that are in use but not marked still have their content.
    pub fn repair(&mut self, repairs: Repairs) {
        let Repairs { ops, taken, freed, counters } = repairs;
        if let Some(counters) = counters {
            (self.counters.next_id, self.counters.objects) = (counters.next_id, counters.objects);
        }
        let record = Record {
            counters: self.counters,
            ops,
            taken: taken.into(),
            freed: freed.into(),
            ..Record::default()
        };
        if let Err(error) = self.apply_repair(record) {
            self.fail(StoreError::Device(format!("the repair is not possible: {error}")));
        }
    }

    fn apply_repair(&mut self, record: Record) -> Result<(), String> {
        if self.log.admit(&record) != Admission::Fits {
            return Err(format!("it needs {} bytes of log", record.log_bytes()));
        }
        for extent in &record.taken {
            self.space.replay_taken(*extent).map_err(|error| error.to_string())?;
        }
        let seq = self.log.append(&record, &[]);
        for extent in &record.freed {
            self.free(seq, *extent).map_err(|error| error.to_string())?;
        }
        self.meta.apply(record.ops, usize::MAX);
        self.want_checkpoint = true;
        Ok(())
    }

    pub fn is_idle(&self) -> bool {
        self.io.in_flight() == 0
            && self.commits.is_idle()
            && self.queries.is_empty()
            && self.checkpoint.is_none()
            && !self.want_checkpoint
            && !self.has_more()
    }

    pub fn submit(&mut self, token: RequestToken, kind: RequestKind) {
        if let Some(error) = &self.failure {
            self.completions.push_back(Completion { token, outcome: Err(error.clone()) });
            return;
        }
        self.begin_turn();
        match kind {
            RequestKind::Commit(transaction) => self.submit_commit(token, transaction, false),
            RequestKind::Append(transaction) => self.submit_commit(token, transaction, true),
            RequestKind::Resume(collection) => self.resume(token, collection),
            kind => self.submit_query(token, kind),
        }
    }

    pub fn poll_io(&mut self) -> Option<Io> {
        if let Some(io) = self.io.poll() {
            return Some(io);
        }
        if self.failure.is_some() {
            return None;
        }
        // The end of a checkpoint may admit commits, whose batch is then to be sealed.
        self.run_checkpoint();
        self.seal_if_due();
        self.io.poll()
    }

    pub fn handle_io(&mut self, now: Time, done: IoDone) {
        self.timers.now = self.timers.now.max(now);
        let Some(what) = self.io.finish(&done) else { return };
        if self.failure.is_some() {
            return;
        }
        self.begin_turn();
        let result = done.result.map_err(|error| StoreError::Device(error.to_string()));
        match what {
            Use::Page { read, failures } => self.page_read(read, failures, result),
            Use::Block { block } => self.block_read(block, result),
            Use::Data { query, part } => self.data_read(query, part, result),
            // A refused discard loses nothing.
            Use::Discard { extent } => {
                self.space.unpin(extent).expect("withdrawn when the discard began");
                self.resume_if_space();
            }
            written => match result {
                Ok(_) => self.written(written),
                Err(error) => self.fail(error),
            },
        }
    }

    fn written(&mut self, what: Use) {
        match what {
            Use::Log { seq } | Use::Flush { seq } => self.batch_progress(seq),
            Use::Large { seq, start } => {
                self.inflight.completed(start);
                self.large_written(seq);
            }
            Use::Deferred { extent } => {
                self.deferred_written(extent);
                self.checkpoint_progress();
            }
            Use::Checkpoint => self.checkpoint_progress(),
            Use::Page { .. } | Use::Block { .. } | Use::Data { .. } | Use::Discard { .. } => {
                unreachable!("reads and discards are handled by the caller")
            }
        }
    }

    /// Stops the store after an error of a device that leaves the state of a write unknown.
    pub fn fail(&mut self, error: StoreError) {
        tracing::error!(%error, "the store stops");
        self.fail_commits(&error);
        self.fail_queries(&error);
        self.checkpoint = None;
        self.failure = Some(error);
    }

    /// Frees blocks once batch `seq` is durable.
    pub fn free(&mut self, seq: u64, extent: Extent) -> Result<(), SpaceError> {
        self.space.free_after(seq, extent)?;
        self.block_cache.forget(extent);
        for block in self.deferred.forget(extent) {
            self.space.pin(Extent::new(block, 1))?;
        }
        Ok(())
    }

    fn deferred_written(&mut self, extent: Extent) {
        let block_cache = &mut self.block_cache;
        let keep = |block, crc, data| block_cache.insert(block, crc, data);
        for block in self.deferred.written(extent, keep) {
            let unwanted = Extent::new(block, 1);
            let free = self.space.unpin(unwanted).expect("pinned when it was freed");
            self.discard(free);
        }
        self.resume_if_space();
    }

    /// Resumes commits that wait for space or log.
    pub fn resume_if_space(&mut self) {
        if self.commits.stall == Some(Stall::NoSpace) {
            self.resume_commits();
        }
    }

    /// Discards free blocks, which are not allocated before the device has completed that.
    pub fn discard(&mut self, free: Extents) {
        if !self.options.discard {
            return;
        }
        for extent in free.into_iter().filter(|extent| extent.count >= DISCARD_BLOCKS_MIN) {
            self.space.withdraw(extent).expect("it became free just now");
            self.io.discard(Use::Discard { extent }, Device::Main, extent.start, extent.count);
        }
    }

    pub fn read_pages(&mut self, waiter: Waiter, pages: Vec<PageRead>) {
        for read in self.waits.wait(waiter, pages) {
            self.read_page(read, 0);
        }
    }

    fn read_page(&mut self, read: PageRead, failures: u32) {
        let what = Use::Page { read, failures };
        self.io.read(what, self.meta_device, read.page, read.pages);
    }

    /// Repeats the read of a page that is not as expected; in the end, damage fails the operation
    /// that needs the page.
    fn page_read(&mut self, read: PageRead, failures: u32, result: Result<Bytes, StoreError>) {
        let flaw = match result {
            Ok(bytes) => self.meta.tree.supply(read.page, bytes).err(),
            Err(error) => Some(PageFlaw::Unreadable(error.to_string())),
        };
        if let Some(flaw) = flaw {
            let failures = failures + 1;
            if matches!(flaw, PageFlaw::Checksum { .. }) && failures < READ_ATTEMPTS_MAX {
                return self.read_page(read, failures);
            }
            tracing::error!(page = read.page, %flaw, "a page of the metadata cannot be read");
            self.meta.tree.supply_failed(read.page, flaw);
            self.plan_retry();
        }
        for waiter in self.waits.done(read.page) {
            match waiter {
                Waiter::Commit => self.resume_commits(),
                Waiter::Query(key) => self.run_query(key),
                Waiter::Checkpoint => self.resume_checkpoint(),
                Waiter::Prefetch => {}
            }
        }
    }

    /// Extent segments that map these blocks of an object.
    pub fn segments_of(
        &mut self,
        onode: &Onode,
        blocks: Extent,
    ) -> Result<BTreeMap<u32, ExtentSegment>, Interrupt> {
        let mut segments = BTreeMap::new();
        if let Some(segment) = &onode.inline {
            segments.insert(0, ExtentSegment::clone(segment));
            return Ok(segments);
        }
        let numbers = blocks.start / SEGMENT_BLOCKS..=(blocks.end() - 1) / SEGMENT_BLOCKS;
        for number in numbers.map(|number| number as u32) {
            let Some(value) = self.meta.get(&keys::segment_point(onode.id, number))? else {
                continue;
            };
            let segment =
                ExtentSegment::decode(&value).map_err(Interrupt::decoding("extent segment"))?;
            segments.insert(number, segment);
        }
        Ok(segments)
    }

    pub fn needs_flush(&self, device: Device) -> bool {
        match device {
            Device::Main => self.options.flush_main,
            Device::Fast => self.options.flush_fast,
        }
    }

    /// Devices whose completed writes are volatile.
    pub fn devices_to_flush(&self) -> Vec<Device> {
        let devices = [Device::Main, Device::Fast].into_iter();
        let used = devices.filter(|device| *device == Device::Main || self.options.fast_blocks > 0);
        used.filter(|device| self.needs_flush(*device)).collect()
    }

    /// Bytes of changed metadata and of deferred writes that are in memory.
    pub fn buffered(&self) -> (usize, usize) {
        let frozen = self.meta.frozen.as_ref().map_or(0, |table| table.bytes);
        (self.meta.active.bytes + frozen, self.deferred.len() * BLOCK)
    }

    pub fn check_invariants(&self) {
        self.space.check_invariants();
        self.log.check_invariants();
        self.block_cache.check_invariants();
        self.pages.check_invariants();
        self.meta.active.check_invariants();
        self.check_pages_at_hand();
    }
}
