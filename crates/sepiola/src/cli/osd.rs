//! Syntax of `sepiola osd`.

use access::parse_size;
use clap::{Args, Subcommand};
use disks::StoreKind;
use std::path::PathBuf;

#[derive(Debug, Clone, Subcommand)]
pub enum OsdCommand {
    /// Register a new OSD at the monitors and make its store
    Create(OsdCreateArgs),
    /// Give OSDs that are gone new stores, under their old ids and in their old places
    Replace(OsdReplaceArgs),
    /// Run OSDs of this machine in the foreground
    Start(OsdStartArgs),
}

/// Options to reach the cluster as an entity that may make OSDs.
#[derive(Debug, Clone, Args)]
pub struct OsdClusterArgs {
    /// ceph.conf of the cluster
    #[arg(short, long, env = "CEPH_CONF", default_value = "/etc/ceph/ceph.conf")]
    pub conf: PathBuf,
    /// Keyring with the key of --name [default: the one in --conf, else /etc/ceph/ceph.NAME.keyring]
    #[arg(short, long)]
    pub keyring: Option<PathBuf>,
    /// Entity to authenticate as; client.bootstrap-osd (profile bootstrap-osd) may create OSDs
    #[arg(short, long, default_value = "client.admin")]
    pub name: String,
}

#[derive(Debug, Clone, Args)]
pub struct OsdStoreArgs {
    /// Block device or file for the store [default: a file in the OSD's directory]
    #[arg(long, value_name = "PATH")]
    pub disk: Option<PathBuf>,
    /// Faster block device or file for log and metadata
    #[arg(long, value_name = "PATH")]
    pub log_disk: Option<PathBuf>,
    /// Size of a file that is made, such as 10G [default: 10G, less if space is scarce]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub disk_size: Option<u64>,
    /// How the OSD keeps its objects
    #[arg(long = "store", value_enum, default_value_t)]
    pub kind: StoreKind,
    /// Overwrite what is on the disks and in the directory
    #[arg(long)]
    pub wipe: bool,
    /// Name of the machine in the CRUSH map [default: the host name]
    #[arg(long)]
    pub host: Option<String>,
}

#[derive(Debug, Clone, Args)]
pub struct OsdCreateArgs {
    #[command(flatten)]
    pub cluster: OsdClusterArgs,
    #[command(flatten)]
    pub store: OsdStoreArgs,
    /// The OSD's directory [default: /var/lib/sepiola/osd.N]
    #[arg(long)]
    pub data: Option<PathBuf>,
    /// Its number, of an OSD that was destroyed or never was [default: the lowest free one]
    #[arg(long)]
    pub id: Option<i32>,
}

#[derive(Debug, Clone, Args)]
pub struct OsdReplaceArgs {
    #[command(flatten)]
    pub cluster: OsdClusterArgs,
    /// OSDs to replace
    #[arg(long = "id", value_name = "N")]
    pub ids: Vec<i32>,
    /// Replace all OSDs of this machine of the CRUSH map
    #[arg(long, value_name = "NAME")]
    pub old_host: Option<String>,
    /// Block device or file for each, in their order
    #[arg(long = "disk", value_name = "PATH")]
    pub disks: Vec<PathBuf>,
    /// Faster block device or file for log and metadata of each
    #[arg(long = "log-disk", value_name = "PATH")]
    pub log_disks: Vec<PathBuf>,
    /// Directory of each [default: /var/lib/sepiola/osd.N]
    #[arg(long)]
    pub data: Vec<PathBuf>,
    /// Size of files that are made, such as 10G [default: 10G, less if space is scarce]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub disk_size: Option<u64>,
    /// How the OSDs keep their objects
    #[arg(long = "store", value_enum, default_value_t)]
    pub kind: StoreKind,
    /// Overwrite what is on the disks and in the directories
    #[arg(long)]
    pub wipe: bool,
    /// Name of this machine in the CRUSH map [default: --old-host, else the host name]
    #[arg(long)]
    pub host: Option<String>,
    /// Even if they may hold the only copy of something
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Clone, Args)]
pub struct OsdStartArgs {
    /// Directory of an OSD; may be given several times
    #[arg(long, required = true)]
    pub data: Vec<PathBuf>,
    /// Address of this machine, with a port if one OSD is started [default: the one that leads to
    /// the monitors, any port]
    #[arg(long)]
    pub listen: Option<String>,
    /// ceph.conf that names the monitors [default: those that there were at the creation]
    #[arg(short, long)]
    pub conf: Option<PathBuf>,
    /// Name of this machine in the CRUSH map [default: as at the creation]
    #[arg(long)]
    pub host: Option<String>,
    /// Memory for each OSD's store, such as 1G [default: 1G, less if the machine has little]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory: Option<u64>,
    /// Stop when standard input ends, as it does when the parent process ends
    #[arg(long, hide = true)]
    pub with_parent: bool,
    /// Threads that run the OSDs [default: half of the cores, at most one per OSD]
    #[arg(long)]
    pub cores: Option<usize>,
}
