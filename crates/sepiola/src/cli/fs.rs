//! Syntax of `sepiola fs`.

use access::ClusterArgs;
use clap::{Args, Subcommand};

#[derive(Debug, Clone, Subcommand)]
pub enum FsCommand {
    /// Check a file system that no server serves, and repair it
    Fsck(FsFsckArgs),
    /// Have the metadata server compare what is stored with what it serves
    Scrub(FsScrubArgs),
}

#[derive(Debug, Clone, Args)]
pub struct FsFsckArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// The file system; it must be failed (ceph fs fail)
    pub file_system: String,
    /// Mend what can be mended; no inode is removed, and what has no directory goes to lost+found
    #[arg(long)]
    pub repair: bool,
    /// Begin a repair again that was interrupted
    #[arg(long, requires = "repair")]
    pub resume: bool,
    /// End a damaged journal where the damage is: later changes are lost
    #[arg(long)]
    pub accept_loss: bool,
    /// Look for objects of data pools whose files do not exist
    #[arg(long)]
    pub data_objects: bool,
    /// Print JSON instead of lines
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Args)]
pub struct FsScrubArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// The file system
    pub file_system: String,
    /// The directory, with everything below
    #[arg(default_value = "/")]
    pub path: String,
    /// Write rows again that are not stored as the server has them
    #[arg(long)]
    pub repair: bool,
    /// Only show the scrub that runs, and what was found
    #[arg(long)]
    pub status: bool,
}
