//! When throughput counts as stable: numbers about bytes in buckets of time.
//!
//! Throughput is stable if, of its means over every window of one second,
//!
//! * the coefficient of variation is at most [`CV_MAX`],
//! * the least is at least [`LEAST_MIN`] of the mean of all, and
//! * the last third is within [`DRIFT_MAX`] of the first third.
//!
//! Windows of a second, because a single request must not decide: 4 MiB are 4 % of a second at
//! 100 MB/s, but 40 % of a tenth. Streaming applications buffer about a second. One stall in a minute
//! hardly moves the first number, so there is the second; a slow decline moves neither, so there is
//! the third.

use serde::Serialize;

pub const CV_MAX: f64 = 0.10;
pub const LEAST_MIN: f64 = 0.5;
pub const DRIFT_MAX: f64 = 0.2;

/// Result of one pattern at one depth; rates are in MiB/s.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Steadiness {
    pub mean: f64,
    /// Coefficient of variation of single buckets.
    pub bucket_cv: f64,
    pub bucket_min: f64,
    pub bucket_max: f64,
    /// Coefficient of variation of windows of one second.
    pub window_cv: f64,
    pub window_min: f64,
    pub window_max: f64,
    /// Mean of the last third less that of the first, by the mean of all.
    pub drift: f64,
    pub is_stable: bool,
}

/// `window` is the number of buckets in one second; `None` if there is not a window of them.
pub fn steadiness(buckets: &[f64], window: usize) -> Option<Steadiness> {
    let windows: Vec<f64> = buckets.windows(window.max(1)).map(mean).collect();
    let all = mean(buckets);
    if windows.is_empty() || all <= 0.0 {
        return None;
    }
    let third = (buckets.len() / 3).max(1);
    let drift = (mean(&buckets[buckets.len() - third..]) - mean(&buckets[..third])) / all;
    let (bucket_min, bucket_max) = range(buckets);
    let (window_min, window_max) = range(&windows);
    let window_cv = variation(&windows);
    let is_stable =
        window_cv <= CV_MAX && window_min >= LEAST_MIN * all && drift.abs() <= DRIFT_MAX;
    let bucket_cv = variation(buckets);
    Some(Steadiness {
        mean: all,
        bucket_cv,
        bucket_min,
        bucket_max,
        window_cv,
        window_min,
        window_max,
        drift,
        is_stable,
    })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn range(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, 0.0), |(min, max), value| (min.min(*value), max.max(*value)))
}

/// Standard deviation divided by mean.
fn variation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (squares / values.len() as f64).sqrt() / mean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(buckets: &[f64]) -> Steadiness {
        steadiness(buckets, 10).unwrap()
    }

    #[test]
    fn an_even_stream_is_stable_and_lumps_below_a_second_do_not_matter() {
        let even = judged(&[100.0; 60]);
        assert!(even.is_stable && even.window_cv == 0.0 && even.mean == 100.0);
        let lumpy: Vec<f64> = (0..60).map(|n| if n % 2 == 0 { 0.0 } else { 200.0 }).collect();
        let lumpy = judged(&lumpy);
        assert!(lumpy.is_stable && lumpy.window_cv == 0.0);
        assert_eq!((lumpy.bucket_cv, lumpy.bucket_min, lumpy.bucket_max), (1.0, 0.0, 200.0));
    }

    #[test]
    fn waves_stalls_and_decline_are_not_stable() {
        let wave: Vec<f64> = (0..80).map(|n| if n / 20 % 2 == 0 { 60.0 } else { 140.0 }).collect();
        assert!(judged(&wave).window_cv > CV_MAX);
        let mut stall = vec![100.0; 1200];
        stall[600..606].fill(0.0);
        let stall = judged(&stall);
        assert!(stall.window_cv < CV_MAX && stall.window_min < 50.0 && !stall.is_stable);
        let decline: Vec<f64> = (0..100).map(|n| 115.0 - 0.3 * f64::from(n)).collect();
        let decline = judged(&decline);
        assert!(decline.window_cv < CV_MAX && decline.drift < -DRIFT_MAX && !decline.is_stable);
    }

    #[test]
    fn less_than_a_second_is_not_judged() {
        assert_eq!(steadiness(&[1.0; 9], 10), None);
        assert_eq!(steadiness(&[0.0; 20], 10), None);
    }
}
