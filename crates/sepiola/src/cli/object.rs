//! Syntax of commands for objects.

use access::PoolArgs;
use clap::Args;
use std::path::PathBuf;

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
