//! Sessions with clients and other OSDs.

use crate::sessions::throttle::Inflight;
use auth::{AuthCaps, OsdCaps};
use engine::{ConnId, Peer};
use pg::WatcherKey;
use std::collections::{BTreeMap, BTreeSet};
use types::{EntityAddr, EntityName, EntityType, Epoch, HObject, OsdId, PgId};

/// All sessions with clients and other OSDs.
#[derive(Debug)]
pub(crate) struct Clients {
    pub sessions: BTreeMap<ConnId, Session>,
    /// Number and message bytes of clients' requests in progress.
    pub inflight: Inflight,
    next_conn: u64,
}

impl Default for Clients {
    fn default() -> Self {
        Clients { sessions: BTreeMap::new(), inflight: Inflight::default(), next_conn: 1 }
    }
}

impl Clients {
    /// An id for a session that this OSD opens.
    pub fn new_conn(&mut self) -> ConnId {
        self.next_conn += 1;
        ConnId(self.next_conn - 1)
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
    pub map_epoch: Epoch,
    /// Number and message bytes of its requests in progress.
    pub requests: usize,
    pub bytes: usize,
    /// Back-pressure: the host does not read from it.
    pub paused: bool,
    /// The newest map epoch of a group message from this peer, if it is an OSD.
    pub groups_epoch: Option<Epoch>,
    /// Watches that are connected by this session.
    pub watches: BTreeSet<(PgId, HObject, WatcherKey)>,
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
            requests: 0,
            bytes: 0,
            paused: false,
            groups_epoch: None,
            watches: BTreeSet::new(),
        }
    }

    /// A session that this OSD opened to another one. The peer may send requests over it, too.
    pub fn to_osd(peer: Peer, osd: OsdId) -> Self {
        Session { osd: Some(osd), caps: OsdCaps::allow_all(), ..Session::new(peer) }
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
