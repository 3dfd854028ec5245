//! Sessions to other OSDs. Between two OSDs there is one for all that groups have to say, whichever end
//! opened it: a second one, beside the first, would count as the opener's new beginning, and end it.

use crate::{Osd, leases};
use engine::{ConnId, ConnectTarget, Duration, Message, Output, Policy, Time};
use pg::message::Body;
use std::collections::BTreeMap;
use types::{EntityAddrVec, EntityType, Epoch, OsdId, ParticipantName};
use wire::{MessageBody, OsdFailure, OsdReply, OsdRequest};

#[derive(Debug, Default)]
pub(crate) struct Peers {
    links: BTreeMap<OsdId, Link>,
    by_conn: BTreeMap<ConnId, OsdId>,
    /// Sessions that others opened, and that groups have spoken over.
    offered: BTreeMap<OsdId, ConnId>,
    /// Those whose session broke, as the map still shows them: what they were sent may be lost, so
    /// nothing more is sent to them until the map shows them otherwise.
    broken: BTreeMap<OsdId, (Epoch, EntityAddrVec)>,
}

#[derive(Debug)]
struct Link {
    conn: ConnId,
    addrs: EntityAddrVec,
    /// What went over it is lost for good if it breaks, and only a new interval makes up for that. Copies ask
    /// again, and leases are asked for again.
    carries_groups: bool,
}

/// Whether the message is repeated by whoever sent it if it is lost.
fn is_repeated(kind: u16) -> bool {
    matches!(kind, OsdRequest::KIND | OsdReply::KIND | leases::ASK | leases::PROMISE)
}

impl Peers {
    /// The OSD that a session of ours leads to.
    pub fn of(&self, conn: ConnId) -> Option<OsdId> {
        self.by_conn.get(&conn).copied()
    }
}

impl Peers {
    /// The OSD that a session of ours leads to, and where it was looked for.
    pub fn address_of(&self, conn: ConnId) -> Option<(OsdId, EntityAddrVec)> {
        let osd = self.of(conn)?;
        let link = self.links.get(&osd).filter(|link| link.conn == conn)?;
        Some((osd, link.addrs.clone()))
    }
}

impl Osd {
    /// Sends to another OSD as the map knows it; what it cannot be told is lost with the interval.
    pub(crate) fn send_to_osd(&mut self, to: OsdId, message: Message) {
        if self.peers.broken.contains_key(&to) {
            return;
        }
        if !self.peers.links.contains_key(&to) && !self.connect_to_osd(to) {
            return;
        }
        let link = self.peers.links.get_mut(&to).expect("it was just made");
        link.carries_groups |= !is_repeated(message.kind);
        let conn = link.conn;
        self.send(conn, message);
    }

    fn connect_to_osd(&mut self, to: OsdId) -> bool {
        let Some(addrs) = self.map.client_addrs(to).cloned() else { return false };
        let conn = match self.offered_session(to, &addrs) {
            Some(conn) => conn,
            None => self.open_session(to, addrs.clone()),
        };
        self.peers.links.insert(to, Link { conn, addrs, carries_groups: false });
        self.peers.by_conn.insert(conn, to);
        true
    }

    fn open_session(&mut self, to: OsdId, addrs: EntityAddrVec) -> ConnId {
        let conn = self.new_conn();
        let participant = ParticipantName::new(EntityType::OSD, to.0.into());
        let target = ConnectTarget { participant, addrs, policy: Policy::Lossless };
        self.outputs.push_back(Output::Connect { conn, target });
        conn
    }

    /// The one that the OSD itself has opened, if it is of its present life and of ours: when one of
    /// both begins, sessions are given up by who opened them, and the other end does not learn of it.
    fn offered_session(&self, osd: OsdId, addrs: &EntityAddrVec) -> Option<ConnId> {
        let conn = *self.peers.offered.get(&osd)?;
        let session = self.sessions.get(&conn)?;
        let up_from = |osd| self.map.osd(osd).map_or(Epoch(0), |known| known.info.up_from);
        let lives_began = up_from(osd).max(up_from(self.config.id));
        let is_present = session.groups_epoch >= Some(lives_began);
        (is_present && session.peer.addrs == *addrs).then_some(conn)
    }

    fn close_peer(&mut self, conn: ConnId) {
        self.forget_early(conn);
        self.outputs.push_back(Output::Close { conn });
        self.peers.offered.retain(|_, offered| *offered != conn);
        self.forget_session(self.now, conn);
    }

    /// Ends sessions to OSDs that are down or have another address now.
    pub(crate) fn peers_changed(&mut self) {
        let map = &self.map;
        let gone: Vec<OsdId> = self
            .peers
            .links
            .iter()
            .filter(|(osd, link)| map.client_addrs(**osd) != Some(&link.addrs))
            .map(|(osd, _)| *osd)
            .collect();
        for osd in gone {
            let Link { conn, .. } = self.peers.links.remove(&osd).expect("it was just listed");
            self.peers.by_conn.remove(&conn);
            self.close_peer(conn);
        }
        let map = &self.map;
        let is_same = |osd: &OsdId, up_from: &Epoch, addrs: &EntityAddrVec| {
            map.client_addrs(*osd) == Some(addrs)
                && map.osd(*osd).is_some_and(|osd| osd.info.up_from == *up_from)
        };
        self.peers.broken.retain(|osd, (up_from, addrs)| is_same(osd, up_from, addrs));
    }

    /// This OSD begins a new life: what the old one had sent or was to be sent means nothing any more,
    /// and that its sessions end proves nothing about anybody.
    pub(crate) fn leave_peers(&mut self) {
        let offered = std::mem::take(&mut self.peers.offered);
        let peers = std::mem::replace(&mut self.peers, Peers { offered, ..Peers::default() });
        peers.by_conn.into_keys().for_each(|conn| self.close_peer(conn));
    }

    /// A session to another OSD broke, and with it messages may be lost that will never be repeated:
    /// the monitor must count that OSD as failed, so that all begin a new interval.
    pub(crate) fn peer_closed(&mut self, _now: Time, conn: ConnId) {
        self.forget_early(conn);
        self.peers.offered.retain(|_, offered| *offered != conn);
        let Some(osd) = self.peers.by_conn.remove(&conn) else { return };
        let Some(Link { addrs, carries_groups, .. }) = self.peers.links.remove(&osd) else {
            return;
        };
        if !carries_groups {
            // Another session of the same two may have taken its place.
            tracing::debug!(own = %self.config.id, peer = %osd, "a session without groups has ended");
            return self.copies_interrupted(osd);
        }
        tracing::warn!(own = %self.config.id, peer = %osd, "the session to another OSD broke");
        let up_from = self.map.osd(osd).map_or(Epoch(0), |osd| osd.info.up_from);
        self.peers.broken.insert(osd, (up_from, addrs));
        self.report_broken(osd);
    }

    /// A new life of this OSD in the map: all its groups begin new intervals, so that nothing counts
    /// any more that was lost before. The monitor does not listen to those who are down.
    pub(crate) fn forget_broken(&mut self) {
        self.peers.broken.clear();
    }

    /// Tells a monitor that may not have heard of it.
    pub(crate) fn report_all_broken(&mut self) {
        let broken: Vec<OsdId> = self.peers.broken.keys().copied().collect();
        broken.into_iter().for_each(|osd| self.report_broken(osd));
    }

    fn report_broken(&mut self, osd: OsdId) {
        let Some((_, addrs)) = self.peers.broken.get(&osd).cloned() else { return };
        let certain = OsdFailure::FAILED | OsdFailure::IMMEDIATE;
        self.report_failure(osd, addrs, certain, Duration::ZERO);
    }

    /// Who is at the other end, if it is an OSD.
    pub(crate) fn osd_of(&self, conn: ConnId) -> Option<OsdId> {
        if let Some(osd) = self.peers.by_conn.get(&conn) {
            return Some(*osd);
        }
        self.sessions.get(&conn)?.osd
    }

    /// The same, of who sends what concerns groups.
    fn group_sender(&mut self, conn: ConnId, message: &Message) -> Option<OsdId> {
        if let Some(osd) = self.peers.by_conn.get(&conn).copied() {
            if let Some(link) = self.peers.links.get_mut(&osd) {
                link.carries_groups = true;
            }
            return Some(osd);
        }
        self.note_offered(conn, pg::message::sender_epoch(message).ok())
    }

    /// Another OSD speaks over a session that it has opened, and is answered over that: a second one would
    /// replace it.
    pub(crate) fn note_offered(&mut self, conn: ConnId, epoch: Option<Epoch>) -> Option<OsdId> {
        let session = self.sessions.get_mut(&conn).filter(|_| conn.is_accepted())?;
        let osd = session.osd?;
        session.groups_epoch = session.groups_epoch.max(epoch);
        self.peers.offered.insert(osd, conn);
        Some(osd)
    }

    pub(crate) fn take_group_message(
        &mut self,
        now: Time,
        conn: ConnId,
        message: Message,
    ) -> codec::Result<()> {
        match self.group_sender(conn, &message) {
            Some(from) => self.deliver_group_message(now, conn, from, message),
            // Messages of a session that has ended meanwhile are dropped.
            None => {
                if self.sessions.contains_key(&conn) {
                    tracing::warn!(?conn, "only OSDs may speak as members of a group");
                }
                Ok(())
            }
        }
    }

    /// Fails if a message does not decode: who sent it never sends it again.
    pub(crate) fn deliver_group_message(
        &mut self,
        now: Time,
        conn: ConnId,
        from: OsdId,
        message: Message,
    ) -> codec::Result<()> {
        let epoch = pg::message::sender_epoch(&message)?;
        let Some(message) = self.hold_message(conn, from, epoch, message) else { return Ok(()) };
        let (header, body) = Body::decode(&message)?;
        let Some(group) = self.groups.get_mut(&header.pg) else {
            if body == Body::Query {
                let nothing = Body::Info(None).encode(&header);
                self.send_to_osd(from, nothing);
            }
            return Ok(());
        };
        if !group.pg.is_serving() {
            group.tell_time(&self.leases, now);
        }
        group.pg.handle_message(from, &header, body);
        self.pump_group(now, header.pg);
        Ok(())
    }
}
