//! `sepiola fs`: the check of file systems.

mod fsck;
mod report;
mod scrub;
mod target;

use crate::cli::FsCommand;
use anyhow::Result;

/// `sepiola fs …`
pub fn run(command: &FsCommand) -> Result<()> {
    match command {
        FsCommand::Fsck(args) => fsck::fsck(args),
        FsCommand::Scrub(args) => scrub::scrub(args),
    }
}
