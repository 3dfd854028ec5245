//! `sepiola bench`: measures a cluster with the native client.
//!
//! Objects of one size are written, or read back in order or at random, or both, with a fixed number
//! of operations in flight. Each run is timed by itself; shown are the median of the runs and their
//! spread, latency percentiles over all, and the CPU time that daemons and client used per operation;
//! on request also how all this changes over time.
//!
//! `sepiola bench age` measures nothing: it prepares what is measured, see [`age`].

mod age;
mod histogram;
mod process;
mod report;
mod series;
mod workload;

use crate::cli::{BenchArgs, Workload};
use crate::connection::Connection;
use crate::datadir::DataDir;
pub use age::{Fill, Mix};
use anyhow::{Context, Result, bail};
use histogram::Histogram;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use process::cpu_time;
use report::{Report, RunResult};
use series::{Sample, Series};
use std::time::Duration;
use stdx::parse_bytes;
use workload::Load;

/// Largest object that an OSD takes by default.
const OBJECT_SIZE_MAX: u64 = 128 << 20;
/// Runs when the command line does not say how many.
const RUNS: usize = 3;

pub fn bench(args: &BenchArgs) -> Result<()> {
    if args.threads == 0 {
        bail!("--threads must be positive");
    }
    match args.workload {
        Workload::Age => age::age(args),
        _ => measure(args),
    }
}

fn measure(args: &BenchArgs) -> Result<()> {
    let object_size = parse_bytes(&args.load.object_size)
        .filter(|size| (1..=OBJECT_SIZE_MAX).contains(size))
        .with_context(|| {
            format!("{:?} is not an object size from 1 to 128M", args.load.object_size)
        })?;
    let runs = runs(args)?;
    let mut connection = Connection::open(&args.pool.cluster)?;
    let pool = connection.pool(&args.pool.pool)?;
    let mut load = Load::new(&mut connection, pool, args, object_size)?;
    let pids = daemon_pids(args);
    let mut measurement = Measurement::new(args, pids);
    let mut report = Report::new(args, object_size, runs, !measurement.pids.is_empty());
    for _ in 0..runs {
        let (result, latencies) = measurement.run(&mut connection, &mut load)?;
        report.add(result, &latencies);
    }
    measurement.progress.finish_and_clear();
    if load.is_full() {
        eprintln!("sepiola: the pool is full; {} objects were written", load.objects());
        report.set_full();
    }
    report.set_series(measurement.series.map(Series::into_samples));
    load.finish(&mut connection, args.load.keep)?;
    report.print(args.json)
}

fn runs(args: &BenchArgs) -> Result<usize> {
    let load = &args.load;
    let is_counted = args.workload == Workload::Write && load.objects.is_some();
    let runs = load.runs.unwrap_or(if is_counted { 1 } else { RUNS });
    if runs == 0 || load.seconds == 0 || load.objects == Some(0) || load.read_percent > 100 {
        bail!("--runs, --seconds and --objects must be positive, --read-percent at most 100");
    }
    if is_counted && runs > 1 {
        bail!("objects are new only once: a number of them is written in one run");
    }
    Ok(runs)
}

/// What is watched while a load runs.
struct Measurement {
    seconds: u64,
    pids: Vec<u32>,
    progress: ProgressBar,
    series: Option<Series>,
    is_json: bool,
}

impl Measurement {
    fn new(args: &BenchArgs, pids: Vec<u32>) -> Self {
        let measurement = Measurement {
            seconds: args.load.seconds,
            progress: progress(args),
            series: args.load.report_every.map(|every| Series::new(every, &pids)),
            pids,
            is_json: args.json,
        };
        if measurement.series.is_some() {
            measurement.show(series::HEADING);
        }
        measurement
    }

    fn run(
        &mut self,
        connection: &mut Connection,
        load: &mut Load,
    ) -> Result<(RunResult, Histogram)> {
        let own = [std::process::id()];
        let (daemons_before, client_before) = (cpu_time(&self.pids), cpu_time(&own));
        let start = connection.now();
        let end = start + Duration::from_secs(self.seconds);
        let mut latencies = Histogram::default();
        self.begin_series(connection);
        loop {
            let now = connection.now();
            if load.wants_more(now < end) {
                load.fill(connection, now);
            } else if load.in_flight() == 0 {
                break;
            }
            connection.turn()?;
            load.collect(connection, |latency| {
                latencies.record(latency);
                if let Some(series) = &mut self.series {
                    series.record(latency);
                }
            })?;
            self.progress.set_position(latencies.count());
            let now = connection.now();
            self.show_sample(|series| series.poll(now));
        }
        let now = connection.now();
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

    fn begin_series(&mut self, connection: &Connection) {
        if let Some(series) = &mut self.series {
            series.begin_run(connection.now());
        }
    }

    fn show_sample(&mut self, take: impl FnOnce(&mut Series) -> Option<Sample>) {
        if let Some(sample) = self.series.as_mut().and_then(take) {
            self.show(&series::row(&sample));
        }
    }

    /// Rows appear as they come, so that nothing is lost when a long run fails; JSON follows at the
    /// end on an output of its own.
    fn show(&self, line: &str) {
        self.progress.suspend(|| match self.is_json {
            true => eprintln!("{line}"),
            false => println!("{line}"),
        });
    }
}

/// The processes whose CPU time counts as the daemons'.
fn daemon_pids(args: &BenchArgs) -> Vec<u32> {
    if !args.daemon_pids.is_empty() {
        return args.daemon_pids.clone();
    }
    DataDir::new(&args.pool.cluster.data.data).running().into_iter().collect()
}

fn progress(args: &BenchArgs) -> ProgressBar {
    let target =
        if args.json { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let style = ProgressStyle::with_template("{spinner} {pos} operations, {elapsed}");
    ProgressBar::with_draw_target(None, target).with_style(style.expect("a constant template"))
}

/// Whether a workload reads what was there before.
fn reads(workload: Workload) -> bool {
    matches!(workload, Workload::Seq | Workload::Rand | Workload::Mixed)
}
