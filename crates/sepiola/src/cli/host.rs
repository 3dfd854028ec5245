//! Syntax of `sepiola host`.

use super::OsdClusterArgs;
use clap::{Args, Subcommand};

#[derive(Debug, Clone, Subcommand)]
pub enum HostCommand {
    /// Restart the daemons of this machine, as after an upgrade, and wait until all groups are clean again
    Restart(RestartArgs),
}

#[derive(Debug, Clone, Args)]
pub struct RestartArgs {
    #[command(flatten)]
    pub cluster: OsdClusterArgs,
    /// Minutes to wait for the cluster, before the restart and after it
    #[arg(long, value_name = "MINUTES", default_value_t = 30)]
    pub timeout: u64,
    /// Only say what would be restarted, and whether the cluster can do without it now
    #[arg(long)]
    pub dry_run: bool,
}
