//! Settings of a cluster of `sepiola up`, which a restart needs.

use access::{AuthMode, DataDir};
use anyhow::{Context, Result, bail};
use machine::write_file;
use serde::{Deserialize, Serialize};
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use types::Uuid;

const SETTINGS_MODE: u32 = 0o600;

/// The one monitor.
pub const MON_NAME: &str = "a";
/// The manager that it plays.
pub const MGR_NAME: &str = "x";

/// Settings fixed when a cluster is created.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Its id.
    pub fsid: Uuid,
    /// OSDs of its process.
    pub osds: u32,
    /// Where the monitor listens.
    pub mon_addr: SocketAddr,
    /// How clients prove who they are.
    pub auth: AuthMode,
    /// Where logs lie, if not beside the data.
    pub log: Option<PathBuf>,
    /// Bytes that each OSD may take: all share one file system.
    pub osd_capacity: u64,
}

/// The same, as the file has it.
#[derive(Serialize, Deserialize)]
struct SettingsFile {
    fsid: String,
    osds: u32,
    mon_addr: SocketAddr,
    auth: String,
    log: Option<PathBuf>,
    osd_capacity: u64,
}

impl Settings {
    /// Reads what [`Settings::save`] wrote.
    pub fn load(dir: &DataDir) -> Result<Settings> {
        let path = dir.settings();
        let text = fs::read_to_string(&path)
            .with_context(|| format!("reading the cluster's settings {}", path.display()))?;
        let file: SettingsFile =
            serde_json::from_str(&text).with_context(|| format!("reading {}", path.display()))?;
        let Ok(fsid) = file.fsid.parse() else {
            bail!("{}: {:?} is not a cluster id", path.display(), file.fsid);
        };
        let auth = AuthMode::named(&file.auth);
        let SettingsFile { osds, mon_addr, log, osd_capacity, .. } = file;
        Ok(Settings { fsid, osds, mon_addr, auth, log, osd_capacity })
    }

    /// Writes them into the cluster's directory.
    pub fn save(&self, dir: &DataDir) -> Result<()> {
        let file = SettingsFile {
            fsid: self.fsid.to_string(),
            osds: self.osds,
            mon_addr: self.mon_addr,
            auth: self.auth.name().to_owned(),
            log: self.log.clone(),
            osd_capacity: self.osd_capacity,
        };
        write_file(&dir.settings(), &(serde_json::to_string_pretty(&file)? + "\n"), SETTINGS_MODE)
    }
}
