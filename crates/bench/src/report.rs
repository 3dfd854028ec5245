//! Report of a measurement, as a table or JSON.

use super::histogram::Histogram;
use super::series::{self, Sample};
use anyhow::Result;
use serde::Serialize;
use std::time::Duration;
use stdx::format_bytes;

/// One run.
#[derive(Debug, Clone, Copy)]
pub struct RunResult {
    /// Completed operations.
    pub operations: u64,
    /// Duration of the run.
    pub elapsed: Duration,
    /// CPU time of all daemons in the run.
    pub daemons_cpu: Duration,
    /// CPU time of this process in the run.
    pub client_cpu: Duration,
}

/// Median, minimum and maximum of the runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Spread {
    median: f64,
    min: f64,
    max: f64,
}

/// Size of an operation.
#[derive(Debug, Clone, Copy, Serialize)]
pub enum Size {
    #[serde(rename = "object_size")]
    Object(u64),
    #[serde(rename = "block_size")]
    Block(u64),
}

impl Size {
    fn bytes(self) -> u64 {
        match self {
            Size::Object(bytes) | Size::Block(bytes) => bytes,
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Size::Object(_) => "objects",
            Size::Block(_) => "blocks",
        }
    }
}

/// Subject of the measurement.
#[derive(Debug, Serialize)]
pub struct Subject {
    /// Kind of operations: `write`, `randread`.
    pub workload: String,
    /// Size of each.
    #[serde(flatten)]
    pub size: Size,
    /// Maximum number of operations in flight.
    pub in_flight: usize,
    /// Duration of each run, unless a number of objects ended it.
    pub seconds: Option<u64>,
    /// Number of objects of the runs, if given on the command line.
    pub objects: Option<u64>,
    /// Number of runs.
    pub runs: usize,
}

/// Runs, their spreads, and samples.
#[derive(Debug, Serialize)]
pub struct Report {
    #[serde(flatten)]
    subject: Subject,
    /// True if the pool was full before the end.
    full: bool,
    iops: Option<Spread>,
    mib_per_second: Option<Spread>,
    /// Mean, p50, p90, p99, p99.9 and maximum of each run, in milliseconds.
    latency_ms: Vec<(&'static str, Spread)>,
    /// `None` if the daemons' processes are not known.
    daemons_cpu_us_per_op: Option<Spread>,
    client_cpu_us_per_op: Option<Spread>,
    /// `None` unless requested.
    series: Option<Vec<Sample>>,
    /// Throughput of the last tenth of the series as a share of that of the first tenth.
    end_to_start: Option<f64>,
    #[serde(skip)]
    results: Vec<RunResult>,
    #[serde(skip)]
    latencies: Vec<Histogram>,
    #[serde(skip)]
    knows_daemons: bool,
}

const PERCENTILES: [(&str, f64); 5] =
    [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9), ("max", 100.0)];

impl Report {
    /// A report without runs; `knows_daemons` says whether their CPU time was measured.
    pub fn new(subject: Subject, knows_daemons: bool) -> Self {
        Report {
            subject,
            full: false,
            iops: None,
            mib_per_second: None,
            latency_ms: Vec::new(),
            daemons_cpu_us_per_op: None,
            client_cpu_us_per_op: None,
            series: None,
            end_to_start: None,
            results: Vec::new(),
            latencies: Vec::new(),
            knows_daemons,
        }
    }

    /// Adds a run.
    pub fn add(&mut self, result: RunResult, latencies: &Histogram) {
        self.results.push(result);
        self.latencies.push(latencies.clone());
    }

    /// Notes that the pool was full before the end.
    pub fn set_full(&mut self) {
        self.full = true;
    }

    /// Sets the samples, if they were requested.
    pub fn set_series(&mut self, samples: Option<Vec<Sample>>) {
        self.end_to_start = samples.as_deref().and_then(series::end_to_start);
        self.series = samples;
    }

    /// Computes the spreads and prints the report, as JSON if `json`.
    pub fn print(mut self, json: bool) -> Result<()> {
        self.summarise();
        if json {
            println!("{}", serde_json::to_string_pretty(&self)?);
        } else {
            print!("{}", self.table());
        }
        Ok(())
    }

    fn summarise(&mut self) {
        let over = |value: &dyn Fn(&RunResult) -> f64| spread(self.results.iter().map(value));
        let iops = |run: &RunResult| run.operations as f64 / run.elapsed.as_secs_f64();
        let mib = self.subject.size.bytes() as f64 / f64::from(1 << 20);
        let cpu =
            |time: Duration, run: &RunResult| time.as_secs_f64() * 1e6 / run.operations as f64;
        let (all_iops, all_mib) = (over(&iops), over(&|run| iops(run) * mib));
        let daemons = over(&|run| cpu(run.daemons_cpu, run));
        let client = over(&|run| cpu(run.client_cpu, run));
        self.iops = Some(all_iops);
        self.mib_per_second = Some(all_mib);
        self.daemons_cpu_us_per_op = self.knows_daemons.then_some(daemons);
        self.client_cpu_us_per_op = Some(client);
        let ms = |latency: Duration| latency.as_secs_f64() * 1e3;
        self.latency_ms = vec![("mean", spread(self.latencies.iter().map(|h| ms(h.mean()))))];
        for (name, percent) in PERCENTILES {
            let values = self.latencies.iter().map(|h| ms(h.percentile(percent)));
            self.latency_ms.push((name, spread(values)));
        }
    }

    fn table(&self) -> String {
        let mut text = format!(
            "{} of {} {}, {} in flight, {}: median (min..max)\n",
            self.subject.workload,
            format_bytes(self.subject.size.bytes()),
            self.subject.size.unit(),
            self.subject.in_flight,
            self.extent()
        );
        let mut row = |name: String, value: Spread| {
            let Spread { median, min, max } = value;
            let number = |value: f64| format!("{value:.*}", digits(value));
            let (median, min, max) = (number(median), number(min), number(max));
            text.push_str(&format!("  {name:<24} {median:>10} ({min}..{max})\n"));
        };
        if let (Some(iops), Some(mib)) = (self.iops, self.mib_per_second) {
            row("operations/s".to_owned(), iops);
            row("MiB/s".to_owned(), mib);
        }
        for (name, value) in &self.latency_ms {
            row(format!("latency {name}, ms"), *value);
        }
        if let Some(value) = self.daemons_cpu_us_per_op {
            row("daemon CPU, us/op".to_owned(), value);
        }
        if let Some(value) = self.client_cpu_us_per_op {
            row("client CPU, us/op".to_owned(), value);
        }
        if let Some(share) = self.end_to_start {
            text.push_str(&format!("  {:<24} {share:>10.3}\n", "end/start throughput"));
        }
        text
    }

    fn extent(&self) -> String {
        let Subject { seconds, objects, runs, .. } = self.subject;
        match (seconds, objects) {
            (Some(seconds), _) => format!("{runs} runs of {seconds} s"),
            (None, objects) => format!("{} objects", objects.unwrap_or_default()),
        }
    }
}

fn digits(value: f64) -> usize {
    match value {
        value if value >= 1000.0 => 0,
        value if value >= 10.0 => 1,
        _ => 3,
    }
}

fn spread(values: impl Iterator<Item = f64>) -> Spread {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let (min, max) = (sorted[0], sorted[sorted.len() - 1]);
    let middle = sorted.len() / 2;
    let median = match sorted.len() % 2 {
        1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    };
    Spread { median, min, max }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_of_runs_is_median_least_and_greatest() {
        let found = spread([3.0, 1.0, 10.0].into_iter());
        assert_eq!(found, Spread { median: 3.0, min: 1.0, max: 10.0 });
        assert_eq!(spread([1.0, 2.0].into_iter()).median, 1.5);
    }
}
