//! Syntax of `sepiola console`.

use access::ClusterArgs;
use clap::Args;

/// `sepiola console`
#[derive(Debug, Clone, Args)]
pub struct ConsoleArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Open it in a browser of this machine, whose other users can see the link among the processes until it
    /// is used
    #[arg(long)]
    pub open: bool,
}
