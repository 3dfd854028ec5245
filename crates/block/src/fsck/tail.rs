//! Batches at the end of the log of which nobody knows whether they were durable.

use super::image::Source;
use crate::device::{Device, Extent};
use crate::log::{Batch, valid_batches};

/// How many of the batches count, by the large data that is there.
pub(crate) fn valid(source: &Source<'_>, batches: &[Batch]) -> usize {
    let mut missing = Vec::new();
    for (index, batch) in batches.iter().enumerate() {
        for write in batch.records.iter().flat_map(|(record, _)| &record.large) {
            let extent = Extent::new(write.start, write.crcs.len() as u64);
            let bytes = source.read(Device::Main, extent).unwrap_or_default();
            missing.extend(write.missing_in(&bytes).map(|block| (index, block)));
        }
    }
    valid_batches(batches, &missing)
}
