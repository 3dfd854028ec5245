//! Sessions to other OSDs. Each OSD sends over sessions that it opened itself, so that the order of
//! its messages is theirs.

use crate::osd::Early;
use crate::{Osd, limits};
use engine::{ConnId, ConnectTarget, Duration, Message, Output, Policy, Time};
use pg::message::Body;
use std::collections::BTreeMap;
use types::{EntityAddrVec, EntityType, Epoch, OsdId, ParticipantName};
use wire::OsdFailure;

#[derive(Debug, Default)]
pub(crate) struct Peers {
    links: BTreeMap<OsdId, (ConnId, EntityAddrVec)>,
    by_conn: BTreeMap<ConnId, OsdId>,
    /// Those whose session broke, as the map still shows them: what they were sent may be lost, so
    /// nothing more is sent to them until the map shows them otherwise.
    broken: BTreeMap<OsdId, (Epoch, EntityAddrVec)>,
}

impl Peers {
    /// The OSD that a session of ours leads to.
    pub fn of(&self, conn: ConnId) -> Option<OsdId> {
        self.by_conn.get(&conn).copied()
    }
}

impl Osd {
    /// Sends to another OSD as the map knows it; what it cannot be told is lost with the interval.
    pub(crate) fn send_to_osd(&mut self, to: OsdId, message: Message) {
        if self.peers.broken.contains_key(&to) {
            return;
        }
        let conn = match self.peers.links.get(&to) {
            Some((conn, _)) => *conn,
            None => match self.connect_to_osd(to) {
                Some(conn) => conn,
                None => return,
            },
        };
        self.send(conn, message);
    }

    fn connect_to_osd(&mut self, to: OsdId) -> Option<ConnId> {
        let addrs = self.map.client_addrs(to)?.clone();
        let conn = self.new_conn();
        let participant = ParticipantName::new(EntityType::OSD, to.0.into());
        let target = ConnectTarget { participant, addrs: addrs.clone(), policy: Policy::Lossless };
        self.peers.links.insert(to, (conn, addrs));
        self.peers.by_conn.insert(conn, to);
        self.outputs.push_back(Output::Connect { conn, target });
        Some(conn)
    }

    /// Ends sessions to OSDs that are down or have another address now.
    pub(crate) fn peers_changed(&mut self) {
        let map = &self.map;
        let gone: Vec<OsdId> = self
            .peers
            .links
            .iter()
            .filter(|(osd, (_, addrs))| map.client_addrs(**osd) != Some(addrs))
            .map(|(osd, _)| *osd)
            .collect();
        for osd in gone {
            let (conn, _) = self.peers.links.remove(&osd).expect("it was just listed");
            self.peers.by_conn.remove(&conn);
            self.outputs.push_back(Output::Close { conn });
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
        let peers = std::mem::take(&mut self.peers);
        let conns = peers.by_conn.into_keys();
        self.outputs.extend(conns.map(|conn| Output::Close { conn }));
    }

    /// A session to another OSD broke, and with it messages may be lost that will never be repeated:
    /// the monitor must count that OSD as failed, so that all begin a new interval.
    pub(crate) fn peer_closed(&mut self, _now: Time, conn: ConnId) {
        let Some(osd) = self.peers.by_conn.remove(&conn) else { return };
        let Some((_, addrs)) = self.peers.links.remove(&osd) else { return };
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
        let session = self.sessions.get(&conn).filter(|session| session.is_osd())?;
        i32::try_from(session.peer.participant.number).ok().map(OsdId)
    }

    pub(crate) fn take_group_message(
        &mut self,
        now: Time,
        conn: ConnId,
        message: Message,
    ) -> codec::Result<()> {
        match self.osd_of(conn) {
            Some(from) => self.deliver_group_message(now, from, message),
            None => tracing::warn!(?conn, "only OSDs may speak as members of a group"),
        }
        Ok(())
    }

    pub(crate) fn deliver_group_message(&mut self, now: Time, from: OsdId, message: Message) {
        let (header, body) = match Body::decode(&message) {
            Ok(decoded) => decoded,
            Err(error) => {
                tracing::error!(%from, %error, "a member's message does not decode");
                return;
            }
        };
        if header.epoch > self.epoch() || !self.is_up() {
            if self.early.len() < limits::EARLY_MESSAGES_MAX {
                let needed = header.epoch.max(self.epoch().next());
                self.early.push((needed, Early::Group { from, message }));
            }
            return;
        }
        let Some(group) = self.groups.get_mut(&header.pg) else {
            if body == Body::Query {
                let nothing = Body::Info(None).encode(&header);
                self.send_to_osd(from, nothing);
            }
            return;
        };
        if !group.pg.is_serving() {
            group.tell_time(&self.leases, now);
        }
        group.pg.handle_message(from, &header, body);
        self.pump_group(now, header.pg);
    }
}
