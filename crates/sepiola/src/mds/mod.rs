//! `sepiola mds`: metadata servers, each a process of its own, on any machine that reaches the monitors.
//!
//! A server has a directory with what it must know before it finds a monitor (`mds.json`) and the key by
//! which monitors know it (`keyring`).

mod beside;
mod create;
mod directory;
mod start;

pub use beside::FileSystem;

use crate::cli::MdsCommand;
use anyhow::Result;

/// The loss that comes with the end of a server that stores nothing.
const WARNING: &str = "the metadata server keeps all names and attributes of files in memory only, as --volatile \
    says: when it stops or fails, the whole file system is empty, and the data of its files is lost";

/// `sepiola mds …`
pub fn run(command: &MdsCommand) -> Result<()> {
    match command {
        MdsCommand::Create(args) => create::create(args),
        MdsCommand::Start(args) => start::start(args),
    }
}
