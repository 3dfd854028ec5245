//! Runs seeds until one fails or all are done.

use sim::run::{Failure, Options, run};
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::process::ExitCode;
use std::time::Instant;
use stdx::FastHasher;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::prelude::*;

const USAGE: &str = "soak [--first-seed S] [--seeds N] [--seed X [--trace]] [--erasure PERCENT] [--file-system PERCENT] [--keep-going] [--tally] [--digest]";
const SEEDS_DEFAULT: u64 = 40;
/// Longest time in seconds between lines of progress.
const PROGRESS_SECONDS: u64 = 10;

#[derive(Default)]
struct Arguments {
    first_seed: u64,
    seeds: u64,
    trace: bool,
    keep_going: bool,
    tally: bool,
    digest: bool,
    erasure: u64,
    file_system: u64,
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(problem) => {
            eprintln!("soak: {problem}\nusage: {USAGE}");
            return ExitCode::from(2);
        }
    };
    // The seed of a panic is reported later; here only its location is printed.
    std::panic::set_hook(Box::new(|info| eprintln!("{info}")));
    if arguments.trace {
        show_log();
    }
    soak(&arguments)
}

/// Prints the log lines of engines between the events that caused them.
fn show_log() {
    let filter: Option<Targets> =
        std::env::var("SEPIOLA_LOG").ok().and_then(|text| text.parse().ok());
    let filter = filter.unwrap_or_else(|| Targets::new().with_default(LevelFilter::WARN));
    let lines = fmt::layer().with_writer(std::io::stderr).without_time().with_ansi(false);
    tracing_subscriber::registry().with(lines).with(filter).init();
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let Options { erasure, file_system, .. } = Options::default();
    let mut arguments = Arguments {
        first_seed: 1,
        seeds: SEEDS_DEFAULT,
        erasure,
        file_system,
        ..Arguments::default()
    };
    while let Some(word) = words.next() {
        let mut number = || {
            let text = words.next().ok_or(format!("{word} needs a number"))?;
            text.parse::<u64>().map_err(|_| format!("{word}: '{text}' is not a number"))
        };
        match word.as_str() {
            "--first-seed" => arguments.first_seed = number()?,
            "--seeds" => arguments.seeds = number()?,
            "--seed" => (arguments.first_seed, arguments.seeds) = (number()?, 1),
            "--erasure" => arguments.erasure = number()?,
            "--file-system" => arguments.file_system = number()?,
            "--trace" => arguments.trace = true,
            "--keep-going" => arguments.keep_going = true,
            "--tally" => arguments.tally = true,
            "--digest" => arguments.digest = true,
            _ => return Err(format!("'{word}' is not known")),
        }
    }
    Ok(arguments)
}

fn soak(arguments: &Arguments) -> ExitCode {
    let Arguments { trace, erasure, file_system, .. } = *arguments;
    let options = Options { trace, erasure, file_system };
    let started = Instant::now();
    let (mut requests, mut events, mut undecided, mut damaged) = (0, 0, 0, 0);
    let (mut stuck, mut failures) = (0u64, 0u64);
    let mut said = 0;
    let mut digest = FastHasher::default();
    let mut tally: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for number in 0..arguments.seeds {
        match run(arguments.first_seed + number, &options) {
            Ok(report) => {
                requests += report.requests;
                events += report.events;
                undecided += report.undecided;
                damaged += report.damaged;
                stuck += u64::from(report.is_stuck);
                digest.write_u64(report.digest);
                for (what, times) in report.met {
                    let (seeds, all) = tally.entry(what).or_default();
                    (*seeds, *all) = (*seeds + 1, *all + times);
                }
            }
            Err(failure) => {
                report(&failure, &options);
                failures += 1;
                if !arguments.keep_going {
                    return ExitCode::FAILURE;
                }
            }
        }
        let seconds = started.elapsed().as_secs();
        if seconds >= said + PROGRESS_SECONDS {
            said = seconds;
            println!("{} of {} seeds, {seconds} s", number + 1, arguments.seeds);
        }
    }
    let (seeds, seconds) = (arguments.seeds, started.elapsed().as_secs_f64());
    println!(
        "{seeds} seeds, {failures} failed: {requests} requests, {events} events, \
         {undecided} histories undecided, {damaged} reads met damage, \
         {stuck} stuck, {seconds:.1} s"
    );
    if arguments.digest {
        println!("digest {:016x}", digest.finish());
    }
    if arguments.tally {
        tally.iter().for_each(|(what, (seeds, times))| println!("{what}: {seeds} seeds, {times}"));
    }
    if failures > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn report(failure: &Failure, options: &Options) {
    let Failure { seed, what, scenario, last_lines } = failure;
    println!("{last_lines}");
    println!("seed {seed} failed: {what}\n{scenario}");
    let Options { erasure, file_system, .. } = options;
    println!(
        "replay: cargo xtask soak --first-seed {seed} --seeds 1 --erasure {erasure} --file-system {file_system} \
         (or soak with --seed {seed} --trace)"
    );
}
