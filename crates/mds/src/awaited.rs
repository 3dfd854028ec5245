//! Clients of a predecessor that are awaited after a take-over, and messages that wait meanwhile.

use crate::config::Config;
use crate::peer::ClientPeer;
use engine::{Duration, Message, Time};
use namespace::Ino;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wire::{ClaimedCap, ClaimedRealm};

/// The state lasts at least this long: clients must see it, or they close their sessions.
const SHOWN: Duration = Duration::from_millis(500);
/// Bytes of one client's messages that wait, and of its claims of inodes that are not there, and that
/// requests may create. A client that sends more loses its session; others do not.
const KEPT_BYTES_MAX: usize = if cfg!(test) { 1 << 20 } else { 64 << 20 };
/// Bytes of a message or of a claim besides its content.
const KEPT_BYTES: usize = 512;
/// Inodes, and realms, of a client of which the realm is noted.
const KNOWN_MAX: usize = 100_000;

/// Clients that are awaited, and messages that wait.
#[derive(Debug)]
pub(crate) struct Awaited {
    absent: BTreeSet<u64>,
    /// A client that does not come back for so long is evicted, by the blocklist first.
    timeout: Duration,
    /// When the map said so.
    began: Option<Time>,
    /// Time since then in which the server could hear them, up to `heard_from`.
    waited: Duration,
    /// The last moment at which it could; `None` if it cannot now.
    heard_from: Option<Time>,
    parked: VecDeque<(ClientPeer, Message)>,
    /// Claims of inodes that are not there: requests that are sent again may create them.
    early: BTreeMap<(Ino, u64), ClaimedCap>,
    /// Bytes of both by client.
    kept: BTreeMap<u64, usize>,
    /// Realms as each client knows them.
    realms: BTreeMap<u64, KnownRealms>,
}

/// Realms as a client knows them that has come back.
#[derive(Debug, Default)]
pub(crate) struct KnownRealms {
    /// Inodes that it has in another realm than the predecessor's journal.
    pub inodes: Vec<Ino>,
    /// Realms that it knows.
    pub realms: Vec<ClaimedRealm>,
}

impl Awaited {
    /// These clients are awaited.
    pub fn new(absent: BTreeSet<u64>) -> Self {
        let (parked, early, kept, realms) = Default::default();
        let (timeout, waited) = (Config::RECONNECT_TIMEOUT, Duration::ZERO);
        let (began, heard_from) = (None, None);
        Awaited { absent, timeout, began, waited, heard_from, parked, early, kept, realms }
    }

    /// Clients are awaited for so long.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// The map shows that clients are awaited.
    pub fn begin(&mut self, now: Time) {
        if self.began.is_none() {
            (self.began, self.heard_from) = (Some(now), Some(now));
        }
    }

    /// Whether the server may hear and answer clients now: the time in which it may not is not theirs.
    pub fn note_lease(&mut self, now: Time, has_lease: bool) {
        self.waited = if has_lease { self.waited_until(now) } else { self.waited };
        self.heard_from = self.began.filter(|_| has_lease).map(|_| now);
    }

    fn waited_until(&self, now: Time) -> Duration {
        self.waited + self.heard_from.map_or(Duration::ZERO, |from| now.since(from))
    }

    /// Whether all clients are back or given up, and have seen that they were awaited.
    pub fn is_over(&self, now: Time) -> bool {
        self.absent.is_empty() && self.began.is_some_and(|began| now >= began + SHOWN)
    }

    /// When [`Awaited::is_over`] or [`Awaited::overdue`] may change without a message.
    pub fn poll_timeout(&self) -> Option<Time> {
        match self.absent.is_empty() {
            true => self.began.map(|began| began + SHOWN),
            false => self.heard_from.map(|from| from + self.timeout.saturating_sub(self.waited)),
        }
    }

    /// A client that must be evicted, since it has not come back in time.
    pub fn overdue(&self, now: Time) -> Option<u64> {
        let is_late = self.began.is_some() && self.waited_until(now) >= self.timeout;
        self.absent.first().copied().filter(|_| is_late)
    }

    /// Whether a client has not come back.
    pub fn has(&self, client: u64) -> bool {
        self.absent.contains(&client)
    }

    /// A client has come back.
    pub fn remove(&mut self, client: u64) {
        self.absent.remove(&client);
    }

    /// A session has ended, and with it what its client has sent.
    pub fn close(&mut self, client: u64) {
        self.absent.remove(&client);
        self.parked.retain(|(peer, _)| peer.client != client);
        self.early.retain(|(_, owner), _| *owner != client);
        self.kept.remove(&client);
        self.realms.remove(&client);
    }

    /// Notes realms as a client knows them. What is beyond a bound it learns by later messages.
    pub fn note_realms(&mut self, client: u64, known: KnownRealms) {
        let noted = self.realms.entry(client).or_default();
        noted.inodes.extend(known.inodes);
        noted.inodes.truncate(KNOWN_MAX);
        noted.realms.extend(known.realms);
        noted.realms.truncate(KNOWN_MAX);
    }

    /// The realms that clients know.
    pub fn take_realms(&mut self) -> BTreeMap<u64, KnownRealms> {
        std::mem::take(&mut self.realms)
    }

    /// Whether a client may have so many bytes more; they are counted then.
    fn keep(&mut self, client: u64, bytes: usize) -> bool {
        let kept = self.kept.entry(client).or_default();
        let has_room = *kept + KEPT_BYTES + bytes <= KEPT_BYTES_MAX;
        *kept += if has_room { KEPT_BYTES + bytes } else { 0 };
        has_room
    }

    /// Keeps the claim of an inode that is not there; false if the client has too many.
    pub fn claim_early(&mut self, client: u64, ino: Ino, claimed: ClaimedCap) -> bool {
        let has_room = self.keep(client, claimed.path.len() + claimed.locks.len());
        if has_room {
            self.early.insert((ino, client), claimed);
        }
        has_room
    }

    /// Whether another client claims an inode that is not there.
    pub fn is_claimed_by_another(&self, client: u64, ino: Ino) -> bool {
        let claims = self.early.range((ino, 0)..=(ino, u64::MAX));
        claims.into_iter().any(|((_, owner), _)| *owner != client)
    }

    /// The claims of inodes that were not there.
    pub fn into_early_claims(self) -> BTreeMap<(Ino, u64), ClaimedCap> {
        self.early
    }

    /// Keeps a message until the end; false if the client has too many.
    pub fn park(&mut self, peer: &ClientPeer, message: &Message) -> bool {
        let has_room = self.keep(peer.client, message.len());
        if has_room {
            self.parked.push_back((peer.clone(), message.clone()));
        }
        has_room
    }

    /// The messages that wait, in the order of their arrival.
    pub fn take_parked(&mut self) -> VecDeque<(ClientPeer, Message)> {
        std::mem::take(&mut self.parked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use types::EntityName;

    fn peer(client: u64) -> ClientPeer {
        ClientPeer {
            client,
            name: EntityName::client("a"),
            addrs: types::EntityAddrVec::default(),
            address: None,
            caps: std::sync::Arc::new(auth::MdsCaps::allow_all()),
        }
    }

    #[test]
    fn a_client_that_keeps_too_much_waiting_takes_no_room_of_others() {
        let mut awaited = Awaited::new(BTreeSet::new());
        let message = Message { front: Bytes::from(vec![0; 1 << 19]), ..Message::default() };
        assert!(awaited.park(&peer(1), &message));
        assert!(!awaited.park(&peer(1), &message));
        assert!(awaited.claim_early(1, Ino(5), ClaimedCap::default()));
        assert!(awaited.park(&peer(2), &message), "another client has room");
        awaited.close(1);
        assert!(awaited.park(&peer(1), &message), "it begins anew");
        let mut claims = (0..u64::MAX)
            .take_while(|ino| awaited.claim_early(2, Ino(*ino), ClaimedCap::default()));
        assert!(claims.by_ref().count() < 2048, "claims count as well");
    }
}
