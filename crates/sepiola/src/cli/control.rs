//! Syntax of what has to do with the control store.

use super::DataArgs;
use crate::control::etcd::{EtcdOptions, PREFIX_DEFAULT};
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Clone, Subcommand)]
pub enum ControlCommand {
    /// Move a stopped cluster's control store from its directory to an etcd
    Move(MoveArgs),
}

#[derive(Debug, Clone, Args)]
pub struct MoveArgs {
    #[command(flatten)]
    pub data: DataArgs,
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
