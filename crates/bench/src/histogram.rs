//! Latencies in buckets whose width grows with the value: at most 1.6 % wide, 30 KiB in all.

use std::time::Duration;

/// Sub-buckets per power of two.
const SUB_BITS: u32 = 6;
const SUB: u64 = 1 << SUB_BITS;
const BUCKETS: usize = ((64 - SUB_BITS as usize) + 1) << SUB_BITS;

/// Latencies in buckets.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum_nanos: u128,
    max_nanos: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: vec![0; BUCKETS], total: 0, sum_nanos: 0, max_nanos: 0 }
    }
}

impl Histogram {
    /// Counts one operation.
    pub fn record(&mut self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket(nanos)] += 1;
        self.total += 1;
        self.sum_nanos += u128::from(nanos);
        self.max_nanos = self.max_nanos.max(nanos);
    }

    /// Number of operations.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// Mean latency; zero without operations.
    pub fn mean(&self) -> Duration {
        let mean = self.sum_nanos.checked_div(u128::from(self.total)).unwrap_or(0);
        Duration::from_nanos(mean as u64)
    }

    /// The latency that `percent` of all samples do not exceed.
    pub fn percentile(&self, percent: f64) -> Duration {
        let rank = (self.total as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Duration::from_nanos(upper_bound(index).min(self.max_nanos));
            }
        }
        Duration::from_nanos(self.max_nanos)
    }
}

fn bucket(nanos: u64) -> usize {
    if nanos < SUB {
        return nanos as usize;
    }
    let shift = 63 - nanos.leading_zeros() - SUB_BITS;
    (u64::from(shift + 1) << SUB_BITS) as usize + ((nanos >> shift) - SUB) as usize
}

/// The largest value of a bucket.
fn upper_bound(index: usize) -> u64 {
    let (power, sub) = (index as u64 >> SUB_BITS, index as u64 & (SUB - 1));
    match power {
        0 => sub,
        power => ((u128::from(SUB + sub + 1) << (power - 1)) - 1).min(u128::from(u64::MAX)) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket_and_buckets_are_narrow() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) + (1u64 << shift) / 3] {
                let index = bucket(value);
                let above = upper_bound(index);
                assert!(above >= value && (above - value) as f64 <= value as f64 / 32.0, "{value}");
                assert!(index == 0 || upper_bound(index - 1) < value, "{value}");
            }
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_those_of_the_values() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|micros| histogram.record(Duration::from_micros(micros)));
        for (percent, expected) in [(50.0, 500.0), (99.0, 990.0), (100.0, 1000.0)] {
            let found = histogram.percentile(percent).as_secs_f64() * 1e6;
            assert!((found / expected - 1.0).abs() < 0.02, "p{percent}: {found}");
        }
        assert_eq!(histogram.mean(), Duration::from_nanos(500_500));
    }
}
