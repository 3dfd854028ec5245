//! Syntax of `sepiola mon` and `sepiola cluster`.

use super::control::EtcdArgs;
use access::{AuthMode, ClusterArgs};
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Clone, Subcommand)]
pub enum MonCommand {
    /// Make the directory of a further monitor, which can then be started
    Create(MonCreateArgs),
    /// Run a monitor of this machine in the foreground
    Start(MonStartArgs),
}

#[derive(Debug, Clone, Subcommand)]
pub enum ClusterCommand {
    /// Make a new cluster on an etcd: its id, its keys, its first maps
    Create(ClusterCreateArgs),
    /// Show the cluster version, and which ones its daemons serve
    Version(ClusterArgs),
    /// Raise the cluster version when all daemons run a new release; older daemons cannot join any more
    Finalize(ClusterArgs),
}

/// `sepiola mon create`
#[derive(Debug, Clone, Args)]
pub struct MonCreateArgs {
    /// Its directory and the etcd.
    #[command(flatten)]
    pub options: MonOptions,
}

/// `sepiola mon start`
#[derive(Debug, Clone, Args)]
pub struct MonStartArgs {
    /// Its directory and the etcd.
    #[command(flatten)]
    pub options: MonOptions,
}

/// Options from which a monitor finds its cluster.
#[derive(Debug, Clone, Args)]
pub struct MonOptions {
    /// The monitor's directory; remembers everything else from the first start on
    #[arg(long)]
    pub data: PathBuf,
    /// Name of the monitor, such as a
    #[arg(long)]
    pub name: Option<String>,
    /// Address of this machine by which clients reach it; the port may be left out
    #[arg(long)]
    pub listen: Option<String>,
    /// Address of the metrics for Prometheus (http://ADDRESS/metrics); the port may be left out; `none`
    /// serves none [default: port 9283 of the monitor's address]
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<String>,
    /// Address of the console (https://ADDRESS/); the port may be left out; `none` serves none [default: port
    /// 8443 of the monitor's address]
    #[arg(long, value_name = "ADDRESS")]
    pub console: Option<String>,
    #[command(flatten)]
    pub etcd: EtcdArgs,
}

#[derive(Debug, Clone, Args)]
pub struct ClusterCreateArgs {
    /// Directory of the first monitor; ceph.conf and the administrator's keyring come here, too
    #[arg(long)]
    pub data: PathBuf,
    /// Name of the first monitor
    #[arg(long, default_value = "a")]
    pub name: String,
    /// Its address; the port may be left out
    #[arg(long)]
    pub listen: String,
    /// Copies of each object in new pools
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=10))]
    pub size: u8,
    /// How clients prove who they are
    #[arg(long, value_enum, default_value = "cephx")]
    pub auth: AuthMode,
    #[command(flatten)]
    pub etcd: EtcdArgs,
}
