//! The test commands.

use crate::deb;
use crate::packages::{TEST_PACKAGES, ensure};
use crate::run::{cargo, root, run};
use crate::tidy;
use anyhow::Result;
use std::path::PathBuf;
use std::process::Command;

/// Seeds that `test` simulates; `soak` takes any number.
const TEST_SEEDS: &str = "40";

/// The profile of programs that are tested and not measured, and its directory in `target`: optimised,
/// without link-time optimisation.
const CHECKS: &str = "checks";

/// Checks with stock clients that run at a time: each has clusters and clients of its own.
const JOBS_MAX: usize = 4;

/// The path of a program that was built for tests.
fn built(program: &str) -> PathBuf {
    root().join("target").join(CHECKS).join(program)
}

/// All tests: house rules, unit and property tests, short simulations, stock clients.
pub fn test() -> Result<()> {
    tidy::tidy()?;
    ensure(&TEST_PACKAGES)?;
    cargo(&["test", "--workspace", "--quiet", "--lib", "--bins", "--tests"])?;
    for room in tidy::crates_with_examples()? {
        cargo(&["test", "--doc", "--quiet", "--package", &room])?;
    }
    // One build for all three: alone, the simulator would select other features of the libraries below it.
    let packages = ["-p", "sim", "-p", "sepiola", "-p", "interop"];
    let programs = ["--bin", "soak", "--bin", "sepiola", "--bin", "interop"];
    cargo(&[&["build", "--profile", CHECKS][..], &packages, &programs].concat())?;
    run(Command::new(built("soak")).args(["--seeds", TEST_SEEDS]))?;
    // One more than there are cores: most of a check is waiting.
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let jobs = (cores + 1).min(JOBS_MAX);
    let options = ["--clients", "host", "--short", "--jobs", &jobs.to_string()];
    run(Command::new(built("interop")).args(options))
}

/// Runs all checks with the stock clients of all supported releases.
pub fn interop(args: &[String]) -> Result<()> {
    ensure(&TEST_PACKAGES)?;
    ensure(&["debootstrap", "systemd-container"])?;
    cargo(&["build", "--release", "--package", "sepiola", "--package", "interop"])?;
    if installs_package(args) {
        let program = root().join("target/release/sepiola").display().to_string();
        deb::deb(&["--binary".to_owned(), program])?;
    }
    run(Command::new(root().join("target/release/interop")).args(args))
}

/// True if the check runs that installs the package: with clients of this machine, and not in a short run.
fn installs_package(args: &[String]) -> bool {
    let (mut clients, mut checks) = ("host", Vec::new());
    let mut words = args.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "--clients" => clients = words.next().unwrap_or_default(),
            "--jobs" => drop(words.next()),
            option if option.starts_with('-') => {}
            check => checks.push(check),
        }
    }
    let is_short = args.iter().any(|arg| arg == "--short");
    let is_named = checks.is_empty() || checks.contains(&"book");
    is_named && !is_short && ["host", "16.2", "all"].contains(&clients)
}

/// Long simulations: of whole clusters, and of the block store over failing devices. Then real
/// processes on machines that fail, unless a seed is replayed.
pub fn soak(args: &[String]) -> Result<()> {
    simulate(args)?;
    let program = ["--package", "block", "--bin", "block_soak"];
    cargo(&[&["build", "--profile", CHECKS, "--quiet"][..], &program].concat())?;
    run(Command::new(built("block_soak")).args(args))?;
    if args.iter().any(|arg| arg == "--first-seed") {
        return Ok(());
    }
    interop(&["faults".to_owned(), "control".to_owned()])
}

fn simulate(args: &[String]) -> Result<()> {
    let program = ["--package", "sim", "--bin", "soak"];
    cargo(&[&["build", "--profile", CHECKS, "--quiet"][..], &program].concat())?;
    run(Command::new(built("soak")).args(args))
}

/// Fuzzes each decoder for a while.
pub fn fuzz(args: &[String]) -> Result<()> {
    let mut seconds = "30".to_owned();
    let mut targets = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--seconds" => seconds = args.next().cloned().unwrap_or(seconds),
            target => targets.push(target.to_owned()),
        }
    }
    if targets.is_empty() {
        let output = Command::new("cargo")
            .args(["+nightly", "fuzz", "list"])
            .current_dir(root())
            .output()?;
        targets = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    }
    for target in targets {
        let limit = format!("-max_total_time={seconds}");
        run(Command::new("cargo").args(["+nightly", "fuzz", "run", &target, "--", &limit]))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_is_built_only_for_the_check_that_installs_it() {
        let installs = |line: &str| {
            installs_package(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        };
        for line in ["", "book", "--clients all", "--keep rados book", "--clients 16.2", "--jobs 3"]
        {
            assert!(installs(line), "{line}");
        }
        for line in ["rados", "--short", "--short book", "--clients 18.2", "faults control"] {
            assert!(!installs(line), "{line}");
        }
    }
}
