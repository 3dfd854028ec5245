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
use super::devices::Use;
use super::journal::FrozenEnd;
use super::pages::NoPlace;
use super::volume::Volume;
use super::waits::Waiter;
use crate::checksum::crc32c;
use crate::device::{BLOCK, Extent};
use crate::superblock::{PageBitmap, Superblock};
use crate::tree::{Applied, Apply, ApplyError, Step};
use bytes::Bytes;
use codec::encode_to_bytes;
use stdx::AlignedBuffer;
use store::{DeviceFault, StoreError};

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
    /// End of the log that the checkpoint contains.
    end: FrozenEnd,
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

impl Checkpoint {
    /// Set if one must begin, and can. None may be running.
    pub fn is_due(volume: &Volume) -> bool {
        let Volume { journal, meta, budget, contents, waits, .. } = volume;
        let used = journal.used_blocks() * LOG_PARTS;
        (volume.has_changes() || volume.wants_checkpoint)
            && !waits.has_expired()
            && !meta.is_applying()
            && (volume.wants_checkpoint
                || used > journal.capacity() * LOG_PART_BEGIN
                || meta.active_bytes() > budget.table_bytes
                || contents.waiting_bytes() > budget.deferred_bytes)
    }

    /// Freezes what is in memory. No allocations other than those of records may be in it.
    pub fn begin(volume: &mut Volume) -> Self {
        volume.wants_checkpoint = false;
        let Volume { now, journal, contents, devices, meta, admission, space, .. } = volume;
        journal.seal(*now, contents, devices);
        contents.freeze();
        let end = journal.end();
        let mut frozen = meta.take_changes(end.counters.next_id);
        let returned = admission.begin_checkpoint(&mut frozen.load, end.seq, meta, space);
        meta.freeze(frozen);
        Checkpoint {
            phase: Phase::Settling,
            end,
            returned,
            deferred_cursor: 0,
            deferred_done: false,
            apply: Apply::new(meta.root(), volume.superblock.sequence + 1),
            applied: None,
            freed: Vec::new(),
            is_reading: false,
            failures: 0,
            writes_in_flight: 0,
            superblock: None,
        }
    }

    /// Lets it continue when pages were read, or may be read again.
    pub fn resume(&mut self) {
        self.is_reading = false;
    }

    /// Handles the completion of a write or flush of the checkpoint.
    pub fn write_done(&mut self) {
        assert!(self.writes_in_flight > 0, "more writes complete than began");
        self.writes_in_flight -= 1;
    }

    /// Does what can be done now. Returns true once the superblock is durable:
    /// [`Checkpoint::install`] must follow. After an error the log could never be trimmed again, so
    /// the store must stop.
    pub fn advance(&mut self, volume: &mut Volume) -> Result<bool, StoreError> {
        match self.phase {
            Phase::Settling => {
                let is_durable = volume.journal.durable() >= self.end.seq;
                if !freeze_chunks(volume) || !is_durable {
                    return Ok(false);
                }
                self.phase = Phase::Writing;
                self.write(volume)
            }
            Phase::Writing => self.write(volume),
            Phase::Flushing if self.writes_in_flight == 0 => {
                self.write_superblock(volume);
                Ok(false)
            }
            Phase::Recording => Ok(self.writes_in_flight == 0),
            Phase::Flushing => Ok(false),
        }
    }

    fn write(&mut self, volume: &mut Volume) -> Result<bool, StoreError> {
        self.write_deferred(volume);
        self.write_pages(volume)?;
        self.finish_writing(volume)
    }

    fn write_deferred(&mut self, volume: &mut Volume) {
        let allowed = writes_allowed(volume);
        while self.writes_in_flight < allowed && !self.deferred_done {
            match volume.contents.next_deferred(self.deferred_cursor) {
                Some(DeferredRun { extent, data }) => {
                    self.deferred_cursor = extent.end();
                    self.writes_in_flight += 1;
                    volume.devices.write_deferred(extent, data);
                }
                None => self.deferred_done = true,
            }
        }
    }

    fn write_pages(&mut self, volume: &mut Volume) -> Result<(), StoreError> {
        let allowed = writes_allowed(volume);
        while self.applied.is_none() && !self.is_reading && self.writes_in_flight < allowed {
            if !volume.turn.has_pages_left() {
                volume.turn.put_off_checkpoint();
                break;
            }
            let before = self.apply.work();
            let pages = volume.admission.pages_mut();
            let step = match volume.meta.apply_frozen(&mut self.apply, pages, STEP_PAGES) {
                // Damaged bytes with a valid checksum stay damaged when they are read again.
                Err(ApplyError::Damaged { .. })
                    if self.failures < FAILURES_MAX && volume.meta.has_failures() =>
                {
                    (self.is_reading, self.failures) = (true, self.failures + 1);
                    break;
                }
                step => step.map_err(|error| StoreError::Device(DeviceFault::new(error)))?,
            };
            volume.turn.count_pages(self.apply.work() - before);
            self.free_replaced(&step, volume)?;
            self.submit_pages(volume);
            match step {
                Step::Progress => self.failures = 0,
                Step::Done(applied) => self.applied = Some(applied),
                Step::Need(pages) => {
                    self.is_reading = true;
                    volume.read_pages(Waiter::Checkpoint, pages);
                    break;
                }
            }
        }
        volume.plan_retry();
        Ok(())
    }

    /// Frees pages that the new tree does not refer to, as of the end of the checkpoint.
    fn free_replaced(&mut self, step: &Step, volume: &mut Volume) -> Result<(), StoreError> {
        let mut freed = self.apply.take_freed();
        if let Step::Done(applied) = step {
            freed.extend(&applied.freed);
        }
        for extent in freed {
            let leaving = volume.admission.pages_mut().free_later(extent);
            leaving.map_err(|error| StoreError::Device(DeviceFault::new(error)))?;
            self.freed.push(extent);
        }
        Ok(())
    }

    fn submit_pages(&mut self, volume: &mut Volume) {
        let mut writer = PageWriter::default();
        while let Some((page, bytes)) = self.apply.poll_write() {
            writer.add(page, bytes);
        }
        for (page, data) in writer.runs {
            self.writes_in_flight += 1;
            volume.devices.write_pages(page, data);
        }
    }

    /// Once all pages are known, writes the bitmap of pages, then flushes.
    fn finish_writing(&mut self, volume: &mut Volume) -> Result<bool, StoreError> {
        let Some(applied) = &self.applied else { return Ok(false) };
        if !self.deferred_done {
            return Ok(false);
        }
        if self.superblock.is_none() {
            let superblock = self.next_superblock(&applied.clone(), volume)?;
            self.superblock = Some(superblock);
        }
        if self.writes_in_flight > 0 {
            return Ok(false);
        }
        self.phase = Phase::Flushing;
        self.writes_in_flight += volume.devices.flush_checkpoint();
        self.advance(volume)
    }

    /// Superblock of the checkpoint; writes the bitmap of pages on the way.
    fn next_superblock(
        &mut self,
        applied: &Applied,
        volume: &mut Volume,
    ) -> Result<Superblock, StoreError> {
        let mut superblock = volume.superblock.clone();
        superblock.sequence += 1;
        if volume.wants_shards {
            superblock.features.set_shards();
        }
        superblock.log = self.end.point;
        superblock.counters = self.end.counters;
        let omap_bytes = volume.superblock.counters.omap_bytes;
        superblock.counters.omap_bytes =
            omap_bytes.saturating_add_signed(applied.changes.omap_bytes);
        superblock.tree_root = applied.root.as_ref().map(encode_to_bytes).unwrap_or_default();
        for extent in &volume.superblock.metadata.bitmap.extents {
            let leaving = volume.admission.pages_mut().free_later(*extent);
            leaving.map_err(|error| StoreError::Device(DeviceFault::new(error)))?;
        }
        let bitmap = self.write_page_bitmap(volume);
        superblock.metadata.bitmap =
            bitmap.map_err(|error| StoreError::Device(DeviceFault::new(error)))?;
        volume.admission.pages().name_runs(&mut superblock);
        Ok(superblock)
    }

    /// The bitmap covers its own pages, so they are allocated first.
    fn write_page_bitmap(&mut self, volume: &mut Volume) -> Result<PageBitmap, NoPlace> {
        let pages = volume.admission.pages_mut();
        let extents = pages.allocate_bitmap()?;
        let bytes = pages.encode();
        let crc = crc32c(&bytes);
        let mut image = AlignedBuffer::zeroed(bytes.len().div_ceil(BLOCK).max(1) * BLOCK);
        image[..bytes.len()].copy_from_slice(&bytes);
        let image = Bytes::from(image);
        let mut start = 0;
        for extent in &extents {
            let end = start + extent.count as usize * BLOCK;
            let piece = image.slice(start..end);
            start = end;
            self.writes_in_flight += 1;
            volume.devices.write_pages(extent.start, vec![piece]);
        }
        Ok(PageBitmap { extents, bytes: bytes.len() as u64, crc })
    }

    fn write_superblock(&mut self, volume: &mut Volume) {
        self.phase = Phase::Recording;
        let superblock = self.superblock.as_ref().expect("made when everything was written");
        self.writes_in_flight += volume.devices.write_superblock(superblock);
    }

    /// The superblock is durable: releases the pages, blocks and log that the checkpoint replaced.
    pub fn install(self, volume: &mut Volume) {
        let applied = self.applied.expect("complete");
        volume.superblock = self.superblock.expect("complete");
        volume.meta.install(&applied);
        volume.waits.expire();
        volume.admission.end_checkpoint();
        volume.turn.forget_later(self.freed);
        volume.turn.count_checkpoint();
        volume.journal.trim(self.end.point);
        volume.release_durable();
        self.returned.into_iter().for_each(|run| volume.unpin(run));
    }

    /// Panics if parts of the state contradict each other.
    pub fn check_invariants(&self, volume: &Volume) {
        assert!(volume.is_checkpointing(), "a checkpoint runs without changes");
        assert!(self.end.point.position >= volume.superblock.log.position, "replay goes back");
        match self.phase {
            Phase::Settling | Phase::Writing => {}
            Phase::Flushing | Phase::Recording => {
                assert!(self.applied.is_some() && self.superblock.is_some() && self.deferred_done);
            }
        }
        let is_ours = |what: &&Use| matches!(what, Use::Checkpoint | Use::Deferred { .. });
        let in_flight = volume.devices.in_flight().filter(is_ours).count();
        assert_eq!(self.writes_in_flight, in_flight, "writes that the checkpoint waits for");
        if let Some(superblock) = &self.superblock {
            assert_eq!(superblock.sequence, volume.superblock.sequence + 1, "one at a time");
        }
    }
}

/// Adds chunks of the snapshot to the frozen changes, within the budget of one turn; true if none is
/// left.
fn freeze_chunks(volume: &mut Volume) -> bool {
    let chunks = volume.space.take_snapshot(volume.turn.chunks_left());
    volume.turn.count_chunks(chunks.len());
    for (chunk, bits) in chunks {
        volume.meta.freeze_chunk(chunk, &bits);
    }
    let is_done = volume.space.snapshot_chunks() == 0;
    if !is_done {
        volume.turn.put_off_checkpoint();
    }
    is_done
}

/// See [`WRITES_IN_FLIGHT`].
fn writes_allowed(volume: &Volume) -> usize {
    let Volume { meta, budget, contents, journal, .. } = volume;
    let tables = meta.active_bytes() * 4 / budget.table_bytes;
    let deferred = contents.waiting_bytes() * 4 / budget.deferred_bytes;
    let log = (journal.used_blocks() * 8 / journal.capacity()).saturating_sub(LOG_PART_BEGIN);
    let urgency = tables.max(deferred).max(log as usize);
    WRITES_IN_FLIGHT[urgency.min(WRITES_IN_FLIGHT.len() - 1)]
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
