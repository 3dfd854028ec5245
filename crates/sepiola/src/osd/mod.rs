//! `sepiola osd`: OSDs that run as processes of their own, on any machine that reaches the monitors.
//!
//! An OSD has a directory. Beside its store it holds what the OSD must know before it finds a monitor
//! (`osd.json`) and the key by which monitors know it (`keyring`). Both are written last, so that a
//! directory that has them is complete.

mod create;
pub mod directory;
pub mod hosts;
mod registry;
mod replace;
mod start;

pub use registry::Registry;

use crate::cli::OsdCommand;
use anyhow::Result;

/// `sepiola osd …`
pub fn run(command: &OsdCommand) -> Result<()> {
    match command {
        OsdCommand::Create(args) => create::create(args),
        OsdCommand::Replace(args) => replace::replace(args),
        OsdCommand::Start(args) => start::start(args),
    }
}
