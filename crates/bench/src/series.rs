//! A measurement over time: throughput, latency, and resources of the daemons, per interval.

use super::histogram::Histogram;
use super::process::{cpu_time, resident_bytes};
use engine::Time;
use serde::Serialize;
use std::time::Duration;
use stdx::format_bytes;

/// One interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sample {
    /// Number of the run, from 1.
    pub run: usize,
    /// The end of the interval, in seconds since the start of the run.
    pub t: f64,
    /// Length of the interval in seconds.
    pub seconds: f64,
    /// Operations that completed in the interval.
    pub operations: u64,
    /// Their number by the length of the interval.
    pub operations_per_second: f64,
    /// Median latency in milliseconds.
    pub p50_ms: f64,
    /// 99th percentile of the latency in milliseconds.
    pub p99_ms: f64,
    /// `None` if the daemons' processes are not known.
    pub daemons_cpu_us_per_op: Option<f64>,
    /// Resident memory of all daemons; `None` if the daemons' processes are not known.
    pub daemons_resident_bytes: Option<u64>,
}

/// Gathers latencies, and cuts a sample at the end of each interval.
pub struct Series {
    every: Duration,
    pids: Vec<u32>,
    run: usize,
    run_start: Time,
    interval_start: Time,
    cpu_at_start: Duration,
    interval: Histogram,
    samples: Vec<Sample>,
}

impl Series {
    /// Samples of `every` so long; resources are those of the processes `pids`.
    pub fn new(every: Duration, pids: &[u32]) -> Self {
        Series {
            every,
            pids: pids.to_vec(),
            run: 0,
            run_start: Time::ZERO,
            interval_start: Time::ZERO,
            cpu_at_start: Duration::ZERO,
            interval: Histogram::default(),
            samples: Vec::new(),
        }
    }

    /// Starts a run at `now`.
    pub fn begin_run(&mut self, now: Time) {
        self.run += 1;
        self.run_start = now;
        self.begin_interval(now);
    }

    fn begin_interval(&mut self, now: Time) {
        self.interval_start = now;
        self.cpu_at_start = cpu_time(&self.pids);
        self.interval = Histogram::default();
    }

    /// Counts an operation in the current interval.
    pub fn record(&mut self, latency: Duration) {
        self.interval.record(latency);
    }

    /// The sample of the interval that has ended, if one has.
    pub fn poll(&mut self, now: Time) -> Option<Sample> {
        (now.since(self.interval_start) >= self.every).then(|| self.cut(now))
    }

    /// The sample of the rest of a run, unless it is empty.
    pub fn end_run(&mut self, now: Time) -> Option<Sample> {
        (self.interval.count() > 0).then(|| self.cut(now))
    }

    fn cut(&mut self, now: Time) -> Sample {
        let operations = self.interval.count();
        let cpu = cpu_time(&self.pids).saturating_sub(self.cpu_at_start);
        let milliseconds = |percent| self.interval.percentile(percent).as_secs_f64() * 1e3;
        let knows_daemons = !self.pids.is_empty();
        let seconds = now.since(self.interval_start).as_secs_f64();
        let sample = Sample {
            run: self.run,
            t: now.since(self.run_start).as_secs_f64(),
            seconds,
            operations,
            operations_per_second: operations as f64 / seconds.max(f64::MIN_POSITIVE),
            p50_ms: milliseconds(50.0),
            p99_ms: milliseconds(99.0),
            daemons_cpu_us_per_op: (knows_daemons && operations > 0)
                .then(|| cpu.as_secs_f64() * 1e6 / operations as f64),
            daemons_resident_bytes: knows_daemons.then(|| resident_bytes(&self.pids)),
        };
        self.samples.push(sample);
        self.begin_interval(now);
        sample
    }

    /// The samples of all runs.
    pub fn into_samples(self) -> Vec<Sample> {
        self.samples
    }
}

/// Throughput of the last tenth of the samples as a share of that of the first tenth; `None` if
/// there are too few to tell.
pub fn end_to_start(samples: &[Sample]) -> Option<f64> {
    const SAMPLES_MIN: usize = 4;
    let longest = samples.iter().map(|sample| sample.seconds).fold(0.0, f64::max);
    // The last interval of a run may be too short to be significant.
    let whole = samples.iter().filter(|sample| sample.seconds > longest * 0.5);
    let rates: Vec<f64> = whole.map(|sample| sample.operations_per_second).collect();
    if rates.len() < SAMPLES_MIN {
        return None;
    }
    let tenth = rates.len().div_ceil(10);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / tenth as f64;
    let start = mean(&rates[..tenth]);
    (start > 0.0).then(|| mean(&rates[rates.len() - tenth..]) / start)
}

/// Heading of the table of samples.
pub const HEADING: &str =
    "   run          t       ops/s     p50 ms     p99 ms  CPU us/op     resident";

/// One line below [`HEADING`].
pub fn row(sample: &Sample) -> String {
    let cpu = sample.daemons_cpu_us_per_op.map_or("-".to_owned(), |us| format!("{us:.1}"));
    let resident = sample.daemons_resident_bytes.map_or("-".to_owned(), format_bytes);
    format!(
        "{:>6} {:>8.1} s {:>11.0} {:>10.3} {:>10.3} {cpu:>10} {resident:>12}",
        sample.run, sample.t, sample.operations_per_second, sample.p50_ms, sample.p99_ms
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn each_interval_counts_only_its_own() {
        let start = Time::ZERO + SECOND * 100;
        let mut series = Series::new(SECOND * 10, &[]);
        series.begin_run(start);
        (0..50).for_each(|_| series.record(Duration::from_millis(2)));
        assert_eq!(series.poll(start + SECOND * 9), None);
        let first = series.poll(start + SECOND * 10).unwrap();
        assert_eq!((first.t, first.operations, first.operations_per_second), (10.0, 50, 5.0));
        series.record(Duration::from_millis(8));
        let rest = series.end_run(start + SECOND * 12).unwrap();
        assert_eq!((rest.t, rest.operations, rest.operations_per_second), (12.0, 1, 0.5));
        assert!(rest.p50_ms > first.p99_ms);
        assert_eq!(series.end_run(start + SECOND * 12), None);
        assert_eq!(series.into_samples().len(), 2);
    }

    #[test]
    fn the_end_is_compared_with_the_start() {
        let mut series = Series::new(SECOND, &[]);
        series.begin_run(Time::ZERO);
        for second in 1..=20 {
            (0..if second > 18 { 5 } else { 10 }).for_each(|_| series.record(SECOND));
            series.poll(Time::ZERO + SECOND * second).unwrap();
        }
        (0..100).for_each(|_| series.record(SECOND));
        series.end_run(Time::ZERO + SECOND * 20 + SECOND / 10).unwrap();
        let samples = series.into_samples();
        assert_eq!((samples.len(), end_to_start(&samples)), (21, Some(0.5)));
        assert_eq!(end_to_start(&samples[..3]), None);
    }
}
