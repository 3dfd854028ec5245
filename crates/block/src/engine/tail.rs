//! Batches at the end of the log that may not have been durable.

use super::failure::StoreFailure;
use super::io::READ_ATTEMPTS_MAX;
use crate::log::{Batch, LargeWrite, LogPoint, valid_batches};
use bytes::Bytes;

pub(super) struct Tail {
    /// Batches behind the durable ones, oldest first.
    pub batches: Vec<Batch>,
    /// Log point behind the last of them.
    pub end: LogPoint,
    /// Generation of the last batch of the log.
    pub generation: u64,
    /// Large writes to check. A run that is unreadable as a whole is added again block by block.
    pub runs: Vec<TailRun>,
    /// Batch and block of missing data of large writes.
    missing: Vec<(usize, u64)>,
    /// Batch and block of unreadable data of large writes.
    unreadable: Vec<(usize, u64)>,
}

/// Adjacent blocks of a large write.
#[derive(Debug, Clone)]
pub(super) struct TailRun {
    batch: usize,
    /// Blocks and their checksums.
    pub write: LargeWrite,
    /// Attempts with a wrong result.
    failures: u32,
}

impl Tail {
    /// Collects the large writes of the batches that are not known to be durable.
    pub fn new(batches: Vec<Batch>, end: LogPoint, generation: u64) -> Self {
        let runs = runs_to_check(&batches);
        Tail { batches, end, generation, runs, missing: Vec::new(), unreadable: Vec::new() }
    }

    /// Handles the content of a run; returns the runs to read next, by index.
    pub fn supply(&mut self, run: usize, bytes: Option<Bytes>) -> std::ops::Range<usize> {
        let TailRun { batch, write, failures } = self.runs[run].clone();
        let next = self.runs.len();
        match bytes {
            None if write.crcs.len() == 1 => self.unreadable.push((batch, write.start)),
            None => {
                let blocks = (write.start..).zip(&write.crcs);
                let single = |(start, crc): (u64, &u32)| TailRun {
                    batch,
                    write: LargeWrite { start, crcs: vec![*crc] },
                    failures: 0,
                };
                self.runs.extend(blocks.map(single));
            }
            Some(bytes) => {
                let missing: Vec<u64> = write.missing_in(&bytes).collect();
                if !missing.is_empty() && failures + 1 < READ_ATTEMPTS_MAX {
                    self.runs[run].failures += 1;
                    return run..run + 1;
                }
                self.missing.extend(missing.into_iter().map(|block| (batch, block)));
            }
        }
        next..self.runs.len()
    }

    /// Number of batches that count. A batch with missing data was never durable. A batch with an
    /// unreadable block may have been acknowledged, so it is not dropped on a guess: the store does
    /// not open.
    pub fn valid(&self) -> Result<usize, StoreFailure> {
        let without: Vec<_> = self.missing.iter().chain(&self.unreadable).copied().collect();
        let valid = valid_batches(&self.batches, &without);
        if valid < valid_batches(&self.batches, &self.missing) {
            let block = self.unreadable.iter().find(|(batch, _)| *batch >= valid);
            let block = block.map_or(0, |(_, block)| *block);
            return Err(StoreFailure::Unsure { block, seq: self.batches[valid].seq });
        }
        if let Some(first) = self.batches.get(valid) {
            let left_out = &self.batches[valid..];
            let transactions: usize = left_out.iter().map(|batch| batch.records.len()).sum();
            tracing::warn!(
                batch = first.seq,
                transactions,
                "the log ends before transactions whose data is not on the device: a crash has cut \
                 them off before they were acknowledged, unless the device has lost what it had \
                 flushed"
            );
        }
        Ok(valid)
    }
}

/// Large writes of batches that may not have been durable.
fn runs_to_check(batches: &[Batch]) -> Vec<TailRun> {
    let writes = batches.iter().enumerate().flat_map(|(batch, content)| {
        let writes = content.records.iter().flat_map(|(record, _)| &record.large);
        writes.map(move |write| TailRun { batch, write: write.clone(), failures: 0 })
    });
    writes.collect()
}
