//! Sessions with other OSDs. Two OSDs share one session for all messages of groups, whichever end
//! opened it: a second session would be taken for a restart of its opener, and end the first.

use super::clients::Clients;
use super::monitor::MonitorLink;
use crate::cx::Cx;
use engine::{ConnId, ConnectTarget, Duration, Message, Output, Policy};
use maps::OsdMap;
use std::collections::BTreeMap;
use types::{EntityAddrVec, EntityType, Epoch, OsdId, ParticipantName};
use wire::OsdFailure;

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

/// Whether the loss of a message of this kind is made up for by a new interval only.
fn is_of_group(kind: u16) -> bool {
    pg::message::is_pg_message(kind) || pg::scrub::message::is_scrub_message(kind)
}

impl Peers {
    /// The OSD that a session of ours leads to.
    pub fn of(&self, conn: ConnId) -> Option<OsdId> {
        self.by_conn.get(&conn).copied()
    }

    /// The OSD that a session of ours leads to, and the addresses to which it was opened.
    pub fn address_of(&self, conn: ConnId) -> Option<(OsdId, EntityAddrVec)> {
        let osd = self.of(conn)?;
        let link = self.links.get(&osd).filter(|link| link.conn == conn)?;
        Some((osd, link.addrs.clone()))
    }

    /// The OSD at the other end of a session, if it is one.
    pub fn at(&self, clients: &Clients, conn: ConnId) -> Option<OsdId> {
        self.of(conn).or_else(|| clients.get(conn)?.osd)
    }

    /// Sends a message to another OSD as the map knows it. Dropped if that OSD is down or its
    /// session broke: then the interval ends. One to this OSD, from one shard of a group to another, waits
    /// in the outbox.
    pub fn send(&mut self, cx: &mut Cx<'_>, to: OsdId, message: Message) {
        if to == cx.env.whoami() {
            return cx.out.send_local(message);
        }
        if self.broken.contains_key(&to) {
            return;
        }
        if !self.links.contains_key(&to) && !self.connect(cx, to) {
            return;
        }
        let link = self.links.get_mut(&to).expect("it was just made");
        link.carries_groups |= is_of_group(message.kind);
        cx.out.send(link.conn, message);
    }

    fn connect(&mut self, cx: &mut Cx<'_>, to: OsdId) -> bool {
        let Some(addrs) = cx.map.client_addrs(to).cloned() else { return false };
        let conn = match self.offered_session(cx, to, &addrs) {
            Some(conn) => conn,
            None => open_session(cx, to, addrs.clone()),
        };
        self.links.insert(to, Link { conn, addrs, carries_groups: false });
        self.by_conn.insert(conn, to);
        true
    }

    /// The session that the OSD itself has opened, if it belongs to the present incarnations of
    /// both: when one restarts, only the opener gives up its sessions, and the other end does not
    /// learn of it.
    fn offered_session(&self, cx: &Cx<'_>, osd: OsdId, addrs: &EntityAddrVec) -> Option<ConnId> {
        let conn = *self.offered.get(&osd)?;
        let session = cx.clients.get(conn)?;
        let lives_began = up_from(cx.map, osd).max(up_from(cx.map, cx.env.whoami()));
        let is_present = session.groups_epoch >= Some(lives_began);
        (is_present && session.peer.addrs == *addrs).then_some(conn)
    }

    /// The sender of a group message, if it is an OSD; notes that the session carries these.
    pub fn group_sender(
        &mut self,
        clients: &mut Clients,
        conn: ConnId,
        message: &Message,
    ) -> Option<OsdId> {
        if let Some(osd) = self.of(conn) {
            if let Some(link) = self.links.get_mut(&osd) {
                link.carries_groups = true;
            }
            return Some(osd);
        }
        self.note_offered(clients, conn, pg::message::sender_epoch(message).ok())
    }

    /// Notes that another OSD sent a group message over a session that it has opened. It is
    /// answered over the same session, because a second one would replace it.
    pub fn note_offered(
        &mut self,
        clients: &mut Clients,
        conn: ConnId,
        epoch: Option<Epoch>,
    ) -> Option<OsdId> {
        let session = clients.get_mut(conn).filter(|_| conn.is_accepted())?;
        let osd = session.osd?;
        session.groups_epoch = session.groups_epoch.max(epoch);
        self.offered.insert(osd, conn);
        Some(osd)
    }

    /// OSDs with a session that are down or have another address in this map.
    pub fn gone(&self, map: &OsdMap) -> Vec<OsdId> {
        let links = self.links.iter();
        let gone = links.filter(|(osd, link)| map.client_addrs(**osd) != Some(&link.addrs));
        gone.map(|(osd, _)| *osd).collect()
    }

    /// Forgets the session with an OSD. The caller closes it.
    pub fn unlink(&mut self, osd: OsdId) -> Option<ConnId> {
        let Link { conn, .. } = self.links.remove(&osd)?;
        self.by_conn.remove(&conn);
        Some(conn)
    }

    /// Forgets a session that another OSD opened, because it is closed.
    pub fn forget_offered(&mut self, conn: ConnId) {
        self.offered.retain(|_, offered| *offered != conn);
    }

    /// Forgets broken sessions with OSDs that the map shows otherwise now.
    pub fn forget_mended(&mut self, map: &OsdMap) {
        let is_same = |osd: &OsdId, up_from: &Epoch, addrs: &EntityAddrVec| {
            map.client_addrs(*osd) == Some(addrs)
                && map.osd(*osd).is_some_and(|osd| osd.info.up_from == *up_from)
        };
        self.broken.retain(|osd, (up_from, addrs)| is_same(osd, up_from, addrs));
    }

    /// Forgets all sessions, which the caller closes, before this OSD boots again: messages sent
    /// before are void, and broken sessions are no evidence against peers.
    pub fn leave(&mut self) -> impl Iterator<Item = ConnId> + use<> {
        let offered = std::mem::take(&mut self.offered);
        std::mem::replace(self, Peers { offered, ..Peers::default() }).by_conn.into_keys()
    }

    /// A session has ended. If group messages may be lost that are never resent, the other OSD is
    /// reported as failed, so that its groups begin new intervals. Otherwise, returns that OSD: it
    /// must be asked again for pieces of copies.
    pub fn closed(
        &mut self,
        cx: &mut Cx<'_>,
        monitor: &MonitorLink,
        conn: ConnId,
    ) -> Option<OsdId> {
        self.forget_offered(conn);
        let osd = self.by_conn.remove(&conn)?;
        let Link { addrs, carries_groups, .. } = self.links.remove(&osd)?;
        let own = cx.env.whoami();
        if !carries_groups {
            // Another session of the same two may have taken its place.
            tracing::debug!(%own, peer = %osd, "a session without groups has ended");
            return Some(osd);
        }
        tracing::warn!(%own, peer = %osd, "the session to another OSD broke");
        report_broken(cx, monitor, osd, &addrs);
        self.broken.insert(osd, (up_from(cx.map, osd), addrs));
        None
    }

    /// Forgets broken sessions once this OSD has booted: all its groups begin new intervals, which
    /// make up for lost messages. The monitor ignores reports of OSDs that are down.
    pub fn forget_broken(&mut self) {
        self.broken.clear();
    }

    /// Repeats the reports of broken sessions to a monitor that may not have got them.
    pub fn report_all_broken(&self, cx: &mut Cx<'_>, monitor: &MonitorLink) {
        for (osd, (_, addrs)) in &self.broken {
            report_broken(cx, monitor, *osd, addrs);
        }
    }
}

fn open_session(cx: &mut Cx<'_>, to: OsdId, addrs: EntityAddrVec) -> ConnId {
    let conn = cx.clients.new_conn();
    let participant = ParticipantName::new(EntityType::OSD, to.0.into());
    let target = ConnectTarget { participant, addrs, policy: Policy::Lossless };
    cx.out.push(Output::Connect { conn, target });
    conn
}

fn report_broken(cx: &mut Cx<'_>, monitor: &MonitorLink, osd: OsdId, addrs: &EntityAddrVec) {
    let certain = OsdFailure::FAILED | OsdFailure::IMMEDIATE;
    monitor.report_failure(cx, osd, addrs.clone(), certain, Duration::ZERO);
}

fn up_from(map: &OsdMap, osd: OsdId) -> Epoch {
    map.osd(osd).map_or(Epoch(0), |known| known.info.up_from)
}
