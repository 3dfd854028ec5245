//! `sepiola mds`: metadata servers, each a process of its own, on any machine that reaches the monitors.
//!
//! A server has a directory with what it must know before it finds a monitor (`mds.json`) and the key by
//! which monitors know it (`keyring`).

mod beside;
mod create;
mod directory;
mod start;
mod volatile;

pub use beside::FileSystem;

use crate::cli::MdsCommand;
use anyhow::Result;

/// `sepiola mds …`
pub fn run(command: &MdsCommand) -> Result<()> {
    match command {
        MdsCommand::Create(args) => create::create(args),
        MdsCommand::Start(args) => start::start(args),
    }
}
