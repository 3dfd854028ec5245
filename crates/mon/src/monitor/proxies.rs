//! A leader's counterparts of sessions that other monitors have.
//!
//! Such a session is like any other here: it has a peer with capabilities, and if that is an OSD, the
//! OSD lives as long as it is there. What is sent to it goes by way of the monitor that has it.

use super::Monitor;
use super::relay::HELD_MAX;
use super::session::{Caps, Session};
use crate::control::Revision;
use codec::DecodeError;
use engine::{ConnId, Message, Time};
use std::collections::{BTreeMap, VecDeque};
use types::EntityType;
use wire::MessageBody;
use wire::forward::{ClockTold, Forward, ForwardClosed, ForwardOpen, Routed};

/// Messages that wait for a revision; beyond it, the oldest one has waited long enough.
const HELD_MESSAGES_MAX: usize = 16_384;
/// Numbers of these sessions have it set; those of links within a process use the bit above.
const PROXY: u64 = 1 << 62;

#[derive(Default)]
pub(super) struct Proxies {
    /// The monitor's session, and what it calls its own.
    routes: BTreeMap<ConnId, (ConnId, u64)>,
    by_route: BTreeMap<(ConnId, u64), ConnId>,
    made: u64,
    /// What came from monitors that knew more than this one does yet, and what came behind it.
    held: VecDeque<Held>,
}

/// A message on one of these sessions, or its end.
struct Held {
    conn: ConnId,
    message: Option<Message>,
    revision: Revision,
    until: Time,
}

impl Proxies {
    pub fn is_proxy(&self, conn: ConnId) -> bool {
        self.routes.contains_key(&conn)
    }

    fn open(&mut self, via: ConnId, session: u64) -> ConnId {
        self.made += 1;
        let conn = ConnId(PROXY | self.made);
        self.routes.insert(conn, (via, session));
        self.by_route.insert((via, session), conn);
        conn
    }

    fn find(&self, via: ConnId, session: u64) -> Option<ConnId> {
        self.by_route.get(&(via, session)).copied()
    }

    fn forget(&mut self, conn: ConnId) -> Option<(ConnId, u64)> {
        let route = self.routes.remove(&conn)?;
        self.by_route.remove(&route);
        Some(route)
    }

    /// All that came by way of a monitor.
    fn via(&self, via: ConnId) -> Vec<ConnId> {
        self.by_route.range((via, 0)..=(via, u64::MAX)).map(|(_, conn)| *conn).collect()
    }

    /// Where a message has to go, and in which shape.
    pub fn route(&self, conn: ConnId, message: Message, revision: Revision) -> (ConnId, Message) {
        match self.routes.get(&conn) {
            Some((via, session)) => {
                let routed = Routed { session: *session, revision, message: message.into() };
                (*via, routed.encode(0))
            }
            None => (conn, message),
        }
    }

    /// The same for the end of a session.
    pub fn closed(&mut self, conn: ConnId) -> Option<(ConnId, Message)> {
        let (via, session) = self.forget(conn)?;
        Some((via, ForwardClosed { session }.encode(0)))
    }
}

impl Session {
    /// Another monitor of this cluster, which proved it or lies within the process.
    pub fn is_monitor(&self) -> bool {
        let is_proved = self.peer.name.kind == EntityType::MON
            && matches!(&self.caps, Caps::Mgr(_))
            && self.peer.caps == Caps::encode_mgr(true, "");
        self.peer.participant.kind == EntityType::MON && (self.is_trusted() || is_proved)
    }
}

impl Monitor {
    /// What other monitors pass on; false if it is something else.
    pub(super) fn take_forwarded(
        &mut self,
        now: Time,
        via: ConnId,
        message: &Message,
    ) -> Result<bool, DecodeError> {
        let kinds = [ForwardOpen::KIND, Forward::KIND, ForwardClosed::KIND, ClockTold::KIND];
        if !kinds.contains(&message.kind) {
            return Ok(false);
        }
        if !self.sessions.get(&via).is_some_and(Session::is_monitor) || !self.leads() {
            // Whoever followed us looks again whom to follow.
            self.close(now, via);
            return Ok(true);
        }
        match message.kind {
            ForwardOpen::KIND => {
                let open = ForwardOpen::decode(message)?;
                let conn = self.proxies.open(via, open.session);
                self.open_session(now, conn, open.peer());
            }
            ClockTold::KIND => self.take_clock(now, via, &ClockTold::decode(message)?),
            Forward::KIND => {
                let Forward { session, revision, message } = Forward::decode(message)?;
                self.hold(now, via, session, revision, Some(message.into()));
            }
            _ => {
                let session = ForwardClosed::decode(message)?.session;
                self.hold(now, via, session, 0, None);
            }
        }
        Ok(true)
    }

    fn hold(
        &mut self,
        now: Time,
        via: ConnId,
        session: u64,
        revision: Revision,
        message: Option<Message>,
    ) {
        if let Some(conn) = self.proxies.find(via, session) {
            let until = now + HELD_MAX;
            self.proxies.held.push_back(Held { conn, message, revision, until });
            self.release_forwarded(now);
        }
    }

    /// Deals with what was passed on, in order, as far as this monitor knows what its senders may have seen:
    /// one that led a moment ago may have changed something of which this one was not told yet.
    pub(super) fn release_forwarded(&mut self, now: Time) {
        while let Some(held) = self.proxies.held.front()
            && (held.revision <= self.state.newest()
                || held.until <= now
                || self.proxies.held.len() > HELD_MESSAGES_MAX)
        {
            let Some(Held { conn, message, .. }) = self.proxies.held.pop_front() else { return };
            match message {
                _ if !self.proxies.is_proxy(conn) => {}
                Some(message) => self.handle(now, conn, message),
                None => {
                    self.proxies.forget(conn);
                    self.close_session(now, conn);
                }
            }
        }
    }

    /// A session has ended; if it was another monitor's, all that came by it ends too.
    pub(super) fn end_proxies_via(&mut self, now: Time, via: ConnId) {
        for conn in self.proxies.via(via) {
            self.proxies.forget(conn);
            self.close_session(now, conn);
        }
    }

    /// Others lead: whoever passed something on to us looks again.
    pub(super) fn end_proxies(&mut self, now: Time) {
        self.monitor_sessions().into_iter().for_each(|conn| self.close(now, conn));
    }

    /// Sessions that other monitors opened.
    pub(super) fn monitor_sessions(&self) -> Vec<ConnId> {
        let monitors = self.sessions.iter().filter(|(_, session)| session.is_monitor());
        monitors.map(|(conn, _)| *conn).collect()
    }

    /// The monitor at the other end: by its proven name, or, within a process, by where it listens.
    pub(super) fn name_of_monitor(&self, conn: ConnId) -> Option<String> {
        let peer = &self.sessions.get(&conn).filter(|session| session.is_monitor())?.peer;
        let map = &self.state.monmap;
        if map.mon_info.contains_key(&peer.name.id) {
            return Some(peer.name.id.clone());
        }
        let listens = map.mon_info.values().find(|mon| mon.public_addrs == peer.addrs);
        listens.map(|mon| mon.name.clone())
    }
}
