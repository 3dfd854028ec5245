//! `sepiola bench stability`: steadiness of an image's throughput.
//!
//! Blocks are written in sequence, then read, at several depths. Completed bytes are counted in short buckets
//! of time, which [`steadiness`] evaluates. `stability.py` among the checks does the same to any cluster with
//! fio and librbd.

mod report;
mod steadiness;

use super::image::{ImageLoad, Pattern, Shape, fill};
use super::measurement::Work;
use crate::BenchArgs;
use access::{BlockingClient, ImageName, PoolName, new_id, spec_of};
use anyhow::{Context, Result, bail};
use engine::Time;
use rbd::{CreateSpec, Features, Image, ImageSpec};
use report::{Point, Report};
use std::time::Duration;

/// The image that is created for the measurement and removed after it.
const IMAGE: &str = "sepiola_bench_stability";
/// Objects of librbd's usual size.
const OBJECT_ORDER: u8 = 22;
const MIB: f64 = (1 << 20) as f64;

/// Measures an image's throughput per pattern and depth, and prints how steady each is.
pub fn stability(args: &BenchArgs) -> Result<()> {
    check(args)?;
    let mut client = BlockingClient::open(&args.pool.cluster)?;
    let is_ours = args.stability.image.is_none();
    let name = args.stability.image.clone().unwrap_or_else(|| IMAGE.to_owned());
    let pool = PoolName { pool: args.pool.pool.clone(), namespace: args.pool.namespace.clone() };
    let spec = spec_of(&mut client, &ImageName { pool, name })?;
    if is_ours {
        create(&mut client, &spec, args.stability.image_size)?;
    }
    let outcome = measure(&mut client, &spec, args);
    if is_ours {
        client.run(rbd::remove(spec)).context("removing the image that was measured")?;
    }
    outcome?.print(args.json, args.stability.csv.as_deref())
}

fn check(args: &BenchArgs) -> Result<()> {
    let depths = &args.stability.depths;
    if depths.is_empty() || depths.contains(&0) || args.load.seconds == 0 {
        bail!("--depths and --seconds must be positive");
    }
    if args.stability.bucket > Duration::from_secs(1) {
        bail!("--bucket must be at most 1s, the length of a window");
    }
    Ok(())
}

fn create(client: &mut BlockingClient, image: &ImageSpec, size: u64) -> Result<()> {
    let (features, data_pool, striping) = (Features::DEFAULT, None, None);
    let (image, id) = (image.clone(), new_id()?);
    let spec = CreateSpec { image, id, size, order: OBJECT_ORDER, features, data_pool, striping };
    client.run(rbd::create(spec)).context(
        "making an image to measure; `sepiola image rm` removes one that was left over by a run \
         that was killed",
    )
}

fn measure(client: &mut BlockingClient, spec: &ImageSpec, args: &BenchArgs) -> Result<Report> {
    let mut image = client.open_image(spec.clone(), true)?;
    let outcome = measure_image(client, &mut image, args);
    // The watch is unregistered even after a failure.
    let closed = client.close(image);
    let report = outcome?;
    closed.map(|()| report)
}

fn measure_image(
    client: &mut BlockingClient,
    image: &mut Image,
    args: &BenchArgs,
) -> Result<Report> {
    let options = &args.stability;
    let mut report = Report::new(options, args.json);
    // Throughput must not include the creation of objects; and reads need data.
    fill(client, image)?;
    for pattern in [Pattern::Write, Pattern::Read] {
        for depth in options.depths.clone() {
            let (block, seed) = (options.block, args.seed);
            let shape = Shape { pattern, block, depth, read_percent: 0, seed };
            let mut load = ImageLoad::new(client, image, shape)?;
            let buckets = count(&mut load, args)?;
            report.add(Point::new(pattern, depth, options.bucket, buckets)?);
        }
    }
    Ok(report)
}

/// Rate of each bucket in MiB/s.
fn count(load: &mut ImageLoad<'_>, args: &BenchArgs) -> Result<Vec<f64>> {
    let length = Duration::from_secs(args.load.seconds);
    let args = &args.stability;
    let counted_from = load.now() + args.warm_up;
    let number = (length.as_nanos() / args.bucket.as_nanos()) as usize;
    let end = counted_from + args.bucket * number as u32;
    let mut completed = vec![0u64; number];
    loop {
        let now = load.now();
        if now < end {
            load.fill(now);
        } else if load.in_flight() == 0 {
            break;
        }
        load.turn()?;
        let mut operations = 0;
        load.collect(&mut |_| operations += 1)?;
        if let Some(bucket) = bucket(load.now(), counted_from, args.bucket)
            && let Some(count) = completed.get_mut(bucket)
        {
            *count += operations;
        }
    }
    let mib = args.block as f64 / MIB / args.bucket.as_secs_f64();
    Ok(completed.into_iter().map(|count| count as f64 * mib).collect())
}

fn bucket(now: Time, from: Time, length: Duration) -> Option<usize> {
    (now >= from).then(|| (now.since(from).as_nanos() / length.as_nanos()) as usize)
}
