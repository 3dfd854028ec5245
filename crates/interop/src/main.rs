//! Stock Ceph clients against a fresh Sepiola cluster.
//!
//! Each check is a script in `checks/` that a person can run by hand with `CEPH_CONF` and `SCRATCH`
//! set. This program starts clusters, chooses clients and modes, and reports.

mod checks;
mod clients;
mod cluster;
mod disks;
mod erasure_codes;
mod run;
mod upstream;
mod upstream_files;

use anyhow::{Context, Result, bail};
use clients::Clients;
use run::{Check, Mode, Report, Run};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

const HELP: &str = "\
interop [--clients host|16.2|18.2|20.2|all] [--short] [--jobs N] [--keep] [--list] [CHECK…]
  --short   what every change runs: fewer sizes, fewer files
  --jobs    how many checks run at a time; their rates and stalls are measurements only if that is 1, as without
            the option
  --keep    keep the scratch directory (cluster, logs)
";

/// Each check may have a cluster of gigabytes.
const JOBS_MAX: usize = 16;

struct Options {
    clients: Vec<Clients>,
    short: bool,
    keep: bool,
    /// Checks that run at a time.
    jobs: usize,
    only: Vec<Check>,
}

fn main() -> ExitCode {
    match check() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("interop: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn check() -> Result<()> {
    let Some(options) = parse()? else { return Ok(()) };
    let scratch = scratch_directory()?;
    let (mut failed, mut passed) = (Vec::new(), 0);
    for clients in &options.clients {
        clients.prepare(&scratch)?;
        let mut runs = checks::plan(clients, options.short);
        runs.retain(|(check, _)| options.only.is_empty() || options.only.contains(check));
        let planned = runs.len();
        let failed_now = side_by_side(clients, runs, &options, &scratch);
        passed += planned - failed_now.len();
        failed.extend(failed_now);
        clients.release(&scratch);
    }
    if options.keep || !failed.is_empty() {
        println!("scratch directory kept: {}", scratch.display());
    } else {
        std::fs::remove_dir_all(&scratch)?;
    }
    println!("{passed} passed, {} failed", failed.len());
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

/// Runs checks, as many at a time as the options say: most of a check is waiting. The longest begin first, so
/// that none is left alone at the end. Returns the names of those that failed.
fn side_by_side(
    clients: &Clients,
    mut runs: Vec<(Check, Mode)>,
    options: &Options,
    scratch: &Path,
) -> Vec<String> {
    if options.jobs > 1 {
        runs.sort_by_key(|(check, _)| !check.is_long());
    }
    let (waiting, failed) = (Mutex::new(VecDeque::from(runs)), Mutex::new(Vec::new()));
    let next = || waiting.lock().expect("no thread panics with the lock").pop_front();
    let work = || {
        while let Some((check, mode)) = next() {
            let name = format!("{} {} {}", clients.name(), check.name(), mode.name());
            if !reported(clients, check, mode, options, scratch) {
                failed.lock().expect("no thread panics with the lock").push(name);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(work);
        }
    });
    failed.into_inner().expect("no thread panics with the lock")
}

/// Runs one check and prints its report in one piece; true if it passed.
fn reported(
    clients: &Clients,
    check: Check,
    mode: Mode,
    options: &Options,
    scratch: &Path,
) -> bool {
    let header = format!("{} with {} clients, {}", check.name(), clients.name(), mode.name());
    let report = Report::default();
    // Alone, a check may show at once what runs.
    if options.jobs == 1 {
        println!("{header}")
    } else {
        report.say(&header)
    }
    let start = Instant::now();
    let outcome = run(clients, check, mode, options, scratch, &report);
    match &outcome {
        Ok(()) => report.say(&format!("  passed in {:.1} s", start.elapsed().as_secs_f64())),
        Err(error) => report.say(&format!("  FAILED: {error:#}")),
    }
    print!("{}", report.into_text());
    outcome.is_ok()
}

fn run(
    clients: &Clients,
    check: Check,
    mode: Mode,
    options: &Options,
    scratch: &Path,
    report: &Report,
) -> Result<()> {
    let name = format!("{}-{}-{}", clients.name(), check.name(), mode.name());
    let directory = scratch.join(name);
    std::fs::create_dir_all(&directory)?;
    let run = Run { clients, check, mode, short: options.short, directory: &directory, report };
    let outcome = checks::execute(&run);
    // The disks of one cluster take gigabytes, which the next one needs.
    if !options.keep {
        disks::empty(&directory)?;
    }
    outcome?;
    if !options.keep {
        std::fs::remove_dir_all(&directory)?;
    }
    Ok(())
}

fn parse() -> Result<Option<Options>> {
    let mut options = Options {
        clients: vec![Clients::Host],
        short: false,
        keep: false,
        jobs: 1,
        only: Vec::new(),
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--clients" => options.clients = Clients::parse(&args.next().unwrap_or_default())?,
            "--short" => options.short = true,
            "--keep" => options.keep = true,
            "--jobs" => options.jobs = jobs(&args.next().unwrap_or_default())?,
            "--list" => {
                Check::ALL.iter().for_each(|check| println!("{}", check.name()));
                return Ok(None);
            }
            "--help" | "-h" => {
                print!("{HELP}");
                return Ok(None);
            }
            other => match Check::ALL.into_iter().find(|check| check.name() == other) {
                Some(check) => options.only.push(check),
                None => bail!("there is no check or option {other:?}\n\n{HELP}"),
            },
        }
    }
    Ok(Some(options))
}

fn jobs(text: &str) -> Result<usize> {
    let jobs = text.parse().ok().filter(|jobs| (1..=JOBS_MAX).contains(jobs));
    jobs.with_context(|| {
        format!("--jobs {text:?}: a number of checks up to {JOBS_MAX} is expected")
    })
}

fn scratch_directory() -> Result<PathBuf> {
    let path = std::env::temp_dir().join(format!("sepiola-interop-{}", std::process::id()));
    std::fs::create_dir_all(&path)?;
    // Some clients leave files in the working directory (fio: its verification state).
    std::env::set_current_dir(&path)?;
    Ok(path)
}
