//! Pins: the number of writes in flight to each block.

use super::bits::{WORD, bit_runs};
use super::set::BlockSet;
use std::collections::BTreeMap;

/// Most blocks have at most one write at a time, which costs a bit.
#[derive(Debug, Clone, Default)]
pub(super) struct Pins {
    pinned: BlockSet,
    /// Further pins of pinned blocks; none is zero.
    further: BTreeMap<u64, u32>,
}

impl Pins {
    pub(super) fn get(&self, word: usize) -> u64 {
        self.pinned.get(word)
    }

    pub(super) fn words(&self) -> impl Iterator<Item = (usize, u64)> {
        self.pinned.words()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pinned.count() == 0
    }

    pub(super) fn pin(&mut self, word: usize, bits: u64) {
        let again = self.pinned.insert(word, bits);
        for block in blocks(word, again) {
            *self.further.entry(block).or_default() += 1;
        }
    }

    /// Removes one pin from each of the blocks, all of which are pinned; returns those without pins
    /// left.
    pub(super) fn unpin(&mut self, word: usize, bits: u64) -> u64 {
        let mut last = bits;
        if !self.further.is_empty() {
            for block in blocks(word, bits) {
                if self.remove_further(block) {
                    last &= !(1 << (block % WORD));
                }
            }
        }
        self.pinned.remove(word, last)
    }

    fn remove_further(&mut self, block: u64) -> bool {
        let Some(pins) = self.further.get_mut(&block) else { return false };
        *pins -= 1;
        if *pins == 0 {
            self.further.remove(&block);
        }
        true
    }

    pub(super) fn check_invariants(&self) {
        self.pinned.check_invariants();
        for (block, pins) in &self.further {
            let pinned = self.get((block / WORD) as usize) >> (block % WORD) & 1 == 1;
            assert!(pinned && *pins > 0, "block {block} has {pins} pins but the first");
        }
    }
}

fn blocks(word: usize, bits: u64) -> impl Iterator<Item = u64> {
    let base = word as u64 * WORD;
    bit_runs(bits).flat_map(move |(low, count)| base + low..base + low + count)
}
