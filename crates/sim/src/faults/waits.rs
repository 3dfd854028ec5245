//! Times of faults that follow one another.

use engine::Duration;
use stdx::Prng;

/// Up to `count_max` delays of up to `ms_max` milliseconds, cumulated.
pub(super) fn waits(
    prng: &mut Prng,
    count_max: u64,
    ms_max: u64,
) -> impl Iterator<Item = Duration> + use<> {
    let count = 1 + prng.below(count_max);
    let waits: Vec<u64> = (0..count).map(|_| 1 + prng.below(ms_max)).collect();
    waits.into_iter().scan(Duration::ZERO, |at, wait| {
        *at += Duration::from_millis(wait);
        Some(*at)
    })
}
