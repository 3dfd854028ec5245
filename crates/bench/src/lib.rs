//! `sepiola bench`: measures a cluster with the native client.
//!
//! Objects of one size are written, or read back in order or at random, or both, with a fixed number
//! of operations in flight. Each run is timed by itself; shown are the median of the runs and their
//! spread, latency percentiles over all, and the CPU time that daemons and client used per operation;
//! on request also how all this changes over time.
//!
//! `sepiola bench age` measures nothing: it prepares what is measured, see [`age`]. `sepiola bench
//! stability` looks at how steady an image's throughput is, see [`stability`], and `sepiola image bench`
//! measures an image as objects are measured here.

mod age;
mod args;
mod histogram;
mod image;
mod measurement;
mod process;
mod report;
mod series;
mod stability;
mod workload;

use access::Connection;
pub use age::{Fill, Mix};
use anyhow::{Context, Result, bail};
pub use args::{BenchArgs, ImageBenchArgs, StabilityArgs, Workload};
use engine::Time;
pub use image::{Pattern, bench_image};
use measurement::{Measurement, Work};
use report::{Report, Size, Subject};
use std::time::Duration;
use stdx::parse_bytes;
use workload::Load;

/// Largest object that an OSD takes by default.
const OBJECT_SIZE_MAX: u64 = 128 << 20;
/// Default number of runs.
const RUNS: usize = 3;

/// Measures a pool, or ages it, or measures how steady an image is, as the workload says.
pub fn bench(args: &BenchArgs) -> Result<()> {
    if args.threads == 0 {
        bail!("--threads must be positive");
    }
    match args.workload {
        Workload::Age => age::age(args),
        Workload::Stability => stability::stability(args),
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
    let pids = process::daemon_pids(&args.daemon_pids, &args.pool.cluster);
    let knows_daemons = !pids.is_empty();
    let mut measurement =
        Measurement::new(args.load.seconds, args.load.report_every, pids, args.json);
    let mut report = Report::new(subject(args, object_size, runs), knows_daemons);
    for _ in 0..runs {
        let mut work = PoolWork { connection: &mut connection, load: &mut load };
        let outcome = measurement.run(&mut work);
        if outcome.is_err() && load.is_full() {
            bail!("the pool {} is full; `ceph health detail` says what to do", args.pool.pool);
        }
        let (result, latencies) = outcome?;
        report.add(result, &latencies);
    }
    report.set_series(measurement.finish());
    if load.is_full() {
        eprintln!("sepiola: the pool is full; {} objects were written", load.objects());
        report.set_full();
    }
    load.finish(&mut connection, args.load.keep)?;
    report.print(args.json)
}

fn subject(args: &BenchArgs, object_size: u64, runs: usize) -> Subject {
    let is_counted = args.workload == Workload::Write && args.load.objects.is_some();
    Subject {
        workload: format!("{:?}", args.workload).to_lowercase(),
        size: Size::Object(object_size),
        in_flight: args.threads,
        seconds: (!is_counted).then_some(args.load.seconds),
        objects: args.load.objects,
        runs,
    }
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

/// A load on a pool, with the connection that carries it.
struct PoolWork<'a> {
    connection: &'a mut Connection,
    load: &'a mut Load,
}

impl Work for PoolWork<'_> {
    fn now(&self) -> Time {
        self.connection.now()
    }

    fn wants_more(&self, is_in_time: bool) -> bool {
        self.load.wants_more(is_in_time)
    }

    fn fill(&mut self, now: Time) {
        self.load.fill(self.connection, now);
    }

    fn in_flight(&self) -> usize {
        self.load.in_flight()
    }

    fn turn(&mut self) -> Result<()> {
        self.connection.turn()
    }

    fn collect(&mut self, record: &mut dyn FnMut(Duration)) -> Result<()> {
        self.load.collect(self.connection, record)
    }
}
