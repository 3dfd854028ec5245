//! Monitors as processes of their own, on an etcd that they share.

mod create;
mod directory;
mod prepare;
mod start;
mod version;

pub use create::{AUTH_OPTION, monmap_of};
pub use directory::{MonSettings, check_name, write_conf};

use crate::cli::{ClusterCommand, MonCommand};
use anyhow::Result;

/// `sepiola mon …`
pub fn run(command: &MonCommand) -> Result<()> {
    match command {
        MonCommand::Create(args) => start::create(args),
        MonCommand::Start(args) => start::start(args),
    }
}

/// `sepiola cluster …`
pub fn run_cluster(command: &ClusterCommand) -> Result<()> {
    match command {
        ClusterCommand::Create(args) => create::create(args),
        ClusterCommand::Version(args) => version::show(args),
        ClusterCommand::Finalize(args) => version::finalize(args),
    }
}
