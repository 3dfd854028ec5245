//! Report of the measurement, as a table, JSON, or a series for other tools.

use super::steadiness::{CV_MAX, DRIFT_MAX, LEAST_MIN, Steadiness, steadiness};
use crate::StabilityArgs;
use crate::image::Pattern;
use anyhow::{Context, Result};
use serde::Serialize;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Duration;
use stdx::format_bytes;

/// Points and the form in which they are printed.
#[derive(Debug, Serialize)]
pub struct Report {
    block_size: u64,
    bucket_seconds: f64,
    criterion: Criterion,
    points: Vec<Point>,
    #[serde(skip)]
    is_json: bool,
}

/// See [`super::steadiness`].
#[derive(Debug, Serialize)]
struct Criterion {
    window_seconds: f64,
    window_cv_max: f64,
    window_min_by_mean: f64,
    drift_max: f64,
}

const CRITERION: Criterion = Criterion {
    window_seconds: 1.0,
    window_cv_max: CV_MAX,
    window_min_by_mean: LEAST_MIN,
    drift_max: DRIFT_MAX,
};

/// Measurement of one pattern at one depth.
#[derive(Debug, Serialize)]
pub struct Point {
    pattern: &'static str,
    depth: usize,
    #[serde(flatten)]
    steadiness: Steadiness,
    /// Rate of each bucket in MiB/s.
    series: Vec<f64>,
}

impl Point {
    /// `series` has the rate of each `bucket` of time in MiB/s; fails without a second of them.
    pub fn new(pattern: Pattern, depth: usize, bucket: Duration, series: Vec<f64>) -> Result<Self> {
        let window = (Duration::from_secs(1).as_nanos() / bucket.as_nanos()) as usize;
        let steadiness = steadiness(&series, window).context("nothing completed in the time")?;
        Ok(Point { pattern: pattern.name(), depth, steadiness, series })
    }

    fn row(&self) -> String {
        let Steadiness { mean, bucket_cv, window_cv, window_min, window_max, .. } = self.steadiness;
        let Steadiness { bucket_min, bucket_max, drift, is_stable, .. } = self.steadiness;
        let stable = if is_stable { "stable" } else { "unstable" };
        let percent = 100.0;
        format!(
            "{:<8} {:>5} {mean:>9.1} {:>7.1} % {:>14} {:>7.1} % {:>14} {:>6.0} %  {stable}",
            self.pattern,
            self.depth,
            bucket_cv * percent,
            format!("{bucket_min:.0}..{bucket_max:.0}"),
            window_cv * percent,
            format!("{window_min:.0}..{window_max:.0}"),
            drift * percent,
        )
    }
}

impl Report {
    /// Rows are printed as they come.
    pub fn new(args: &StabilityArgs, is_json: bool) -> Self {
        let bucket_seconds = args.bucket.as_secs_f64();
        if !is_json {
            println!("sequential, {} blocks; rates in MiB/s", format_bytes(args.block));
            println!(
                "{:<8} {:>5} {:>9} {:>9} {:>14} {:>9} {:>14} {:>8}",
                "",
                "depth",
                "mean",
                format!("CV {} ms", args.bucket.as_millis()),
                "min..max",
                "CV 1 s",
                "min..max",
                "drift"
            );
        }
        let (criterion, points) = (CRITERION, Vec::new());
        Report { block_size: args.block, bucket_seconds, criterion, points, is_json }
    }

    /// Adds a point and, unless the report is JSON, prints it.
    pub fn add(&mut self, point: Point) {
        if !self.is_json {
            println!("{}", point.row());
        }
        self.points.push(point);
    }

    /// Prints the criterion, or all as JSON, and writes the series to `csv` if that is given.
    pub fn print(&self, is_json: bool, csv: Option<&Path>) -> Result<()> {
        if let Some(path) = csv {
            fs::write(path, self.csv()).with_context(|| format!("writing {}", path.display()))?;
        }
        if is_json {
            println!("{}", serde_json::to_string_pretty(self)?);
        } else {
            println!(
                "stable: over windows of 1 s, CV at most {:.0} %, none below {:.0} % of the mean, \
                 drift within {:.0} %",
                CV_MAX * 100.0,
                LEAST_MIN * 100.0,
                DRIFT_MAX * 100.0
            );
        }
        Ok(())
    }

    /// Start of each bucket in seconds, and its rate.
    fn csv(&self) -> String {
        let mut text = "pattern,depth,seconds,mib_per_second\n".to_owned();
        for point in &self.points {
            for (number, rate) in point.series.iter().enumerate() {
                let at = number as f64 * self.bucket_seconds;
                let _ = writeln!(text, "{},{},{at:.3},{rate:.3}", point.pattern, point.depth);
            }
        }
        text
    }
}
