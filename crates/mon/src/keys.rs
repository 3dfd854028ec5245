//! The names of keys in the control store.
//!
//! ```text
//! osdmap/full/<epoch>  osdmap/inc/<epoch>     encoded maps
//! osd/metadata/<id>                           JSON object
//! auth/<entity>        EntityAuth             secrets  ServiceSecrets
//! config/<who>/<name>  config-key/<key>       plain text
//! image-task/<n>                              JSON: work on images in the background
//! image-schedule/<kind>/<level>               JSON: schedules of recurring work on images
//! config-history/<n>   log/<n>  health/mutes  JSON, LogEntry, JSON
//! monmap/<epoch>  mgrmap  fsmap               encoded maps
//! fs/metadata/<gid>                           JSON object: facts that a metadata server reported
//! meta/global-id                              decimal: the first global id that was never reserved
//! cluster-version                             decimal: the cluster version, if it was ever raised
//! version/<group>                             decimal; compared by every transaction
//! present/<monitor>  leader                   JSON; go with the lease of a monitor
//! clock                                       JSON: a recent reading of the leader's clock
//! ```
//!
//! Numbers are padded with zeros so that keys sort by them.

use types::{EntityName, Epoch, OsdId};

/// A part of the state that is changed independently. Each has a version key: a transaction that writes to a
/// group compares and rewrites it, so if two monitors change the same group at once, one of them fails and
/// decides again. Ordered by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct VersionGroup(&'static str);

impl VersionGroup {
    pub const AUTH: Self = VersionGroup("auth");
    pub const CONFIG: Self = VersionGroup("config");
    pub const CONFIG_KEY: Self = VersionGroup("config-key");
    /// File systems.
    pub const FS: Self = VersionGroup("fs");
    pub const HEALTH: Self = VersionGroup("health");
    pub const LOG: Self = VersionGroup("log");
    /// Counters of the cluster.
    pub const META: Self = VersionGroup("meta");
    pub const MGRMAP: Self = VersionGroup("mgrmap");
    pub const MONMAP: Self = VersionGroup("monmap");
    pub const OSDMAP: Self = VersionGroup("osdmap");

    /// The name in [`VersionGroup::version_key`].
    pub fn name(self) -> &'static str {
        self.0
    }

    /// The key of the group's version: the number of transactions that changed it, in decimal.
    pub fn version_key(self) -> String {
        format!("version/{}", self.0)
    }
}

/// Prefix of the keys of full OSD maps; the epoch follows.
pub const OSDMAP_FULL: &str = "osdmap/full/";
pub const SECRETS: &str = "secrets";
pub const GLOBAL_ID: &str = "meta/global-id";
pub const CLUSTER_VERSION: &str = "cluster-version";
pub const MGRMAP: &str = "mgrmap";
pub const FSMAP: &str = "fsmap";
pub const LEADER: &str = "leader";
pub const CLOCK: &str = "clock";
pub const HEALTH_MUTES: &str = "health/mutes";

/// The key of a full OSD map.
pub fn osdmap_full(epoch: Epoch) -> String {
    format!("{OSDMAP_FULL}{:010}", epoch.0)
}

/// The key of the incremental that leads to `epoch`.
pub fn osdmap_incremental(epoch: Epoch) -> String {
    format!("osdmap/inc/{:010}", epoch.0)
}

pub fn osd_metadata(osd: OsdId) -> String {
    format!("osd/metadata/{}", osd.0)
}

/// The metadata of a run of a metadata server, by its global id.
pub fn mds_metadata(gid: u64) -> String {
    format!("fs/metadata/{gid}")
}

pub fn auth(entity: &EntityName) -> String {
    format!("auth/{entity}")
}

/// `who` is a section, such as `osd` or `osd.3/class:ssd`.
pub fn config(who: &str, name: &str) -> String {
    assert!(!who.is_empty() && !name.is_empty(), "an option has a section and a name");
    format!("config/{who}/{name}")
}

pub fn config_history(number: u64) -> String {
    format!("config-history/{number:010}")
}

pub fn config_key(key: &str) -> String {
    format!("config-key/{key}")
}

/// The key under which an OSD that cannot start stores the reason, in its private part of the key-value
/// store.
pub fn osd_refusal(osd: OsdId) -> String {
    format!("daemon-private/osd.{osd}/refusal")
}

pub fn image_task(sequence: u64) -> String {
    format!("image-task/{sequence:020}")
}

/// `kind` is `trash` or `mirror`; `level` consists of ids and names, with slashes between.
pub fn image_schedule(kind: &str, level: &str) -> String {
    format!("image-schedule/{kind}/{level}")
}

pub fn log(sequence: u64) -> String {
    format!("log/{sequence:020}")
}

/// The key that is bound to the lease of a live monitor.
pub fn present(monitor: &str) -> String {
    assert!(!monitor.is_empty(), "a monitor has a name");
    format!("present/{monitor}")
}

pub fn monmap(epoch: Epoch) -> String {
    format!("monmap/{:010}", epoch.0)
}
