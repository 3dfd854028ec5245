//! `sepiola host`: the daemons of this machine as systemd runs them.

mod restart;
mod units;

use crate::cli::HostCommand;
use anyhow::Result;

/// `sepiola host …`
pub fn run(command: &HostCommand) -> Result<()> {
    match command {
        HostCommand::Restart(args) => restart::restart(args),
    }
}
