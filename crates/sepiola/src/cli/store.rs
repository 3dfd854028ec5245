//! Syntax of `sepiola store`.

use access::parse_size;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

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
        /// Remove what the store has of the file's placement groups, instead of refusing them
        #[arg(long)]
        replace: bool,
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
