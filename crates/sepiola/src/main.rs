//! The `sepiola` command.

mod bench;
mod cli;
mod client;
mod cluster;
mod connection;
mod control;
mod datadir;
mod down;
mod host;
mod store;
mod up;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
