//! Whether there is room: for data, and for the pages that a checkpoint will need.
//!
//! What a transaction adds is refused while there is still enough for what follows from everything
//! that was accepted: pages for the changes in memory. So a checkpoint never fails for want of
//! room, and transactions that add nothing, deletes above all, are always accepted.

use super::effects::Interrupt;
use super::mounted::Mounted;
use crate::device::{BLOCK, Device};
use crate::tree::{self, Root};
use store::{Change, StoreError, Transaction};

/// Pages beyond all bounds: for deletes on a full device.
const PAGES_SPARE: u64 = 64;
/// A change of a transaction touches so many pairs of the tree, roughly, besides those it names.
const PAIRS_PER_CHANGE: u64 = 4;

/// What the tree holds, as of the last checkpoint.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TreeUsage {
    pub omap_bytes: u64,
}

impl Mounted {
    pub fn tree_usage(&self) -> TreeUsage {
        TreeUsage { omap_bytes: self.superblock.counters.omap_bytes }
    }

    /// Blocks that new data may take.
    pub fn room_blocks(&self) -> u64 {
        self.space.free().saturating_sub(self.blocks_for_pages())
    }

    /// Refuses what adds more than there is room for.
    pub fn admit(&mut self, transaction: &Transaction) -> Result<(), Interrupt> {
        if self.is_behind() {
            return Err(Interrupt::LogFull);
        }
        let needed = blocks_needed(transaction);
        if needed == 0 {
            return Ok(());
        }
        let available = self.room_blocks();
        if needed <= available {
            return Ok(());
        }
        // What waits for a flush or a checkpoint may be enough.
        if self.is_room_coming() {
            self.want_checkpoint = true;
            return Err(Interrupt::Room);
        }
        let unit = BLOCK as u64;
        Err(StoreError::NoSpace { needed: needed * unit, available: available * unit }.into())
    }

    /// Changes gather faster than the checkpoint takes them in.
    fn is_behind(&self) -> bool {
        self.checkpoint.is_some()
            && (self.meta.active.bytes > self.budget.table_bytes
                || self.homes.len() * BLOCK > 2 * self.budget.home_bytes)
    }

    fn is_room_coming(&self) -> bool {
        self.checkpoint.is_some() || !self.commits.batches.is_empty()
    }

    /// Blocks of the space that must stay free for pages that the changes in memory need.
    fn blocks_for_pages(&self) -> u64 {
        let missing = self.pages_needed().saturating_sub(self.pages.free_pages());
        match self.meta_device {
            Device::Main => missing,
            // No block of the main device helps.
            Device::Fast if missing == 0 => 0,
            Device::Fast => u64::MAX,
        }
    }

    /// Pages that checkpoints of all that is in memory can need.
    pub fn pages_needed(&self) -> u64 {
        let root = self.root();
        let mut load = self.meta.active.load;
        if let Some(frozen) = &self.meta.frozen {
            load.add(frozen.load);
        }
        let bitmaps = 2 * self.bitmap_pages() + self.space.map().chunk_count() as u64 / 7;
        tree::pages_bound(&load, root.as_ref()) + bitmaps + PAGES_SPARE
    }

    pub fn root(&self) -> Option<Root> {
        self.meta.tree.root()
    }
}

/// Blocks that a transaction can take, and those of the pages that its pairs fill.
fn blocks_needed(transaction: &Transaction) -> u64 {
    let data = transaction.changes.iter().map(|(_, change)| match change {
        Change::Write { offset, data, .. } => {
            super::data::blocks_of(*offset, data.len() as u64).count
        }
        _ => 0,
    });
    let data: u64 = data.sum();
    match transaction.bytes_added() {
        0 => 0,
        bytes => {
            let pairs = transaction.changes.len() as u64 * PAIRS_PER_CHANGE;
            data + (bytes - transaction.data_len()) * 2 / BLOCK as u64 + pairs
        }
    }
}
