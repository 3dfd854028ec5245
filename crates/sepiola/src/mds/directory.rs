//! Settings in a metadata server's directory.

use crate::daemon_files::{self, ClusterFields};
use access::AuthMode;
use anyhow::{Context, Result};
use auth::Keyring;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use types::{EntityAddrVec, EntityName, EntityType, Uuid};

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
    #[serde(flatten)]
    cluster: ClusterFields,
}

/// The entity of a server.
pub fn entity(name: &str) -> EntityName {
    EntityName::new(EntityType::MDS, name.to_owned())
}

fn settings_path(directory: &Path) -> PathBuf {
    directory.join("mds.json")
}

impl MdsSettings {
    /// Reads them from a server's directory.
    pub fn load(directory: &Path) -> Result<Self> {
        daemon_files::read(&settings_path(directory), "sepiola mds create", MdsSettings::parse)
    }

    /// The same; `None` in a directory that is no server's yet.
    pub fn find(directory: &Path) -> Result<Option<Self>> {
        let path = settings_path(directory);
        let exists =
            path.try_exists().with_context(|| format!("looking for {}", path.display()))?;
        exists.then(|| MdsSettings::load(directory)).transpose()
    }

    fn parse(text: &str) -> Result<Self> {
        let SettingsFile { name, cluster } = serde_json::from_str(text)?;
        let (fsid, auth, monitors) = cluster.parse()?;
        Ok(MdsSettings { name, fsid, auth, monitors })
    }

    fn to_text(&self) -> Result<String> {
        let cluster = ClusterFields::new(self.fsid, self.auth, &self.monitors);
        let file = SettingsFile { name: self.name.clone(), cluster };
        Ok(serde_json::to_string_pretty(&file)? + "\n")
    }
}

/// Makes it the directory of a server: from here on it can be started.
pub fn write(directory: &Path, settings: &MdsSettings, keyring: &Keyring) -> Result<()> {
    daemon_files::write(&settings_path(directory), &settings.to_text()?, keyring)
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
