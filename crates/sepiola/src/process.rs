//! A process that runs in the foreground: its log, and the signals that end it.

use crate::journal::{self, JournalLines};
use anyhow::Result;
use host::Notices;
use std::io::IsTerminal;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::prelude::*;

/// To be called by a process that runs daemons, before it starts other threads.
pub fn begin() -> Result<Notices> {
    rt::kernel_support().map_err(|reason| anyhow::anyhow!(reason))?;
    start_log();
    rt::raise_open_files();
    Notices::of_signals()
}

/// Events go to standard error, with priorities if that is the journal. `SEPIOLA_LOG=debug` shows more,
/// `SEPIOLA_LOG=warn,osd=debug` of one crate.
pub fn start_log() {
    let filter = std::env::var("SEPIOLA_LOG").map_or(Ok(Targets::default()), |text| text.parse());
    let filter = filter.unwrap_or_else(|error| {
        eprintln!("SEPIOLA_LOG: {error}; a list of levels is expected, such as warn,osd=debug");
        Targets::default()
    });
    let filter = match filter.default_level() {
        None => filter.with_default(LevelFilter::WARN),
        Some(_) => filter,
    };
    let lines = fmt::layer().with_writer(std::io::stderr);
    if journal::is_standard_error() {
        let lines = lines.with_ansi(false).event_format(JournalLines);
        return tracing_subscriber::registry().with(lines).with(filter).init();
    }
    let lines = lines.with_ansi(std::io::stderr().is_terminal());
    tracing_subscriber::registry().with(lines).with(filter).init();
}
