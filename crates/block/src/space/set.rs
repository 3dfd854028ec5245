//! A set of a few blocks out of very many.

use stdx::FastMap;

/// Blocks by word, numbered as in [`super::bits`].
#[derive(Debug, Clone, Default)]
pub(super) struct BlockSet {
    /// No word is zero.
    words: FastMap<usize, u64>,
    count: u64,
}

impl BlockSet {
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn get(&self, word: usize) -> u64 {
        self.words.get(&word).copied().unwrap_or(0)
    }

    /// Adds blocks; returns those that were present.
    pub(super) fn insert(&mut self, word: usize, bits: u64) -> u64 {
        if bits == 0 {
            return 0;
        }
        let present = self.words.entry(word).or_default();
        let before = *present & bits;
        *present |= bits;
        self.count += u64::from((bits & !before).count_ones());
        before
    }

    /// Removes blocks; returns those that were present.
    pub(super) fn remove(&mut self, word: usize, bits: u64) -> u64 {
        let Some(present) = self.words.get_mut(&word) else { return 0 };
        let removed = *present & bits;
        *present &= !bits;
        if *present == 0 {
            self.words.remove(&word);
        }
        self.count -= u64::from(removed.count_ones());
        removed
    }

    /// Words in no particular order.
    pub(super) fn words(&self) -> impl Iterator<Item = (usize, u64)> {
        self.words.iter().map(|(word, bits)| (*word, *bits))
    }

    pub(super) fn check_invariants(&self) {
        assert!(self.words.values().all(|bits| *bits != 0), "an empty word is kept");
        let count = self.words.values().map(|bits| u64::from(bits.count_ones())).sum::<u64>();
        assert_eq!(self.count, count, "wrong number of blocks");
    }
}
