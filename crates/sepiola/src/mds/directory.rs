//! Settings in a metadata server's directory.

use access::AuthMode;
use anyhow::{Context, Result, anyhow, bail};
use auth::{CryptoKey, Keyring};
use machine::write_file;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use types::{EntityAddrVec, EntityName, EntityType, Uuid};

const MODE: u32 = 0o600;
/// Where servers live unless told otherwise.
const ROOT: &str = "/var/lib/sepiola";

/// Settings that a metadata server needs before it has found a monitor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MdsSettings {
    /// Its name.
    pub name: String,
    /// Its cluster's id.
    pub fsid: Uuid,
    /// How it proves who it is.
    pub auth: AuthMode,
    /// Where it looks for monitors.
    pub monitors: Vec<EntityAddrVec>,
}

/// The same, as the file has it.
#[derive(Serialize, Deserialize)]
struct SettingsFile {
    name: String,
    fsid: String,
    auth: String,
    monitors: Vec<String>,
}

/// The directory of a server for which none is named.
pub fn default_directory(name: &str) -> PathBuf {
    Path::new(ROOT).join(format!("mds.{name}"))
}

/// The entity of a server.
pub fn entity(name: &str) -> EntityName {
    EntityName::new(EntityType::MDS, name.to_owned())
}

fn settings_path(directory: &Path) -> PathBuf {
    directory.join("mds.json")
}

fn keyring_path(directory: &Path) -> PathBuf {
    directory.join("keyring")
}

impl MdsSettings {
    /// Reads them from a server's directory.
    pub fn load(directory: &Path) -> Result<Self> {
        let path = settings_path(directory);
        let text = fs::read_to_string(&path).with_context(|| {
            format!("reading {}; `sepiola mds create` makes a server", path.display())
        })?;
        MdsSettings::parse(&text).with_context(|| format!("reading {}", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let file: SettingsFile = serde_json::from_str(text)?;
        let monitors = file.monitors.iter().map(|text| {
            let addr = text.parse();
            addr.map(EntityAddrVec::one)
                .with_context(|| format!("{text:?} is not a monitor's address"))
        });
        Ok(MdsSettings {
            name: file.name,
            fsid: file.fsid.parse().map_err(|()| anyhow!("{:?} is not a uuid", file.fsid))?,
            auth: if file.auth == "none" { AuthMode::None } else { AuthMode::Cephx },
            monitors: monitors.collect::<Result<_>>()?,
        })
    }

    fn to_text(&self) -> Result<String> {
        let file = SettingsFile {
            name: self.name.clone(),
            fsid: self.fsid.to_string(),
            auth: if self.auth == AuthMode::None { "none" } else { "cephx" }.to_owned(),
            monitors: self.monitors.iter().map(EntityAddrVec::to_string).collect(),
        };
        Ok(serde_json::to_string_pretty(&file)? + "\n")
    }
}

/// Makes it the directory of a server: from here on it can be started.
pub fn write(directory: &Path, settings: &MdsSettings, keyring: &Keyring) -> Result<()> {
    write_file(&keyring_path(directory), &keyring.to_string(), MODE)?;
    write_file(&settings_path(directory), &settings.to_text()?, MODE)
}

/// The server's own key.
pub fn key(directory: &Path, name: &str) -> Result<CryptoKey> {
    let path = keyring_path(directory);
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let keyring: Keyring = text.parse().with_context(|| format!("reading {}", path.display()))?;
    match keyring.key(&entity(name)) {
        Some(key) => Ok(key.clone()),
        None => bail!("{} has no key of mds.{name}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_about_a_server_is_read_back() {
        let settings = MdsSettings {
            name: "a".to_owned(),
            fsid: Uuid([4; 16]),
            auth: AuthMode::Cephx,
            monitors: vec![EntityAddrVec::one("v2:10.0.0.1:3300/0".parse().unwrap())],
        };
        assert_eq!(MdsSettings::parse(&settings.to_text().unwrap()).unwrap(), settings);
        assert!(MdsSettings::parse("{}").is_err());
    }
}
