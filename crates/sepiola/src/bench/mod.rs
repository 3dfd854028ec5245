//! `sepiola bench`: measures a cluster with the native client.
//!
//! Objects of one size are written, or read back in order or at random, or both, with a fixed number
//! of operations in flight. Each run is timed by itself; shown are the median of the runs and their
//! spread, latency percentiles over all, and the CPU time that daemons and client used per operation.

mod cpu;
mod histogram;
mod report;
mod workload;

use crate::cli::{BenchArgs, Workload};
use crate::connection::Connection;
use crate::datadir::DataDir;
use anyhow::{Context, Result, bail};
use cpu::cpu_time;
use histogram::Histogram;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use report::{Report, RunResult};
use std::time::Duration;
use stdx::parse_bytes;
use workload::Load;

/// Largest object that an OSD takes by default.
const OBJECT_SIZE_MAX: u64 = 128 << 20;

pub fn bench(args: &BenchArgs) -> Result<()> {
    let object_size = parse_bytes(&args.object_size)
        .filter(|size| (1..=OBJECT_SIZE_MAX).contains(size))
        .with_context(|| format!("{:?} is not an object size from 1 to 128M", args.object_size))?;
    if args.threads == 0 || args.runs == 0 || args.seconds == 0 || args.read_percent > 100 {
        bail!("--threads, --runs and --seconds must be positive, --read-percent at most 100");
    }
    let mut connection = Connection::open(&args.pool.cluster)?;
    let pool = connection.pool(&args.pool.pool)?;
    let mut load = Load::new(&mut connection, pool, args, object_size)?;
    let pids = daemon_pids(args);
    let progress = progress(args);
    let mut report = Report::new(args, object_size, !pids.is_empty());
    for _ in 0..args.runs {
        let (result, latencies) = measure(&mut connection, &mut load, args, &pids, &progress)?;
        report.add(result, &latencies);
    }
    progress.finish_and_clear();
    load.finish(&mut connection, args.keep)?;
    report.print(args.json)
}

fn measure(
    connection: &mut Connection,
    load: &mut Load,
    args: &BenchArgs,
    pids: &[u32],
    progress: &ProgressBar,
) -> Result<(RunResult, Histogram)> {
    let own = [std::process::id()];
    let (daemons_before, client_before) = (cpu_time(pids), cpu_time(&own));
    let start = connection.now();
    let end = start + Duration::from_secs(args.seconds);
    let mut latencies = Histogram::default();
    loop {
        let now = connection.now();
        if now < end {
            load.fill(connection, now);
        } else if load.in_flight() == 0 {
            break;
        }
        connection.turn()?;
        load.collect(connection, &mut latencies)?;
        progress.set_position(latencies.count());
    }
    let result = RunResult {
        operations: latencies.count(),
        elapsed: connection.now().since(start),
        daemons_cpu: cpu_time(pids) - daemons_before,
        client_cpu: cpu_time(&own) - client_before,
    };
    if result.operations == 0 {
        bail!("no operation completed within {} s", args.seconds);
    }
    Ok((result, latencies))
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

/// Whether a workload writes, and whether it reads.
pub(crate) fn directions(workload: Workload) -> (bool, bool) {
    match workload {
        Workload::Write => (true, false),
        Workload::Seq | Workload::Rand => (false, true),
        Workload::Mixed => (true, true),
    }
}
