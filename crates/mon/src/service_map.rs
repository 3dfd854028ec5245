//! The service map: daemons outside of the cluster, such as gateways and mirrors.
//!
//! A daemon registers in a session with the active manager and reports its status there. The leader keeps the
//! map in memory only: when another manager becomes active, each daemon opens a session with it and registers
//! again.

use engine::{ConnId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{EntityName, UTime};
use wire::ServiceDaemon;

/// Bounds of the daemons of all services together, and of those of one entity. Further ones are refused.
const DAEMONS_MAX: usize = 4096;
const ENTITY_DAEMONS_MAX: usize = 1024;
/// Bounds of metadata, status and tasks of one daemon, and of all. A registration or report beyond is
/// refused.
const DAEMON_BYTES_MAX: usize = 64 << 10;
const BYTES_MAX: usize = 64 << 20;
const NAME_LEN_MAX: usize = 256;
/// Types of the cluster's own daemons, which are not in the service map.
const OWN_KINDS: [&str; 5] = ["osd", "client", "mon", "mds", "mgr"];

type Texts = BTreeMap<String, String>;

/// Service, and the daemon's name in it.
type Key = (String, String);

/// The daemons of all services.
#[derive(Debug, Clone, Default)]
pub struct ServiceMap {
    epoch: u32,
    modified: UTime,
    daemons: BTreeMap<Key, Registered>,
    sessions: BTreeMap<ConnId, Key>,
    /// Size of metadata, status and tasks of all daemons.
    bytes: usize,
}

/// The session in which a daemon registers, and its authenticated entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registrant {
    pub conn: ConnId,
    pub entity: EntityName,
    pub global_id: u64,
    /// In the address format of msgr1.
    pub addr: String,
}

/// A registered daemon.
#[derive(Debug, Clone)]
pub struct Registered {
    pub registrant: Registrant,
    /// Epoch and time of its first registration.
    pub start_epoch: u32,
    pub start_stamp: UTime,
    /// Fields that the daemon registered.
    pub metadata: Texts,
    /// Fields of its last status, and the time of that.
    pub status: Texts,
    /// Its tasks in progress, by kind.
    pub tasks: Texts,
    pub status_stamp: Option<UTime>,
    /// Time of its last report; see [`ServiceMap::expire`].
    pub last_beacon: Time,
    /// Size of metadata, status and tasks.
    bytes: usize,
}

/// The reason a registration or report is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("'{0}' is no name for a service of clients")]
    Name(String),
    #[error("it says more than {} bytes of itself", DAEMON_BYTES_MAX)]
    TooLarge,
    #[error("the service map is full")]
    Full,
    #[error("{0} has a daemon of this name")]
    Taken(EntityName),
    #[error("the session has not registered a daemon")]
    Unknown,
}

impl ServiceMap {
    /// Panics if a session has registered no daemon, or if the size is not that of the daemons.
    pub fn check_invariants(&self) {
        for key in self.sessions.values() {
            assert!(self.daemons.contains_key(key), "{key:?} has a session and is not registered");
        }
        let keys: BTreeSet<&Key> = self.sessions.values().collect();
        assert_eq!(keys.len(), self.sessions.len(), "a daemon has one session");
        let bytes: usize = self.daemons.values().map(|daemon| daemon.bytes).sum();
        assert_eq!(bytes, self.bytes, "the size is that of all daemons");
    }

    /// The empty map of a manager that has just become active.
    pub fn new(now: Time) -> Self {
        ServiceMap { epoch: 1, modified: now.wall(), ..ServiceMap::default() }
    }

    /// Grows with each registration, removal and change of tasks.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Time of the last change of the epoch.
    pub fn modified(&self) -> UTime {
        self.modified
    }

    /// Services with their daemons, in the order of their names.
    pub fn services(&self) -> BTreeMap<&str, BTreeMap<&str, &Registered>> {
        let mut services = BTreeMap::<&str, BTreeMap<&str, &Registered>>::new();
        for ((service, name), daemon) in &self.daemons {
            services.entry(service).or_default().insert(name, daemon);
        }
        services
    }

    /// Registers a daemon, or replaces its registration if the same client registers again, also in another
    /// session.
    pub fn register(
        &mut self,
        now: Time,
        registrant: Registrant,
        key: Key,
        said: ServiceDaemon,
    ) -> Result<(), Refused> {
        self.judge(&registrant, &key, &said)?;
        self.end_session(registrant.conn);
        let known = self.daemons.get(&key);
        let same = known.filter(|known| known.registrant.global_id == registrant.global_id);
        let (start_epoch, start_stamp) = match same {
            Some(known) => (known.start_epoch, known.start_stamp),
            None => (self.epoch + 1, now.wall()),
        };
        let tasks = same.map(|known| known.tasks.clone()).unwrap_or_default();
        let is_news = same.is_none_or(|known| known.metadata != said.metadata);
        self.sessions.retain(|_, other| *other != key);
        self.sessions.insert(registrant.conn, key.clone());
        let ServiceDaemon { metadata, status } = said;
        let bytes = size(&metadata) + size(&status) + size(&tasks);
        let daemon = Registered {
            bytes,
            registrant,
            start_epoch,
            start_stamp,
            metadata,
            status,
            tasks,
            status_stamp: None,
            last_beacon: now,
        };
        self.bytes += bytes;
        self.bytes -= self.daemons.insert(key, daemon).map_or(0, |before| before.bytes);
        assert!(self.bytes <= BYTES_MAX, "a registration was judged to fit");
        if is_news {
            self.changed(now);
        }
        Ok(())
    }

    fn judge(&self, who: &Registrant, key: &Key, said: &ServiceDaemon) -> Result<(), Refused> {
        let (service, name) = key;
        let is_name = |text: &str| !text.is_empty() && text.len() <= NAME_LEN_MAX;
        if !is_name(service) || OWN_KINDS.contains(&service.as_str()) {
            return Err(Refused::Name(shortened(service)));
        }
        if !is_name(name) {
            return Err(Refused::Name(shortened(name)));
        }
        let bytes = size(&said.metadata) + size(&said.status);
        if bytes > DAEMON_BYTES_MAX {
            return Err(Refused::TooLarge);
        }
        let known = self.daemons.get(key);
        if let Some(known) = known.filter(|known| known.registrant.entity != who.entity) {
            return Err(Refused::Taken(known.registrant.entity.clone()));
        }
        let tasks = known.map_or(0, |known| size(&known.tasks));
        let others = self.bytes - known.map_or(0, |known| known.bytes);
        let of_entity = |other: &&Registered| other.registrant.entity == who.entity;
        let is_crowded = known.is_none()
            && (self.daemons.len() >= DAEMONS_MAX
                || self.daemons.values().filter(of_entity).count() >= ENTITY_DAEMONS_MAX);
        let is_full = is_crowded || others + bytes + tasks > BYTES_MAX;
        if is_full { Err(Refused::Full) } else { Ok(()) }
    }

    /// Handles a beacon, with the status and tasks that have changed since the last one.
    pub fn report(
        &mut self,
        now: Time,
        conn: ConnId,
        status: Option<Texts>,
        tasks: Option<Texts>,
    ) -> Result<(), Refused> {
        let key = self.sessions.get(&conn).ok_or(Refused::Unknown)?;
        let daemon = self.daemons.get_mut(key).ok_or(Refused::Unknown)?;
        daemon.last_beacon = now;
        let after = size(&daemon.metadata)
            + size(status.as_ref().unwrap_or(&daemon.status))
            + size(tasks.as_ref().unwrap_or(&daemon.tasks));
        if after > DAEMON_BYTES_MAX {
            return Err(Refused::TooLarge);
        }
        assert!(self.bytes >= daemon.bytes, "the size is that of all daemons");
        let all = self.bytes - daemon.bytes + after;
        if all > BYTES_MAX {
            return Err(Refused::Full);
        }
        (self.bytes, daemon.bytes) = (all, after);
        if let Some(status) = status {
            daemon.status = status;
            daemon.status_stamp = Some(now.wall());
        }
        if let Some(tasks) = tasks.filter(|tasks| *tasks != daemon.tasks) {
            daemon.tasks = tasks;
            self.changed(now);
        }
        Ok(())
    }

    /// Removes the daemon of this session. The daemon of another session is not affected.
    pub fn unregister(&mut self, now: Time, conn: ConnId) {
        if let Some(key) = self.sessions.remove(&conn)
            && let Some(daemon) = self.daemons.remove(&key)
        {
            self.bytes -= daemon.bytes;
            self.changed(now);
        }
    }

    /// Handles the end of a session; its daemon stays until [`ServiceMap::expire`] finds it silent for too
    /// long.
    pub fn end_session(&mut self, conn: ConnId) {
        self.sessions.remove(&conn);
    }

    /// Removes daemons that were silent for longer than `grace`.
    pub fn expire(&mut self, now: Time, grace: Duration) {
        let count = self.daemons.len();
        self.daemons.retain(|_, daemon| now.since(daemon.last_beacon) <= grace);
        if self.daemons.len() < count {
            self.bytes = self.daemons.values().map(|daemon| daemon.bytes).sum();
            self.sessions.retain(|_, key| self.daemons.contains_key(key));
            self.changed(now);
        }
    }

    fn changed(&mut self, now: Time) {
        self.epoch += 1;
        self.modified = now.wall();
    }
}

fn size(texts: &Texts) -> usize {
    texts.iter().map(|(name, value)| name.len() + value.len()).sum()
}

fn shortened(name: &str) -> String {
    name.chars().take(NAME_LEN_MAX).collect()
}

#[cfg(test)]
mod tests;
