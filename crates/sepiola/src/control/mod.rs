//! `sepiola control`: work on a control store while no monitor uses it.

pub mod moving;
mod rebuild;
mod remains;

use crate::cli::ControlCommand;
use anyhow::Result;

/// `sepiola control …`
pub fn run(command: &ControlCommand) -> Result<()> {
    match command {
        ControlCommand::Move(args) => moving::run(args),
        ControlCommand::Collect(args) => remains::collect(args),
        ControlCommand::Rebuild(args) => rebuild::rebuild(args),
    }
}
