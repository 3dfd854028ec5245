//! A session that a client (or another OSD) opened.

use auth::{AuthCaps, OsdCaps};
use engine::Peer;
use pg::WatcherKey;
use std::collections::BTreeSet;
use types::{EntityAddr, EntityName, EntityType, Epoch, HObject, OsdId, PgId};

#[derive(Debug)]
pub(crate) struct Session {
    pub peer: Peer,
    /// Which OSD it is, if it is one.
    pub osd: Option<OsdId>,
    pub caps: OsdCaps,
    /// The newest map that the peer is known to have.
    pub map_epoch: Epoch,
    /// Requests in work, and their size.
    pub requests: usize,
    pub bytes: usize,
    pub paused: bool,
    /// Another OSD's, for groups: the newest map by which it spoke.
    pub groups_epoch: Option<Epoch>,
    /// Watches that are connected by this session.
    pub watches: BTreeSet<(PgId, HObject, WatcherKey)>,
}

impl Session {
    /// Other OSDs may do everything; of clients the ticket tells.
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

    /// One that we opened to another OSD: it may ask us over it, too.
    pub fn to_osd(peer: Peer, osd: OsdId) -> Self {
        Session { osd: Some(osd), caps: OsdCaps::allow_all(), ..Session::new(peer) }
    }

    /// The address under which watchers and lockers are known.
    pub fn addr(&self) -> EntityAddr {
        self.peer.addrs.0.first().copied().unwrap_or(self.peer.seen_addr)
    }
}

/// What it calls itself is not enough: its proven name must say so too.
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
