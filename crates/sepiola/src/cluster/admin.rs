//! How this machine's commands act as the cluster's administrator.

use access::{ClusterArgs, DataArgs, DataDir};
use anyhow::Result;
use machine::write_file;
use std::path::Path;

const SECRET_MODE: u32 = 0o600;

/// How the commands of this machine reach the cluster as administrator.
pub fn admin_args(dir: &DataDir) -> ClusterArgs {
    ClusterArgs {
        data: DataArgs { data: Path::new(dir.path()).to_owned() },
        conf: None,
        keyring: None,
        name: "client.admin".to_owned(),
        secure: false,
    }
}

/// Writes the administrator's key into the cluster's directory.
pub fn write_keyring(dir: &DataDir, keyring: &str) -> Result<()> {
    write_file(&dir.admin_keyring(), keyring, SECRET_MODE)
}
