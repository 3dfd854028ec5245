//! Sessions of clients.

use std::collections::BTreeMap;
use types::EntityName;
use wire::session_features;

/// Features of this server. A session has those of them that its client has, too.
pub(crate) const FEATURES: u64 = session_features::REPLY_ENCODING
    | session_features::LAZY_CAP_WANTED
    | session_features::METRIC_COLLECT
    | session_features::NOTIFY_SESSION_STATE
    | session_features::OP_GETVXATTR
    | session_features::RETRY_FWD_32BITS
    | session_features::NEW_SNAPREALM_INFO
    | session_features::HAS_OWNER_UIDGID
    | MIMIC_AND_OLDER;
/// Bits of releases up to Mimic, which clients expect to be set.
const MIMIC_AND_OLDER: u64 = (1 << 9) - 1;
/// Features without which a client is rejected.
pub(crate) const NEEDED_FEATURES: u64 = session_features::REPLY_ENCODING;
/// Completed requests that are remembered for a client. Of more, the oldest are forgotten: only a client that
/// never says which it has seen has so many.
const COMPLETED_MAX: usize = 100_000;

/// Session of one client, which is known by its global id.
#[derive(Debug)]
pub(crate) struct Session {
    /// Name of its entity.
    pub name: EntityName,
    /// Facts about the client.
    pub metadata: BTreeMap<String, String>,
    /// Features of both.
    pub features: u64,
    /// Messages about capabilities that were sent; a close that has not seen all is ignored.
    pushed: u64,
    /// Changes that were executed, by number, and the inode that was created.
    completed: BTreeMap<u64, u64>,
}

impl Session {
    /// Counts a message about capabilities.
    pub fn count_push(&mut self) {
        self.pushed += 1;
    }

    /// Whether a client that has seen this many messages about capabilities has seen all.
    pub fn has_seen_all(&self, seen: u64) -> bool {
        seen >= self.pushed
    }

    /// Remembers an executed change.
    pub fn complete(&mut self, tid: u64, created: u64) {
        self.completed.insert(tid, created);
        if self.completed.len() > COMPLETED_MAX {
            self.completed.pop_first();
        }
    }

    /// The inode that an executed change created, 0 for none; `None` if it was not executed.
    pub fn completed(&self, tid: u64) -> Option<u64> {
        self.completed.get(&tid).copied()
    }

    /// Forgets changes whose replies the client has seen.
    pub fn forget_completed(&mut self, oldest: u64) {
        while let Some(first) = self.completed.first_entry()
            && *first.key() < oldest
        {
            first.remove();
        }
    }
}

/// All sessions, by global id.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    open: BTreeMap<u64, Session>,
}

impl Sessions {
    /// Opens a session, or keeps the one that is open.
    pub fn open(
        &mut self,
        client: u64,
        name: EntityName,
        metadata: BTreeMap<String, String>,
        features: u64,
    ) -> &Session {
        self.open.entry(client).or_insert_with(|| Session {
            name,
            metadata,
            features: features & FEATURES,
            pushed: 0,
            completed: BTreeMap::new(),
        })
    }

    /// The session of a client.
    pub fn get(&self, client: u64) -> Option<&Session> {
        self.open.get(&client)
    }

    /// See [`Sessions::get`].
    pub fn get_mut(&mut self, client: u64) -> Option<&mut Session> {
        self.open.get_mut(&client)
    }

    /// Ends a session; whether there was one.
    pub fn close(&mut self, client: u64) -> bool {
        self.open.remove(&client).is_some()
    }
}
