//! Checkpoints: write changed metadata to the tree and deferred writes to their place, and trim the
//! log.
//!
//! ```text
//! freeze ─ deferred writes and pages, in parallel ─ page bitmap ─ flush ─ superblock ─ install
//! ```
//!
//! Clients continue meanwhile: their changes go to the active table and to the log behind its
//! frozen part. Each step does a bounded amount of work, and the number of writes in flight is
//! bounded.

use super::deferred::DeferredRun;
use super::mounted::{Mounted, Use};
use super::turn::{CHUNKS_MAX, PAGES_MAX};
use super::waits::Waiter;
use crate::checksum::crc32c;
use crate::device::{BLOCK, Device, Extent};
use crate::keys;
use crate::log::{Counters, LogPoint};
use crate::space::CHUNK_BYTES;
use crate::superblock::{self, BITMAP_EXTENTS_MAX, PageBitmap, SCATTERED_EXTENTS_MAX, Superblock};
use crate::table::Table;
use crate::tree::{Applied, Apply, ApplyError, Load, PageSource, Step};
use bytes::Bytes;
use codec::encode_to_bytes;
use stdx::AlignedBuffer;
use store::StoreError;

/// Writes of a checkpoint in flight. The number rises with the changes that have gathered since it
/// began, so that a checkpoint neither disturbs clients while there is time nor blocks them when
/// there is none.
const WRITES_IN_FLIGHT: [usize; 5] = [4, 8, 16, 32, 64];
/// Pages that one step of the tree may write.
const STEP_PAGES: usize = 64;
/// Pages per write operation.
const PAGES_PER_WRITE_MAX: usize = 64;
/// A checkpoint begins when the log is this full, in parts of [`LOG_PARTS`].
const LOG_PART_BEGIN: u64 = 3;
const LOG_PARTS: u64 = 8;
/// Consecutive attempts to continue although a page of the old tree is unreadable, one second
/// apart. After that the store stops, because the log could never be trimmed again.
const FAILURES_MAX: u32 = 10;

#[derive(Debug)]
enum Phase {
    /// Waits until batches up to the frozen end are durable and the bitmap of the space is frozen.
    Settling,
    /// Writes deferred writes and pages.
    Writing,
    /// Flushes what was written.
    Flushing,
    /// Writes the superblock.
    Recording,
}

pub(crate) struct Checkpoint {
    phase: Phase,
    /// Log point where replay will start.
    point: LogPoint,
    /// Number of the last batch before `point`.
    seq: u64,
    /// Counters as of that batch.
    counters: Counters,
    /// Runs taken out of the metadata space: free when the superblock is durable.
    returned: Vec<Extent>,
    /// Deferred writes to blocks below this one were submitted.
    deferred_cursor: u64,
    deferred_done: bool,
    apply: Apply,
    applied: Option<Applied>,
    /// Pages of the old tree that the new one does not refer to.
    freed: Vec<Extent>,
    /// Set while pages are being read, or wait for another attempt.
    is_reading: bool,
    /// See [`FAILURES_MAX`].
    failures: u32,
    writes_in_flight: usize,
    superblock: Option<Superblock>,
}

impl Mounted {
    /// Starts a checkpoint if one is due, and advances a running one.
    pub fn run_checkpoint(&mut self) {
        if self.checkpoint.is_some() {
            self.try_advance();
        }
        // The previous checkpoint may have ended just now.
        if self.checkpoint.is_none() && self.failure.is_none() {
            self.want_checkpoint =
                self.want_checkpoint && (self.has_changes() || self.has_page_surplus());
            if self.is_checkpoint_due() {
                self.begin_checkpoint();
                self.try_advance();
            }
        }
    }

    fn try_advance(&mut self) {
        if let Err(error) = self.advance_checkpoint() {
            self.fail(error);
        }
    }

    fn is_checkpoint_due(&self) -> bool {
        let used = self.log.used_blocks() * LOG_PARTS;
        (self.has_changes() || self.want_checkpoint)
            && !self.waits.has_expired()
            && !self.meta.is_applying()
            && (self.want_checkpoint
                || used > self.log.capacity() * LOG_PART_BEGIN
                || self.meta.active.bytes > self.budget.table_bytes
                || self.deferred.waiting() * BLOCK > self.budget.deferred_bytes)
    }

    fn has_changes(&self) -> bool {
        !self.meta.active.is_empty() || self.log.used_blocks() > 0
    }

    fn begin_checkpoint(&mut self) {
        self.want_checkpoint = false;
        self.give_up_dry_run();
        self.seal();
        self.deferred.freeze();
        let active = Table::above(self.counters.next_id);
        let mut frozen = std::mem::replace(&mut self.meta.active, active);
        self.add_set_aside_runs();
        let returned = self.take_back_pages(&frozen.load);
        // Pages that were taken back are no longer available.
        self.headroom = 0;
        if let Some(measured) = self.measured.take() {
            frozen.load = measured;
        }
        self.freeze_space(&mut frozen.load);
        self.meta.frozen = Some(frozen);
        self.checkpoint = Some(Checkpoint {
            phase: Phase::Settling,
            point: self.commits.sealed,
            seq: self.commits.sealed_seq,
            counters: self.counters,
            returned,
            deferred_cursor: 0,
            deferred_done: false,
            apply: Apply::new(self.root(), self.superblock.sequence + 1),
            applied: None,
            freed: Vec::new(),
            is_reading: false,
            failures: 0,
            writes_in_flight: 0,
            superblock: None,
        });
    }

    /// Begins a snapshot of the bitmap of the space, counts its chunks as changes, and ensures that
    /// the tree has the pages that all of them may need. Growing the metadata space changes the
    /// bitmap in turn.
    fn freeze_space(&mut self, load: &mut Load) {
        loop {
            let mut all = *load;
            all.add_times(chunk_load(), self.space.map().dirty_chunks());
            let needed = self.pages_bound(&all).pages + self.bitmap_pages();
            let missing = needed.saturating_sub(self.pages.free_pages());
            let is_added = missing == 0 || self.grow_metadata_space(missing);
            if missing == 0 || !is_added {
                if !is_added {
                    tracing::warn!(missing, "the metadata tree may run out of pages");
                }
                load.add_times(chunk_load(), self.space.map().dirty_chunks());
                return self.space.begin_snapshot();
            }
        }
    }

    /// Adds chunks of the snapshot to the frozen changes, within the budget of one turn; true if
    /// none is left.
    fn freeze_chunks(&mut self) -> bool {
        let left = CHUNKS_MAX.saturating_sub(self.turn.chunks() as usize);
        let frozen = self.meta.frozen.as_mut().expect("frozen while a checkpoint runs");
        let chunks = self.space.take_snapshot(left);
        self.turn.work.chunks += chunks.len() as u64;
        for (chunk, bits) in chunks {
            // The chunk was counted when the snapshot began.
            frozen.load.subtract(chunk_load());
            match bits.iter().all(|byte| *byte == 0) {
                true => frozen.delete(&keys::bitmap(chunk)),
                false => frozen.put(&keys::bitmap(chunk), Bytes::copy_from_slice(&bits)),
            }
        }
        let is_done = self.space.snapshot_chunks() == 0;
        self.turn.is_checkpoint_waiting |= !is_done;
        is_done
    }

    pub fn resume_checkpoint(&mut self) {
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.is_reading = false;
        }
    }

    /// Handles the completion of a write or flush of the checkpoint.
    pub fn checkpoint_progress(&mut self) {
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.writes_in_flight -= 1;
        }
    }

    fn advance_checkpoint(&mut self) -> Result<(), StoreError> {
        let Some(checkpoint) = &self.checkpoint else { return Ok(()) };
        match checkpoint.phase {
            Phase::Settling => {
                let is_durable = self.commits.durable >= checkpoint.seq;
                if !self.freeze_chunks() || !is_durable {
                    return Ok(());
                }
                self.set_phase(Phase::Writing);
                self.write_deferred();
                self.write_pages()
            }
            Phase::Writing => {
                self.write_deferred();
                self.write_pages()
            }
            Phase::Flushing if checkpoint.writes_in_flight == 0 => {
                self.write_superblock();
                Ok(())
            }
            Phase::Recording if checkpoint.writes_in_flight == 0 => {
                self.install();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn set_phase(&mut self, phase: Phase) {
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.phase = phase;
        }
    }

    /// See [`WRITES_IN_FLIGHT`].
    fn writes_allowed(&self) -> usize {
        let tables = self.meta.active.bytes * 4 / self.budget.table_bytes;
        let deferred = self.deferred.waiting() * BLOCK * 4 / self.budget.deferred_bytes;
        let log = (self.log.used_blocks() * 8 / self.log.capacity()).saturating_sub(LOG_PART_BEGIN);
        let urgency = tables.max(deferred).max(log as usize);
        WRITES_IN_FLIGHT[urgency.min(WRITES_IN_FLIGHT.len() - 1)]
    }

    fn write_deferred(&mut self) {
        let allowed = self.writes_allowed();
        let Some(checkpoint) = &mut self.checkpoint else { return };
        while checkpoint.writes_in_flight < allowed && !checkpoint.deferred_done {
            match self.deferred.next_write(checkpoint.deferred_cursor) {
                Some(DeferredRun { extent, data }) => {
                    checkpoint.deferred_cursor = extent.end();
                    checkpoint.writes_in_flight += 1;
                    self.io.write(
                        Use::Deferred { extent },
                        Device::Main,
                        extent.start,
                        data,
                        false,
                    );
                }
                None => checkpoint.deferred_done = true,
            }
        }
    }

    fn write_pages(&mut self) -> Result<(), StoreError> {
        let allowed = self.writes_allowed();
        let Some(checkpoint) = &mut self.checkpoint else { return Ok(()) };
        let frozen = self.meta.frozen.as_ref().expect("frozen while a checkpoint runs");
        while checkpoint.applied.is_none()
            && !checkpoint.is_reading
            && checkpoint.writes_in_flight < allowed
        {
            if self.turn.pages() >= PAGES_MAX {
                self.turn.is_checkpoint_waiting = true;
                break;
            }
            let tree = &mut self.meta.tree;
            let before = checkpoint.apply.work();
            let step = checkpoint.apply.step(tree, frozen, &mut self.pages, STEP_PAGES);
            let step = match step {
                // Damaged bytes with a valid checksum stay damaged when they are read again.
                Err(ApplyError::Damaged { .. })
                    if checkpoint.failures < FAILURES_MAX && self.meta.tree.has_failures() =>
                {
                    (checkpoint.is_reading, checkpoint.failures) = (true, checkpoint.failures + 1);
                    break;
                }
                step => step.map_err(|error| StoreError::Device(error.to_string()))?,
            };
            self.turn.work.pages += checkpoint.apply.work() - before;
            let mut freed = checkpoint.apply.take_freed();
            if let Step::Done(applied) = &step {
                freed.extend(&applied.freed);
            }
            for extent in freed {
                let leaving = self.pages.free_later(extent);
                leaving.map_err(|error| StoreError::Device(error.to_string()))?;
                checkpoint.freed.push(extent);
            }
            let mut writer = PageWriter::default();
            while let Some((page, bytes)) = checkpoint.apply.poll_write() {
                writer.add(page, bytes);
            }
            for (page, data) in writer.runs {
                checkpoint.writes_in_flight += 1;
                self.io.write(Use::Checkpoint, self.meta_device, page, data, false);
            }
            match step {
                Step::Progress => checkpoint.failures = 0,
                Step::Done(applied) => checkpoint.applied = Some(applied),
                Step::Need(pages) => {
                    checkpoint.is_reading = true;
                    self.read_pages(Waiter::Checkpoint, pages);
                    break;
                }
            }
        }
        self.plan_retry();
        self.finish_writing()
    }

    /// Once all pages are known, writes the bitmap of pages, then flushes.
    fn finish_writing(&mut self) -> Result<(), StoreError> {
        let Some(checkpoint) = &self.checkpoint else { return Ok(()) };
        let Some(applied) = &checkpoint.applied else { return Ok(()) };
        if !checkpoint.deferred_done {
            return Ok(());
        }
        if checkpoint.superblock.is_none() {
            let applied = applied.clone();
            let superblock = self.next_superblock(&applied)?;
            let checkpoint = self.checkpoint.as_mut().expect("looked at above");
            checkpoint.superblock = Some(superblock);
        }
        let checkpoint = self.checkpoint.as_mut().expect("looked at above");
        if checkpoint.writes_in_flight == 0 {
            checkpoint.phase = Phase::Flushing;
            for device in self.devices_to_flush() {
                self.io.flush(Use::Checkpoint, device);
                self.checkpoint.as_mut().expect("looked at above").writes_in_flight += 1;
            }
            return self.advance_checkpoint();
        }
        Ok(())
    }

    /// Superblock of the checkpoint; writes the bitmap of pages on the way.
    fn next_superblock(&mut self, applied: &Applied) -> Result<Superblock, StoreError> {
        let checkpoint = self.checkpoint.as_ref().expect("the caller looked at it");
        let mut superblock = self.superblock.clone();
        superblock.sequence += 1;
        superblock.log = checkpoint.point;
        superblock.counters = checkpoint.counters;
        let omap_bytes = self.superblock.counters.omap_bytes;
        superblock.counters.omap_bytes =
            omap_bytes.saturating_add_signed(applied.changes.omap_bytes);
        superblock.tree_root = applied.root.as_ref().map(encode_to_bytes).unwrap_or_default();
        let replaced = self.superblock.metadata.bitmap.extents.iter();
        for extent in replaced {
            self.pages
                .free_later(*extent)
                .map_err(|error| StoreError::Device(error.to_string()))?;
        }
        superblock.metadata.bitmap = self.write_page_bitmap()?;
        superblock.name_runs(self.pages.run_count(), self.pages.runs());
        Ok(superblock)
    }

    /// Pages that the bitmap of pages needs.
    pub(super) fn bitmap_pages(&self) -> u64 {
        self.pages.encoded_length().div_ceil(BLOCK) as u64
    }

    /// The same, including the runs that are added after the checkpoint.
    pub(super) fn bitmap_pages_later(&self) -> u64 {
        let later = self.encoded_length_later();
        (self.pages.encoded_length() + later).div_ceil(BLOCK) as u64
    }

    /// The bitmap covers its own pages, so they are allocated first.
    fn write_page_bitmap(&mut self) -> Result<PageBitmap, StoreError> {
        let mut extents = Vec::new();
        let mut missing = self.bitmap_pages();
        while missing > 0 && extents.len() < BITMAP_EXTENTS_MAX / 2 {
            let extent = self.pages.allocate_run(missing).ok_or_else(|| no_page(missing))?;
            missing -= extent.count;
            extents.push(extent);
        }
        // The superblock names few extents; as these run short, long runs are preferred.
        if missing > 0 {
            let pieces_max = SCATTERED_EXTENTS_MAX - extents.len();
            let longest = self.pages.allocate_longest(missing, pieces_max);
            missing -= longest.iter().map(|extent| extent.count).sum::<u64>();
            extents.extend(longest);
        }
        if missing > 0 {
            let what = format!(
                "free pages of the metadata lie too scattered: {missing} pages of their bitmap have \
                 no place in {SCATTERED_EXTENTS_MAX} pieces"
            );
            return Err(StoreError::Device(what));
        }
        let bytes = self.pages.encode();
        let crc = crc32c(&bytes);
        let mut image = AlignedBuffer::zeroed(bytes.len().div_ceil(BLOCK).max(1) * BLOCK);
        image[..bytes.len()].copy_from_slice(&bytes);
        let image = Bytes::from(image);
        let mut start = 0;
        for extent in &extents {
            let end = start + extent.count as usize * BLOCK;
            let piece = image.slice(start..end);
            start = end;
            self.checkpoint.as_mut().expect("the caller has it").writes_in_flight += 1;
            let device = self.meta_device;
            self.io.write(Use::Checkpoint, device, extent.start, vec![piece], false);
        }
        Ok(PageBitmap { extents, bytes: bytes.len() as u64, crc })
    }

    fn write_superblock(&mut self) {
        let checkpoint = self.checkpoint.as_mut().expect("the caller has it");
        checkpoint.phase = Phase::Recording;
        let superblock = checkpoint.superblock.as_ref().expect("made when everything was written");
        let slots = superblock::slots(self.options.main_blocks, superblock.sequence);
        let block = superblock.encode();
        for slot in slots {
            checkpoint.writes_in_flight += 1;
            let durable = self.options.flush_main;
            self.io.write(Use::Checkpoint, Device::Main, slot, vec![block.clone()], durable);
        }
    }

    /// The superblock is durable: releases the pages, blocks and log that the checkpoint replaced.
    fn install(&mut self) {
        let Some(checkpoint) = self.checkpoint.take() else { return };
        let applied = checkpoint.applied.expect("complete");
        self.superblock = checkpoint.superblock.expect("complete");
        self.meta.tree.install(&applied);
        self.waits.expire();
        self.pages.commit();
        self.meta.retire_frozen();
        self.turn.stale.extend(checkpoint.freed);
        self.log.trim(checkpoint.point);
        let free = self.space.durable(self.commits.durable);
        self.discard(free);
        for run in checkpoint.returned {
            let free = self.space.unpin(run).expect("pinned when it was taken back");
            self.discard(free);
        }
        self.headroom = 0;
        self.commits.recorded_durable =
            self.commits.recorded_durable.max(self.superblock.log.seq - 1);
        // Replayed changes are in the tree now; all later ones passed admission.
        self.is_bound_met = true;
        self.resume_if_space();
    }
}

/// Load of one chunk of the bitmap of the space, until it is among the changes.
fn chunk_load() -> Load {
    Load::point(keys::BITMAP_LEN, Some(CHUNK_BYTES))
}

/// Joins adjacent pages into one write operation.
#[derive(Default)]
struct PageWriter {
    runs: Vec<(u64, Vec<Bytes>)>,
}

impl PageWriter {
    fn add(&mut self, page: u64, bytes: Bytes) {
        let pages = |run: &Vec<Bytes>| run.iter().map(|piece| piece.len() / BLOCK).sum::<usize>();
        match self.runs.last_mut() {
            Some((start, run))
                if *start + pages(run) as u64 == page && run.len() < PAGES_PER_WRITE_MAX =>
            {
                run.push(bytes);
            }
            _ => self.runs.push((page, vec![bytes])),
        }
    }
}

fn no_page(missing: u64) -> StoreError {
    StoreError::Device(format!("{missing} pages are missing for the bitmap of pages"))
}
