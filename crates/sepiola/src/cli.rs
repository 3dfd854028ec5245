//! Command-line syntax; each subcommand has a module of its own.

mod control;
mod image;
mod monitors;
mod nbd;
mod osd;
mod snapshot;

use access::{ClusterArgs, DataArgs, PoolArgs, parse_size};
pub use control::{CollectArgs, ControlCommand, EtcdArgs, MoveArgs, RebuildArgs};
pub use image::{
    CreateArgs, ExportArgs, FeatureCommand, ImageCommand, ImagePoolArgs, ImportArgs, InfoArgs,
    MoveImageArgs, ObjectMapCommand, ResizeArgs, ShapeArgs, UsageArgs,
};
pub use monitors::{ClusterCommand, ClusterCreateArgs, MonCommand, MonStartArgs};
pub use nbd::NbdArgs;
pub use osd::{
    OsdClusterArgs, OsdCommand, OsdCreateArgs, OsdReplaceArgs, OsdStartArgs, OsdStoreArgs,
};
pub use snapshot::{
    ChildrenArgs, CloneArgs, CloneFormatArg, SnapArgs, SnapCommand, SnapListArgs, SnapRenameArgs,
    SourceArgs,
};

use bench::BenchArgs;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;

/// Distributed storage that speaks Ceph's protocol.
#[derive(Debug, Parser)]
#[command(name = "sepiola", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a whole cluster in this process: a monitor and some OSDs
    Up(UpArgs),
    /// Stop the cluster that runs on a data directory
    Down(DataArgs),
    /// Show how the cluster is
    Status(ClusterArgs),
    /// Store a file (or standard input) as an object
    Put(PutArgs),
    /// Fetch an object into a file (or standard output)
    Get(GetArgs),
    /// List the objects of a pool
    Ls(PoolArgs),
    /// Remove objects
    Rm(ObjectsArgs),
    /// Show size and modification time of an object
    Stat(ObjectArgs),
    /// Measure the cluster with the native client
    Bench(BenchArgs),
    /// Make, copy and look after block device images
    Image {
        #[command(subcommand)]
        command: ImageCommand,
    },
    Nbd(NbdArgs),
    /// Make clusters that span machines
    Cluster {
        #[command(subcommand)]
        command: ClusterCommand,
    },
    /// Run monitors as processes of their own
    Mon {
        #[command(subcommand)]
        command: MonCommand,
    },
    /// Make, replace and run OSDs as processes of their own
    Osd {
        #[command(subcommand)]
        command: OsdCommand,
    },
    /// Look after the store of the control plane
    Control {
        #[command(subcommand)]
        command: ControlCommand,
    },
    /// Examine or copy an OSD's block store while its cluster is stopped
    Store(StoreArgs),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AuthMode {
    Cephx,
    None,
}

/// How an OSD keeps its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum StoreKind {
    /// On a block device or in one large file
    #[default]
    Block,
    /// As files in a directory
    Files,
}

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
    /// Where a new cluster has its control store [default: a file in the data directory]
    #[command(flatten)]
    pub etcd: EtcdArgs,
}

#[derive(Debug, Clone, Args)]
pub struct ObjectArgs {
    #[command(flatten)]
    pub pool: PoolArgs,
    pub object: String,
}

#[derive(Debug, Clone, Args)]
pub struct ObjectsArgs {
    #[command(flatten)]
    pub pool: PoolArgs,
    #[arg(required = true)]
    pub objects: Vec<String>,
}

#[derive(Debug, Clone, Args)]
pub struct PutArgs {
    #[command(flatten)]
    pub object: ObjectArgs,
    /// `-` is standard input
    pub file: PathBuf,
}

#[derive(Debug, Clone, Args)]
pub struct GetArgs {
    #[command(flatten)]
    pub object: ObjectArgs,
    /// `-` is standard output
    pub file: PathBuf,
}

#[derive(Debug, Clone, Args)]
pub struct StoreArgs {
    #[command(subcommand)]
    pub command: StoreCommand,
}

#[derive(Debug, Clone, Subcommand)]
pub enum StoreCommand {
    /// Show what is in a store
    Stats {
        #[command(flatten)]
        store: StorePath,
        /// Print JSON instead of a table
        #[arg(long)]
        json: bool,
    },
    /// Prove that a store is sound, and name what is not
    Fsck(FsckArgs),
    /// Show the metadata of a store
    Dump {
        #[command(flatten)]
        store: StorePath,
        #[arg(value_enum, default_value = "objects")]
        part: DumpPart,
        /// Only objects of this placement group, such as 2.1f
        #[arg(long)]
        collection: Option<String>,
        /// Only objects of this name, with their extents, checksums, attributes and omap
        #[arg(long)]
        object: Option<String>,
    },
    /// Write the objects of a store into a file (or standard output)
    Export {
        #[command(flatten)]
        store: StorePath,
        /// `-` is standard output
        file: PathBuf,
        /// Only those of this placement group, such as 2.1f
        #[arg(long)]
        collection: Option<String>,
    },
    /// Take the objects of an exported file (or standard input) into a store
    Import {
        #[command(flatten)]
        store: StorePath,
        /// `-` is standard input
        file: PathBuf,
    },
    /// Clear a disk, so that a new cluster may use it
    Wipe {
        path: PathBuf,
        /// Really do it
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Clone, Args)]
pub struct FsckArgs {
    #[command(flatten)]
    pub store: StorePath,
    /// Read all data, too, and compare it with its checksums
    #[arg(long)]
    pub deep: bool,
    /// Mend what can be mended without guessing
    #[arg(long)]
    pub repair: bool,
    /// Go by an older superblock if the newest may be lost
    #[arg(long)]
    pub accept_outdated: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum DumpPart {
    Superblock,
    Log,
    Tree,
    Space,
    Objects,
}

#[derive(Debug, Clone, Args)]
pub struct StorePath {
    /// The directory of an OSD, or its disk
    pub path: PathBuf,
    /// Memory for the store
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = parse_size)]
    pub memory: u64,
}

/// Runs what the command line asks for; errors go to standard error with their causes.
pub fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Up(args) => crate::up::up(&args),
        Command::Down(args) => crate::down::down(&args),
        Command::Status(args) => crate::client::status(&args),
        Command::Put(args) => crate::client::put(&args),
        Command::Get(args) => crate::client::get(&args),
        Command::Ls(args) => crate::client::list(&args),
        Command::Rm(args) => crate::client::remove(&args),
        Command::Stat(args) => crate::client::stat(&args),
        Command::Bench(args) => bench::bench(&args),
        Command::Image { command } => crate::image::run(&command),
        Command::Nbd(args) => crate::nbd::serve(&args),
        Command::Cluster { command } => crate::monitors::run_cluster(&command),
        Command::Mon { command } => crate::monitors::run(&command),
        Command::Osd { command } => crate::osd::run(&command),
        Command::Control { command } => crate::control::run(&command),
        Command::Store(args) => crate::store::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output has closed its end.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sepiola: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.root_cause().downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_syntax_is_consistent() {
        Cli::command().debug_assert();
    }
}
