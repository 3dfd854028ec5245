//! Runs the scenarios of the store's property tests, seed after seed, until one fails or all are done.

#[path = "../../tests/properties/harness/mod.rs"]
mod harness;

use harness::{Report, SCENARIOS};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

const USAGE: &str = "block_soak [--first-seed S] [--seeds N] [--only SCENARIO] [--keep-going]";
const SEEDS_DEFAULT: u64 = 20;
/// Seeds between two lines of progress.
const PROGRESS_SEEDS: u64 = 20;

struct Arguments {
    first_seed: u64,
    seeds: u64,
    only: Option<String>,
    keep_going: bool,
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(problem) => {
            eprintln!("block_soak: {problem}\nusage: {USAGE}");
            return ExitCode::from(2);
        }
    };
    // The seed is printed afterwards.
    std::panic::set_hook(Box::new(|info| eprintln!("{info}")));
    soak(&arguments)
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments =
        Arguments { first_seed: 1, seeds: SEEDS_DEFAULT, only: None, keep_going: false };
    while let Some(word) = words.next() {
        let value = |next: Option<String>| next.ok_or(format!("{word} needs a value"));
        let number = |text: String| {
            text.parse::<u64>().map_err(|_| format!("{word}: '{text}' is not a number"))
        };
        match word.as_str() {
            "--first-seed" => arguments.first_seed = number(value(words.next())?)?,
            "--seeds" => arguments.seeds = number(value(words.next())?)?,
            "--only" => arguments.only = Some(scenario(value(words.next())?)?),
            "--keep-going" => arguments.keep_going = true,
            _ => return Err(format!("'{word}' is not known")),
        }
    }
    Ok(arguments)
}

fn scenario(name: String) -> Result<String, String> {
    let names = SCENARIOS.map(|(name, _)| name);
    match names.contains(&name.as_str()) {
        true => Ok(name),
        false => Err(format!("no scenario '{name}', but {}", names.join(", "))),
    }
}

fn soak(arguments: &Arguments) -> ExitCode {
    let (mut total, mut failures) = (Report::default(), 0u64);
    for number in 0..arguments.seeds {
        let seed = arguments.first_seed + number;
        for (name, scenario) in SCENARIOS {
            if arguments.only.as_ref().is_some_and(|only| only != name) {
                continue;
            }
            match catch_unwind(AssertUnwindSafe(|| scenario(seed))) {
                Ok(report) => total += report,
                Err(_) => {
                    failures += 1;
                    println!("replay: block_soak --first-seed {seed} --seeds 1 --only {name}");
                    if !arguments.keep_going {
                        return ExitCode::FAILURE;
                    }
                }
            }
        }
        if (number + 1).is_multiple_of(PROGRESS_SEEDS) {
            println!("{} of {} seeds: {}", number + 1, arguments.seeds, shown(&total));
        }
    }
    println!("{} seeds, {failures} failed: {}", arguments.seeds, shown(&total));
    if failures > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn shown(report: &Report) -> String {
    let Report { transactions, reads, steps, crashes, faults } = report;
    format!(
        "{transactions} transactions, {reads} reads, {steps} operations, {crashes} crashes, \
         {faults} faults"
    )
}
