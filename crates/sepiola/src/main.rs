//! The `sepiola` command.

mod cli;
mod client;
mod cluster;
mod console;
mod control;
mod crashes;
mod daemon_files;
mod daemons;
mod down;
mod fs;
mod generate;
mod host;
mod image;
mod image_worker;
mod journal;
mod kept_process;
mod listen;
mod mds;
mod monitors;
mod nbd;
mod osd;
mod process;
mod store;
mod up;
mod volume_worker;

use clap::Parser;
use cli::{Cli, Command};
use mimalloc::MiMalloc;
use std::process::ExitCode;

/// Small buffers come and go with every message: measured against glibc's in `docs/BENCHMARKS.md`.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Runs what the command line asks for; errors go to standard error with their causes.
fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output has closed its end.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let priority = if journal::is_standard_error() { journal::ERROR } else { "" };
            eprintln!("{priority}sepiola: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Up(args) => up::up(&args),
        Command::Down(args) => down::down(&args),
        Command::Status(args) => client::status(&args),
        Command::Console(args) => console::console(&args),
        Command::Put(args) => client::put(&args),
        Command::Get(args) => client::get(&args),
        Command::Ls(args) => client::list(&args),
        Command::Rm(args) => client::remove(&args),
        Command::Stat(args) => client::stat(&args),
        Command::Bench(args) => bench::bench(&args),
        Command::Image { command } => image::run(&command),
        Command::Nbd(args) => nbd::serve(&args),
        Command::Cluster { command } => monitors::run_cluster(&command),
        Command::Fs { command } => fs::run(&command),
        Command::Host { command } => host::run(&command),
        Command::Mon { command } => monitors::run(&command),
        Command::Osd { command } => osd::run(&command),
        Command::Mds { command } => mds::run(&command),
        Command::Control { command } => control::run(&command),
        Command::Store(args) => store::run(&args),
        Command::Generate { command } => generate::run(&command),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.root_cause().downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
