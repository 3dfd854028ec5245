//! Syntax of `sepiola generate`.

use clap::Subcommand;
use std::path::PathBuf;

/// Parts of a package that come from the definition of the command line.
#[derive(Debug, Clone, Subcommand)]
pub enum GenerateCommand {
    /// Write a manual page for each command into a directory
    Man { directory: PathBuf },
    /// Write completions for bash, zsh and fish into a directory
    Completions { directory: PathBuf },
}
