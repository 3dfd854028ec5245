//! Batches at the end of the log of which nobody knows whether they were durable.

use crate::log::{Batch, LargeWrite, LogPoint};
use bytes::Bytes;

pub(super) struct Tail {
    pub batches: Vec<Batch>,
    pub end: LogPoint,
    pub generation: u64,
    /// Large data to check, by batch.
    pub runs: Vec<(usize, LargeWrite)>,
    /// Batch and block of large data that is not there.
    pub missing: Vec<(usize, u64)>,
}

impl Tail {
    pub fn new(batches: Vec<Batch>, end: LogPoint, generation: u64) -> Self {
        let runs = runs_to_check(&batches);
        Tail { batches, end, generation, runs, missing: Vec::new() }
    }

    pub fn supply(&mut self, run: usize, bytes: Option<Bytes>) {
        let (batch, write) = &self.runs[run];
        let bytes = bytes.unwrap_or_default();
        self.missing.extend(write.missing_in(&bytes).map(|block| (*batch, block)));
    }
}

/// The large data of batches that may not have been durable.
fn runs_to_check(batches: &[Batch]) -> Vec<(usize, LargeWrite)> {
    let writes = batches.iter().enumerate().flat_map(|(index, batch)| {
        let writes = batch.records.iter().flat_map(|(record, _)| &record.large);
        writes.map(move |write| (index, write.clone()))
    });
    writes.collect()
}
