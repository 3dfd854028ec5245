//! The monitor's durable state: the decoded content of the control store.
//!
//! Invariant: the state is a function of the store's keys alone. It changes only by [`State::apply`], for the
//! monitor's own transactions as for those of others, so a restart leads to the same state.

mod follow;
mod members;

pub use members::{Leader, Presence};

use crate::control::{Entry, Revision, Transaction};
use crate::image_schedules::Schedule;
use crate::image_tasks::ImageTask;
use crate::keys::Service;
use crate::monitor::LeaderClock;
use auth::{EntityAuth, ServiceSecrets};
use bytes::Bytes;
use codec::{Decode, decode_all};
use maps::{MgrMap, MonMap, OsdMap};
use serde_json::Value;
use std::collections::BTreeMap;
use types::{EntityName, EntityType, Epoch, OsdId};
use wire::LogEntry;
use wire::options::Values;
pub use wire::options::switch as parse_switch;

/// Number of old OSD maps that are kept as full maps, and the minimum that is kept as incrementals. A
/// subscriber that is further behind gets the newest full map.
pub const FULL_MAPS_KEPT: usize = 50;
pub const INCREMENTALS_KEPT: usize = 500;
/// Bound of the entries of the cluster log.
pub const LOG_ENTRIES_KEPT: usize = 1000;
/// Bound of the entries of the configuration's history.
pub const CONFIG_HISTORY_KEPT: usize = 200;

/// The committed state of the cluster, decoded.
#[derive(Debug, Clone, Default)]
pub struct State {
    pub monmap: MonMap,
    pub mgrmap: MgrMap,
    pub osdmap: OsdMap,
    /// Encoded full maps by epoch.
    pub full_maps: BTreeMap<Epoch, Bytes>,
    /// Encoded incrementals, by the epoch that they lead to.
    pub incrementals: BTreeMap<Epoch, Bytes>,
    /// Metadata that OSDs reported at their last boot.
    pub osd_metadata: BTreeMap<OsdId, BTreeMap<String, String>>,
    pub entities: BTreeMap<EntityName, EntityAuth>,
    /// Rotating secrets of the services.
    pub secrets: ServiceSecrets,
    /// Section (`global`, `osd`, `osd.3`, `osd/class:ssd`) -> option -> value.
    pub config: BTreeMap<String, BTreeMap<String, String>>,
    /// Entries of `config log` by number.
    pub config_history: BTreeMap<u64, Value>,
    pub config_keys: BTreeMap<String, Bytes>,
    pub image_tasks: BTreeMap<u64, ImageTask>,
    /// By (kind, level).
    pub image_schedules: BTreeMap<(String, String), Schedule>,
    /// The cluster log by number.
    pub log: BTreeMap<u64, LogEntry>,
    pub mutes: Vec<Mute>,
    /// The first global id that is not reserved by any monitor.
    pub global_id_next: u64,
    /// The monitor that owns the timers, if there is one.
    pub leader: Option<Leader>,
    /// Recent reading of the leader's clock.
    pub clock: Option<LeaderClock>,
    /// The live monitors by name.
    pub present: BTreeMap<String, Presence>,
    /// Options set on this monitor only; they are not in the store.
    pub running: BTreeMap<String, String>,
    versions: BTreeMap<Service, (u64, Revision)>,
    /// Revision of the last change of each key without a service, including deleted keys.
    loose: BTreeMap<String, Revision>,
    /// Revision of the load: events up to it are part of the loaded content.
    loaded: Revision,
    newest: Revision,
}

/// A muted health check.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Mute {
    pub code: String,
    /// As given to `health mute`: the mute stays when its check clears or gets worse.
    pub sticky: bool,
    pub summary: String,
    pub count: u64,
    /// Seconds since 1970; zero: no expiry.
    #[serde(default)]
    pub expires_at: u64,
}

/// A key has a value that this release cannot decode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("key {key} of the control store cannot be read")]
pub struct CorruptKey {
    pub key: String,
    #[source]
    pub source: Option<codec::DecodeError>,
}

impl State {
    /// Decodes the content of a store as of a revision.
    pub fn load(entries: &[Entry], revision: Revision) -> Result<State, CorruptKey> {
        let mut state = State { loaded: revision, ..State::default() };
        for entry in entries {
            state.apply(&entry.key, Some(&entry.value), entry.revision)?;
        }
        Ok(state)
    }

    /// A part's version number, and the revision of the transaction that last wrote it.
    pub fn version(&self, service: Service) -> (u64, Option<Revision>) {
        match self.versions.get(&service) {
            Some((version, revision)) => (*version, Some(*revision)),
            None => (0, None),
        }
    }

    /// A transaction without writes that succeeds only if this is the newest state.
    pub(crate) fn unchanged(&self) -> Transaction {
        let compare = |service: Service| (service.version_key(), self.version(service).1);
        let compare = Service::ALL.into_iter().map(compare).collect();
        Transaction { compare, ..Transaction::default() }
    }

    /// Applies the change of one key; `None` means that it was deleted.
    pub fn apply(
        &mut self,
        key: &str,
        value: Option<&Bytes>,
        revision: Revision,
    ) -> Result<(), CorruptKey> {
        if Service::of_key(key).is_none() && Service::from_version_key(key).is_none() {
            self.loose.insert(key.to_owned(), revision);
        }
        let applied = self.apply_key(key, value, revision);
        applied.map_err(|source| CorruptKey { key: key.to_owned(), source })
    }

    fn apply_key(
        &mut self,
        key: &str,
        value: Option<&Bytes>,
        revision: Revision,
    ) -> Result<(), Option<codec::DecodeError>> {
        if let Some(service) = Service::from_version_key(key) {
            let version = value.map(number).transpose()?.unwrap_or(0);
            self.versions.insert(service, (version, revision));
            return Ok(());
        }
        let (group, rest) = key.split_once('/').unwrap_or((key, ""));
        match (group, rest.split_once('/').unwrap_or((rest, ""))) {
            ("osdmap", ("full", epoch)) => self.apply_full_map(epoch_of(epoch)?, value)?,
            ("osdmap", ("inc", epoch)) => {
                set(&mut self.incrementals, epoch_of(epoch)?, value.cloned())
            }
            ("osd", ("metadata", id)) => {
                let id = OsdId(id.parse().map_err(|_| None)?);
                set(&mut self.osd_metadata, id, value.map(json).transpose()?);
            }
            ("auth", _) => {
                let entity = rest.parse().map_err(|()| None)?;
                set(&mut self.entities, entity, decoded("entity", value)?);
            }
            ("secrets", _) => self.secrets = decoded("secrets", value)?.unwrap_or_default(),
            ("config", _) => self.apply_config(rest, value)?,
            ("config-history", _) => {
                let number = rest.parse().map_err(|_| None)?;
                set(&mut self.config_history, number, value.map(json).transpose()?);
            }
            ("config-key", _) => set(&mut self.config_keys, rest.to_owned(), value.cloned()),
            ("image-task", _) => {
                let sequence = rest.parse().map_err(|_| None)?;
                set(&mut self.image_tasks, sequence, value.map(json).transpose()?);
            }
            ("image-schedule", (kind, level)) => {
                let key = (kind.to_owned(), level.to_owned());
                set(&mut self.image_schedules, key, value.map(json).transpose()?);
            }
            ("log", _) => {
                let sequence = rest.parse().map_err(|_| None)?;
                set(&mut self.log, sequence, decoded("log entry", value)?);
            }
            ("health", _) => {
                self.mutes = value.map(json).transpose()?.unwrap_or_default();
            }
            ("monmap", _) => {
                if let Some(map) = decoded::<MonMap>("monitor map", value)?
                    && map.epoch >= self.monmap.epoch
                {
                    self.monmap = map;
                }
            }
            ("mgrmap", _) => self.mgrmap = decoded("manager map", value)?.unwrap_or_default(),
            ("clock", _) => {
                self.clock = value.map(json).transpose()?;
            }
            ("leader", _) => self.leader = value.map(json).transpose()?,
            ("present", _) => set(&mut self.present, rest.to_owned(), value.map(json).transpose()?),
            ("meta", _) => {
                self.global_id_next = value.map(number).transpose()?.unwrap_or(0);
            }
            _ => {}
        }
        Ok(())
    }

    fn apply_full_map(
        &mut self,
        epoch: Epoch,
        value: Option<&Bytes>,
    ) -> Result<(), Option<codec::DecodeError>> {
        if let Some(bytes) = value
            && epoch > self.osdmap.epoch
        {
            self.osdmap = decode_all("OSD map", bytes).map_err(Some)?;
        }
        set(&mut self.full_maps, epoch, value.cloned());
        Ok(())
    }

    /// A section may contain slashes (masks), the name of an option does not.
    fn apply_config(
        &mut self,
        path: &str,
        value: Option<&Bytes>,
    ) -> Result<(), Option<codec::DecodeError>> {
        let (who, name) = path.rsplit_once('/').ok_or(None)?;
        let section = self.config.entry(who.to_owned()).or_default();
        set(section, name.to_owned(), value.map(text).transpose()?);
        self.config.retain(|_, options| !options.is_empty());
        Ok(())
    }

    /// A past OSD map, if it is still kept as a full map.
    pub fn osdmap_at(&self, epoch: Epoch) -> Option<OsdMap> {
        if epoch == self.osdmap.epoch {
            return Some(self.osdmap.clone());
        }
        decode_all("OSD map", self.full_maps.get(&epoch)?).ok()
    }

    /// The options of an entity with the section each comes from; more specific sections override others.
    pub fn config_for(&self, who: &EntityName) -> BTreeMap<String, (String, String)> {
        let masks = self.masks(who);
        let mut sections = Vec::new();
        for section in ["global".to_owned(), who.kind.to_string()] {
            let masked = masks.iter().map(|mask| format!("{section}/{mask}"));
            let masked: Vec<String> = masked.collect();
            sections.push(section);
            sections.extend(masked);
        }
        sections.push(who.to_string());
        let mut options = BTreeMap::new();
        for section in sections {
            for (name, value) in self.config.get(&section).into_iter().flatten() {
                options.insert(name.clone(), (value.clone(), section.clone()));
            }
        }
        options
    }

    /// The masks that match an OSD: `rack:r1`, `host:a`, `class:ssd`. None for other entities.
    fn masks(&self, who: &EntityName) -> Vec<String> {
        let id = who.id.parse().ok().filter(|_| who.kind == EntityType::OSD);
        let Some(osd): Option<i32> = id else { return Vec::new() };
        let crush = &self.osdmap.crush;
        let places = crush.full_location(osd).into_iter().rev();
        let places = places.map(|(kind, name)| format!("{kind}:{name}"));
        places.chain(crush.item_class(osd).map(|class| format!("class:{class}"))).collect()
    }

    /// One option as it applies to this monitor: set on it alone, in section `mon`, or in `global`.
    pub fn mon_option(&self, name: &str) -> Option<&str> {
        let in_section = |section: &str| self.config.get(section)?.get(name).map(String::as_str);
        let running = self.running.get(name).map(String::as_str);
        running.or_else(|| in_section("mon")).or_else(|| in_section("global"))
    }

    /// An option of the manager's modules, such as `mgr/balancer/active`.
    pub fn mgr_option(&self, name: &str) -> Option<&str> {
        let name = stored_option(name);
        let sections = ["mgr", "global"].into_iter();
        sections
            .filter_map(|section| self.config.get(section)?.get(&name))
            .next()
            .map(String::as_str)
    }

    /// The options of the manager's modules.
    pub fn mgr_options<'a>(&'a self) -> Values<impl Fn(&str) -> Option<&'a str>> {
        Values(|name: &str| self.mgr_option(name))
    }

    /// Options as they apply to this monitor.
    pub fn options<'a>(&'a self) -> Values<impl Fn(&str) -> Option<&'a str>> {
        Values(|name: &str| self.mon_option(name))
    }

    /// Options of OSDs that the monitor's failure detection depends on as well.
    pub fn osd_options<'a>(&'a self) -> Values<impl Fn(&str) -> Option<&'a str>> {
        let of_osds = |name: &str| self.config.get("osd")?.get(name).map(String::as_str);
        Values(move |name: &str| of_osds(name).or_else(|| self.mon_option(name)))
    }

    /// A boolean option of the monitor. A value that is no boolean counts as not set.
    pub fn mon_switch(&self, name: &str, default: bool) -> bool {
        self.mon_option(name).and_then(parse_switch).unwrap_or(default)
    }
}

/// In keys of the store the last slash ends the section, so slashes in the names of manager modules' options
/// are replaced.
const STORED_SLASH: &str = "\u{1}";

/// The name of an option as it is written in keys.
pub fn stored_option(name: &str) -> String {
    name.replace('/', STORED_SLASH)
}

/// The inverse of [`stored_option`].
pub fn shown_option(name: &str) -> String {
    name.replace(STORED_SLASH, "/")
}

fn set<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => {
            map.insert(key, value);
        }
        None => {
            map.remove(&key);
        }
    }
}

fn decoded<T: Decode>(
    what: &'static str,
    value: Option<&Bytes>,
) -> Result<Option<T>, Option<codec::DecodeError>> {
    value.map(|bytes| decode_all(what, bytes)).transpose().map_err(Some)
}

fn text(value: &Bytes) -> Result<String, Option<codec::DecodeError>> {
    String::from_utf8(value.to_vec()).map_err(|_| None)
}

fn number(value: &Bytes) -> Result<u64, Option<codec::DecodeError>> {
    text(value)?.parse().map_err(|_| None)
}

fn json<T: serde::de::DeserializeOwned>(value: &Bytes) -> Result<T, Option<codec::DecodeError>> {
    serde_json::from_slice(value).map_err(|_| None)
}

fn epoch_of(text: &str) -> Result<Epoch, Option<codec::DecodeError>> {
    text.parse().map(Epoch).map_err(|_| None)
}
