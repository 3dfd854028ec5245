//! Batches at the end of the log of which nobody knows whether they were durable: they count if their
//! large data is there.

use super::image::Source;
use crate::checksum::crc32c;
use crate::device::{BLOCK, Device, Extent};
use crate::log::Batch;

/// How many of the batches count. Missing data is excused where the same or a later batch that counts
/// gave the block back or overwrote it with small data: something else may have gone there since.
pub(crate) fn valid(source: &Source<'_>, batches: &[Batch]) -> usize {
    let missing: Vec<(usize, u64)> = batches
        .iter()
        .enumerate()
        .flat_map(|(index, batch)| {
            missing(source, batch).into_iter().map(move |block| (index, block))
        })
        .collect();
    let is_excused = |batch: usize, block: u64, end: usize| {
        batches[batch..end].iter().any(|later| supersedes(later, block))
    };
    let is_valid = |end: &usize| {
        let mut missing = missing.iter().filter(|(batch, _)| batch < end);
        missing.all(|(batch, block)| is_excused(*batch, *block, *end))
    };
    (0..=batches.len()).rev().find(is_valid).unwrap_or(0)
}

/// Blocks of large data that do not have their checksums.
fn missing(source: &Source<'_>, batch: &Batch) -> Vec<u64> {
    let mut missing = Vec::new();
    for write in batch.records.iter().flat_map(|(record, _)| &record.large) {
        let extent = Extent::new(write.start, write.crcs.len() as u64);
        let bytes = source.read(Device::Main, extent).unwrap_or_default();
        for (index, (block, crc)) in (write.start..).zip(&write.crcs).enumerate() {
            let found = bytes.get(index * BLOCK..(index + 1) * BLOCK).map(crc32c);
            if found != Some(*crc) {
                missing.push(block);
            }
        }
    }
    missing
}

fn supersedes(batch: &Batch, block: u64) -> bool {
    batch.records.iter().any(|(record, _)| {
        let freed = |extent: &Extent| extent.start <= block && block < extent.end();
        record.small.iter().any(|write| write.block == block) || record.freed.iter().any(freed)
    })
}
