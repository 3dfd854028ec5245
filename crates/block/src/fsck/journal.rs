//! The log behind the last checkpoint.

use super::detail::Detail;
use super::fault::{Access, RecordFault};
use super::finding::{FindingKind, Findings, Repair};
use super::image::Source;
use super::tail;
use crate::device::Extent;
use crate::log::{Batch, Counters, LogFault, LogPoint, Record, Replay, Replayed, Stop};
use crate::space::BlockMap;
use crate::superblock::Superblock;
use crate::table::{Op, Table};
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;

/// Summary and end of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSummary {
    /// Log point where replay started.
    pub start: LogPoint,
    /// Log point where it ended.
    pub end: LogPoint,
    /// Batches that count.
    pub batches: u64,
    /// Records of these batches.
    pub records: u64,
    /// Batches at the end that do not count, because data of large writes is missing.
    pub left_out: u64,
    /// Reason why no further batch counts.
    pub stop: LogStop,
}

/// Reason why no further batch of the log counts.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LogStop {
    /// There is no other batch.
    #[error(transparent)]
    End(#[from] Stop),
    /// Acknowledged batches may be missing.
    #[error(transparent)]
    Damaged(#[from] LogFault),
    /// A large write of a batch that was not durable is missing.
    #[error("batch {seq} lacks its large data")]
    LacksData {
        /// Number of the batch.
        seq: u64,
    },
}

/// Blocks of the space that a record takes or frees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpaceChange {
    Taken(Extent),
    Freed(Extent),
}

/// Replayed effects of all batches that count.
#[derive(Debug)]
pub(crate) struct Journal {
    /// Changes of pairs since the checkpoint.
    pub overlay: Table,
    space: Vec<SpaceChange>,
    /// Checksums of deferred writes, by place.
    pub waiting: BTreeMap<u64, u32>,
    /// Counters of the last record.
    pub counters: Counters,
    /// Numbers for the report.
    pub summary: LogSummary,
    /// Set if a mount would refuse to decide where the log ends.
    pub kept: Option<Kept>,
}

/// End of the log if batches with unreadable data count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept {
    /// Log point behind the last batch.
    pub end: LogPoint,
    /// Generation of the last batch.
    pub generation: u64,
}

impl Journal {
    /// Replays the log up to its end.
    pub fn read(source: &Source<'_>, superblock: &Superblock, findings: &mut Findings) -> Journal {
        let mut journal = Journal::new(superblock);
        let space = superblock.geometry.space;
        let mut unsure = Vec::new();
        let last = replay(source, superblock, &mut |batch| match batch.durable {
            true => journal.replay(&batch, space, findings),
            false => unsure.push(batch),
        });
        let generation = journal.end_at(last, findings);
        let tail = generation.map(|_| tail::look(source, &unsure));
        let valid = tail.as_ref().map_or(unsure.len(), |tail| tail.valid);
        for batch in &unsure[..valid] {
            journal.replay(batch, space, findings);
        }
        if let (Some(generation), Some((block, seq))) = (generation, tail.and_then(|t| t.unsure)) {
            let end = unsure.get(valid).map_or(journal.summary.end, |batch| batch.start);
            journal.kept = Some(Kept { end, generation });
            let detail = Detail::UnsureBatch { block, seq };
            findings.add_repairable(FindingKind::LogUnsure, Repair::Keep, detail);
        }
        if let Some(left_out) = unsure.get(valid) {
            journal.summary.end = left_out.start;
            journal.summary.left_out = (unsure.len() - valid) as u64;
            journal.summary.stop = LogStop::LacksData { seq: left_out.seq };
        }
        journal
    }

    /// An empty log behind the last checkpoint.
    pub fn new(superblock: &Superblock) -> Journal {
        Journal {
            overlay: Table::default(),
            space: Vec::new(),
            waiting: BTreeMap::new(),
            counters: superblock.counters,
            summary: LogSummary {
                start: superblock.log,
                end: superblock.log,
                batches: 0,
                records: 0,
                left_out: 0,
                stop: LogStop::End(Stop::NoBatch),
            },
            kept: None,
        }
    }

    /// Advances a bitmap from the checkpoint to the end of the log.
    pub fn replay_space(&self, map: &mut BlockMap) {
        for change in &self.space {
            // Changes outside of the space were reported when the log was read.
            let _ = match change {
                SpaceChange::Taken(extent) => map.set_used(*extent),
                SpaceChange::Freed(extent) => map.set_free(*extent),
            };
        }
    }

    /// Handles the end of the log; returns the generation of the last batch unless the log is
    /// damaged.
    fn end_at(&mut self, last: Replayed, findings: &mut Findings) -> Option<u64> {
        let fault = match last {
            Replayed::End { point, generation, stop } => {
                self.summary.end = point;
                self.summary.stop = stop.into();
                return Some(generation);
            }
            Replayed::Unreadable { block } => LogFault::Unreadable { block },
            Replayed::Damaged { block, damage } => LogFault::Damaged { block, damage },
            Replayed::Batch(_) => unreachable!("a batch is not the end"),
        };
        self.summary.stop = fault.clone().into();
        findings.add(FindingKind::Log, fault.into());
        None
    }

    fn replay(&mut self, batch: &Batch, space: Extent, findings: &mut Findings) {
        self.summary.batches += 1;
        self.summary.end = batch.end;
        for (record, _) in &batch.records {
            self.summary.records += 1;
            if let Err(fault) = check_record(record, space) {
                let detail = Detail::Record { seq: batch.seq, fault };
                findings.add(FindingKind::LogRecord, detail);
            }
            self.replay_record(record);
        }
    }

    fn replay_record(&mut self, record: &Record) {
        self.space.extend(record.taken.iter().copied().map(SpaceChange::Taken));
        for write in &record.small {
            self.waiting.insert(write.block, write.crc);
        }
        for extent in &record.freed {
            self.space.push(SpaceChange::Freed(*extent));
            self.forget(*extent);
        }
        record.ops.iter().for_each(|op| self.overlay.apply(op.clone()));
        self.counters = record.counters;
    }

    fn forget(&mut self, extent: Extent) {
        let end = extent.start.saturating_add(extent.count);
        let known: Vec<u64> =
            self.waiting.range(extent.start..end).map(|(block, _)| *block).collect();
        for block in known {
            self.waiting.remove(&block);
        }
    }
}

/// Visits all batches of the log, and returns its end.
pub(crate) fn replay(
    source: &Source<'_>,
    superblock: &Superblock,
    visit: &mut dyn FnMut(Batch),
) -> Replayed {
    let geometry = &superblock.geometry;
    let mut replay = Replay::new(
        geometry.log,
        superblock.store,
        superblock.log,
        superblock.resumed,
        superblock.generation,
    );
    loop {
        match replay.poll() {
            Some(Replayed::Batch(batch)) => visit(batch),
            Some(last) => return last,
            None => answer_reads(source, superblock, &mut replay),
        }
    }
}

fn answer_reads(source: &Source<'_>, superblock: &Superblock, replay: &mut Replay) {
    while let Some((block, blocks)) = replay.next_read() {
        match source.read(superblock.geometry.log_device, Extent::new(block, blocks)) {
            Ok(bytes) => replay.supply(block, bytes),
            Err(_) => replay.supply_failed(block),
        }
    }
}

/// Checks that all extents of a record lie within the space, and that it leaves the space bitmap
/// alone.
fn check_record(record: &Record, space: Extent) -> Result<(), RecordFault> {
    let within = |access, extent: Extent| {
        let end = extent.start.checked_add(extent.count);
        match extent.start >= space.start && end.is_some_and(|end| end <= space.end()) {
            true => Ok(()),
            false => Err(RecordFault::OutsideSpace { access, extent }),
        }
    };
    record.taken.iter().try_for_each(|extent| within(Access::Takes, *extent))?;
    record.freed.iter().try_for_each(|extent| within(Access::Frees, *extent))?;
    let small = record.small.iter().map(|write| Extent::new(write.block, 1));
    let large = record.large.iter().map(|write| Extent::new(write.start, write.crcs.len() as u64));
    small.chain(large).try_for_each(|extent| within(Access::Writes, extent))?;
    match record.ops.iter().find(|op| is_of_bitmap(op)) {
        Some(op) => Err(RecordFault::Bitmap(op.clone())),
        None => Ok(()),
    }
}

fn is_of_bitmap(op: &Op) -> bool {
    let bitmap = crate::keys::bitmap_range();
    let is_within = |key: &[u8]| bitmap.start[..] <= *key && *key < bitmap.end[..];
    match op {
        Op::Put { key, .. } | Op::Delete { key } => is_within(key),
        Op::DeleteRange { first, last } => *first < bitmap.end && bitmap.start < *last,
    }
}

impl fmt::Display for LogSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LogSummary { start, end, batches, records, left_out, stop } = self;
        write!(f, "{batches} batches with {records} records from {} ", start.seq)?;
        write!(f, "(position {}) up to {} (position {})", start.position, end.seq, end.position)?;
        if *left_out > 0 {
            write!(f, ", {left_out} left out")?;
        }
        write!(f, ": {stop}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    /// Users and their scripts see these.
    #[test]
    fn the_sentences_about_records_stay_what_they_are() {
        let space = Extent::new(10, 5);
        let takes = |extent| Record { taken: vec![extent].into(), ..Record::default() };
        let frees = |extent| Record { freed: vec![extent].into(), ..Record::default() };
        let first: Bytes = crate::keys::bitmap(0);
        let range = Op::DeleteRange { first: first.clone(), last: crate::keys::bitmap(1) };
        let bitmap = Record { ops: vec![range.clone()], ..Record::default() };
        let sentences = [
            (takes(Extent::new(9, 1)), "takes block 9 outside of the space".to_owned()),
            (takes(Extent::new(14, 2)), "takes blocks 14..16 outside of the space".to_owned()),
            (
                frees(Extent::new(u64::MAX, 1)),
                format!("frees block {} outside of the space", u64::MAX),
            ),
            (bitmap, format!("changes the bitmap of the space: {range:?}")),
        ];
        for (record, sentence) in sentences {
            assert_eq!(check_record(&record, space).unwrap_err().to_string(), sentence);
        }
        assert_eq!(check_record(&takes(space), space), Ok(()));
    }
}
