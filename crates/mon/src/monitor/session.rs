//! Open sessions: identity, capabilities and subscriptions of the peers.

use super::Monitor;
use crate::live::PeerSummary;
use auth::{CephxServer, MgrCaps, MonCaps, Rwx};
use bytes::Bytes;
use engine::{ConnId, Peer, Time};
use std::collections::BTreeMap;
use std::net::IpAddr;
use types::{EntityName, EntityType, OsdId};

/// First bytes that mark the two kinds of capabilities in [`Peer::caps`].
const MON_CAPS: u8 = b'M';
const MGR_CAPS: u8 = b'G';

/// An open session.
#[derive(Debug)]
pub(super) struct Session {
    pub peer: Peer,
    pub caps: Caps,
    /// For the renewal of tickets; none in sessions by authorizer or without cephx.
    pub cephx: Option<CephxServer>,
    /// By the name of the map or other versioned object.
    pub subscriptions: BTreeMap<String, Subscription>,
    /// The service whose rotating secrets are sent when they change.
    pub secrets_for: Option<EntityType>,
    /// Set while the host does not read from the session because too many of its requests wait.
    pub paused: bool,
}

/// A subscription to a map, or to another versioned object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Subscription {
    /// The next version to send.
    pub next: u64,
    /// Ends after the first version that was sent.
    pub onetime: bool,
    /// For a one-time subscription that was served: the time until which it gets further versions.
    pub lingers_until: Option<Time>,
}

/// Capabilities for monitors or, in a session with the manager, for the manager.
#[derive(Debug, Clone)]
pub(super) enum Caps {
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

    /// The address that the peer was seen to connect from.
    pub fn ip(&self) -> Option<IpAddr> {
        self.peer.seen_addr.socket.map(|socket| socket.ip())
    }

    /// Whether it is a link within the process.
    pub fn is_trusted(&self) -> bool {
        self.peer.caps.is_empty()
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

impl Monitor {
    /// Adds an authenticated session.
    pub(super) fn open_session(&mut self, now: Time, conn: ConnId, peer: Peer) {
        let cephx = self.handshakes.remove(&conn).and_then(|handshake| handshake.into_cephx());
        let caps = Caps::decode(&peer.caps);
        let subscriptions = BTreeMap::new();
        let session =
            Session { peer, caps, cephx, subscriptions, secrets_for: None, paused: false };
        if let Some(osd) = session.osd() {
            self.liveness.heard(osd, now);
            self.osd_arrived(conn, osd);
        }
        self.overview.peers.insert(conn.0, session.summary());
        self.sessions.insert(conn, session);
        if !self.proxies.is_proxy(conn) {
            self.relay_session_opened(conn);
        }
    }

    pub(super) fn has_session(&self, conn: ConnId) -> bool {
        self.sessions.contains_key(&conn)
    }

    /// Removes a session and everything that depends on it. The last session of an OSD starts its grace.
    pub(super) fn close_session(&mut self, now: Time, conn: ConnId) {
        self.handshakes.remove(&conn);
        self.overview.peers.remove(&conn.0);
        self.relay_session_closed(conn);
        self.overview.daemons.end_session(conn);
        let Some(session) = self.sessions.remove(&conn) else { return };
        self.end_proxies_via(now, conn);
        if let Some(osd) = session.osd()
            && !self.sessions.values().any(|other| other.osd() == Some(osd))
        {
            self.liveness.lost(osd, now);
        }
    }
}
