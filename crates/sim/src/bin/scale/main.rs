//! Measures the costs of a large cluster with the engines of a real one.
//!
//! ```text
//! cargo run --release -p sim --bin scale -- --osds 10000 [--groups N] [--only maps,placement,…]
//! ```
//!
//! Only the surroundings of each engine are simulated: there is no network and no disk, so the figures are
//! the CPU time of the engines and the messages that they send. `docs/SCALE.md` explains the numbers.

mod cluster;
mod maps;
mod monitor;
mod osd;
mod peering;
mod placement;
mod report;

use cluster::Shape;
use report::Report;
use std::process::ExitCode;

const USAGE: &str =
    "scale [--osds N] [--groups N] [--sample N] [--only maps,placement,osd,monitor,peering]";

struct Arguments {
    shape: Shape,
    /// Upper bound of placement groups that `peering` follows.
    sample: u32,
    only: Vec<String>,
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(problem) => {
            eprintln!("scale: {problem}\nusage: {USAGE}");
            return ExitCode::from(2);
        }
    };
    let shape = arguments.shape;
    let wanted = |name: &str| arguments.only.is_empty() || arguments.only.iter().any(|o| o == name);
    let mut report = Report;
    let map = cluster::build(shape, &mut report);
    if wanted("maps") {
        maps::measure(&map, shape, &mut report);
    }
    if wanted("placement") {
        placement::measure(&map, shape, &mut report);
    }
    if wanted("osd") {
        osd::measure(&map, shape, &mut report);
    }
    if wanted("monitor") {
        monitor::measure(&map, shape, &mut report);
    }
    if wanted("peering") {
        peering::measure(&map, shape, arguments.sample, &mut report);
    }
    ExitCode::SUCCESS
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let shape = Shape { osds: 10_000, groups: 262_144 };
    let mut arguments = Arguments { shape, sample: 64, only: Vec::new() };
    while let Some(word) = words.next() {
        let value = words.next().ok_or(format!("{word} needs a value"))?;
        let number =
            || value.parse::<u32>().map_err(|_| format!("{word}: '{value}' is not a number"));
        match word.as_str() {
            "--osds" => arguments.shape.osds = number()? as usize,
            "--groups" => arguments.shape.groups = number()?,
            "--sample" => arguments.sample = number()?,
            "--only" => arguments.only = value.split(',').map(str::to_owned).collect(),
            _ => return Err(format!("'{word}' is not known")),
        }
    }
    Ok(arguments)
}
