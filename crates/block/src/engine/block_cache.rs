//! Cache of data blocks: bounded, with CLOCK eviction.
//!
//! Only short runs are cached: data that is read or written in long runs is not likely to be read
//! again soon, and costs a device little.

use crate::device::Extent;
use bytes::Bytes;
use stdx::FastMap;

/// Longer runs are not cached, in blocks.
pub(crate) const RUN_BLOCKS_MAX: u64 = 8;

#[derive(Debug)]
struct Slot {
    block: u64,
    crc: u32,
    data: Bytes,
    /// Set if the block was used since the hand passed.
    is_used: bool,
}

#[derive(Debug)]
pub(crate) struct BlockCache {
    slots: Vec<Slot>,
    /// Slots by place on the device.
    index: FastMap<u64, u32>,
    hand: usize,
    blocks_max: usize,
}

impl BlockCache {
    /// An empty cache of at most `blocks_max` blocks; 0 disables it.
    pub fn new(blocks_max: usize) -> Self {
        BlockCache { slots: Vec::new(), index: FastMap::default(), hand: 0, blocks_max }
    }

    /// Content of the block, if it has this checksum.
    pub fn get(&mut self, block: u64, crc: u32) -> Option<Bytes> {
        let slot = &mut self.slots[*self.index.get(&block)? as usize];
        slot.is_used = true;
        (slot.crc == crc).then(|| slot.data.clone())
    }

    /// Inserts a block. `data` must not be a slice of a much larger buffer, which it would keep
    /// alive.
    pub fn insert(&mut self, block: u64, crc: u32, data: Bytes) {
        let fresh = Slot { block, crc, data, is_used: false };
        if let Some(at) = self.index.get(&block) {
            self.slots[*at as usize] = fresh;
        } else if self.slots.len() < self.blocks_max {
            self.index.insert(block, self.slots.len() as u32);
            self.slots.push(fresh);
        } else if self.blocks_max > 0 {
            let at = self.victim();
            self.index.remove(&self.slots[at].block);
            self.index.insert(block, at as u32);
            self.slots[at] = fresh;
        }
    }

    /// Drops blocks whose content changes or is discarded.
    pub fn forget(&mut self, extent: Extent) {
        if self.slots.is_empty() {
            return;
        }
        for block in extent.start..extent.end() {
            if let Some(at) = self.index.remove(&block) {
                self.remove_slot(at as usize);
            }
        }
    }

    fn remove_slot(&mut self, at: usize) {
        self.slots.swap_remove(at);
        if let Some(moved) = self.slots.get(at) {
            self.index.insert(moved.block, at as u32);
        }
    }

    fn victim(&mut self) -> usize {
        loop {
            self.hand = (self.hand + 1) % self.slots.len();
            if !std::mem::take(&mut self.slots[self.hand].is_used) {
                return self.hand;
            }
        }
    }

    /// Panics if slots and index disagree.
    pub fn check_invariants(&self) {
        assert_eq!(self.slots.len(), self.index.len());
        assert!(self.slots.len() <= self.blocks_max);
        for (at, slot) in self.slots.iter().enumerate() {
            assert_eq!(self.index.get(&slot.block), Some(&(at as u32)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::Prng;

    fn data(block: u64) -> Bytes {
        Bytes::copy_from_slice(&block.to_le_bytes())
    }

    #[test]
    fn lookups_return_the_last_insert_unless_it_was_dropped() {
        let mut prng = Prng::new(1);
        let mut block_cache = BlockCache::new(20);
        let mut crcs = std::collections::BTreeMap::new();
        for crc in 0..5000 {
            let block = prng.below(60);
            if prng.chance(1, 5) {
                let count = prng.below(12);
                block_cache.forget(Extent::new(block, count));
                crcs.retain(|known, _| !(block..block + count).contains(known));
            } else {
                block_cache.insert(block, crc, data(block));
                crcs.insert(block, crc);
            }
            block_cache.check_invariants();
            let block = prng.below(60);
            let known = crcs.get(&block).copied();
            let found = known.and_then(|crc| block_cache.get(block, crc));
            assert!(found.is_none_or(|found| found == data(block)));
            assert_eq!(block_cache.get(block, u32::MAX), None);
        }
    }

    #[test]
    fn used_blocks_stay_longer() {
        let mut block_cache = BlockCache::new(10);
        block_cache.insert(1000, 7, data(1000));
        for block in 0..200 {
            assert!(block_cache.get(1000, 7).is_some(), "at block {block}");
            block_cache.insert(block, 0, data(block));
        }
    }
}
