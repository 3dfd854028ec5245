//! Runs of blocks as bits of 64-bit words. Positions count from the first block of the space.

/// Blocks per word.
pub(super) const WORD: u64 = 64;

/// Words that a run touches, each with the bits of the run.
pub(super) fn words(start: u64, count: u64) -> impl Iterator<Item = (usize, u64)> {
    let end = start + count;
    let mut position = start;
    std::iter::from_fn(move || {
        if position == end {
            return None;
        }
        let (word, low) = (position / WORD, position % WORD);
        let covered = (WORD - low).min(end - position);
        position += covered;
        Some((word as usize, ones(covered) << low))
    })
}

/// Runs of set bits of a word: position of the lowest bit and number of bits.
pub(super) fn bit_runs(mut bits: u64) -> impl Iterator<Item = (u64, u64)> {
    std::iter::from_fn(move || {
        if bits == 0 {
            return None;
        }
        let low = u64::from(bits.trailing_zeros());
        let count = u64::from((bits >> low).trailing_ones());
        bits &= !(ones(count) << low);
        Some((low, count))
    })
}

/// A word with the lowest `count` bits set; all bits from 64 on.
pub(super) fn ones(count: u64) -> u64 {
    if count >= WORD { u64::MAX } else { (1 << count) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_cover_each_block_of_a_run_once(start in 0u64..300, count in 0u64..300) {
            let covered: Vec<u64> = words(start, count)
                .flat_map(|(word, mask)| {
                    let base = word as u64 * WORD;
                    (0..WORD).filter(move |bit| mask >> bit & 1 == 1).map(move |bit| base + bit)
                })
                .collect();
            prop_assert_eq!(covered, (start..start + count).collect::<Vec<_>>());
        }

        #[test]
        fn runs_of_bits_are_separate_and_make_up_the_word(bits: u64, also: u64) {
            let bits = bits | also;
            let runs: Vec<_> = bit_runs(bits).collect();
            let all = runs.iter().fold(0, |all, (low, count)| all | ones(*count) << low);
            prop_assert_eq!(all, bits);
            prop_assert!(runs.is_sorted_by(|left, right| left.0 + left.1 < right.0));
        }
    }
}
