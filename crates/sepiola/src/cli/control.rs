//! Syntax of what has to do with the control store.

use access::DataArgs;
use clap::{Args, Subcommand};
use etcd::{EtcdOptions, PREFIX_DEFAULT};
use std::path::PathBuf;

#[derive(Debug, Clone, Subcommand)]
pub enum ControlCommand {
    /// Move a stopped cluster's control store from its directory to an etcd, or back
    Move(MoveArgs),
    /// Gather what the stopped OSDs of this machine remember of their cluster, for a rebuild
    Collect(CollectArgs),
    /// Make a control store that was lost anew, from what OSDs remember
    Rebuild(RebuildArgs),
}

#[derive(Debug, Clone, Args)]
pub struct CollectArgs {
    /// Directory of an OSD; may be given several times
    #[arg(long = "osd", value_name = "DIR", required = true)]
    pub osds: Vec<PathBuf>,
    /// File to write; it has the OSDs' keys
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}

#[derive(Debug, Clone, Args)]
pub struct RebuildArgs {
    /// Directory of the cluster (`sepiola up`), or of its first monitor
    #[arg(long)]
    pub data: PathBuf,
    /// Files that `sepiola control collect` wrote on the machines of the cluster
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Directory of a stopped OSD of this machine; may be given several times
    #[arg(long = "osd", value_name = "DIR")]
    pub osds: Vec<PathBuf>,
    /// Begin although nothing was found of some OSDs of the map
    #[arg(long)]
    pub incomplete: bool,
    /// Name of the first monitor
    #[arg(long, default_value = "a")]
    pub name: String,
    /// Its address; the port may be left out
    #[arg(long)]
    pub listen: Option<String>,
    /// Copies of each object in new pools
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=10))]
    pub size: u8,
    #[command(flatten)]
    pub etcd: EtcdArgs,
}

#[derive(Debug, Clone, Args)]
pub struct MoveArgs {
    #[command(flatten)]
    pub data: DataArgs,
    /// From the etcd that the directory names into a file in it
    #[arg(long, conflicts_with = "etcd")]
    pub back: bool,
    #[command(flatten)]
    pub etcd: EtcdArgs,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "etcd")]
pub struct EtcdArgs {
    /// Members of the etcd, such as http://10.0.0.1:2379,http://10.0.0.2:2379
    #[arg(long, value_name = "URL,…", value_delimiter = ',')]
    pub etcd: Vec<String>,
    /// Keys begin with it; clusters that share an etcd need different ones
    #[arg(long, value_name = "PREFIX", default_value = PREFIX_DEFAULT)]
    pub etcd_prefix: String,
    /// User of the etcd, if it asks for one
    #[arg(long, value_name = "NAME")]
    pub etcd_user: Option<String>,
    /// The user's password
    #[arg(long, value_name = "TEXT", env = "SEPIOLA_ETCD_PASSWORD", hide_env_values = true)]
    pub etcd_password: Option<String>,
    /// Certificate (PEM) of who signed those of the members
    #[arg(long, value_name = "FILE")]
    pub etcd_ca: Option<PathBuf>,
    /// Certificate (PEM) to present to the members
    #[arg(long, value_name = "FILE")]
    pub etcd_cert: Option<PathBuf>,
    /// Its key (PEM)
    #[arg(long, value_name = "FILE")]
    pub etcd_key: Option<PathBuf>,
}

impl EtcdArgs {
    pub fn options(&self) -> EtcdOptions {
        EtcdOptions {
            prefix: self.etcd_prefix.clone(),
            user: self.etcd_user.clone(),
            // A password in the environment means nothing without a user.
            password: self.etcd_password.clone().filter(|_| self.etcd_user.is_some()),
            ca: self.etcd_ca.clone(),
            cert: self.etcd_cert.clone(),
            key: self.etcd_key.clone(),
            ..EtcdOptions::new(self.etcd.iter().cloned())
        }
    }
}
