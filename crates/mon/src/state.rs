//! The monitor's durable state: the decoded content of the control store.
//!
//! Invariant: the state is a function of the store's keys alone. It changes only by [`State::apply`], for the
//! monitor's own transactions as for those of others, so a restart leads to the same state.
//!
//! Each part has a file with its keys and their meaning; `PARTS` is the table of all.
//!
//! The same transaction may arrive twice: as the answer to the committer, and as a change. The answer may
//! even arrive before changes of earlier revisions. Each group's transactions are totally ordered, because
//! each compares the version that the one before it wrote; so once a group is known as of some revision,
//! events up to that revision are old.

mod auth;
mod clock;
mod config;
mod data;
mod fs;
mod images;
mod log;
mod managers;
mod members;
mod osd;
mod values;
mod version;

pub use clock::LeaderClock;
pub use config::{Overrides, parse_switch, shown_option, stored_option};
pub use data::{
    FULL_MAPS_KEPT, FileSystems, History, Images, Leader, Members, Mute, Presence, State,
};

use crate::keys::VersionGroup;
use bytes::Bytes;
use control::{Entry, Event, Revision, Transaction};
use data::{Applied, Key};
use std::collections::BTreeSet;

/// Number of old OSD maps that are kept as incrementals at least, unless `mon_min_osdmap_epochs` is set. A
/// subscriber that is further behind gets the newest full map.
pub const INCREMENTALS_KEPT: usize = 500;
/// Upper bound of OSD ids; the map has a slot for each.
pub const OSD_ID_MAX: i32 = 10_000;
/// Number of entries of the blocklist from which on clients without `osd rw` (`profile rbd`) cannot add any,
/// but metadata servers can: exceeds the client instances that are fenced within an hour when a large site
/// fails. Every OSD map contains all entries.
pub const BLOCKLIST_LIMITED_MAX: usize = 16_384;
/// Bound of the entries of the cluster log.
pub const LOG_ENTRIES_KEPT: usize = 1000;
/// Bound of the entries of the configuration's history.
pub const CONFIG_HISTORY_KEPT: usize = 200;

/// All keys of the store, by part, except the versions of groups.
const PARTS: [&[Key]; 9] = [
    osd::KEYS,
    auth::KEYS,
    config::KEYS,
    log::KEYS,
    members::KEYS,
    managers::KEYS,
    images::KEYS,
    fs::KEYS,
    version::KEYS,
];

fn kinds() -> impl Iterator<Item = &'static Key> {
    PARTS.into_iter().flatten()
}

/// The kind of a key, and the rest of the key; `None` for keys of newer releases.
fn kind_of(key: &str) -> Option<(&'static Key, &str)> {
    let (name, rest) = key.split_once('/').unwrap_or((key, ""));
    Some((kinds().find(|kind| kind.name == name)?, rest))
}

impl VersionGroup {
    /// All groups, by name.
    pub fn all() -> BTreeSet<VersionGroup> {
        kinds().filter_map(|kind| kind.group).collect()
    }

    /// The group that a key belongs to. `None` for keys that are written without a version.
    pub fn of_key(key: &str) -> Option<VersionGroup> {
        kind_of(key)?.0.group
    }

    /// The inverse of [`VersionGroup::version_key`].
    pub fn from_version_key(key: &str) -> Option<VersionGroup> {
        let name = key.strip_prefix("version/")?;
        kinds().filter_map(|kind| kind.group).find(|group| group.name() == name)
    }
}

/// The group that a key belongs to, or is the version of.
fn group_of(key: &str) -> Option<VersionGroup> {
    VersionGroup::from_version_key(key).or_else(|| VersionGroup::of_key(key))
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

    /// The number of transactions that changed a group, and the revision of the last one.
    pub fn version(&self, group: VersionGroup) -> (u64, Option<Revision>) {
        match self.versions.get(&group) {
            Some((version, revision)) => (*version, Some(*revision)),
            None => (0, None),
        }
    }

    /// A transaction without writes that succeeds only if this is the newest state.
    pub(crate) fn unchanged(&self) -> Transaction {
        let compare = |group: VersionGroup| (group.version_key(), self.version(group).1);
        let compare = VersionGroup::all().into_iter().map(compare).collect();
        Transaction { compare, ..Transaction::default() }
    }

    /// Applies the change of one key; `None` means that it was deleted.
    pub fn apply(
        &mut self,
        key: &str,
        value: Option<&Bytes>,
        revision: Revision,
    ) -> Result<(), CorruptKey> {
        if group_of(key).is_none() {
            self.loose.insert(key.to_owned(), revision);
        }
        let applied = self.apply_key(key, value, revision);
        applied.map_err(|source| CorruptKey { key: key.to_owned(), source })
    }

    fn apply_key(&mut self, key: &str, value: Option<&Bytes>, revision: Revision) -> Applied {
        if let Some(group) = VersionGroup::from_version_key(key) {
            let version = value.map(values::number).transpose()?.unwrap_or(0);
            self.versions.insert(group, (version, revision));
            return Ok(());
        }
        match kind_of(key) {
            Some((kind, rest)) => (kind.apply)(self, rest, value),
            None => Ok(()),
        }
    }

    /// The newest revision that was applied or loaded.
    pub(crate) fn newest(&self) -> Revision {
        self.newest.max(self.loaded)
    }

    /// Applies whole transactions, in order, and skips those that are known. Keys that cannot be decoded are
    /// returned; all others are applied.
    pub fn follow(&mut self, events: &[Event]) -> Vec<CorruptKey> {
        let transactions = events.chunk_by(|left, right| left.revision == right.revision);
        transactions.flat_map(|transaction| self.follow_one(transaction)).collect()
    }

    fn follow_one(&mut self, transaction: &[Event]) -> Vec<CorruptKey> {
        let Some(revision) = transaction.first().map(|event| event.revision) else {
            return Vec::new();
        };
        if revision <= self.loaded {
            return Vec::new();
        }
        self.newest = self.newest.max(revision);
        let groups: BTreeSet<VersionGroup> =
            transaction.iter().filter_map(|event| group_of(&event.key)).collect();
        let is_news = |group: &VersionGroup| self.version(*group).1 < Some(revision);
        let news: BTreeSet<VersionGroup> = groups.into_iter().filter(is_news).collect();
        let mut corrupt = Vec::new();
        for event in transaction {
            let is_new = match group_of(&event.key) {
                Some(group) => news.contains(&group),
                None => self.is_new_loose(&event.key, revision),
            };
            if is_new {
                corrupt.extend(self.apply(&event.key, event.value.as_ref(), revision).err());
            }
        }
        corrupt
    }

    fn is_new_loose(&self, key: &str, revision: Revision) -> bool {
        self.loose.get(key).is_none_or(|known| *known < revision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::*;
    use control::MemControl;
    use types::{EntityName, Epoch, OsdId};

    #[test]
    fn every_key_belongs_to_a_group_that_has_a_version() {
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
            FSMAP.to_owned(),
            mds_metadata(4109),
            HEALTH_MUTES.to_owned(),
            GLOBAL_ID.to_owned(),
            CLUSTER_VERSION.to_owned(),
            SECRETS.to_owned(),
        ];
        for key in keys {
            let group = VersionGroup::of_key(&key).unwrap_or_else(|| panic!("{key}"));
            assert_eq!(VersionGroup::from_version_key(&group.version_key()), Some(group));
        }
        assert!(osdmap_full(Epoch(9)) < osdmap_full(Epoch(10)));
    }

    #[test]
    fn the_groups_are_those_that_monitors_of_all_releases_in_use_know() {
        let names: Vec<_> = VersionGroup::all().into_iter().map(VersionGroup::name).collect();
        // `fs` came with file systems: earlier releases have no command that reads them.
        let known = [
            "auth",
            "config",
            "config-key",
            "fs",
            "health",
            "log",
            "meta",
            "mgrmap",
            "monmap",
            "osdmap",
        ];
        assert_eq!(names, known, "every transaction that only reads compares them all");
    }

    #[test]
    fn each_name_of_a_key_stands_in_one_part() {
        let names: BTreeSet<_> = kinds().map(|kind| kind.name).collect();
        assert_eq!(names.len(), kinds().count());
        assert!(!names.contains("version"));
    }

    #[test]
    fn a_key_of_a_newer_release_changes_nothing() {
        let mut state = State::default();
        for key in ["fs/other/3", "osdmap/pinned/7", "osd/other/3", "version/newer"] {
            assert_eq!(state.apply(key, Some(&Bytes::from_static(b"x")), 3), Ok(()), "{key}");
        }
        assert!(state.osd_metadata.is_empty() && state.history.full.is_empty());
    }

    /// A store that returns the events of each transaction.
    #[derive(Default)]
    struct Store {
        control: MemControl,
    }

    impl Store {
        fn commit(&mut self, key: &str, value: &str) -> Vec<Event> {
            let mut transaction = Transaction::default();
            transaction.put(key, value.to_owned());
            if let Some(group) = VersionGroup::of_key(key) {
                transaction.put(group.version_key(), "7");
            }
            let revision = self.control.commit(&transaction).unwrap();
            match MemControl::events(&transaction, revision) {
                control::Completion::Changed { events } => events,
                _ => Vec::new(),
            }
        }
    }

    #[test]
    fn what_is_told_late_or_twice_changes_nothing_that_is_newer() {
        let mut store = Store::default();
        let mut state = State::default();
        let old = store.commit("config-key/a", "old");
        let other = store.commit("config/global/x", "1");
        let new = store.commit("config-key/a", "new");
        assert_eq!(state.follow(&new), []);
        assert_eq!(state.follow(&[old.clone(), other, new].concat()), []);
        assert_eq!(state.config_keys["a"], "new");
        assert_eq!(state.config["global"]["x"], "1");
        let (entries, revision) = (store.control.range(""), 3);
        let mut loaded = State::load(&entries, revision).unwrap();
        assert_eq!(loaded.follow(&old), []);
        assert_eq!(loaded.config_keys["a"], "new");
    }

    #[test]
    fn a_leader_that_is_gone_does_not_come_back_by_old_news() {
        let mut state = State::default();
        let event = |value: Option<&'static str>, revision| Event {
            key: "leader".to_owned(),
            value: value.map(Into::into),
            revision,
        };
        let elected = event(Some(r#"{"name":"a","incarnation":1}"#), 5);
        state.follow(std::slice::from_ref(&elected));
        assert_eq!(state.members.leader.as_ref().unwrap().name, "a");
        state.follow(&[event(None, 9)]);
        state.follow(&[elected]);
        assert_eq!(state.members.leader, None);
    }
}
