//! The owners that commits, queries and checkpoints share, and what takes more than one of them.

use super::admission::Admission;
use super::contents::Contents;
use super::devices::Devices;
use super::effects::{Effects, Interrupt};
use super::failure::RepairFault;
use super::journal::Journal;
use super::meta::Meta;
use super::turn::Turn;
use super::waits::{PageWaits, Waiter};
use crate::device::Extent;
use crate::log::{self, Record};
use crate::options::Budget;
use crate::space::{Extents, Space, SpaceError};
use crate::superblock::Superblock;
use crate::tree::PageRead;
use engine::{RequestToken, Time};
use std::collections::VecDeque;
use store::{Completion, Counters, Outcome, StoreError, Usage};

/// Shorter runs are not worth a discard.
const DISCARD_BLOCKS_MIN: u64 = 16;

pub(crate) struct Volume {
    /// Time of the last call of the host.
    pub now: Time,
    /// Memory for tables, caches and deferred writes.
    pub budget: Budget,
    /// Superblock of the last checkpoint.
    pub superblock: Superblock,
    /// Metadata: tables in memory and the tree.
    pub meta: Meta,
    /// Blocks of the main device.
    pub space: Space,
    /// Data in memory.
    pub contents: Contents,
    /// Pages that checkpoints will need.
    pub admission: Admission,
    /// The open batch and those in flight.
    pub journal: Journal,
    /// Operations in flight.
    pub devices: Devices,
    /// Executions that wait for pages.
    pub waits: PageWaits,
    /// Work of the current turn.
    pub turn: Turn,
    /// Set if a checkpoint should begin although there is space.
    pub wants_checkpoint: bool,
    /// Set if the next superblock must have the feature of shards.
    pub wants_shards: bool,
    /// Completed requests, oldest first.
    pub completions: VecDeque<Completion>,
}

impl Volume {
    /// Completes a request.
    pub fn complete(&mut self, token: RequestToken, outcome: Result<Outcome, StoreError>) {
        self.completions.push_back(Completion { token, outcome });
    }

    /// Set if a checkpoint takes changes into the tree.
    pub fn is_checkpointing(&self) -> bool {
        self.meta.is_frozen()
    }

    /// Set if changes gather faster than the checkpoint takes them in.
    pub fn is_behind(&self) -> bool {
        self.is_checkpointing()
            && (self.meta.active_bytes() > self.budget.table_bytes
                || self.contents.deferred_bytes() > 2 * self.budget.deferred_bytes)
    }

    /// Set if a checkpoint would write something.
    pub fn has_changes(&self) -> bool {
        !self.meta.is_unchanged() || self.journal.used_blocks() > 0
    }

    /// Set if a checkpoint that is wanted would change the device.
    pub fn has_reason_for_checkpoint(&self) -> bool {
        let lacks_feature = self.wants_shards && !self.superblock.features.has_shards();
        self.has_changes() || self.has_page_surplus() || lacks_feature
    }

    /// Set if a checkpoint should return free pages of the metadata space to data.
    pub fn has_page_surplus(&self) -> bool {
        self.admission.has_page_surplus(&self.meta, &self.space)
    }

    /// Ensures that the log takes the record, or says what it waits for.
    pub fn reserve_log(&mut self, record: &Record) -> Result<(), Interrupt> {
        loop {
            match self.journal.admit(record) {
                log::Admission::Fits => return Ok(()),
                log::Admission::BatchFull => {
                    self.journal.seal(self.now, &mut self.contents, &mut self.devices);
                }
                log::Admission::RingFull => return Err(Interrupt::LogFull),
                log::Admission::RecordTooLarge => {
                    return Err(Interrupt::Refused(StoreError::TooLarge {
                        what: "a transaction",
                        size: record.log_bytes(),
                        limit: self.journal.record_bytes_max(),
                    }));
                }
            }
        }
    }

    /// Returns the allocations of a transaction that was not executed.
    pub fn undo(&mut self, effects: &Effects) {
        for extent in &effects.record.taken {
            self.space.give_back(*extent).expect("taken by this attempt");
        }
    }

    /// Returns whether blocks may become free without a further request, and starts what frees
    /// them.
    pub fn wait_for_space(&mut self) -> bool {
        if self.is_checkpointing() {
            return true;
        }
        let may_shrink = !self.meta.is_unchanged() || self.has_page_surplus();
        self.wants_checkpoint |= may_shrink;
        // Some blocks wait for a flush or a discard.
        may_shrink || self.space.allocatable() < self.space.free()
    }

    /// The error for a request that lacks `missing` blocks: with free and total bytes.
    pub fn no_space(&self, missing: u64) -> StoreError {
        self.admission.no_space(missing, &self.meta, &self.space)
    }

    /// Frees blocks once batch `seq` is durable.
    pub fn free(&mut self, seq: u64, extent: Extent) -> Result<(), SpaceError> {
        self.contents.free(&mut self.space, seq, extent)
    }

    /// Puts the repairs into the log and into memory.
    pub fn repair(&mut self, record: Record) -> Result<(), RepairFault> {
        if self.journal.admit(&record) != log::Admission::Fits {
            return Err(RepairFault::LogTooSmall { needed: record.log_bytes() });
        }
        for extent in &record.taken {
            self.space.replay_taken(*extent)?;
        }
        let seq = self.journal.append(&record, &[]);
        for extent in &record.freed {
            self.free(seq, *extent)?;
        }
        self.meta.apply(record.ops, usize::MAX);
        self.wants_checkpoint = true;
        Ok(())
    }

    /// Ends a pin; blocks that were freed meanwhile can be allocated now.
    pub fn unpin(&mut self, extent: Extent) {
        let free = self.space.unpin(extent).expect("pinned when its use began");
        self.discard(free);
    }

    /// Lets blocks be allocated whose records are durable.
    pub fn release_durable(&mut self) {
        let free = self.space.durable(self.journal.durable());
        self.discard(free);
    }

    /// Discards free blocks, which are not allocated before the device has completed that.
    fn discard(&mut self, free: Extents) {
        if !self.devices.can_discard() {
            return;
        }
        for extent in free.into_iter().filter(|extent| extent.count >= DISCARD_BLOCKS_MIN) {
            self.space.withdraw(extent).expect("it became free just now");
            self.devices.discard(extent);
        }
    }

    /// Reads pages of the tree that are not on their way, for an operation that waits for all of
    /// them.
    pub fn read_pages(&mut self, waiter: Waiter, pages: Vec<PageRead>) {
        for read in self.waits.wait(waiter, pages) {
            self.devices.read_page(read, 0);
        }
    }

    /// Plans that operations are repeated that failed for unreadable pages.
    pub fn plan_retry(&mut self) {
        if self.meta.has_failures() {
            self.waits.plan_retry(self.now);
        }
    }

    /// Space in use, for clients and monitors.
    pub fn usage(&self) -> Usage {
        let unit = crate::device::BLOCK as u64;
        let total = self.space.total();
        let pages = self.admission.pages();
        let available = self.admission.available_blocks(&self.meta, &self.space);
        Usage {
            bytes_total: total * unit,
            bytes_available: available * unit,
            bytes_used: (total - self.space.free()).saturating_sub(pages.idle_blocks()) * unit,
            bytes_omap: self.superblock.counters.omap_bytes,
            bytes_meta: pages.used() * unit,
            objects: self.journal.counters().objects,
            counters: self.counters(),
        }
    }

    fn counters(&self) -> Counters {
        const BLOCK_LEN: u64 = crate::device::BLOCK as u64;
        let (io, (batches, batch_time)) = (self.devices.counts(), self.journal.counted());
        let (cache_hits, cache_misses) = self.contents.looked_up();
        let buffered = self.meta.changed_bytes() + self.contents.deferred_bytes();
        Counters {
            commits: self.turn.work(&self.meta).commits,
            batches,
            log_bytes: self.devices.log_bytes(),
            batch_ns: batch_time.as_nanos() as u64,
            flushes: io.flushes,
            device_reads: io.reads,
            device_read_bytes: io.read_blocks * BLOCK_LEN,
            repeated_reads: io.repeated_reads,
            device_writes: io.writes,
            device_write_bytes: io.write_bytes,
            cache_hits,
            cache_misses,
            checkpoints: self.turn.checkpoints(),
            log_used_bytes: self.journal.used_blocks() * BLOCK_LEN,
            buffered_bytes: buffered as u64,
        }
    }

    /// Panics unless the operations in flight are those that something waits for. A store that has stopped
    /// waits for none.
    pub fn check_in_flight(&self) {
        self.journal.check_in_flight(self.devices.in_flight());
        self.contents.check_in_flight(self.devices.in_flight());
    }

    /// Panics if parts of the state contradict each other. Examines everything.
    pub fn check_invariants(&self) {
        self.space.check_invariants();
        self.journal.check_invariants();
        let (newest, is_checkpointing) = (self.journal.newest(), self.is_checkpointing());
        self.contents.check_invariants(newest, is_checkpointing, &self.space);
        self.meta.check_invariants();
        self.admission.check_invariants(&self.meta, &self.space);
        self.waits.check_invariants();
    }
}
