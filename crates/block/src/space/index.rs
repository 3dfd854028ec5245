//! A set of small integers with a fast search for the next member.
//!
//! Levels of bitmaps: a bit of one level is set if the word below it is not zero. Four levels serve
//! sixteen million members.

use super::bits::WORD;

#[derive(Debug, Clone)]
pub(super) struct BitIndex {
    /// Members first; the last level has at most one word.
    levels: Vec<Box<[u64]>>,
}

impl BitIndex {
    /// An empty set of integers in `0..bound`.
    pub(super) fn new(bound: usize) -> Self {
        let mut levels = Vec::new();
        let mut bits = bound;
        loop {
            let words = bits.div_ceil(WORD as usize);
            levels.push(vec![0; words].into_boxed_slice());
            if words <= 1 {
                return BitIndex { levels };
            }
            bits = words;
        }
    }

    /// A set of integers in `0..bound` that contains `0..count`.
    pub(super) fn filled(count: usize, bound: usize) -> Self {
        let mut index = BitIndex::new(bound);
        let mut bits = count;
        for level in &mut index.levels {
            let (words, rest) = (bits / WORD as usize, bits as u64 % WORD);
            level[..words].fill(u64::MAX);
            if rest > 0 {
                level[words] = (1 << rest) - 1;
            }
            bits = bits.div_ceil(WORD as usize);
        }
        index
    }

    pub(super) fn contains(&self, member: usize) -> bool {
        self.levels[0][member / 64] >> (member % 64) & 1 == 1
    }

    pub(super) fn set(&mut self, member: usize, present: bool) {
        if present { self.insert(member) } else { self.remove(member) }
    }

    pub(super) fn insert(&mut self, member: usize) {
        let mut position = member;
        for level in &mut self.levels {
            let word = &mut level[position / 64];
            let known_above = *word != 0;
            *word |= 1 << (position % 64);
            if known_above {
                return;
            }
            position /= 64;
        }
    }

    pub(super) fn remove(&mut self, member: usize) {
        let mut position = member;
        for level in &mut self.levels {
            let word = &mut level[position / 64];
            *word &= !(1 << (position % 64));
            if *word != 0 {
                return;
            }
            position /= 64;
        }
    }

    /// First member at or above `from`.
    pub(super) fn next(&self, from: usize) -> Option<usize> {
        let mut position = from;
        for (height, level) in self.levels.iter().enumerate() {
            let bits = level.get(position / 64)? & (u64::MAX << (position % 64));
            if bits != 0 {
                let found = position / 64 * 64 + bits.trailing_zeros() as usize;
                return Some(self.descend(height, found));
            }
            position = position / 64 + 1;
        }
        None
    }

    /// First member below a bit of a level.
    fn descend(&self, height: usize, position: usize) -> usize {
        let below = self.levels[..height].iter().rev();
        below.fold(position, |position, level| {
            position * 64 + level[position].trailing_zeros() as usize
        })
    }

    /// Number of consecutive members from `from` on. Stops counting somewhere beyond `enough`.
    pub(super) fn consecutive(&self, from: usize, enough: u64) -> u64 {
        let mut position = from;
        while let Some(word) = self.levels[0].get(position / 64) {
            let low = position % 64;
            let present = (word >> low).trailing_ones() as usize;
            position += present;
            if low + present < 64 || (position - from) as u64 >= enough {
                break;
            }
        }
        (position - from) as u64
    }

    /// Memory of such a set in bytes.
    pub(super) fn memory_for(bound: usize) -> usize {
        let (mut bits, mut memory) = (bound, 0);
        loop {
            let words = bits.div_ceil(WORD as usize);
            memory += words * size_of::<u64>();
            if words <= 1 {
                return memory;
            }
            bits = words;
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.levels.iter().map(|level| size_of_val(&**level)).sum()
    }

    /// Panics unless every level agrees with the one below.
    pub(super) fn check_invariants(&self) {
        for pair in self.levels.windows(2) {
            for (position, word) in pair[0].iter().enumerate() {
                let known = pair[1][position / 64] >> (position % 64) & 1 == 1;
                assert_eq!(known, *word != 0, "the level above word {position} is wrong");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn behaves_like_an_ordered_set(
            bound in 1usize..10_000,
            steps in prop::collection::vec((any::<usize>(), any::<bool>()), 1..100),
        ) {
            let mut index = BitIndex::new(bound);
            let mut model = BTreeSet::new();
            for (seed, present) in steps {
                let first = seed % bound;
                // Neighbours are included, so that there are runs.
                for member in first..(first + seed % 150).min(bound) {
                    index.set(member, present);
                    if present { model.insert(member); } else { model.remove(&member); }
                }
                index.check_invariants();
                prop_assert_eq!(index.contains(first), model.contains(&first));
                for from in [first, first + 1, first.saturating_sub(70), bound, bound + 64] {
                    prop_assert_eq!(index.next(from), model.range(from..).next().copied());
                    let run = (from..).take_while(|member| model.contains(member)).count() as u64;
                    prop_assert_eq!(index.consecutive(from, u64::MAX), run);
                    let enough = seed as u64 % 80;
                    let counted = index.consecutive(from, enough);
                    prop_assert!(counted <= run && counted >= run.min(enough));
                }
            }
        }
    }

    #[test]
    fn a_set_of_bound_zero_has_no_members() {
        let index = BitIndex::new(0);
        assert_eq!(index.next(0), None);
        assert_eq!(index.consecutive(0, 1), 0);
    }
}
