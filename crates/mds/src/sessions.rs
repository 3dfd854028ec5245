//! Sessions of clients.

use crate::delegated::{self, Delegated};
use crate::latencies::Latencies;
use crate::quotas::Quotas;
use codec::{Decode, Encode, Reader, Writer};
use engine::Time;
use std::collections::BTreeMap;
use types::{EntityAddrVec, EntityName, Epoch, Errno};
use wire::session_features;

/// Features of this server. A session has those of them that its client has, too.
pub(crate) const FEATURES: u64 = session_features::REPLY_ENCODING
    | session_features::RECLAIM_CLIENT
    | session_features::LAZY_CAP_WANTED
    | session_features::MULTI_RECONNECT
    | session_features::DELEG_INO
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

/// Version of a session's row, and the oldest reader that understands it. Version 2 adds delegated numbers,
/// which an older reader would drop, and 3 failures among completed requests.
const ROW_VERSION: u8 = 3;
const ROW_COMPAT: u8 = 3;

/// The fact by which clients of Ceph's libraries name their version. None of them creates asynchronously up
/// to 20.2; they discard the numbers that they are delegated.
const LIBRARY_VERSION: &str = "ceph_version";

/// Bit of a number that is an errno, in place of an inode.
const FAILED: u64 = 1 << 63;

/// The number by which the failure of a request is noted, in place of the inode that it creates.
pub(crate) fn failure(error: Errno) -> u64 {
    FAILED | u64::from(error.0.unsigned_abs())
}

/// The part of a session that outlives its server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SessionImage {
    /// Name of its entity.
    pub name: EntityName,
    /// Addresses of the client, for a blocklist.
    pub addrs: EntityAddrVec,
    /// Facts about the client.
    pub metadata: BTreeMap<String, String>,
    /// Features of both.
    pub features: u64,
    /// Changes that were executed, by number, and the inode that was created; of an asynchronous request that
    /// has failed, [`failure`].
    pub completed: BTreeMap<u64, u64>,
    /// Numbers for inodes that it creates asynchronously.
    pub delegated: Delegated,
}

impl SessionImage {
    /// Remembers an executed change, and forgets those whose replies the client has seen. A number that it
    /// has used is not delegated any more.
    pub fn complete(&mut self, tid: u64, created: u64, oldest: u64) {
        self.delegated.take(created);
        self.completed.insert(tid, created);
        self.forget_completed(oldest);
        if self.completed.len() > COMPLETED_MAX {
            self.completed.pop_first();
        }
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

impl Encode for SessionImage {
    fn encode(&self, w: &mut Writer) {
        w.versioned(ROW_VERSION, ROW_COMPAT, |w| {
            w.value(&self.name);
            w.value(&self.addrs);
            w.value(&self.metadata);
            w.u64(self.features);
            w.value(&self.completed);
            w.value(&self.delegated);
        });
    }
}

impl Decode for SessionImage {
    fn decode(r: &mut Reader<'_>) -> codec::Result<Self> {
        r.versioned("session", ROW_VERSION, |r, version| {
            Ok(SessionImage {
                name: r.value()?,
                addrs: r.value()?,
                metadata: r.value()?,
                features: r.u64("features")?,
                completed: r.value()?,
                delegated: if version >= 2 { r.value()? } else { Delegated::default() },
            })
        })
    }
}

/// Session of one client, which is known by its global id.
#[derive(Debug)]
pub(crate) struct Session {
    /// The part that is stored.
    image: SessionImage,
    /// When this server began to know it.
    began: Time,
    /// Messages about capabilities that were sent; a close that has not seen all is ignored.
    pushed: u64,
    /// The OSD map without which the client was told not to use its capabilities.
    barrier: Epoch,
    /// Delegated numbers that the client knows and has not used. It forgets all when it reconnects.
    known_numbers: u64,
}

impl Session {
    fn new(began: Time, image: SessionImage) -> Self {
        Session { image, began, pushed: 0, barrier: Epoch::default(), known_numbers: 0 }
    }

    /// The client is about to be told an OSD map; false if it was told this one or a later one.
    pub fn raise_barrier(&mut self, barrier: Epoch) -> bool {
        let is_news = barrier > self.barrier;
        self.barrier = self.barrier.max(barrier);
        is_news
    }

    /// Counts a message about capabilities.
    pub fn count_push(&mut self) {
        self.pushed += 1;
    }

    /// Whether a client that has seen this many messages about capabilities has seen all.
    pub fn has_seen_all(&self, seen: u64) -> bool {
        seen >= self.pushed
    }

    /// The part that is stored.
    pub fn image(&self) -> &SessionImage {
        &self.image
    }

    /// When this server began to know it.
    pub fn began(&self) -> Time {
        self.began
    }

    /// Features of both.
    pub fn features(&self) -> u64 {
        self.image.features
    }

    /// Remembers an executed change, and forgets those whose replies the client has seen.
    pub fn complete(&mut self, tid: u64, created: u64, oldest: u64) {
        if self.image.delegated.has(created) {
            self.known_numbers = self.known_numbers.saturating_sub(1);
        }
        self.image.complete(tid, created, oldest);
    }

    /// Whether the client creates and unlinks asynchronously, if it may.
    pub fn is_asynchronous(&self) -> bool {
        self.features() & session_features::DELEG_INO != 0
            && !self.image.metadata.contains_key(LIBRARY_VERSION)
    }

    /// Whether the client should be delegated more numbers.
    pub fn needs_numbers(&self) -> bool {
        self.is_asynchronous() && self.known_numbers < delegated::LOW
    }

    /// The client is about to be told a range of numbers.
    pub fn delegate(&mut self, first: u64, count: u64) {
        self.image.delegated.add(first, count);
        self.known_numbers += count;
    }

    /// Why an asynchronous request has failed, if it has.
    pub fn failed(&self, tid: u64) -> Option<Errno> {
        let noted = self.completed(tid)?;
        (noted & FAILED != 0).then_some(Errno((noted & !FAILED) as i32))
    }

    /// The inode that an executed change created, 0 for none; `None` if it was not executed.
    pub fn completed(&self, tid: u64) -> Option<u64> {
        self.image.completed.get(&tid).copied()
    }

    /// Forgets changes whose replies the client has seen.
    pub fn forget_completed(&mut self, oldest: u64) {
        self.image.forget_completed(oldest);
    }
}

/// Events since the rank was opened.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counted {
    /// Requests of clients, repeated ones too.
    pub requests: u64,
    /// Requests that were answered.
    pub replies: u64,
    /// Those that were answered before their change was stored.
    pub early_replies: u64,
    /// Creates and unlinks on which the client had acted before it asked.
    pub asynchronous: u64,
    /// Sessions that were opened.
    pub sessions: u64,
    /// Clients that were evicted.
    pub evictions: u64,
}

/// All sessions, by global id.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    open: BTreeMap<u64, Session>,
    /// Clients that wait for the end of another one's session.
    awaiting: BTreeMap<u64, u64>,
    /// Events in all of them.
    pub counted: Counted,
    /// Times until replies.
    pub latencies: Latencies,
    /// The use of quotas, as their clients know it.
    pub quotas: Quotas,
}

impl Sessions {
    /// Sessions of a predecessor.
    pub fn restored(now: Time, images: BTreeMap<u64, SessionImage>) -> Self {
        let open = images.into_iter().map(|(client, image)| (client, Session::new(now, image)));
        Sessions { open: open.collect(), ..Sessions::default() }
    }

    /// Opens a session, or keeps the one that is open.
    pub fn open(&mut self, now: Time, client: u64, image: SessionImage) -> &Session {
        let image = SessionImage { features: image.features & FEATURES, ..image };
        self.open.entry(client).or_insert(Session::new(now, image))
    }

    /// The session of a client.
    pub fn get(&self, client: u64) -> Option<&Session> {
        self.open.get(&client)
    }

    /// See [`Sessions::get`].
    pub fn get_mut(&mut self, client: u64) -> Option<&mut Session> {
        self.open.get_mut(&client)
    }

    /// All sessions, by client.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Session)> {
        self.open.iter().map(|(client, session)| (*client, session))
    }

    /// A client waits for the end of another one's session.
    pub fn await_end(&mut self, client: u64, other: u64) {
        self.awaiting.insert(client, other);
    }

    /// Clients that have waited for the end of a session.
    pub fn take_awaiting(&mut self, ended: u64) -> Vec<u64> {
        let waiting = self.awaiting.iter().filter(|(_, other)| **other == ended);
        let waiting: Vec<u64> = waiting.map(|(client, _)| *client).collect();
        self.awaiting.retain(|_, other| *other != ended);
        waiting
    }

    /// Ends a session; whether there was one.
    pub fn close(&mut self, client: u64) -> bool {
        self.awaiting.remove(&client);
        self.open.remove(&client).is_some()
    }
}
