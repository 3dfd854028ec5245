//! A process that runs in the foreground: its log, and the signals that end it.

use anyhow::Result;
use host::Notices;
use std::io::IsTerminal;

/// To be called by a process that runs daemons, before it starts other threads.
pub fn begin() -> Result<Notices> {
    rt::kernel_support().map_err(|reason| anyhow::anyhow!(reason))?;
    start_log();
    rt::raise_open_files();
    Notices::of_signals()
}

/// Events go to standard error; `SEPIOLA_LOG=debug` shows more.
pub fn start_log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("SEPIOLA_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    let is_terminal = std::io::stderr().is_terminal();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(is_terminal)
        .init();
}
