//! Settings in an OSD's directory.

use access::AuthMode;
use anyhow::{Context, Result, anyhow, bail};
use auth::{CryptoKey, EntityAuth, Keyring};
use machine::write_file;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use types::{EntityAddrVec, EntityName, Uuid};

const SETTINGS_MODE: u32 = 0o600;
const SECRET_MODE: u32 = 0o600;
/// Where OSDs live unless told otherwise.
const ROOT: &str = "/var/lib/sepiola";

/// Settings that an OSD needs before it has found a monitor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OsdSettings {
    /// Its number.
    pub id: i32,
    /// The id of its store's incarnation.
    pub uuid: Uuid,
    /// Its cluster's id.
    pub fsid: Uuid,
    /// The CRUSH bucket that it is in.
    pub host: String,
    /// How it proves who it is.
    pub auth: AuthMode,
    /// Where it looks for monitors.
    pub monitors: Vec<EntityAddrVec>,
}

/// The same, as the file has it.
#[derive(Serialize, Deserialize)]
struct SettingsFile {
    id: i32,
    uuid: String,
    fsid: String,
    host: String,
    auth: String,
    monitors: Vec<String>,
}

/// The directory of an OSD for which none is named.
pub fn default_directory(id: i32) -> PathBuf {
    Path::new(ROOT).join(format!("osd.{id}"))
}

fn settings_path(directory: &Path) -> PathBuf {
    directory.join("osd.json")
}

fn keyring_path(directory: &Path) -> PathBuf {
    directory.join("keyring")
}

impl OsdSettings {
    /// Reads them from an OSD's directory.
    pub fn load(directory: &Path) -> Result<Self> {
        let path = settings_path(directory);
        let text = fs::read_to_string(&path).with_context(|| {
            format!("reading {}; `sepiola osd create` makes an OSD", path.display())
        })?;
        OsdSettings::parse(&text).with_context(|| format!("reading {}", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let file: SettingsFile = serde_json::from_str(text)?;
        let uuid = |text: &str| text.parse().map_err(|()| anyhow!("{text:?} is not a uuid"));
        let monitors: Result<Vec<EntityAddrVec>> =
            file.monitors.iter().map(|text| monitor(text)).collect();
        Ok(OsdSettings {
            id: file.id,
            uuid: uuid(&file.uuid)?,
            fsid: uuid(&file.fsid)?,
            host: file.host,
            auth: if file.auth == "none" { AuthMode::None } else { AuthMode::Cephx },
            monitors: monitors?,
        })
    }

    fn to_text(&self) -> Result<String> {
        let file = SettingsFile {
            id: self.id,
            uuid: self.uuid.to_string(),
            fsid: self.fsid.to_string(),
            host: self.host.clone(),
            auth: if self.auth == AuthMode::None { "none" } else { "cephx" }.to_owned(),
            monitors: self.monitors.iter().map(EntityAddrVec::to_string).collect(),
        };
        Ok(serde_json::to_string_pretty(&file)? + "\n")
    }
}

fn monitor(text: &str) -> Result<EntityAddrVec> {
    let addr = text.parse().with_context(|| format!("{text:?} is not a monitor's address"))?;
    Ok(EntityAddrVec::one(addr))
}

/// The last step of making an OSD: from here on it can be started.
pub fn write(directory: &Path, settings: &OsdSettings, key: &CryptoKey) -> Result<()> {
    let mut keyring = Keyring::default();
    keyring.entities.insert(EntityName::osd(settings.id), EntityAuth::new(key.clone()));
    write_file(&keyring_path(directory), &keyring.to_string(), SECRET_MODE)?;
    write_file(&settings_path(directory), &settings.to_text()?, SETTINGS_MODE)
}

/// The OSD's own key.
pub fn key(directory: &Path, id: i32) -> Result<CryptoKey> {
    let path = keyring_path(directory);
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let keyring: Keyring = text.parse().with_context(|| format!("reading {}", path.display()))?;
    match keyring.key(&EntityName::osd(id)) {
        Some(key) => Ok(key.clone()),
        None => bail!("{} has no key of osd.{id}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_about_an_osd_is_read_back() {
        let settings = OsdSettings {
            id: 7,
            uuid: Uuid([3; 16]),
            fsid: Uuid([4; 16]),
            host: "left".to_owned(),
            auth: AuthMode::Cephx,
            monitors: vec![EntityAddrVec::one("v2:10.0.0.1:3300/0".parse().unwrap())],
        };
        assert_eq!(OsdSettings::parse(&settings.to_text().unwrap()).unwrap(), settings);
        assert!(OsdSettings::parse("{}").is_err());
    }
}
