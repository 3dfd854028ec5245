//! Open sessions: identity, capabilities and subscriptions of the peers.
//!
//! [`Sessions`] finds them by number and by OSD, and lists their peers for commands. The index is correct
//! because the identity of a session never changes.

use crate::live::PeerSummary;
use auth::{MgrCaps, MonCaps, Rwx};
use bytes::Bytes;
use engine::{ConnId, Peer, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use types::{EntityName, EntityType, OsdId};

/// First bytes that mark the two kinds of capabilities in [`Peer::caps`].
const MON_CAPS: u8 = b'M';
const MGR_CAPS: u8 = b'G';

/// An open session.
#[derive(Debug)]
pub(crate) struct Session {
    peer: Peer,
    caps: Caps,
    /// By the name of the map or other versioned object.
    pub subscriptions: BTreeMap<String, Subscription>,
    /// Set while the host does not read from the session because too many of its requests wait.
    pub paused: bool,
}

/// A subscription to a map, or to another versioned object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subscription {
    /// The next version to send.
    pub next: u64,
    /// Ends after the first version that was sent.
    pub onetime: bool,
    /// For a one-time subscription that was served: the time until which it gets further versions.
    pub lingers_until: Option<Time>,
}

impl Subscription {
    /// Whether a version is new to the subscriber; it counts as sent from now on.
    pub fn reaches(&mut self, version: u64) -> bool {
        let is_new = self.next <= version;
        if is_new {
            self.next = version + 1;
        }
        is_new
    }
}

/// Capabilities for monitors or, in a session with the manager, for the manager.
#[derive(Debug, Clone)]
pub(crate) enum Caps {
    Mon(MonCaps),
    Mgr(MgrCaps),
}

impl Caps {
    /// The encoding that the host keeps in [`Peer::caps`].
    pub fn encode_mon(text: &str) -> Bytes {
        [&[MON_CAPS], text.as_bytes()].concat().into()
    }

    /// The same for a session with the manager.
    pub fn encode_mgr(allow_all: bool, text: &str) -> Bytes {
        let text = if allow_all { "allow *" } else { text };
        [&[MGR_CAPS], text.as_bytes()].concat().into()
    }

    /// Decodes [`Peer::caps`]. Sessions that never authenticated here are within the process, and trusted.
    /// Text that does not parse allows nothing.
    fn decode(bytes: &[u8]) -> Caps {
        let text = |rest: &[u8]| String::from_utf8_lossy(rest).into_owned();
        match bytes.split_first() {
            None => Caps::Mon(MonCaps::allow_all()),
            Some((&MGR_CAPS, rest)) => Caps::Mgr(MgrCaps::parse(&text(rest)).unwrap_or_default()),
            Some((_, rest)) => Caps::Mon(MonCaps::parse(&text(rest)).unwrap_or_default()),
        }
    }
}

impl Session {
    /// The session of a peer that has authenticated.
    pub fn new(peer: Peer) -> Self {
        let caps = Caps::decode(&peer.caps);
        Session { peer, caps, subscriptions: BTreeMap::new(), paused: false }
    }

    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    pub fn caps(&self) -> &Caps {
        &self.caps
    }

    /// The OSD at the other end, by its authenticated name.
    pub fn osd(&self) -> Option<OsdId> {
        let participant = self.peer.participant;
        let number = i32::try_from(participant.number).ok()?;
        let is_proved = self.peer.name == EntityName::osd(number);
        (participant.kind == EntityType::OSD && is_proved).then_some(OsdId(number))
    }

    /// Whether a message to one of the monitor's services is allowed.
    pub fn may(&self, service: &str, needed: Rwx) -> bool {
        match &self.caps {
            Caps::Mon(caps) => caps.allows_service(&self.peer.name, service, needed, self.ip()),
            Caps::Mgr(_) => false,
        }
    }

    /// Whether the peer may be shown a file system: in a session with the monitor, whatever its capabilities
    /// name.
    pub fn may_see_file_system(&self, name: &str) -> bool {
        match &self.caps {
            Caps::Mon(_) => !name.is_empty(),
            Caps::Mgr(_) => false,
        }
    }

    /// The address that the peer was seen to connect from.
    pub fn ip(&self) -> Option<IpAddr> {
        self.peer.seen_addr.socket.map(|socket| socket.ip())
    }

    /// Whether it is a link within the process.
    pub fn is_trusted(&self) -> bool {
        self.peer.caps.is_empty()
    }

    /// Whether the peer is another monitor of this cluster, authenticated or within the process.
    pub fn is_monitor(&self) -> bool {
        let is_proved = self.peer.name.kind == EntityType::MON
            && matches!(&self.caps, Caps::Mgr(_))
            && self.peer.caps == Caps::encode_mgr(true, "");
        self.peer.participant.kind == EntityType::MON && (self.is_trusted() || is_proved)
    }

    fn summary(&self) -> PeerSummary {
        PeerSummary {
            kind: self.peer.participant.kind,
            name: self.peer.name.clone(),
            addrs: self.peer.addrs.clone(),
            features: self.peer.features,
            global_id: self.peer.participant.number as u64,
            seen_addr: self.peer.seen_addr,
            caps: match self.peer.caps.split_first() {
                None => "allow *".to_owned(),
                Some((_, text)) => String::from_utf8_lossy(text).into_owned(),
            },
        }
    }
}

/// The open sessions of a monitor.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    open: BTreeMap<ConnId, Session>,
    /// Sessions of each OSD: more than one while the end of an earlier one has not been noticed.
    by_osd: BTreeMap<OsdId, BTreeSet<ConnId>>,
    /// The peers, by the number of the session.
    peers: BTreeMap<u64, PeerSummary>,
}

impl Sessions {
    /// Adds a session; replaces the one of the same number.
    pub fn open(&mut self, conn: ConnId, session: Session) {
        self.close(conn);
        assert!(!session.paused && session.subscriptions.is_empty(), "a session begins empty");
        if let Some(osd) = session.osd() {
            self.by_osd.entry(osd).or_default().insert(conn);
        }
        self.peers.insert(conn.0, session.summary());
        self.open.insert(conn, session);
    }

    /// Removes a session and returns it.
    pub fn close(&mut self, conn: ConnId) -> Option<Session> {
        let session = self.open.remove(&conn)?;
        assert!(self.peers.remove(&conn.0).is_some(), "a session has a peer");
        if let Some(osd) = session.osd()
            && let Some(conns) = self.by_osd.get_mut(&osd)
        {
            conns.remove(&conn);
            if conns.is_empty() {
                self.by_osd.remove(&osd);
            }
        }
        Some(session)
    }

    pub fn get(&self, conn: ConnId) -> Option<&Session> {
        self.open.get(&conn)
    }

    pub fn get_mut(&mut self, conn: ConnId) -> Option<&mut Session> {
        self.open.get_mut(&conn)
    }

    pub fn contains(&self, conn: ConnId) -> bool {
        self.open.contains_key(&conn)
    }

    /// The features of a peer; zero if the session is not open.
    pub fn features(&self, conn: ConnId) -> u64 {
        self.get(conn).map_or(0, |session| session.peer.features)
    }

    /// The OSD at the other end of a session.
    pub fn osd(&self, conn: ConnId) -> Option<OsdId> {
        self.get(conn)?.osd()
    }

    /// All sessions, by number.
    pub fn iter(&self) -> impl Iterator<Item = (ConnId, &Session)> {
        self.open.iter().map(|(conn, session)| (*conn, session))
    }

    /// Whether an OSD has a session.
    pub fn has_osd(&self, osd: OsdId) -> bool {
        self.by_osd.contains_key(&osd)
    }

    /// All sessions of an OSD, by number: the newest may be dead, too.
    pub fn of_osd(&self, osd: OsdId) -> impl Iterator<Item = (ConnId, &Session)> {
        let conns = self.by_osd.get(&osd).into_iter().flatten();
        conns.filter_map(|conn| Some((*conn, self.get(*conn)?)))
    }

    /// The sessions of all OSDs, by number.
    pub fn of_osds(&self) -> BTreeSet<ConnId> {
        self.by_osd.values().flatten().copied().collect()
    }

    /// The sessions that other monitors opened, by number.
    pub fn of_monitors(&self) -> Vec<ConnId> {
        let monitors = self.iter().filter(|(_, session)| session.is_monitor());
        monitors.map(|(conn, _)| conn).collect()
    }

    /// The peers of all sessions, by number.
    pub fn peers(&self) -> &BTreeMap<u64, PeerSummary> {
        &self.peers
    }

    /// Panics if an index differs from the sessions, or if a session is paused that must not be.
    pub fn check_invariants(&self) {
        assert!(
            self.open.keys().map(|conn| conn.0).eq(self.peers.keys().copied()),
            "all have peers"
        );
        let indexed =
            self.by_osd.iter().flat_map(|(osd, conns)| conns.iter().map(|it| (*osd, *it)));
        let indexed: BTreeSet<(OsdId, ConnId)> = indexed.collect();
        let of_osds = self.iter().filter_map(|(conn, session)| Some((session.osd()?, conn)));
        assert_eq!(indexed, of_osds.collect(), "the index lists the sessions of OSDs");
        for (conn, session) in self.iter().filter(|(_, session)| session.paused) {
            let is_client = session.osd().is_none() && !session.is_monitor();
            assert!(is_client, "{conn:?} is paused and is no client's");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: EntityType, number: i64) -> Session {
        let peer = Peer {
            participant: types::ParticipantName::new(kind, number),
            name: EntityName { kind, id: number.to_string() },
            addrs: types::EntityAddrVec::default(),
            features: 0,
            caps: Bytes::new(),
            seen_addr: types::EntityAddr::default(),
        };
        Session::new(peer)
    }

    fn conns_of(sessions: &Sessions, osd: i32) -> Vec<ConnId> {
        sessions.of_osd(OsdId(osd)).map(|(conn, _)| conn).collect()
    }

    #[test]
    fn an_osd_is_found_until_its_last_session_ends() {
        let mut sessions = Sessions::default();
        sessions.open(ConnId(3), of(EntityType::OSD, 1));
        sessions.open(ConnId(2), of(EntityType::OSD, 4));
        sessions.open(ConnId(7), of(EntityType::OSD, 1));
        sessions.open(ConnId(5), of(EntityType::CLIENT, 1));
        assert_eq!(conns_of(&sessions, 1), [ConnId(3), ConnId(7)]);
        assert_eq!(sessions.of_osds().into_iter().collect::<Vec<_>>(), [2, 3, 7].map(ConnId));
        assert_eq!(sessions.peers().len(), 4);
        assert!(sessions.close(ConnId(3)).is_some());
        assert!(sessions.close(ConnId(3)).is_none());
        assert!(sessions.has_osd(OsdId(1)));
        assert!(sessions.close(ConnId(7)).is_some());
        assert!(!sessions.has_osd(OsdId(1)));
        assert!(conns_of(&sessions, 1).is_empty());
        assert_eq!(sessions.peers().keys().copied().collect::<Vec<_>>(), [2, 5]);
    }

    #[test]
    #[should_panic(expected = "the index lists the sessions of OSDs")]
    fn a_session_that_the_index_lacks_is_found() {
        let mut sessions = Sessions::default();
        sessions.open(ConnId(3), of(EntityType::OSD, 1));
        sessions.check_invariants();
        sessions.by_osd.clear();
        sessions.check_invariants();
    }

    #[test]
    #[should_panic(expected = "is paused and is no client's")]
    fn a_paused_session_of_an_osd_is_found() {
        let mut sessions = Sessions::default();
        sessions.open(ConnId(3), of(EntityType::OSD, 1));
        sessions.get_mut(ConnId(3)).unwrap().paused = true;
        sessions.check_invariants();
    }

    #[test]
    fn a_session_of_the_same_number_replaces_the_former_one() {
        let mut sessions = Sessions::default();
        sessions.open(ConnId(3), of(EntityType::OSD, 1));
        sessions.open(ConnId(3), of(EntityType::OSD, 2));
        assert!(!sessions.has_osd(OsdId(1)));
        assert_eq!(conns_of(&sessions, 2), [ConnId(3)]);
        assert_eq!(sessions.iter().count(), 1);
    }
}
