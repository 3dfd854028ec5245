//! Syntax of the command line; each subcommand has a module of its own.

mod console;
mod control;
mod fs;
mod generate;
mod host;
mod image;
mod mds;
mod monitors;
mod nbd;
mod object;
mod osd;
mod snapshot;
mod store;
mod up;
mod values;

pub use console::ConsoleArgs;
pub use control::{CollectArgs, ControlCommand, MoveArgs, RebuildArgs};
pub use fs::{FsCommand, FsFsckArgs, FsScrubArgs};
pub use generate::GenerateCommand;
pub use host::{HostCommand, RestartArgs};
pub use image::{
    CreateArgs, ExportArgs, FeatureCommand, ImageCommand, ImagePoolArgs, ImportArgs, InfoArgs,
    MoveImageArgs, ObjectMapCommand, ResizeArgs, ShapeArgs, UsageArgs,
};
pub use mds::{MdsCommand, MdsCreateArgs, MdsStartArgs};
pub use monitors::{
    ClusterCommand, ClusterCreateArgs, MonCommand, MonCreateArgs, MonOptions, MonStartArgs,
};
pub use nbd::NbdArgs;
pub use object::{GetArgs, ObjectArgs, ObjectsArgs, PutArgs};
pub use osd::{
    OsdClusterArgs, OsdCommand, OsdCreateArgs, OsdReplaceArgs, OsdStartArgs, OsdStoreArgs,
};
pub use snapshot::{
    ChildrenArgs, CloneArgs, CloneFormatArg, SnapArgs, SnapCommand, SnapListArgs, SnapRenameArgs,
    SourceArgs,
};
pub use store::{DumpPart, FsckArgs, StoreArgs, StoreCommand, StorePath};
pub use up::UpArgs;

use access::{ClusterArgs, DataArgs, PoolArgs};
use bench::BenchArgs;
use clap::{Parser, Subcommand};

/// Distributed storage that speaks Ceph's protocol.
#[derive(Debug, Parser)]
#[command(name = "sepiola", version, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start a whole cluster in this process: a monitor and some OSDs
    Up(UpArgs),
    /// Stop the cluster that runs on a data directory
    Down(DataArgs),
    /// Show how the cluster is
    Status(ClusterArgs),
    /// Print a link that signs a browser in to the web console
    Console(ConsoleArgs),
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
    /// Make clusters that span machines, and finalize their upgrades
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
    /// Make and run metadata servers of file systems
    Mds {
        #[command(subcommand)]
        command: MdsCommand,
    },
    /// Check file systems, and repair them
    Fs {
        #[command(subcommand)]
        command: FsCommand,
    },
    /// Look after the daemons of this machine
    Host {
        #[command(subcommand)]
        command: HostCommand,
    },
    /// Look after the store of the control plane
    Control {
        #[command(subcommand)]
        command: ControlCommand,
    },
    /// Examine or copy an OSD's block store while its cluster is stopped
    Store(StoreArgs),
    /// Write manual pages and shell completions of this program
    #[command(hide = true)]
    Generate {
        #[command(subcommand)]
        command: GenerateCommand,
    },
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
