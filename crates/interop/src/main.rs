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

use anyhow::{Result, bail};
use clients::Clients;
use run::{Check, Mode, Run};
use std::path::PathBuf;
use std::process::ExitCode;

const HELP: &str = "\
interop [--clients host|16.2|18.2|20.2|all] [--short] [--keep] [--list] [CHECK…]
  --short   what every change runs: fewer sizes, fewer files
  --keep    keep the scratch directory (cluster, logs)
";

struct Options {
    clients: Vec<Clients>,
    short: bool,
    keep: bool,
    only: Vec<String>,
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
    let mut failed = Vec::new();
    let mut passed = 0;
    for clients in &options.clients {
        clients.prepare(&scratch)?;
        for (check, mode) in checks::plan(clients, options.short) {
            if !options.only.is_empty() && !options.only.iter().any(|name| name == check.name()) {
                continue;
            }
            match run(clients, check, mode, &options, &scratch) {
                Ok(()) => passed += 1,
                Err(error) => {
                    println!("  FAILED: {error:#}");
                    failed.push(format!("{} {} {}", clients.name(), check.name(), mode.name()));
                }
            }
        }
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

fn run(
    clients: &Clients,
    check: Check,
    mode: Mode,
    options: &Options,
    scratch: &std::path::Path,
) -> Result<()> {
    println!("{} with {} clients, {}", check.name(), clients.name(), mode.name());
    let name = format!("{}-{}-{}", clients.name(), check.name(), mode.name());
    let directory = scratch.join(name);
    std::fs::create_dir_all(&directory)?;
    let start = std::time::Instant::now();
    let run = Run { clients, check, mode, short: options.short, directory: &directory };
    let outcome = checks::execute(&run);
    // The disks of one cluster take gigabytes, which the next one needs.
    if !options.keep {
        disks::empty(&directory)?;
    }
    outcome?;
    println!("  passed in {:.1} s", start.elapsed().as_secs_f64());
    if !options.keep {
        std::fs::remove_dir_all(&directory)?;
    }
    Ok(())
}

fn parse() -> Result<Option<Options>> {
    let mut options =
        Options { clients: vec![Clients::Host], short: false, keep: false, only: Vec::new() };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--clients" => options.clients = Clients::parse(&args.next().unwrap_or_default())?,
            "--short" => options.short = true,
            "--keep" => options.keep = true,
            "--list" => {
                Check::ALL.iter().for_each(|check| println!("{}", check.name()));
                return Ok(None);
            }
            "--help" | "-h" => {
                print!("{HELP}");
                return Ok(None);
            }
            name if Check::ALL.iter().any(|check| check.name() == name) => {
                options.only.push(name.to_owned());
            }
            other => bail!("there is no check or option {other:?}\n\n{HELP}"),
        }
    }
    Ok(Some(options))
}

fn scratch_directory() -> Result<PathBuf> {
    let path = std::env::temp_dir().join(format!("sepiola-interop-{}", std::process::id()));
    std::fs::create_dir_all(&path)?;
    // Some clients leave files in the working directory (fio: its verification state).
    std::env::set_current_dir(&path)?;
    Ok(path)
}
