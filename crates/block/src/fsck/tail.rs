//! Batches at the end of the log that may not have been durable.

use super::image::Source;
use crate::device::{Device, Extent};
use crate::log::{Batch, LargeWrite, valid_batches};

/// Outcome for batches that may not have been durable.
pub(crate) struct Tail {
    /// Number of batches that count if unreadable blocks have the right content.
    pub valid: usize,
    /// First unreadable block that decides about a batch, and the number of that batch.
    pub unsure: Option<(u64, u64)>,
}

/// Checks data of large writes to find out how many of the batches count.
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

/// Blocks with a wrong checksum, and unreadable blocks.
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
