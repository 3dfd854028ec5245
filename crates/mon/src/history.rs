//! Samples of the work of the last hour and of the used space of the last week, for the console. They are in
//! memory of the leader only, so each leader starts without any.

use engine::Time;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::Duration;
use wire::internal::{OsdCounters, OsdUsage};

/// The last hour, in steps of ten seconds.
const FINE_STEP: Duration = Duration::from_secs(10);
const FINE_MAX: usize = 360;
/// The used space of the last week, hour by hour.
const HOUR_OF_FINE: usize = 360;
const HOURS_MAX: usize = 168;
/// A trend needs so many hours.
const TREND_HOURS_MIN: usize = 3;
const SECONDS_PER_DAY: f64 = 86_400.0;

/// Work of clients and of recovery in some time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Work {
    reads: u64,
    writes: u64,
    read_bytes: u64,
    write_bytes: u64,
    read_ns: u64,
    write_ns: u64,
    recovered: u64,
}

/// One step of a plot.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sample {
    at: Time,
    seconds: f64,
    work: Work,
    used: u64,
}

/// The samples, the oldest first.
#[derive(Debug, Default)]
pub struct History {
    /// The beginning of the step that is being counted.
    since: Option<Time>,
    work: Work,
    fine: VecDeque<Sample>,
    hours: VecDeque<(Time, u64)>,
    steps: usize,
}

impl Work {
    fn add(&mut self, other: &Work) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.read_bytes += other.read_bytes;
        self.write_bytes += other.write_bytes;
        self.read_ns += other.read_ns;
        self.write_ns += other.write_ns;
        self.recovered += other.recovered;
    }

    /// The work between two reports of an OSD; nothing if it was restarted between them.
    fn between(before: &OsdCounters, after: &OsdCounters) -> Work {
        let is_same_run = after.reads >= before.reads && after.writes >= before.writes;
        if !is_same_run {
            return Work::default();
        }
        Work {
            reads: after.reads - before.reads,
            writes: after.writes - before.writes,
            read_bytes: after.read_bytes.saturating_sub(before.read_bytes),
            write_bytes: after.write_bytes.saturating_sub(before.write_bytes),
            read_ns: after.read_ns.saturating_sub(before.read_ns),
            write_ns: after.write_ns.saturating_sub(before.write_ns),
            recovered: after.recovered.saturating_sub(before.recovered),
        }
    }
}

impl Sample {
    /// Time, reads and writes per second, bytes of both per second, mean microseconds of both, recovered
    /// copies per second, used bytes.
    fn row(&self) -> Value {
        let rate = |value: u64| (value as f64 / self.seconds).round();
        let mean = |ns: u64, count: u64| (ns as f64 / count.max(1) as f64 / 1e3).round();
        let work = &self.work;
        json!([
            self.at.wall().seconds,
            rate(work.reads),
            rate(work.writes),
            rate(work.read_bytes),
            rate(work.write_bytes),
            mean(work.read_ns, work.reads),
            mean(work.write_ns, work.writes),
            rate(work.recovered),
            self.used,
        ])
    }
}

fn push<T>(ring: &mut VecDeque<T>, value: T, most: usize) {
    ring.push_back(value);
    if ring.len() > most {
        ring.pop_front();
    }
}

impl History {
    /// Counts what an OSD did between two of its reports.
    pub(crate) fn count(&mut self, before: &OsdCounters, after: &OsdCounters) {
        self.work.add(&Work::between(before, after));
    }

    /// Ends a step if it is over. `usage` is called then.
    pub(crate) fn sample(&mut self, now: Time, usage: impl FnOnce() -> OsdUsage) {
        let since = *self.since.get_or_insert(now);
        let passed = now.since(since);
        if passed < FINE_STEP {
            return;
        }
        let (work, used) = (std::mem::take(&mut self.work), usage().bytes_used);
        self.since = Some(now);
        push(
            &mut self.fine,
            Sample { at: now, seconds: passed.as_secs_f64(), work, used },
            FINE_MAX,
        );
        self.steps += 1;
        if self.steps.is_multiple_of(HOUR_OF_FINE) {
            push(&mut self.hours, (now, used), HOURS_MAX);
        }
    }

    /// Days until so many bytes are used, if they grow as in the last week; `None` if they do not grow, or if
    /// too little of it was seen.
    pub(crate) fn days_until(&self, full: u64) -> Option<f64> {
        if self.hours.len() < TREND_HOURS_MIN {
            return None;
        }
        let first = self.hours.front()?.0;
        let points =
            || self.hours.iter().map(|(at, used)| (at.since(first).as_secs_f64(), *used as f64));
        let count = self.hours.len() as f64;
        let (x, y) = points().fold((0.0, 0.0), |(x, y), point| (x + point.0, y + point.1));
        let (x, y) = (x / count, y / count);
        let (above, below) = points().fold((0.0, 0.0), |(above, below), point| {
            (above + (point.0 - x) * (point.1 - y), below + (point.0 - x).powi(2))
        });
        let per_second = above / below;
        let left = full as f64 - self.hours.back()?.1 as f64;
        (per_second > 0.0).then(|| left.max(0.0) / per_second / SECONDS_PER_DAY)
    }

    /// The plots of the last hour.
    pub(crate) fn json(&self) -> Value {
        json!({ "hour": self.fine.iter().map(Sample::row).collect::<Vec<_>>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(history: &mut History, hours: u64, used: impl Fn(u64) -> u64) {
        for second in (0..=hours * 3600).step_by(10) {
            let usage = OsdUsage { bytes_used: used(second), ..OsdUsage::default() };
            history.sample(Time(second * 1_000_000_000), || usage);
        }
    }

    #[test]
    fn a_step_has_the_work_of_its_time() {
        let mut history = History::default();
        let before = OsdCounters { reads: 5, ..OsdCounters::default() };
        let after = OsdCounters { reads: 25, writes: 10, write_ns: 30_000_000, ..before.clone() };
        history.sample(Time(0), OsdUsage::default);
        history.count(&before, &after);
        history.count(&after, &before);
        history.sample(Time(10_000_000_000), OsdUsage::default);
        assert_eq!(history.json()["hour"][0], json!([10, 2.0, 1.0, 0.0, 0.0, 0.0, 3000.0, 0.0, 0]));
    }

    #[test]
    fn memory_is_bounded() {
        let mut history = History::default();
        run(&mut history, 200, |_| 1);
        assert_eq!(history.fine.len(), FINE_MAX);
        assert_eq!(history.hours.len(), HOURS_MAX);
    }

    #[test]
    fn the_days_until_the_cluster_is_full_follow_from_its_growth() {
        let mut history = History::default();
        run(&mut history, 2, |second| second);
        assert_eq!(history.days_until(1 << 40), None, "two hours are no trend");
        let mut history = History::default();
        run(&mut history, 24, |second| second);
        let days = history.days_until(11 * 86_400).unwrap();
        assert!((days - 10.0).abs() < 0.01, "{days}");
        let mut history = History::default();
        run(&mut history, 24, |_| 7);
        assert_eq!(history.days_until(1 << 40), None, "it does not grow");
    }
}
