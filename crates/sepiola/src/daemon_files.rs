//! Files that the directory of an OSD has, and that of a metadata server: settings as JSON, and a keyring.

use access::AuthMode;
use anyhow::{Context, Result, anyhow, bail};
use auth::{CryptoKey, Keyring};
use machine::write_file;
use rados::Credentials;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use types::{EntityAddrVec, EntityName, Uuid};

const MODE: u32 = 0o600;
/// Where daemons live unless told otherwise.
const ROOT: &str = "/var/lib/sepiola";
/// Monitors that do not answer for so long are given up.
const ASKING_TIME_MAX: Duration = Duration::from_secs(10);
const KEYRING: &str = "keyring";

/// The directory of a daemon for which none is named.
pub fn default_directory(daemon: &EntityName) -> PathBuf {
    Path::new(ROOT).join(daemon.to_string())
}

/// The part of the settings by which a daemon finds its cluster, as the file has it.
#[derive(Serialize, Deserialize)]
pub struct ClusterFields {
    fsid: String,
    auth: String,
    monitors: Vec<String>,
}

impl ClusterFields {
    /// Of the cluster's id, of how the daemon proves who it is, and of where it looks for monitors.
    pub fn new(fsid: Uuid, auth: AuthMode, monitors: &[EntityAddrVec]) -> Self {
        ClusterFields {
            fsid: fsid.to_string(),
            auth: auth.name().to_owned(),
            monitors: monitors.iter().map(EntityAddrVec::to_string).collect(),
        }
    }

    /// The same three.
    pub fn parse(&self) -> Result<(Uuid, AuthMode, Vec<EntityAddrVec>)> {
        let auth = AuthMode::named(&self.auth);
        let monitors = self.monitors.iter().map(|text| monitor(text));
        Ok((parse_uuid(&self.fsid)?, auth, monitors.collect::<Result<_>>()?))
    }
}

/// A uuid in a settings file.
pub fn parse_uuid(text: &str) -> Result<Uuid> {
    text.parse().map_err(|()| anyhow!("{text:?} is not a uuid"))
}

fn monitor(text: &str) -> Result<EntityAddrVec> {
    let addr = text.parse().with_context(|| format!("{text:?} is not a monitor's address"))?;
    Ok(EntityAddrVec::one(addr))
}

/// Reads a settings file. `made_by` is the command that makes such a directory.
pub fn read<T>(path: &Path, made_by: &str, parse: impl Fn(&str) -> Result<T>) -> Result<T> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("reading {}; `{made_by}` makes it", path.display()))?;
    parse(&text).with_context(|| format!("reading {}", path.display()))
}

/// Whether that file is not there, rather than unreadable or damaged.
pub fn is_absent(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::NotFound)
}

/// Makes it the directory of a daemon: from here on it can be started. The settings come last.
pub fn write(settings_path: &Path, settings: &str, keyring: &Keyring) -> Result<()> {
    write_file(&settings_path.with_file_name(KEYRING), &keyring.to_string(), MODE)?;
    write_file(settings_path, settings, MODE)
}

/// How a daemon asks monitors as their client: for what it must tell before it is one of the cluster, or
/// beside its own session.
pub fn client_config(
    daemon: EntityName,
    key: Option<CryptoKey>,
    monitors: Vec<EntityAddrVec>,
) -> rados::Config {
    let credentials = key.map_or(Credentials::None, Credentials::Key);
    let mut config = rados::Config::new(daemon, credentials, monitors);
    config.timeout = Some(ASKING_TIME_MAX);
    config
}

/// The daemon's own key.
pub fn key(directory: &Path, daemon: &EntityName) -> Result<CryptoKey> {
    let path = directory.join(KEYRING);
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let keyring: Keyring = text.parse().with_context(|| format!("reading {}", path.display()))?;
    match keyring.key(daemon) {
        Some(key) => Ok(key.clone()),
        None => bail!("{} has no key of {daemon}", path.display()),
    }
}
