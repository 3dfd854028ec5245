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
//! monmap/<epoch>  mgrmap                      encoded maps
//! meta/global-id                              decimal: the first global id that was never reserved
//! version/<service>                           decimal; compared by every transaction
//! present/<monitor>  leader                   JSON; go with the lease of a monitor
//! clock                                       JSON: a recent reading of the leader's clock
//! ```
//!
//! Numbers are padded with zeros so that keys sort by them.

use types::{EntityName, Epoch, OsdId};

/// The parts of the state that are changed independently. Each has a version key: a transaction that writes
/// to a part compares and rewrites it, so if two monitors change the same part at once, one of them fails and
/// decides again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Service {
    Auth,
    Config,
    ConfigKey,
    Health,
    Log,
    Meta,
    MgrMap,
    MonMap,
    OsdMap,
}

impl Service {
    /// All parts.
    pub const ALL: [Service; 9] = [
        Service::Auth,
        Service::Config,
        Service::ConfigKey,
        Service::Health,
        Service::Log,
        Service::Meta,
        Service::MgrMap,
        Service::MonMap,
        Service::OsdMap,
    ];

    /// The name in [`Service::version_key`].
    pub fn name(self) -> &'static str {
        match self {
            Service::Auth => "auth",
            Service::Config => "config",
            Service::ConfigKey => "config-key",
            Service::Health => "health",
            Service::Log => "log",
            Service::Meta => "meta",
            Service::MgrMap => "mgrmap",
            Service::MonMap => "monmap",
            Service::OsdMap => "osdmap",
        }
    }

    /// The key of the part's version: the number of transactions that changed it, in decimal.
    pub fn version_key(self) -> String {
        format!("version/{}", self.name())
    }

    /// The inverse of [`Service::version_key`].
    pub fn from_version_key(key: &str) -> Option<Service> {
        let name = key.strip_prefix("version/")?;
        Service::ALL.into_iter().find(|service| service.name() == name)
    }

    /// The part that a key belongs to. `None` for keys that are written without a version.
    pub fn of_key(key: &str) -> Option<Service> {
        match key.split('/').next()? {
            "osdmap" | "osd" => Some(Service::OsdMap),
            "auth" | "secrets" => Some(Service::Auth),
            "config" | "config-history" => Some(Service::Config),
            "config-key" | "image-schedule" | "image-task" => Some(Service::ConfigKey),
            "health" => Some(Service::Health),
            "log" => Some(Service::Log),
            "monmap" => Some(Service::MonMap),
            "mgrmap" => Some(Service::MgrMap),
            "meta" => Some(Service::Meta),
            _ => None,
        }
    }
}

/// Prefix of the keys of full OSD maps; the epoch follows.
pub const OSDMAP_FULL: &str = "osdmap/full/";
pub const SECRETS: &str = "secrets";
pub const GLOBAL_ID: &str = "meta/global-id";
pub const MGRMAP: &str = "mgrmap";
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

pub fn auth(entity: &EntityName) -> String {
    format!("auth/{entity}")
}

/// `who` is a section, such as `osd` or `osd.3/class:ssd`.
pub fn config(who: &str, name: &str) -> String {
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
    format!("present/{monitor}")
}

pub fn monmap(epoch: Epoch) -> String {
    format!("monmap/{:010}", epoch.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_belongs_to_a_service_that_has_a_version() {
        let keys = [
            osdmap_full(Epoch(1)),
            osd_metadata(OsdId(3)),
            auth(&EntityName::client("admin")),
            config("global", "x"),
            config_history(1),
            config_key("a/b"),
            image_task(1),
            image_schedule("trash", "1/a"),
            log(1),
            monmap(Epoch(1)),
            MGRMAP.to_owned(),
            HEALTH_MUTES.to_owned(),
            GLOBAL_ID.to_owned(),
            SECRETS.to_owned(),
        ];
        for key in keys {
            let service = Service::of_key(&key).unwrap_or_else(|| panic!("{key}"));
            assert_eq!(Service::from_version_key(&service.version_key()), Some(service));
        }
        assert!(osdmap_full(Epoch(9)) < osdmap_full(Epoch(10)));
    }
}
