//! Runs of a measurement: keeps operations in flight, and counts.

use super::histogram::Histogram;
use super::process::cpu_time;
use super::report::RunResult;
use super::series::{self, Sample, Series};
use anyhow::{Result, bail};
use engine::Time;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;

/// A load with operations in flight.
pub trait Work {
    fn now(&self) -> Time;
    /// True if more operations should start; `is_in_time` is false once the run's time is over.
    fn wants_more(&self, is_in_time: bool) -> bool;
    /// Starts operations until enough are in flight.
    fn fill(&mut self, now: Time);
    fn in_flight(&self) -> usize;
    /// Sends started operations, and waits for input.
    fn turn(&mut self) -> Result<()>;
    /// Processes completions; `record` gets each latency.
    fn collect(&mut self, record: &mut dyn FnMut(Duration)) -> Result<()>;
}

/// State of a measurement.
pub struct Measurement {
    seconds: u64,
    /// Processes of the daemons, whose CPU time is counted; empty if they are not known.
    pub pids: Vec<u32>,
    progress: ProgressBar,
    series: Option<Series>,
    is_json: bool,
}

impl Measurement {
    /// Runs of `seconds` each, with a sample `every` so long. With JSON, samples go to stderr.
    pub fn new(seconds: u64, every: Option<Duration>, pids: Vec<u32>, is_json: bool) -> Self {
        let series = every.map(|every| Series::new(every, &pids));
        let progress = progress(is_json);
        let measurement = Measurement { seconds, pids, progress, series, is_json };
        if measurement.series.is_some() {
            measurement.show(series::HEADING);
        }
        measurement
    }

    /// One run: starts operations until the time is over, and waits for the last. Fails if none completed.
    pub fn run(&mut self, work: &mut dyn Work) -> Result<(RunResult, Histogram)> {
        let own = [std::process::id()];
        let (daemons_before, client_before) = (cpu_time(&self.pids), cpu_time(&own));
        let start = work.now();
        let end = start + Duration::from_secs(self.seconds);
        let mut latencies = Histogram::default();
        if let Some(series) = &mut self.series {
            series.begin_run(start);
        }
        loop {
            let now = work.now();
            if work.wants_more(now < end) {
                work.fill(now);
            } else if work.in_flight() == 0 {
                break;
            }
            work.turn()?;
            self.collect(work, &mut latencies)?;
        }
        let now = work.now();
        self.show_sample(|series| series.end_run(now));
        let result = RunResult {
            operations: latencies.count(),
            elapsed: now.since(start),
            daemons_cpu: cpu_time(&self.pids).saturating_sub(daemons_before),
            client_cpu: cpu_time(&own) - client_before,
        };
        if result.operations == 0 {
            bail!("no operation completed within {:.1} s", result.elapsed.as_secs_f64());
        }
        Ok((result, latencies))
    }

    fn collect(&mut self, work: &mut dyn Work, latencies: &mut Histogram) -> Result<()> {
        work.collect(&mut |latency| {
            latencies.record(latency);
            if let Some(series) = &mut self.series {
                series.record(latency);
            }
        })?;
        self.progress.set_position(latencies.count());
        let now = work.now();
        self.show_sample(|series| series.poll(now));
        Ok(())
    }

    fn show_sample(&mut self, take: impl FnOnce(&mut Series) -> Option<Sample>) {
        if let Some(sample) = self.series.as_mut().and_then(take) {
            self.show(&series::row(&sample));
        }
    }

    /// Rows are printed as they come, so that nothing is lost when a long run fails; JSON is printed at the
    /// end.
    fn show(&self, line: &str) {
        self.progress.suspend(|| match self.is_json {
            true => eprintln!("{line}"),
            false => println!("{line}"),
        });
    }

    /// Clears the progress line and returns the samples, if they were requested.
    pub fn finish(self) -> Option<Vec<Sample>> {
        self.progress.finish_and_clear();
        self.series.map(Series::into_samples)
    }
}

/// A line on stderr with the number of operations and the time.
pub fn progress(is_hidden: bool) -> ProgressBar {
    let target =
        if is_hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let style = ProgressStyle::with_template("{spinner} {pos} operations, {elapsed}");
    ProgressBar::with_draw_target(None, target).with_style(style.expect("a constant template"))
}
