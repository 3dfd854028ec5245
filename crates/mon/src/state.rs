//! The monitor's durable state: the decoded content of the control store.
//!
//! Invariant: the state is a function of the store's keys alone. It changes only by [`State::apply`], for the
//! monitor's own transactions as for those of others, so a restart leads to the same state.
//!
//! Each part has a file with its keys and their meaning; `PARTS` is the table of all.

mod auth;
mod clock;
mod config;
mod data;
mod follow;
mod images;
mod log;
mod managers;
mod members;
mod osd;
mod values;

pub use clock::LeaderClock;
pub use config::{Overrides, parse_switch, shown_option, stored_option};
pub use data::{History, Images, Leader, Members, Mute, Presence, State};

use crate::control::{Entry, Revision, Transaction};
use crate::keys::Group;
use bytes::Bytes;
use data::{Applied, Key};
use std::collections::BTreeSet;

/// Number of old OSD maps that are kept as full maps, and the minimum that is kept as incrementals. A
/// subscriber that is further behind gets the newest full map.
pub const FULL_MAPS_KEPT: usize = 50;
pub const INCREMENTALS_KEPT: usize = 500;
/// Upper bound of OSD ids; the map has a slot for each.
pub const OSD_ID_MAX: i32 = 10_000;
/// Number of entries of the blocklist from which on clients without `osd rw` (`profile rbd`) cannot add any:
/// exceeds the client instances that are fenced within an hour when a large site fails. Every OSD map
/// contains all entries.
pub const BLOCKLIST_LIMITED_MAX: usize = 16_384;
/// Bound of the entries of the cluster log.
pub const LOG_ENTRIES_KEPT: usize = 1000;
/// Bound of the entries of the configuration's history.
pub const CONFIG_HISTORY_KEPT: usize = 200;

/// All keys of the store, by part, except the versions of groups.
const PARTS: [&[Key]; 7] =
    [osd::KEYS, auth::KEYS, config::KEYS, log::KEYS, members::KEYS, managers::KEYS, images::KEYS];

fn kinds() -> impl Iterator<Item = &'static Key> {
    PARTS.into_iter().flatten()
}

/// The kind of a key, and the rest of the key; `None` for keys of newer releases.
fn kind_of(key: &str) -> Option<(&'static Key, &str)> {
    let (name, rest) = key.split_once('/').unwrap_or((key, ""));
    Some((kinds().find(|kind| kind.name == name)?, rest))
}

impl Group {
    /// All groups, by name.
    pub fn all() -> BTreeSet<Group> {
        kinds().filter_map(|kind| kind.group).collect()
    }

    /// The group that a key belongs to. `None` for keys that are written without a version.
    pub fn of_key(key: &str) -> Option<Group> {
        kind_of(key)?.0.group
    }

    /// The inverse of [`Group::version_key`].
    pub fn from_version_key(key: &str) -> Option<Group> {
        let name = key.strip_prefix("version/")?;
        kinds().filter_map(|kind| kind.group).find(|group| group.name() == name)
    }
}

/// The group that a key belongs to, or is the version of.
fn group_of(key: &str) -> Option<Group> {
    Group::from_version_key(key).or_else(|| Group::of_key(key))
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
    pub fn version(&self, group: Group) -> (u64, Option<Revision>) {
        match self.versions.get(&group) {
            Some((version, revision)) => (*version, Some(*revision)),
            None => (0, None),
        }
    }

    /// A transaction without writes that succeeds only if this is the newest state.
    pub(crate) fn unchanged(&self) -> Transaction {
        let compare = |group: Group| (group.version_key(), self.version(group).1);
        let compare = Group::all().into_iter().map(compare).collect();
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
        if let Some(group) = Group::from_version_key(key) {
            let version = value.map(values::number).transpose()?.unwrap_or(0);
            self.versions.insert(group, (version, revision));
            return Ok(());
        }
        match kind_of(key) {
            Some((kind, rest)) => (kind.apply)(self, rest, value),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::*;
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
            HEALTH_MUTES.to_owned(),
            GLOBAL_ID.to_owned(),
            SECRETS.to_owned(),
        ];
        for key in keys {
            let group = Group::of_key(&key).unwrap_or_else(|| panic!("{key}"));
            assert_eq!(Group::from_version_key(&group.version_key()), Some(group));
        }
        assert!(osdmap_full(Epoch(9)) < osdmap_full(Epoch(10)));
    }

    #[test]
    fn the_groups_are_those_of_the_first_release() {
        let names: Vec<_> = Group::all().into_iter().map(Group::name).collect();
        let known =
            ["auth", "config", "config-key", "health", "log", "meta", "mgrmap", "monmap", "osdmap"];
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
        for key in ["fsmap", "osdmap/pinned/7", "osd/other/3", "version/fs"] {
            assert_eq!(state.apply(key, Some(&Bytes::from_static(b"x")), 3), Ok(()), "{key}");
        }
        assert!(state.osd_metadata.is_empty() && state.history.full.is_empty());
    }
}
