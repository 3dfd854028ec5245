//! `sepiola mds create`: a new metadata server, with a key that monitors know.

use super::directory::{self, MdsSettings, entity};
use crate::cli::{MdsCreateArgs, OsdClusterArgs};
use crate::daemon_files;
use crate::monitors::check_name;
use crate::osd::Registry;
use anyhow::{Context, Result, bail};
use auth::Keyring;
use machine::create_private;
use serde_json::json;
use std::path::Path;

/// Capabilities of a metadata server, as Ceph's deployment tools give them.
const CAPS: [&str; 6] = ["mon", "allow profile mds", "osd", "allow rwx", "mds", "allow"];

/// `sepiola mds create`
pub fn create(args: &MdsCreateArgs) -> Result<()> {
    check_name(&args.name)?;
    let directory =
        args.data.clone().unwrap_or_else(|| daemon_files::default_directory(&entity(&args.name)));
    make(&args.cluster(), &args.name, &directory)?;
    println!("mds.{} is made in {}; start it with", args.name, directory.display());
    println!("\n  sepiola mds start --data {}", directory.display());
    Ok(())
}

/// Makes the server's key known, and its directory.
pub fn make(cluster: &OsdClusterArgs, name: &str, directory: &Path) -> Result<()> {
    if let Ok(other) = MdsSettings::load(directory)
        && other.name != name
    {
        bail!("{} belongs to mds.{}; mds.{name} needs its own", directory.display(), other.name);
    }
    let mut registry = Registry::open(cluster)?;
    let name = name.to_owned();
    let command = json!({
        "prefix": "auth get-or-create", "entity": entity(&name).to_string(), "caps": CAPS,
    });
    let answer = registry.ask(&command).context("making the server's key")?;
    let text = String::from_utf8_lossy(&answer.output);
    let keyring: Keyring = text.parse().context("reading the server's key")?;
    create_private(directory).with_context(|| format!("making {}", directory.display()))?;
    let (fsid, auth, monitors) = (registry.fsid, registry.auth, registry.monitors.clone());
    directory::write(directory, &MdsSettings { name, fsid, auth, monitors }, &keyring)
}
