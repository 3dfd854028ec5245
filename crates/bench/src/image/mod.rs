//! `sepiola image bench`: measures an image with the native client, as fio would with librbd.

mod load;
mod pattern;

use super::measurement::Measurement;
use super::process;
use super::report::{Report, Size, Subject};
use crate::ImageBenchArgs;
use access::{BlockingClient, progress, spec_of};
use anyhow::{Result, bail};
pub use load::{ImageLoad, Shape};
pub use pattern::Pattern;
use rbd::Image;

/// Largest block in bytes; a block larger than an object becomes several operations.
const BLOCK_MAX: u64 = 32 << 20;
/// Block size in bytes of the initial fill, which gives reads data.
const FILL_BLOCK: u64 = 4 << 20;
const FILL_DEPTH: usize = 16;

/// Measures an image and prints a report.
pub fn bench_image(args: &ImageBenchArgs) -> Result<()> {
    if args.depth == 0 || args.runs == 0 || args.seconds == 0 || args.read_percent > 100 {
        bail!("--depth, --runs and --seconds must be positive, --read-percent at most 100");
    }
    if !(1..=BLOCK_MAX).contains(&args.block) {
        bail!("a block has from 1 byte to 32M");
    }
    let mut client = BlockingClient::open(&args.image.cluster)?;
    let spec = spec_of(&mut client, &args.image.image)?;
    let mut image = client.open_image(spec, args.pattern.writes() || args.fill)?;
    let outcome = measure(&mut client, &mut image, args);
    // The watch is unregistered even after a failure.
    let closed = client.close(image);
    outcome.and(closed)
}

fn measure(client: &mut BlockingClient, image: &mut Image, args: &ImageBenchArgs) -> Result<()> {
    if args.fill {
        fill(client, image)?;
    }
    let ImageBenchArgs { pattern, block, depth, read_percent, seed, .. } = *args;
    let pids = process::daemon_pids(&args.daemon_pids, &args.image.cluster);
    let mut report = Report::new(subject(args), !pids.is_empty());
    let mut load =
        ImageLoad::new(client, image, Shape { pattern, block, depth, read_percent, seed })?;
    let mut measurement = Measurement::new(args.seconds, args.report_every, pids, args.json);
    for _ in 0..args.runs {
        let (result, latencies) = measurement.run(&mut load)?;
        report.add(result, &latencies);
    }
    report.set_series(measurement.finish());
    let unwritten = load.unwritten_share() * 100.0;
    if unwritten >= 1.0 {
        eprintln!("sepiola: {unwritten:.0} % of what was read had never been written; see --fill");
    }
    report.print(args.json)
}

fn subject(args: &ImageBenchArgs) -> Subject {
    Subject {
        workload: args.pattern.name().to_owned(),
        size: Size::Block(args.block),
        in_flight: args.depth,
        seconds: Some(args.seconds),
        objects: None,
        runs: args.runs,
    }
}

/// Writes an image once, in whole objects of the usual size.
pub fn fill(client: &mut BlockingClient, image: &mut Image) -> Result<()> {
    let (pattern, block) = (Pattern::Write, FILL_BLOCK.min(image.size().max(1)));
    let shape = Shape { pattern, block, depth: FILL_DEPTH, read_percent: 0, seed: 0 };
    let progress = progress(Some(image.size()));
    ImageLoad::new(client, image, shape)?.write_all(|bytes| progress.set_position(bytes))?;
    progress.finish_and_clear();
    Ok(())
}
