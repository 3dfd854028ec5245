//! Sessions with clients and other OSDs.

use super::throttle::{Inflight, Load};
use crate::Budgets;
use crate::outbox::Outbox;
use auth::{AuthCaps, OsdCaps};
use engine::{ConnId, Output, Peer};
use pg::WatcherKey;
use std::collections::{BTreeMap, BTreeSet};
use types::{EntityAddr, EntityName, EntityType, Epoch, HObject, OsdId, PgShard};

/// All sessions with clients and other OSDs.
#[derive(Debug)]
pub(crate) struct Clients {
    sessions: BTreeMap<ConnId, Session>,
    /// Clients' requests in progress.
    inflight: Inflight,
    next_conn: u64,
}

impl Default for Clients {
    fn default() -> Self {
        Clients { sessions: BTreeMap::new(), inflight: Inflight::default(), next_conn: 1 }
    }
}

impl Clients {
    pub fn get(&self, conn: ConnId) -> Option<&Session> {
        self.sessions.get(&conn)
    }

    pub fn get_mut(&mut self, conn: ConnId) -> Option<&mut Session> {
        self.sessions.get_mut(&conn)
    }

    pub fn contains(&self, conn: ConnId) -> bool {
        self.sessions.contains_key(&conn)
    }

    /// Adds a session that was just opened.
    pub fn insert(&mut self, conn: ConnId, session: Session) {
        self.sessions.insert(conn, session);
    }

    /// Takes out a session that has ended.
    pub fn remove(&mut self, conn: ConnId) -> Option<Session> {
        self.sessions.remove(&conn)
    }

    /// Takes out all sessions.
    pub fn take_all(&mut self) -> impl Iterator<Item = ConnId> + use<> {
        std::mem::take(&mut self.sessions).into_keys()
    }

    /// Number and message bytes of clients' requests in progress.
    pub fn in_flight(&self) -> (usize, usize) {
        (self.inflight.load.requests, self.inflight.load.bytes)
    }

    /// An id for a session that this OSD opens.
    pub fn new_conn(&mut self) -> ConnId {
        self.next_conn += 1;
        ConnId(self.next_conn - 1)
    }

    /// Charges a client's request to its session, and pauses sessions at their bounds.
    pub fn charge(&mut self, conn: ConnId, bytes: usize, budgets: &Budgets, out: &mut Outbox) {
        let Some(session) = self.sessions.get_mut(&conn) else { return };
        session.load.add(bytes);
        self.inflight.load.add(bytes);
        self.throttle(conn, budgets, out);
        if self.inflight.note_full(budgets) {
            self.throttle_all(budgets, out);
        }
    }

    /// Ends a charge, without a change to the session's pause.
    pub fn uncharge(&mut self, conn: ConnId, bytes: usize) {
        self.inflight.load.remove(bytes);
        if let Some(session) = self.sessions.get_mut(&conn) {
            session.load.remove(bytes);
        }
    }

    /// Ends a charge and resumes sessions that may be read from again.
    pub fn discharge(&mut self, conn: ConnId, bytes: usize, budgets: &Budgets, out: &mut Outbox) {
        self.uncharge(conn, bytes);
        if self.sessions.get(&conn).is_some_and(|session| session.is_paused) {
            self.throttle(conn, budgets, out);
        }
        if self.inflight.note_low(budgets) {
            self.throttle_all(budgets, out);
        }
    }

    fn throttle_all(&mut self, budgets: &Budgets, out: &mut Outbox) {
        for (conn, session) in &mut self.sessions {
            session.throttle(*conn, &self.inflight, budgets, out);
        }
    }

    /// Pauses or resumes a session, if its load or that of all sessions demands it.
    pub fn throttle(&mut self, conn: ConnId, budgets: &Budgets, out: &mut Outbox) {
        if let Some(session) = self.sessions.get_mut(&conn) {
            session.throttle(conn, &self.inflight, budgets, out);
        }
    }

    /// Describes a bound that is exceeded by more than the one message that reached it. `sizes` are
    /// the message bytes of all requests in progress.
    pub fn excess(&self, sizes: &[usize], budgets: &Budgets) -> Option<String> {
        let largest = sizes.iter().max().copied().unwrap_or(0);
        let all = Load { requests: sizes.len(), bytes: sizes.iter().sum() };
        if all.is_beyond(budgets.all_requests, budgets.all_bytes, largest) {
            let Load { requests, bytes } = all;
            return Some(format!("{requests} requests of clients with {bytes} bytes"));
        }
        let mut clients = self.sessions.values().filter(|session| session.osd.is_none());
        let (counts, sizes) = (budgets.session_requests, budgets.session_bytes);
        let session = clients.find(|session| session.load.is_beyond(counts, sizes, largest))?;
        let Load { requests, bytes } = session.load;
        Some(format!("{requests} of a session, {bytes} bytes"))
    }
}

/// One session with a client or another OSD.
#[derive(Debug)]
pub(crate) struct Session {
    pub peer: Peer,
    /// The OSD at the other end, if it proved to be one.
    pub osd: Option<OsdId>,
    pub caps: OsdCaps,
    /// The newest map that the peer is known to have.
    map_epoch: Epoch,
    /// Its requests in progress.
    load: Load,
    /// Back-pressure: the host does not read from it.
    is_paused: bool,
    /// The newest map epoch of a group message from this peer, if it is an OSD.
    pub(super) groups_epoch: Option<Epoch>,
    /// Watches that are connected by this session.
    watches: BTreeSet<(PgShard, HObject, WatcherKey)>,
}

impl Session {
    /// A session that the peer opened. Other OSDs may do everything; a client's capabilities come
    /// from its ticket.
    pub fn new(peer: Peer) -> Self {
        let osd = osd_of(&peer);
        let caps = if osd.is_some() { OsdCaps::allow_all() } else { caps_of(&peer) };
        Session {
            peer,
            osd,
            caps,
            map_epoch: Epoch(0),
            load: Load::default(),
            is_paused: false,
            groups_epoch: None,
            watches: BTreeSet::new(),
        }
    }

    /// A session that this OSD opened to another one. The peer may send requests over it, too.
    pub fn to_osd(peer: Peer, osd: OsdId) -> Self {
        Session { osd: Some(osd), caps: OsdCaps::allow_all(), ..Session::new(peer) }
    }

    /// Notes that the peer knows a map. The newest that it knows, if it is a client and lacks later
    /// ones up to `newest`: the caller sends them.
    pub fn note_map(&mut self, known: Epoch, newest: Epoch) -> Option<Epoch> {
        self.map_epoch = self.map_epoch.max(known);
        if self.map_epoch >= newest || self.osd.is_some() {
            return None;
        }
        Some(std::mem::replace(&mut self.map_epoch, newest))
    }

    fn throttle(&mut self, conn: ConnId, inflight: &Inflight, budgets: &Budgets, out: &mut Outbox) {
        let paused = inflight.must_pause(self.load, self.is_paused, budgets);
        if self.osd.is_none() && paused != self.is_paused {
            self.is_paused = paused;
            out.push(Output::Pause { conn, paused });
        }
    }

    /// Notes a watch that is connected by this session.
    pub fn connect(&mut self, pg: PgShard, object: HObject, key: WatcherKey) {
        self.watches.insert((pg, object, key));
    }

    /// Forgets a watch that has ended, or is connected by another session.
    pub fn disconnect(&mut self, pg: PgShard, object: HObject, key: WatcherKey) {
        self.watches.remove(&(pg, object, key));
    }

    /// Whether a watch is connected by this session.
    pub fn has_watch(&self, watch: &(PgShard, HObject, WatcherKey)) -> bool {
        self.watches.contains(watch)
    }

    /// The watches that lose their session.
    pub fn into_watches(self) -> BTreeSet<(PgShard, HObject, WatcherKey)> {
        self.watches
    }

    /// The address under which watches and locks of this peer are registered.
    pub fn addr(&self) -> EntityAddr {
        self.peer.addrs.0.first().copied().unwrap_or(self.peer.seen_addr)
    }
}

/// The OSD that the peer claims to be, if its authenticated name says so too.
fn osd_of(peer: &Peer) -> Option<OsdId> {
    let is_claimed = peer.participant.kind == EntityType::OSD;
    let number = i32::try_from(peer.participant.number).ok().filter(|_| is_claimed)?;
    (peer.name == EntityName::osd(number)).then_some(OsdId(number))
}

fn caps_of(peer: &Peer) -> OsdCaps {
    let Ok(caps) = codec::decode_all::<AuthCaps>("caps", &peer.caps) else {
        return OsdCaps::default();
    };
    if caps.allow_all {
        return OsdCaps::allow_all();
    }
    OsdCaps::parse(&caps.text).unwrap_or_else(|error| {
        tracing::warn!(name = %peer.name, %error, "capabilities cannot be understood");
        OsdCaps::default()
    })
}
