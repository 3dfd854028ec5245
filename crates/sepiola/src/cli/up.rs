//! Syntax of `sepiola up`.

use super::control::EtcdArgs;
use access::{AuthMode, DataArgs, parse_size};
use clap::Args;
use disks::StoreKind;
use std::path::PathBuf;

#[derive(Debug, Clone, Args)]
pub struct UpArgs {
    #[command(flatten)]
    pub data: DataArgs,
    /// OSDs in a new cluster; 0 if all will be made by `sepiola osd create` [default: 3, or one for
    /// each --disk]
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=64))]
    pub osds: Option<u32>,
    /// Run the OSDs of a new cluster in so many processes, as if on machines of their own
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    #[arg(conflicts_with_all = ["disks", "log_disks", "log"])]
    pub hosts: Option<u32>,
    /// Copies of each object in new pools [default: 3, or the number of OSDs here if there are fewer]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10))]
    pub size: Option<u32>,
    /// Address of the monitor; the port may be left out
    #[arg(long, default_value = "127.0.0.1:3300")]
    pub listen: String,
    /// Address of the metrics for Prometheus (http://ADDRESS/metrics); the port may be left out; `none`
    /// serves none [default: port 9283 of the monitor's address]
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<String>,
    /// Address of the console (https://ADDRESS/); the port may be left out; `none` serves none [default: port
    /// 8443 of the monitor's address]
    #[arg(long, value_name = "ADDRESS")]
    pub console: Option<String>,
    /// How clients prove who they are
    #[arg(long, value_enum, default_value = "cephx")]
    pub auth: AuthMode,
    /// How the OSDs of a new cluster keep their objects [default: block]
    #[arg(long, value_enum)]
    pub store: Option<StoreKind>,
    /// Block device or file for an OSD of a new cluster, one each; a file is made if it does not exist
    #[arg(long = "disk", value_name = "PATH")]
    pub disks: Vec<PathBuf>,
    /// Size of the files that are made for OSDs, such as 10G [default: 10G, less if space is scarce]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub disk_size: Option<u64>,
    /// Faster block device or file for an OSD's log and metadata, one each, in the order of the OSDs
    #[arg(long = "log-disk", value_name = "PATH")]
    pub log_disks: Vec<PathBuf>,
    /// Overwrite what is on the disks
    #[arg(long)]
    pub wipe: bool,
    /// Memory for each OSD's store, such as 1G [default: 1G, less if the machine has little]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory: Option<u64>,
    /// Keep the write-ahead logs of --store files in this directory, for instance on a faster device
    #[arg(long)]
    pub log: Option<PathBuf>,
    /// Threads that run the daemons [default: half of the cores, at most one per OSD]
    #[arg(long)]
    pub cores: Option<usize>,
    /// Make a file system of this name, and run a metadata server for it
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "cephfs")]
    pub fs: Option<String>,
    /// Store no metadata of files: all names and attributes are lost when the server stops
    #[arg(long, requires = "fs")]
    pub volatile: bool,
    /// Where a new cluster has its control store [default: a file in the data directory]
    #[command(flatten)]
    pub etcd: EtcdArgs,
}
