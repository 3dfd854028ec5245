//! Lines of a Markdown table, printed as they are measured.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// Writes measurements to standard output.
#[derive(Debug, Default)]
pub struct Report;

impl Report {
    /// Begins a section.
    pub fn section(&mut self, title: &str) {
        println!("\n### {title}\n\n| what | |\n|---|---|");
    }

    /// Writes a value.
    pub fn line(&mut self, what: impl Display, value: impl Display) {
        println!("| {what} | {value} |");
    }

    /// Writes a duration.
    pub fn time(&mut self, what: impl Display, took: Duration) {
        self.line(what, duration(took));
    }
}

/// A duration with a unit that suits it.
pub fn duration(took: Duration) -> String {
    let micros = took.as_secs_f64() * 1e6;
    match micros {
        _ if micros < 1_000.0 => format!("{micros:.1} µs"),
        _ if micros < 1_000_000.0 => format!("{:.1} ms", micros / 1e3),
        _ => format!("{:.2} s", micros / 1e6),
    }
}

/// A size with its unit.
pub fn bytes(count: usize) -> String {
    match count {
        _ if count < 10_000 => format!("{count} B"),
        _ if count < 10_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        _ => format!("{:.1} MB", count as f64 / 1e6),
    }
}

/// CPU time of `act`, which is independent of other load on the machine.
pub fn timed<T>(act: impl FnOnce() -> T) -> (T, Duration) {
    let (started, cpu_before) = (Instant::now(), cpu());
    let result = act();
    let took = started.elapsed();
    match took > PRECISE {
        true => (result, cpu().zip(cpu_before).map_or(took, |(after, before)| after - before)),
        false => (result, took),
    }
}

/// The resolution of Linux's CPU clock suffices for times beyond this.
const PRECISE: Duration = Duration::from_millis(40);

fn cpu() -> Option<Duration> {
    let statistics = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    statistics.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// The fastest of several runs.
pub fn fastest(runs: usize, mut act: impl FnMut()) -> Duration {
    (0..runs).map(|_| timed(&mut act).1).min().unwrap_or_default()
}

/// Resident memory of the process in bytes; 0 if Linux does not report it.
pub fn resident() -> usize {
    const PAGE: usize = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * PAGE
}
