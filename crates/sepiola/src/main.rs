//! The `sepiola` command.

mod cli;
mod client;
mod cluster;
mod control;
mod down;
mod host_facts;
mod image;
mod monitors;
mod nbd;
mod osd;
mod store;
mod up;

use mimalloc::MiMalloc;
use std::process::ExitCode;

/// Small buffers come and go with every message: measured against glibc's in `docs/BENCHMARKS.md`.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
