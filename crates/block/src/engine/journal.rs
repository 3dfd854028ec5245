//! The log of an open store: the batch that collects records, batches in flight, and what is known
//! to be durable.
//!
//! All transactions of one turn of the host share a batch; a batch is durable when its own writes
//! and all earlier batches are.
//!
//! **Marks.** Each batch says which earlier batches are durable, but nothing says that of the last
//! one: if a block of its large writes is missing, a crash may have cut it off, and replay drops
//! it. On a busy store the doubt lasts milliseconds. On an idle one the last batch would stay in
//! doubt as long as the store is idle, and one bad block would undo the whole batch. So a second
//! after the last batch, and when the store is about to be closed, a *mark* is written: a batch
//! without records, which says that all is durable.

use super::contents::Contents;
use super::devices::{Devices, Use};
use crate::log::{Admission, Counters, Log, LogPoint, Record, SealedBatch};
use crate::slices::Slice;
use crate::superblock::Superblock;
use bytes::Bytes;
use engine::{Duration, RequestToken, Time};
use std::collections::{BTreeMap, VecDeque};
use store::StoreError;

/// Batches whose writes or flush are in flight. More batches would be smaller, at the same cost per
/// flush.
const BATCHES_IN_FLIGHT_MAX: usize = 1;
/// Delay of a mark after the last batch.
const MARK_DELAY: Duration = Duration::from_secs(1);

/// Action when a batch becomes durable.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PendingAck {
    Complete(RequestToken),
    Fail(RequestToken, StoreError),
    CleanUp(Slice),
}

/// The batch that collects records.
#[derive(Debug, Default)]
struct OpenBatch {
    acks: Vec<PendingAck>,
    has_large: bool,
    larges_left: usize,
}

#[derive(Debug)]
struct Batch {
    seq: u64,
    sealed: Time,
    acks: Vec<PendingAck>,
    has_large: bool,
    /// Writes in flight, then flushes in flight.
    left: usize,
    is_flushing: bool,
}

/// State of the store at the end of a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrozenEnd {
    /// Log point where replay will start.
    pub point: LogPoint,
    /// Number of the last batch before it.
    pub seq: u64,
    /// Counters as of that batch.
    pub counters: Counters,
}

pub(crate) struct Journal {
    log: Log,
    /// Counters after the last record.
    counters: Counters,
    open: OpenBatch,
    batches: VecDeque<Batch>,
    /// Number of batches that have become durable, and the sum of the times that they took.
    counted: (u64, Duration),
    /// Number of the last batch that is durable together with all before it.
    durable: u64,
    /// End of the last sealed batch.
    sealed: LogPoint,
    sealed_seq: u64,
    /// Number of the last sealed batch that has records.
    sealed_records: u64,
    /// Number of the last batch that a replay would find recorded as durable, by the last sealed
    /// batch or by the superblock.
    recorded_durable: u64,
    /// Time of the next mark.
    mark: Option<Time>,
    /// Set if the host is about to close the store: marks are written at once.
    is_closing: bool,
    /// Set once a store that stops has dropped its batches.
    is_abandoned: bool,
}

impl Journal {
    /// Continues the log behind `end`; everything before is durable.
    pub fn new(superblock: &Superblock, counters: Counters, end: LogPoint) -> Self {
        let (store, generation) = (superblock.store, superblock.generation);
        let durable = end.seq - 1;
        Journal {
            log: Log::new(superblock.geometry.log, store, generation, superblock.log, end),
            counters,
            open: OpenBatch::default(),
            batches: VecDeque::new(),
            counted: (0, Duration::ZERO),
            durable,
            sealed: end,
            sealed_seq: durable,
            sealed_records: durable,
            recorded_durable: durable,
            mark: None,
            is_closing: false,
            is_abandoned: false,
        }
    }

    /// Counters after the last record.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Replaces the counters, as a repair wants them.
    pub fn repair_counters(&mut self, next_id: u64, objects: u64) {
        (self.counters.next_id, self.counters.objects) = (next_id, objects);
    }

    /// Number of the last batch that is durable together with all before it.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// Number of batches that have become durable, and the sum of their times since they were sealed.
    pub fn counted(&self) -> (u64, Duration) {
        self.counted
    }

    /// Blocks of the ring.
    pub fn capacity(&self) -> u64 {
        self.log.capacity()
    }

    /// Blocks of sealed batches that no checkpoint contains.
    pub fn used_blocks(&self) -> u64 {
        self.log.used_blocks()
    }

    /// Upper bound for [`Record::log_bytes`].
    pub fn record_bytes_max(&self) -> u64 {
        self.log.record_bytes_max()
    }

    /// Set if no batch is open with requests to answer, or in flight.
    pub fn is_idle(&self) -> bool {
        self.batches.is_empty() && self.open.acks.is_empty()
    }

    /// Checks whether a record can be appended now; see [`log::Admission`].
    pub fn admit(&self, record: &Record) -> Admission {
        self.log.admit(record)
    }

    /// Appends a record that [`Journal::admit`] has admitted, with the data of its deferred writes.
    /// Returns the number of its batch.
    pub fn append(&mut self, record: &Record, data: &[Bytes]) -> u64 {
        let seq = self.log.append(record, data);
        assert!(seq > self.sealed_seq, "batch {seq} is sealed already");
        self.counters = record.counters;
        seq
    }

    /// Notes that the open batch is durable only with one more large write.
    pub fn begin_large(&mut self) {
        self.open.has_large = true;
        self.open.larges_left += 1;
    }

    /// Adds an action for the time when the open batch is durable.
    pub fn when_durable(&mut self, ack: PendingAck) {
        self.open.acks.push(ack);
    }

    /// Adds an action that comes after those of all batches so far; returns it if there are none.
    #[must_use = "an action that nothing precedes is due at once"]
    pub fn after_all(&mut self, ack: PendingAck) -> Option<PendingAck> {
        let batch = self.batches.back_mut().map(|batch| &mut batch.acks);
        match (self.open.acks.is_empty(), batch) {
            (false, _) => self.open.acks.push(ack),
            (true, Some(acks)) => acks.push(ack),
            (true, None) => return Some(ack),
        }
        None
    }

    /// Seals the open batch and writes it to the log, unless enough batches are in flight.
    pub fn seal_if_due(&mut self, now: Time, contents: &mut Contents, devices: &mut Devices) {
        if self.batches.len() < BATCHES_IN_FLIGHT_MAX {
            self.seal(now, contents, devices);
        }
    }

    /// Seals the open batch, if anything was appended, and writes it to the log.
    pub fn seal(&mut self, now: Time, contents: &mut Contents, devices: &mut Devices) {
        let Some(sealed) = self.log.seal(self.durable) else { return };
        self.sealed_records = sealed.seq;
        self.send(now, sealed, contents, devices);
    }

    fn send(
        &mut self,
        now: Time,
        sealed: SealedBatch,
        contents: &mut Contents,
        devices: &mut Devices,
    ) {
        let SealedBatch { seq, end, writes, data, places, .. } = sealed;
        // The batch says so; once it is durable, a replay knows.
        self.recorded_durable = self.recorded_durable.max(self.durable);
        self.mark = None;
        for (block, data) in places.into_iter().zip(data) {
            contents.settle(block, seq, data);
        }
        let OpenBatch { acks, has_large, larges_left } = std::mem::take(&mut self.open);
        let left = writes.len() + larges_left;
        devices.write_log(seq, writes, has_large);
        let batch = Batch { seq, sealed: now, acks, has_large, left, is_flushing: false };
        self.batches.push_back(batch);
        (self.sealed, self.sealed_seq) = (end, seq);
    }

    /// Handles the completion of a large write of batch `seq`.
    pub fn large_written(&mut self, seq: u64, devices: &mut Devices) {
        if seq > self.sealed_seq {
            assert!(self.open.larges_left > 0, "more large writes complete than began");
            self.open.larges_left -= 1;
        } else {
            self.progress(seq, devices);
        }
    }

    /// Handles the completion of a write or flush of batch `seq`; [`Journal::pop_durable`] tells what
    /// is durable now.
    pub fn progress(&mut self, seq: u64, devices: &mut Devices) {
        let batch = self.batches.iter_mut().find(|batch| batch.seq == seq);
        let batch = batch.expect("it stays until all of its operations are done");
        batch.left -= 1;
        if batch.left == 0 && batch.has_large && !batch.is_flushing {
            batch.is_flushing = true;
            batch.left = devices.flush_batch(seq);
        }
    }

    /// Actions of the next batch that has become durable.
    pub fn pop_durable(&mut self, now: Time) -> Option<Vec<PendingAck>> {
        let is_durable = self.batches.front()?.left == 0;
        let batch = is_durable.then(|| self.batches.pop_front())??;
        assert!(batch.seq > self.durable, "batches become durable in order");
        self.durable = batch.seq;
        self.counted.0 += 1;
        self.counted.1 += now.since(batch.sealed);
        Some(batch.acks)
    }

    /// Drops all batches, which will never be durable; returns their actions in order.
    pub fn abandon(&mut self) -> Vec<PendingAck> {
        self.is_abandoned = true;
        let open = std::mem::take(&mut self.open.acks);
        let batches = std::mem::take(&mut self.batches);
        batches.into_iter().flat_map(|batch| batch.acks).chain(open).collect()
    }

    /// End of all sealed batches. The open batch must have been sealed.
    pub fn end(&self) -> FrozenEnd {
        assert!(!self.log.is_open(), "records behind the end would be in the checkpoint");
        FrozenEnd { point: self.sealed, seq: self.sealed_seq, counters: self.counters }
    }

    /// A durable superblock says that replay starts at `point`: earlier batches are free.
    pub fn trim(&mut self, point: LogPoint) {
        self.log.trim(point);
        self.recorded_durable = self.recorded_durable.max(point.seq - 1);
    }

    /// Marks all durable batches, at `now` and whenever another one becomes durable.
    pub fn close(&mut self, now: Time) {
        self.is_closing = true;
        self.plan_mark(now);
    }

    /// Set if a replay could not tell from the log which batches are durable.
    pub fn lacks_mark(&self) -> bool {
        self.recorded_durable < self.sealed_records
    }

    fn needs_mark(&self) -> bool {
        self.batches.is_empty() && !self.log.is_open() && self.lacks_mark()
    }

    /// Plans a mark after batches became durable, in case that no further batch says so.
    pub fn plan_mark(&mut self, now: Time) {
        self.mark = match self.needs_mark() {
            true if self.is_closing => Some(now),
            true => Some(now + MARK_DELAY),
            false => None,
        };
    }

    /// Time of the next mark.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.mark
    }

    /// Writes a mark if one is due. False if the log has no space for it; then the superblock of a
    /// checkpoint must say what is durable.
    pub fn handle_timeout(
        &mut self,
        now: Time,
        contents: &mut Contents,
        devices: &mut Devices,
    ) -> bool {
        let is_due = self.mark.take_if(|due| *due <= now).is_some();
        if !is_due || !self.needs_mark() {
            return true;
        }
        let Some(mark) = self.log.seal_mark(self.durable) else { return false };
        self.send(now, mark, contents, devices);
        true
    }

    /// Number of the batch that collects records.
    pub fn newest(&self) -> u64 {
        self.sealed_seq + 1
    }

    /// Panics unless the operations in flight are those that the batches wait for.
    pub fn check_in_flight<'u>(&self, in_flight: impl Iterator<Item = &'u Use>) {
        let mut left: BTreeMap<u64, usize> = BTreeMap::new();
        for operation in in_flight {
            match operation {
                Use::Log { seq } | Use::Large { seq, .. } | Use::Flush { seq } => {
                    *left.entry(*seq).or_default() += 1;
                }
                _ => {}
            }
        }
        let open = (self.newest(), self.open.larges_left);
        let expected = self.batches.iter().map(|batch| (batch.seq, batch.left)).chain([open]);
        let expected: BTreeMap<u64, usize> = expected.filter(|(_, left)| *left > 0).collect();
        assert_eq!(
            left, expected,
            "operations in flight by batch, and those that batches wait for"
        );
    }

    /// Panics if parts of the state contradict each other.
    pub fn check_invariants(&self) {
        self.log.check_invariants();
        let head = self.log.head();
        assert!(self.durable <= self.sealed_seq, "durable before it was sealed");
        assert!(self.sealed_records <= self.sealed_seq);
        assert!(self.recorded_durable <= self.durable, "recorded before it was durable");
        assert_eq!(self.sealed_seq + 1, head.seq, "the open batch follows the sealed ones");
        assert_eq!(self.sealed, head, "the open batch begins where the last one ends");
        let sequence: Vec<u64> = self.batches.iter().map(|batch| batch.seq).collect();
        let expected: Vec<u64> = match self.is_abandoned {
            true => Vec::new(),
            false => (self.durable + 1..head.seq).collect(),
        };
        assert_eq!(sequence, expected, "batches in flight are those between durable and open");
        for batch in &self.batches {
            assert!(batch.left > 0 || batch.seq > self.durable + 1, "batch {} is due", batch.seq);
            assert!(!batch.is_flushing || batch.has_large, "batch {} needs no flush", batch.seq);
        }
        assert!(self.open.larges_left == 0 || self.open.has_large);
        assert!(self.open.acks.is_empty() || self.log.is_open(), "actions of an empty batch");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: Use = Use::Large { seq: 8, start: 100 };

    /// Batch 7 waits for two writes, and the open batch for a large one.
    fn journal() -> Journal {
        let area = crate::device::Extent::new(2, 512);
        let at = |seq| LogPoint { position: 0, seq, previous: 0 };
        let batch = Batch {
            seq: 7,
            sealed: Time::ZERO,
            acks: Vec::new(),
            has_large: false,
            left: 2,
            is_flushing: false,
        };
        Journal {
            log: Log::new(area, types::Uuid::default(), 1, at(1), at(8)),
            counters: Counters::default(),
            open: OpenBatch { has_large: true, larges_left: 1, ..OpenBatch::default() },
            batches: [batch].into(),
            counted: (0, Duration::ZERO),
            durable: 6,
            sealed: at(8),
            sealed_seq: 7,
            sealed_records: 7,
            recorded_durable: 6,
            mark: None,
            is_closing: false,
            is_abandoned: false,
        }
    }

    #[test]
    fn batches_wait_for_what_is_in_flight() {
        let journal = journal();
        journal.check_invariants();
        let all = [Use::Log { seq: 7 }, Use::Log { seq: 7 }, LARGE, Use::Checkpoint];
        journal.check_in_flight(all.iter());
    }

    #[test]
    #[should_panic(expected = "those that batches wait for")]
    fn a_batch_that_waits_for_nothing_is_found() {
        journal().check_in_flight([Use::Log { seq: 7 }, LARGE].iter());
    }

    #[test]
    #[should_panic(expected = "those that batches wait for")]
    fn a_write_of_a_durable_batch_is_found() {
        let all = [Use::Log { seq: 6 }, Use::Log { seq: 7 }, Use::Log { seq: 7 }, LARGE];
        journal().check_in_flight(all.iter());
    }

    #[test]
    #[should_panic(expected = "those that batches wait for")]
    fn a_large_write_of_the_open_batch_that_is_missing_is_found() {
        journal().check_in_flight([Use::Log { seq: 7 }, Use::Log { seq: 7 }].iter());
    }
}
