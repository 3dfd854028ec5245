//! Settings in an OSD's directory.

use crate::daemon_files::{self, ClusterFields, parse_uuid};
use access::AuthMode;
use anyhow::Result;
use auth::{CryptoKey, EntityAuth, Keyring};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use types::{EntityAddrVec, EntityName, Uuid};

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
    host: String,
    #[serde(flatten)]
    cluster: ClusterFields,
}

fn settings_path(directory: &Path) -> PathBuf {
    directory.join("osd.json")
}

impl OsdSettings {
    /// Reads them from an OSD's directory.
    pub fn load(directory: &Path) -> Result<Self> {
        daemon_files::read(&settings_path(directory), "sepiola osd create", OsdSettings::parse)
    }

    fn parse(text: &str) -> Result<Self> {
        let SettingsFile { id, uuid, host, cluster } = serde_json::from_str(text)?;
        let (fsid, auth, monitors) = cluster.parse()?;
        Ok(OsdSettings { id, uuid: parse_uuid(&uuid)?, fsid, host, auth, monitors })
    }

    fn to_text(&self) -> Result<String> {
        let file = SettingsFile {
            id: self.id,
            uuid: self.uuid.to_string(),
            host: self.host.clone(),
            cluster: ClusterFields::new(self.fsid, self.auth, &self.monitors),
        };
        Ok(serde_json::to_string_pretty(&file)? + "\n")
    }
}

/// The last step of making an OSD: from here on it can be started.
pub fn write(directory: &Path, settings: &OsdSettings, key: &CryptoKey) -> Result<()> {
    let mut keyring = Keyring::default();
    keyring.entities.insert(EntityName::osd(settings.id), EntityAuth::new(key.clone()));
    daemon_files::write(&settings_path(directory), &settings.to_text()?, &keyring)
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
