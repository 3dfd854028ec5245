//! Sessions with other OSDs. Two OSDs share one session for all messages of groups, whichever end
//! opened it: a second session would be taken for a restart of its opener, and end the first.

use crate::{Osd, leases};
use engine::{ConnId, ConnectTarget, Duration, Message, Output, Policy, Time};
use pg::message::Body;
use std::collections::BTreeMap;
use types::{EntityAddrVec, EntityType, Epoch, OsdId, ParticipantName};
use wire::{MessageBody, OsdFailure, OsdReply, OsdRequest};

/// The sessions with other OSDs.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    links: BTreeMap<OsdId, Link>,
    by_conn: BTreeMap<ConnId, OsdId>,
    /// Sessions that other OSDs opened and sent group messages over.
    offered: BTreeMap<OsdId, ConnId>,
    /// OSDs whose session broke, as the map still shows them. Messages to them may be lost, so no
    /// more are sent until the map shows them otherwise.
    broken: BTreeMap<OsdId, (Epoch, EntityAddrVec)>,
}

#[derive(Debug)]
struct Link {
    conn: ConnId,
    addrs: EntityAddrVec,
    /// Group messages were sent over it: if it breaks, they are lost, and only a new interval makes
    /// up for that. Requests of copies and leases are resent instead.
    carries_groups: bool,
}

/// Whether the sender repeats messages of this kind if they are lost.
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
    /// The OSD that a session of ours leads to, and the addresses to which it was opened.
    pub fn address_of(&self, conn: ConnId) -> Option<(OsdId, EntityAddrVec)> {
        let osd = self.of(conn)?;
        let link = self.links.get(&osd).filter(|link| link.conn == conn)?;
        Some((osd, link.addrs.clone()))
    }
}

impl Osd {
    /// Sends a message to another OSD as the map knows it. Dropped if that OSD is down or its
    /// session broke: then the interval ends.
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
        let Some(addrs) = self.maps.map().client_addrs(to).cloned() else { return false };
        let conn = match self.offered_session(to, &addrs) {
            Some(conn) => conn,
            None => self.open_session(to, addrs.clone()),
        };
        self.peers.links.insert(to, Link { conn, addrs, carries_groups: false });
        self.peers.by_conn.insert(conn, to);
        true
    }

    fn open_session(&mut self, to: OsdId, addrs: EntityAddrVec) -> ConnId {
        let conn = self.clients.new_conn();
        let participant = ParticipantName::new(EntityType::OSD, to.0.into());
        let target = ConnectTarget { participant, addrs, policy: Policy::Lossless };
        self.outbox.push(Output::Connect { conn, target });
        conn
    }

    /// The session that the OSD itself has opened, if it belongs to the present incarnations of
    /// both: when one restarts, only the opener gives up its sessions, and the other end does not
    /// learn of it.
    fn offered_session(&self, osd: OsdId, addrs: &EntityAddrVec) -> Option<ConnId> {
        let conn = *self.peers.offered.get(&osd)?;
        let session = self.clients.get(conn)?;
        let up_from = |osd| self.maps.map().osd(osd).map_or(Epoch(0), |known| known.info.up_from);
        let lives_began = up_from(osd).max(up_from(self.env.config.id));
        let is_present = session.groups_epoch >= Some(lives_began);
        (is_present && session.peer.addrs == *addrs).then_some(conn)
    }

    fn close_peer(&mut self, conn: ConnId) {
        self.forget_early(conn);
        self.outbox.push(Output::Close { conn });
        self.peers.offered.retain(|_, offered| *offered != conn);
        self.forget_session(self.env.now, conn);
    }

    /// Ends sessions to OSDs that are down or have another address now.
    pub(crate) fn peers_changed(&mut self) {
        let map = self.maps.map();
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
        let map = self.maps.map();
        let is_same = |osd: &OsdId, up_from: &Epoch, addrs: &EntityAddrVec| {
            map.client_addrs(*osd) == Some(addrs)
                && map.osd(*osd).is_some_and(|osd| osd.info.up_from == *up_from)
        };
        self.peers.broken.retain(|osd, (up_from, addrs)| is_same(osd, up_from, addrs));
    }

    /// Ends all sessions before this OSD boots again: messages sent before are void, and broken
    /// sessions are no evidence against peers.
    pub(crate) fn leave_peers(&mut self) {
        let offered = std::mem::take(&mut self.peers.offered);
        let peers = std::mem::replace(&mut self.peers, Peers { offered, ..Peers::default() });
        peers.by_conn.into_keys().for_each(|conn| self.close_peer(conn));
    }

    /// A session with another OSD broke, and group messages may be lost that are never resent:
    /// reports that OSD as failed, so that its groups begin new intervals.
    pub(crate) fn peer_closed(&mut self, _now: Time, conn: ConnId) {
        self.forget_early(conn);
        self.peers.offered.retain(|_, offered| *offered != conn);
        let Some(osd) = self.peers.by_conn.remove(&conn) else { return };
        let Some(Link { addrs, carries_groups, .. }) = self.peers.links.remove(&osd) else {
            return;
        };
        if !carries_groups {
            // Another session of the same two may have taken its place.
            tracing::debug!(own = %self.env.config.id, peer = %osd, "a session without groups has ended");
            return self.operations.interrupt_copies(osd, self.env.now);
        }
        tracing::warn!(own = %self.env.config.id, peer = %osd, "the session to another OSD broke");
        let up_from = self.maps.map().osd(osd).map_or(Epoch(0), |osd| osd.info.up_from);
        self.peers.broken.insert(osd, (up_from, addrs));
        self.report_broken(osd);
    }

    /// Forgets broken sessions once this OSD has booted: all its groups begin new intervals, which
    /// make up for lost messages. The monitor ignores reports of OSDs that are down.
    pub(crate) fn forget_broken(&mut self) {
        self.peers.broken.clear();
    }

    /// Repeats the reports of broken sessions to a monitor that may not have got them.
    pub(crate) fn report_all_broken(&mut self) {
        let broken: Vec<OsdId> = self.peers.broken.keys().copied().collect();
        broken.into_iter().for_each(|osd| self.report_broken(osd));
    }

    fn report_broken(&mut self, osd: OsdId) {
        let Some((_, addrs)) = self.peers.broken.get(&osd).cloned() else { return };
        let certain = OsdFailure::FAILED | OsdFailure::IMMEDIATE;
        self.report_failure(osd, addrs, certain, Duration::ZERO);
    }

    /// The OSD at the other end of a session, if it is one.
    pub(crate) fn osd_of(&self, conn: ConnId) -> Option<OsdId> {
        if let Some(osd) = self.peers.by_conn.get(&conn) {
            return Some(*osd);
        }
        self.clients.get(conn)?.osd
    }

    /// Likewise for the sender of a group message; notes that the session carries these.
    fn group_sender(&mut self, conn: ConnId, message: &Message) -> Option<OsdId> {
        if let Some(osd) = self.peers.by_conn.get(&conn).copied() {
            if let Some(link) = self.peers.links.get_mut(&osd) {
                link.carries_groups = true;
            }
            return Some(osd);
        }
        self.note_offered(conn, pg::message::sender_epoch(message).ok())
    }

    /// Notes that another OSD sent a group message over a session that it has opened. It is
    /// answered over the same session, because a second one would replace it.
    pub(crate) fn note_offered(&mut self, conn: ConnId, epoch: Option<Epoch>) -> Option<OsdId> {
        let session = self.clients.get_mut(conn).filter(|_| conn.is_accepted())?;
        let osd = session.osd?;
        session.groups_epoch = session.groups_epoch.max(epoch);
        self.peers.offered.insert(osd, conn);
        Some(osd)
    }

    /// Handles a group message. Fails if it does not decode, which ends the session.
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
                if self.clients.contains(conn) {
                    tracing::warn!(?conn, "only OSDs may speak as members of a group");
                }
                Ok(())
            }
        }
    }

    /// Delivers a group message, or makes it wait for its map. Fails if it does not decode: its
    /// sender never resends it.
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
        let Some(group) = self.groups.by_id.get_mut(&header.pg) else {
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
        self.settle_group(header.pg);
        Ok(())
    }
}
