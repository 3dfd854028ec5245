//! Syntax of `sepiola mds`.

use super::OsdClusterArgs;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Clone, Subcommand)]
pub enum MdsCommand {
    /// Make a metadata server: its key and its directory
    Create(MdsCreateArgs),
    /// Run a metadata server of this machine in the foreground
    Start(MdsStartArgs),
}

#[derive(Debug, Clone, Args)]
pub struct MdsCreateArgs {
    /// Name of the server, such as a
    pub name: String,
    /// ceph.conf of the cluster
    #[arg(short, long, env = "CEPH_CONF", default_value = "/etc/ceph/ceph.conf")]
    pub conf: PathBuf,
    /// Keyring with the key of --entity [default: the one in --conf, else /etc/ceph/ceph.ENTITY.keyring]
    #[arg(short, long)]
    pub keyring: Option<PathBuf>,
    /// Entity to authenticate as; client.bootstrap-mds (profile bootstrap-mds) may make servers
    #[arg(short, long, default_value = "client.admin")]
    pub entity: String,
    /// The server's directory [default: /var/lib/sepiola/mds.NAME]
    #[arg(long)]
    pub data: Option<PathBuf>,
}

impl MdsCreateArgs {
    /// How to reach the cluster.
    pub fn cluster(&self) -> OsdClusterArgs {
        let (conf, keyring, name) = (self.conf.clone(), self.keyring.clone(), self.entity.clone());
        OsdClusterArgs { conf, keyring, name }
    }
}

#[derive(Debug, Clone, Args)]
pub struct MdsStartArgs {
    /// Directory of the server
    #[arg(long)]
    pub data: PathBuf,
    /// Address of this machine [default: the one that leads to the monitors, any port]
    #[arg(long)]
    pub listen: Option<String>,
    /// ceph.conf that names the monitors [default: those that there were at the creation]
    #[arg(short, long)]
    pub conf: Option<PathBuf>,
    /// Store nothing: all names and attributes of files are lost when the server stops
    #[arg(long)]
    pub volatile: bool,
    /// Stop when standard input ends, as it does when the parent process ends
    #[arg(long, hide = true)]
    pub with_parent: bool,
}
