//! Settings in a monitor's directory.
//!
//! ```text
//! mon.json                     its name and where it listens
//! etcd.json                    where the state of the control plane is
//! ceph.conf                    for clients; written anew at each start
//! ceph.client.admin.keyring    the administrator's key, where the cluster was created
//! ```

use access::{AuthMode, DataDir};
use anyhow::{Context, Result, bail};
use machine::write_file;
use maps::MonMap;
use serde::{Deserialize, Serialize};
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

const MODE: u32 = 0o644;

/// A monitor's name and address, which a restart needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MonSettings {
    /// Its name among the monitors.
    pub name: String,
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where it serves its metrics, as on the command line.
    #[serde(default)]
    pub metrics: Option<String>,
    /// Where it serves its console, likewise.
    #[serde(default)]
    pub console: Option<String>,
}

fn path(dir: &DataDir) -> PathBuf {
    dir.path().join("mon.json")
}

impl MonSettings {
    /// Reads them; `None` in the directory of a new monitor.
    pub fn load(dir: &DataDir) -> Result<Option<Self>> {
        let path = path(dir);
        if !path.exists() {
            return Ok(None);
        }
        let text =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let settings =
            serde_json::from_str(&text).with_context(|| format!("reading {}", path.display()))?;
        Ok(Some(settings))
    }

    /// Writes them into the monitor's directory.
    pub fn save(&self, dir: &DataDir) -> Result<()> {
        write_file(&path(dir), &(serde_json::to_string_pretty(self)? + "\n"), MODE)
    }
}

/// Names become part of keys and of command lines.
pub fn check_name(name: &str) -> Result<()> {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if name.is_empty() || !name.chars().all(is_fine) {
        bail!("--name {name:?}: a monitor's name is made of letters, digits, '-' and '_'");
    }
    Ok(())
}

/// Writes the files that clients need: addresses of all monitors, authentication, and the key if it is here.
pub fn write_conf(dir: &DataDir, map: &MonMap, auth: AuthMode) -> Result<()> {
    let auth = auth.name();
    let hosts: Vec<String> = map.mons().map(|mon| format!("[{}]", mon.public_addrs)).collect();
    let mut conf = format!(
        "[global]\n\
         fsid = {}\n\
         mon_host = {}\n\
         auth_cluster_required = {auth}\n\
         auth_service_required = {auth}\n\
         auth_client_required = {auth}\n",
        map.fsid,
        hosts.join(","),
    );
    if dir.admin_keyring().exists() {
        conf += &format!("keyring = {}\n", dir.admin_keyring().display());
    }
    write_file(&dir.conf(), &conf, MODE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::MonInfo;
    use types::{EntityAddrVec, UTime, Uuid};

    #[test]
    fn a_configuration_names_all_monitors() {
        let path = std::env::temp_dir().join(format!("sepiola-mon-{}", std::process::id()));
        let dir = DataDir::new(&path);
        dir.create().unwrap();
        let mon = |name: &str, addr: &str| MonInfo {
            name: name.to_owned(),
            public_addrs: EntityAddrVec::one(addr.parse().unwrap()),
            ..MonInfo::default()
        };
        let mons = vec![mon("a", "v2:10.0.0.1:3300/0"), mon("b", "v2:10.0.0.2:3300/0")];
        let map = MonMap::new(Uuid([1; 16]), UTime::ZERO, mons);
        write_conf(&dir, &map, AuthMode::Cephx).unwrap();
        let text = fs::read_to_string(dir.conf()).unwrap();
        assert!(text.contains("mon_host = [v2:10.0.0.1:3300/0],[v2:10.0.0.2:3300/0]\n"), "{text}");
        let listen = "10.0.0.1:3300".parse().unwrap();
        let settings = MonSettings {
            name: "a".to_owned(),
            listen,
            metrics: Some("none".to_owned()),
            console: None,
        };
        assert_eq!(MonSettings::load(&dir).unwrap(), None);
        settings.save(&dir).unwrap();
        assert_eq!(MonSettings::load(&dir).unwrap(), Some(settings));
        fs::remove_dir_all(path).unwrap();
        assert!(check_name("a/b").is_err());
    }
}
