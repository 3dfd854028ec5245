//! Syntax of `sepiola bench`, and of `sepiola image bench`.

use crate::{Fill, Mix, Pattern};
use access::{ImageArgs, PoolArgs, parse_size};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Write new objects
    Write,
    /// Read objects in the order in which they were written
    Seq,
    /// Read objects at random
    Rand,
    /// Read and overwrite objects at random
    Mixed,
    /// Bring the stores to a given fill and fragmentation, reproducibly
    Age,
    /// Write and read an image in order, and report how steady its throughput is
    Stability,
}

impl Workload {
    /// True if it reads objects that an earlier run has left.
    pub fn reads(self) -> bool {
        matches!(self, Workload::Seq | Workload::Rand | Workload::Mixed)
    }
}

#[derive(Debug, Clone, Args)]
pub struct BenchArgs {
    #[command(flatten)]
    pub pool: PoolArgs,
    /// Workload to measure; reads need objects that an earlier write left (--keep)
    #[arg(value_enum)]
    pub workload: Workload,
    /// Operations in flight
    #[arg(short = 't', long, visible_alias = "objects-in-flight", default_value_t = 16)]
    pub threads: usize,
    /// Decides which objects are taken
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
    /// Processes whose CPU time counts as the daemons' [default: the cluster of the data directory]
    #[arg(long, visible_alias = "daemon-pid", value_delimiter = ',')]
    pub daemon_pids: Vec<u32>,
    #[command(flatten)]
    pub load: LoadArgs,
    #[command(flatten)]
    pub age: AgeArgs,
    #[command(flatten)]
    pub stability: StabilityArgs,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Measuring")]
pub struct LoadArgs {
    /// Seconds of each run
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
    /// Write this many objects, however long it takes; read from this many
    #[arg(long)]
    pub objects: Option<u64>,
    /// Size of each object, such as 4K or 4M
    #[arg(short = 'b', long, visible_alias = "size", default_value = "4M")]
    pub object_size: String,
    /// Runs, of which median and spread are shown [default: 3, or 1 if `write` is told how many
    /// objects]
    #[arg(long)]
    pub runs: Option<usize>,
    /// Also show throughput and latency over time, in intervals such as 10s
    #[arg(long, value_parser = interval)]
    pub report_every: Option<Duration>,
    /// Reads among mixed operations, in percent
    #[arg(long, default_value_t = 70)]
    pub read_percent: u64,
    /// Leave the written objects for later reads
    #[arg(long)]
    pub keep: bool,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Ageing")]
pub struct AgeArgs {
    /// Share of the cluster's raw capacity to fill, or size of one copy of all objects
    #[arg(long, default_value = "70%")]
    pub fill: Fill,
    /// How often as many bytes as the fill are then written in random operations
    #[arg(long, default_value_t = 3)]
    pub passes: u32,
    /// Sizes of objects and how many have them, as SIZE:SHARE,…
    #[arg(long, default_value = "4k:30,64k:30,4m:40")]
    pub sizes: Mix,
    /// Read everything back at the end and compare it
    #[arg(long)]
    pub verify: bool,
    /// Only compare a pool that was aged before
    #[arg(long)]
    pub verify_only: bool,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Stability")]
pub struct StabilityArgs {
    /// Image of the pool to write to and read from, whatever it holds [default: one that is made for
    /// it, and removed]
    #[arg(long)]
    pub image: Option<String>,
    /// Size of the image that is made
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "1G")]
    pub image_size: u64,
    /// Size of each block
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "4M")]
    pub block: u64,
    /// Requests in flight, one measurement each
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,32")]
    pub depths: Vec<usize>,
    /// Time at the beginning of each that is not counted, before --seconds
    #[arg(long, value_name = "TIME", value_parser = interval, default_value = "2s")]
    pub warm_up: Duration,
    /// Throughput is counted in buckets of this length
    #[arg(long, value_name = "TIME", value_parser = interval, default_value = "100ms")]
    pub bucket: Duration,
    /// Also write the series here: pattern, depth, seconds, MiB/s
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub struct ImageBenchArgs {
    #[command(flatten)]
    pub image: ImageArgs,
    /// Writing overwrites what the image holds
    #[arg(value_enum)]
    pub pattern: Pattern,
    /// Size of each block
    #[arg(short = 'b', long, visible_alias = "bs", value_name = "SIZE", value_parser = parse_size)]
    #[arg(default_value = "4K")]
    pub block: u64,
    /// Requests in flight
    #[arg(short = 't', long, visible_aliases = ["threads", "iodepth"], default_value_t = 16)]
    pub depth: usize,
    /// Seconds of each run
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
    /// Runs, of which median and spread are shown
    #[arg(long, default_value_t = 3)]
    pub runs: usize,
    /// Reads of `randrw`, in percent
    #[arg(long, default_value_t = 70)]
    pub read_percent: u64,
    /// Decides which blocks are taken
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Write the whole image once before
    #[arg(long)]
    pub fill: bool,
    /// Also show throughput and latency over time, in intervals such as 10s
    #[arg(long, value_parser = interval)]
    pub report_every: Option<Duration>,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
    /// Processes whose CPU time counts as the daemons' [default: the cluster of the data directory]
    #[arg(long, visible_alias = "daemon-pid", value_delimiter = ',')]
    pub daemon_pids: Vec<u32>,
}

/// `10`, `10s`, `500ms` or `2m`.
fn interval(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale_ms = match unit {
        "ms" => Some(1),
        "" | "s" => Some(1000),
        "m" => Some(60_000),
        _ => None,
    };
    let number = number.parse::<u64>().ok().filter(|number| *number > 0);
    let milliseconds = number.zip(scale_ms).and_then(|(number, scale)| number.checked_mul(scale));
    milliseconds.map(Duration::from_millis).ok_or_else(|| "an interval is given as 10s".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_read() {
        assert_eq!(interval("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(interval("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(interval("500ms"), Ok(Duration::from_millis(500)));
        for bad in ["", "0", "s", "1h", "99999999999999999999s", "9999999999999999999m"] {
            assert!(interval(bad).is_err(), "{bad:?}");
        }
    }
}
