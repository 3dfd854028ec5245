//! State of a store as opening finds it on the devices.

use super::deferred::DeferredWrites;
use super::failure::{MetadataFault, StoreFailure, metadata};
use super::meta::Meta;
use super::mounted::Mounted;
use crate::device::{Device, Extent};
use crate::log::{Batch, Counters, LogPoint, Record};
use crate::options::Options;
use crate::slices::Slice;
use crate::space::Space;
use crate::superblock::Superblock;
use crate::tree::PageSpace;
use bytes::Bytes;
use stdx::AlignedBuffer;

/// State found so far.
pub(super) struct Found {
    /// The newest superblock.
    pub superblock: Superblock,
    /// Metadata as of the last replayed batch.
    pub meta: Meta,
    /// Pages of the tree.
    pub pages: PageSpace,
    /// Blocks in use as of the last replayed batch.
    pub space: Space,
    /// Deferred writes of all replayed batches.
    pub deferred: DeferredWrites,
    /// Counters of the last record.
    pub counters: Counters,
    /// Log point where appending continues.
    pub end: LogPoint,
    /// Removed slices whose objects are still stored.
    pub garbage: Vec<Slice>,
}

impl Found {
    /// Begins normal operation. Ids of operations begin at `next_io`.
    pub fn mount(self, options: &Options, next_io: u64) -> Mounted {
        Mounted::new(
            options,
            next_io,
            self.superblock,
            self.meta,
            self.pages,
            self.space,
            self.deferred,
            self.counters,
            self.end,
            self.garbage,
        )
    }

    /// Checks that no page of the metadata counts as a free block, which data would overwrite.
    pub fn check_pages(&self) -> Result<(), StoreFailure> {
        if self.superblock.metadata.device != Device::Main {
            return Ok(());
        }
        let check = |run| self.space.check_used(run);
        let checked = self.pages.runs().try_for_each(check);
        checked.map_err(|error| metadata(MetadataFault::PagesNotInUse(error)))
    }

    /// Applies a batch of the log.
    pub fn replay(&mut self, batch: &Batch) -> Result<(), StoreFailure> {
        for (record, data) in &batch.records {
            self.replay_record(batch.seq, record, data).map_err(metadata)?;
        }
        Ok(())
    }

    fn replay_record(
        &mut self,
        seq: u64,
        record: &Record,
        data: &[Bytes],
    ) -> Result<(), crate::space::SpaceError> {
        for extent in &record.taken {
            self.space.replay_taken(*extent)?;
        }
        for (write, data) in record.small.iter().zip(data) {
            // Copied into memory of its own, like `SealedBatch::data`: the buffer that was read is
            // much larger.
            let data = AlignedBuffer::gathered([data], data.len()).into();
            self.deferred.insert(write.block, seq, write.crc, data);
        }
        for extent in &record.freed {
            self.deferred.forget(*extent);
            self.space.replay_freed(*extent)?;
        }
        record.ops.iter().for_each(|op| self.meta.replay(op.clone()));
        self.counters = record.counters;
        Ok(())
    }
}

/// Pages of a store that had no checkpoint yet.
pub(super) fn new_page_space(runs: &[Extent]) -> PageSpace {
    let mut pages = PageSpace::default();
    runs.iter().for_each(|run| pages.add_run(*run));
    pages
}
