//! The durable state as plain data, and the description of the keys that it is decoded from.

use super::clock::LeaderClock;
use crate::image_schedules::Schedule;
use crate::image_tasks::ImageTask;
use crate::keys::{self, VersionGroup};
use auth::{EntityAuth, ServiceSecrets};
use bytes::Bytes;
use codec::{DecodeError, decode_all};
use control::Revision;
use maps::{FsMap, MdsGid, MgrMap, MonMap, OsdMap};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use types::{ClusterVersion, EntityName, Epoch, OsdId, ServedVersions};
use wire::LogEntry;

/// Number of old OSD maps that are kept as full maps, besides incrementals.
pub const FULL_MAPS_KEPT: usize = 50;

/// The committed state of the cluster, decoded.
#[derive(Debug, Clone, Default)]
pub struct State {
    pub monmap: MonMap,
    pub mgrmap: MgrMap,
    pub osdmap: OsdMap,
    pub fs: FileSystems,
    pub history: History,
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
    pub images: Images,
    /// The cluster log by number.
    pub log: BTreeMap<u64, LogEntry>,
    pub mutes: Vec<Mute>,
    /// The first global id that is not reserved by any monitor.
    pub global_id_next: u64,
    pub members: Members,
    /// Version of each group, and the revision of the transaction that last wrote it.
    pub(super) versions: BTreeMap<VersionGroup, (u64, Revision)>,
    /// Revision of the last change of each key without a group, including deleted keys.
    pub(super) loose: BTreeMap<String, Revision>,
    /// Revision of the load: events up to it are part of the loaded content.
    pub(super) loaded: Revision,
    pub(super) newest: Revision,
}

impl State {
    /// Panics if the parts of the state contradict each other. Not for a state with keys that this release
    /// cannot decode.
    pub fn check_invariants(&self) {
        self.history.check_invariants(self.osdmap.epoch);
        self.fs.map.check_invariants();
        for gid in self.fs.metadata.keys() {
            assert!(self.fs.map.server(*gid).is_some(), "metadata of mds {gid} outlives it");
        }
        for (group, (_, revision)) in &self.versions {
            let newest = self.newest.max(self.loaded);
            assert!(
                *revision <= newest,
                "{group:?} is of revision {revision}, the state of {newest}"
            );
        }
        let ids: BTreeSet<&str> = self.images.tasks.values().map(|task| task.id.as_str()).collect();
        assert_eq!(ids.len(), self.images.tasks.len(), "tasks have ids of their own");
    }

    /// A past OSD map, if it is still kept as a full map.
    pub fn osdmap_at(&self, epoch: Epoch) -> Option<OsdMap> {
        if epoch == self.osdmap.epoch {
            return Some(self.osdmap.clone());
        }
        decode_all("OSD map", self.history.full.get(&epoch)?).ok()
    }

    /// Ranks and names of the live monitors; of all monitors if none has published its presence yet.
    pub fn quorum(&self) -> Vec<(usize, &str)> {
        let all = || self.monmap.ranks.iter().map(String::as_str).enumerate();
        let alive: Vec<_> =
            all().filter(|(_, name)| self.members.present.contains_key(*name)).collect();
        if alive.is_empty() { all().collect() } else { alive }
    }

    /// The revision at which the current leader was elected.
    pub(crate) fn leader_revision(&self) -> Option<Revision> {
        self.members.leader.as_ref().and_then(|_| self.loose.get(keys::LEADER).copied())
    }

    /// A number that grows with each change of the leader; odd, as after an election.
    pub fn election_epoch(&self) -> u32 {
        self.leader_revision().unwrap_or(1) as u32 * 2 + 1
    }

    /// The name of the leader, or of the first monitor in rank order if there is none.
    pub fn leader_name(&self) -> &str {
        let first = || self.monmap.ranks.first().map_or("", String::as_str);
        self.members.leader.as_ref().map_or_else(first, |leader| leader.name.as_str())
    }

    /// Monitors of the map that are not alive.
    pub fn absent_monitors(&self) -> Vec<&str> {
        let alive = self.quorum();
        let names = self.monmap.ranks.iter().map(String::as_str);
        names.filter(|name| alive.iter().all(|(_, alive)| alive != name)).collect()
    }
}

/// File systems and their servers.
#[derive(Debug, Clone, Default)]
pub struct FileSystems {
    pub map: FsMap,
    /// Metadata that servers reported at their boot, by run.
    pub metadata: BTreeMap<MdsGid, BTreeMap<String, String>>,
}

impl FileSystems {
    /// A fact that a server reported at its boot.
    pub fn fact(&self, gid: MdsGid, name: &str) -> Option<&str> {
        self.metadata.get(&gid)?.get(name).map(String::as_str)
    }
}

/// Old OSD maps, as far as they are kept.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Encoded full maps by epoch.
    pub full: BTreeMap<Epoch, Bytes>,
    /// Encoded incrementals, by the epoch that they lead to.
    pub incrementals: BTreeMap<Epoch, Bytes>,
}

impl History {
    /// Panics unless the newest map is kept, and each step from the oldest incremental to it.
    fn check_invariants(&self, newest: Epoch) {
        if let Some((last, _)) = self.full.last_key_value() {
            assert_eq!(*last, newest, "the newest full map is the current one");
        }
        assert!(self.full.len() <= FULL_MAPS_KEPT + 1, "{} full maps are kept", self.full.len());
        let ends = self.incrementals.first_key_value().zip(self.incrementals.last_key_value());
        if let Some(((first, _), (last, _))) = ends {
            assert_eq!(*last, newest, "the newest incremental leads to the current map");
            let steps = (last.0 - first.0) as usize + 1;
            assert_eq!(steps, self.incrementals.len(), "incrementals have no gaps");
        }
    }
}

/// Background work on images.
#[derive(Debug, Clone, Default)]
pub struct Images {
    pub tasks: BTreeMap<u64, ImageTask>,
    /// By (kind, level).
    pub schedules: BTreeMap<(String, String), Schedule>,
}

/// The monitors that run, and the version of the cluster that all daemons are part of.
#[derive(Debug, Clone, Default)]
pub struct Members {
    /// The monitor that owns the timers, if there is one.
    pub leader: Option<Leader>,
    /// Recent reading of the leader's clock.
    pub clock: Option<LeaderClock>,
    /// The live monitors by name.
    pub present: BTreeMap<String, Presence>,
    /// Bounds what daemons may write.
    pub cluster_version: ClusterVersion,
}

impl Members {
    /// The release of a monitor. One that does not run, or does not say it, counts as one of this release.
    pub fn release(&self, name: &str) -> &str {
        let said = self.present.get(name).map(|present| present.release.as_str());
        said.filter(|release| !release.is_empty()).unwrap_or(crate::VERSION)
    }
}

/// A muted health check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

/// The owner of the timers, as long as its lease lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leader {
    pub name: String,
    /// Distinguishes the runs of a monitor.
    pub incarnation: u64,
}

/// Facts that a live monitor publishes about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Presence {
    pub incarnation: u64,
    pub hostname: String,
    /// Name of the manager that it stands in for when it leads.
    pub manager: String,
    /// Facts about its host; empty for a monitor of an older release.
    #[serde(default)]
    pub host_facts: BTreeMap<String, String>,
    /// Its release, as `ceph versions` shows it; empty for a monitor of an older release.
    #[serde(default)]
    pub release: String,
    /// The cluster versions that it serves, as text; empty for a monitor of an older release.
    #[serde(default)]
    pub cluster_versions: String,
}

impl Presence {
    /// The cluster versions that the monitor serves.
    pub fn served(&self) -> ServedVersions {
        ServedVersions::of_text(Some(&self.cluster_versions))
    }
}

/// The keys of one kind: those that begin with the same name.
pub(crate) struct Key {
    /// The key up to its first slash.
    pub name: &'static str,
    /// `None` for keys that are written without a version.
    pub group: Option<VersionGroup>,
    pub apply: Apply,
}

/// Applies the change of one key to the state. `rest` is the key after its first slash; no value means that
/// the key was deleted. The error is `None` for what is not in the format of [`codec`].
pub(super) type Apply = fn(state: &mut State, rest: &str, value: Option<&Bytes>) -> Applied;
pub(super) type Applied = Result<(), Option<DecodeError>>;

#[cfg(test)]
mod tests {
    use super::*;

    /// A state with these incrementals, of which the last one leads to its map.
    fn with(incrementals: &[u32]) -> State {
        let mut state = State::default();
        let steps = incrementals.iter().map(|epoch| (Epoch(*epoch), Bytes::new()));
        state.history.incrementals = steps.collect();
        state.osdmap.epoch = Epoch(incrementals.last().copied().unwrap_or(0));
        state
    }

    #[test]
    #[should_panic(expected = "incrementals have no gaps")]
    fn a_lost_incremental_is_found() {
        with(&[]).check_invariants();
        with(&[3, 4, 5]).check_invariants();
        with(&[3, 5]).check_invariants();
    }

    #[test]
    #[should_panic(expected = "the newest full map is the current one")]
    fn a_full_map_that_is_newer_than_the_state_is_found() {
        let mut state = with(&[3, 4]);
        state.history.full.insert(Epoch(5), Bytes::new());
        state.check_invariants();
    }

    #[test]
    #[should_panic(expected = "the state of 0")]
    fn a_version_from_the_future_is_found() {
        let mut state = State::default();
        state.versions.insert(VersionGroup::LOG, (1, 1));
        state.check_invariants();
    }
}
