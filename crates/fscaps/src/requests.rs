//! Requests and tasks of the server, and the parts of inodes that they read or change.

use crate::group::Groups;
use bytes::Bytes;
use std::collections::BTreeMap;

/// Inodes that one request may need. A rename needs five.
pub const ACCESSES_MAX: usize = 64;
/// Requests of one client that are in progress. Of more, the machine takes none.
pub const REQUESTS_MAX: usize = 1024;

/// Number of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct InodeId(pub u64);

/// A request: its client, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId {
    /// The client; 0 for a task of the server.
    pub client: u64,
    /// The transaction id, or the number of the task.
    pub tid: u64,
}

impl RequestId {
    /// A task of the server, for which every client is another one.
    pub fn task(number: u64) -> Self {
        RequestId { client: 0, tid: number }
    }
}

/// Parts of an inode that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Access {
    /// Groups whose values it reads.
    pub reads: Groups,
    /// Groups whose values it changes.
    pub changes: Groups,
    /// Whether it looks an entry of this directory up, so that no client may create or unlink unseen.
    pub looks_up: bool,
}

impl Access {
    /// Reads groups.
    pub fn read(groups: Groups) -> Self {
        Access { reads: groups, ..Access::default() }
    }

    /// Changes groups.
    pub fn change(groups: Groups) -> Self {
        Access { changes: groups, ..Access::default() }
    }

    /// Looks up an entry of a directory.
    pub fn look_up() -> Self {
        Access { looks_up: true, ..Access::default() }
    }

    pub(crate) fn and(self, other: Access) -> Access {
        Access {
            reads: self.reads | other.reads,
            changes: self.changes | other.changes,
            looks_up: self.looks_up | other.looks_up,
        }
    }
}

/// An entry of a directory. The machine compares names, and never reads them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The directory.
    pub directory: InodeId,
    /// The name.
    pub name: Bytes,
}

/// All that a request needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Demand {
    /// Inodes.
    pub accesses: Vec<(InodeId, Access)>,
    /// Entries that it changes.
    pub entries: Vec<Entry>,
}

/// Answer to a demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// No other client holds anything against it: it may be executed now.
    Ready,
    /// Other clients must give something back. `Output::Ready` tells when they have.
    Waits,
    /// The client has too many requests in progress, or this one needs too much.
    Refused,
}

/// A request in progress.
#[derive(Debug, Clone)]
pub(crate) struct InProgress {
    /// Inodes, each once.
    pub accesses: BTreeMap<InodeId, Access>,
    /// Entries that it changes.
    pub entries: Vec<Entry>,
    /// Whether it was told that it may be executed.
    pub is_ready: bool,
}

impl InProgress {
    /// A request that waits.
    pub fn new(demand: Demand) -> Self {
        let mut accesses: BTreeMap<InodeId, Access> = BTreeMap::new();
        for (ino, access) in demand.accesses {
            let known = accesses.entry(ino).or_default();
            *known = known.and(access);
        }
        InProgress { accesses, entries: demand.entries, is_ready: false }
    }
}

/// Requests in progress.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    open: BTreeMap<RequestId, InProgress>,
}

impl Requests {
    /// Adds a request, or replaces what it needs; returns what it needed before.
    pub fn insert(&mut self, id: RequestId, request: InProgress) -> Option<InProgress> {
        self.open.insert(id, request)
    }

    /// Removes a request.
    pub fn remove(&mut self, id: RequestId) -> Option<InProgress> {
        self.open.remove(&id)
    }

    /// A request in progress.
    pub fn get(&self, id: RequestId) -> Option<&InProgress> {
        self.open.get(&id)
    }

    /// See [`Requests::get`].
    pub fn get_mut(&mut self, id: RequestId) -> Option<&mut InProgress> {
        self.open.get_mut(&id)
    }

    /// Requests of a client.
    pub fn of(&self, client: u64) -> impl Iterator<Item = RequestId> {
        let [first, last] = [u64::MIN, u64::MAX].map(|tid| RequestId { client, tid });
        self.open.range(first..=last).map(|(id, _)| *id)
    }

    /// Whether a client may begin one more.
    pub fn has_room(&self, id: RequestId) -> bool {
        id.client == 0 || self.open.contains_key(&id) || self.of(id.client).count() < REQUESTS_MAX
    }

    /// All requests.
    pub fn iter(&self) -> impl Iterator<Item = (RequestId, &InProgress)> {
        self.open.iter().map(|(id, request)| (*id, request))
    }
}
