//! Batches at the end of the log of which nobody knows whether they were durable.

use super::image::Source;
use crate::device::{Device, Extent};
use crate::log::{Batch, LargeWrite, valid_batches};

/// What became of batches that may not have been durable.
pub(crate) struct Tail {
    /// How many count, if blocks that cannot be read hold what they should.
    pub valid: usize,
    /// The first such block on which it depends, and the number of its batch.
    pub unsure: Option<(u64, u64)>,
}

/// How many of the batches count, by the large data that is there.
pub(crate) fn look(source: &Source<'_>, batches: &[Batch]) -> Tail {
    let (mut missing, mut unreadable) = (Vec::new(), Vec::new());
    for (index, batch) in batches.iter().enumerate() {
        for write in batch.records.iter().flat_map(|(record, _)| &record.large) {
            let (lost, unknown) = compare(source, write);
            missing.extend(lost.into_iter().map(|block| (index, block)));
            unreadable.extend(unknown.into_iter().map(|block| (index, block)));
        }
    }
    let valid = valid_batches(batches, &missing);
    let without: Vec<_> = missing.iter().chain(&unreadable).copied().collect();
    let certain = valid_batches(batches, &without);
    let unsure = unreadable.iter().find(|(batch, _)| certain < valid && *batch >= certain);
    Tail { valid, unsure: unsure.map(|(batch, block)| (*block, batches[*batch].seq)) }
}

/// Blocks that hold something else, and blocks that cannot be read.
fn compare(source: &Source<'_>, write: &LargeWrite) -> (Vec<u64>, Vec<u64>) {
    let extent = Extent::new(write.start, write.crcs.len() as u64);
    if let Ok(bytes) = source.read(Device::Main, extent) {
        return (write.missing_in(&bytes).collect(), Vec::new());
    }
    let (mut missing, mut unreadable) = (Vec::new(), Vec::new());
    for (start, crc) in (write.start..).zip(&write.crcs) {
        let block = LargeWrite { start, crcs: vec![*crc] };
        match source.read(Device::Main, Extent::new(start, 1)) {
            Ok(bytes) => missing.extend(block.missing_in(&bytes)),
            Err(_) => unreadable.push(start),
        }
    }
    (missing, unreadable)
}
