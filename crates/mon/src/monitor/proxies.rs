//! The leader's proxies for sessions that other monitors own.
//!
//! A proxy is a session like any other here: it has a peer with capabilities, and if that is an OSD, the OSD
//! counts as connected as long as the proxy exists. Messages to it are routed through the monitor that owns
//! the session.

use super::Monitor;
use super::relay::HELD_MAX;
use crate::control::Revision;
use crate::sessions::Session;
use codec::DecodeError;
use engine::{ConnId, Message, Time};
use std::collections::{BTreeMap, VecDeque};
use wire::MessageBody;
use wire::forward::{ClockTold, Forward, ForwardClosed, ForwardOpen, Routed};

/// Messages that wait for a revision; beyond that number, the oldest one is handled without waiting longer.
const HELD_MESSAGES_MAX: usize = 16_384;
/// The bit that marks session numbers of proxies; numbers of links within a process use the bit above.
const PROXY: u64 = 1 << 62;

/// The proxies of all followers' sessions.
#[derive(Default)]
pub(super) struct Proxies {
    /// For each proxy, the session with the owning monitor and that monitor's number for it.
    routes: BTreeMap<ConnId, (ConnId, u64)>,
    by_route: BTreeMap<(ConnId, u64), ConnId>,
    made: u64,
    /// Messages from monitors that know a newer revision than this one, and all messages behind them.
    held: VecDeque<Held>,
}

/// A message on a proxy, or its end (`None`).
struct Held {
    conn: ConnId,
    message: Option<Message>,
    revision: Revision,
    until: Time,
}

impl Proxies {
    /// Whether a session is a proxy for that of another monitor.
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

    /// The proxies of a monitor's sessions.
    fn via(&self, via: ConnId) -> Vec<ConnId> {
        self.by_route.range((via, 0)..=(via, u64::MAX)).map(|(_, conn)| *conn).collect()
    }

    /// The session to send a message through, and the message wrapped for it.
    pub fn route(&self, conn: ConnId, message: Message, revision: Revision) -> (ConnId, Message) {
        match self.routes.get(&conn) {
            Some((via, session)) => {
                let routed = Routed { session: *session, revision, message: message.into() };
                (*via, routed.encode(0))
            }
            None => (conn, message),
        }
    }

    /// Ends a proxy: the session through which to announce that, and the announcement. `None` if it is no
    /// proxy.
    pub fn closed(&mut self, conn: ConnId) -> Option<(ConnId, Message)> {
        let (via, session) = self.forget(conn)?;
        Some((via, ForwardClosed { session }.encode(0)))
    }
}

impl Monitor {
    /// Handles messages that other monitors forward; false if the message is another one.
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
        if !self.sessions.get(via).is_some_and(Session::is_monitor) || !self.leads() {
            // The follower then looks up the leader again.
            self.close(now, via);
            return Ok(true);
        }
        match message.kind {
            ForwardOpen::KIND => {
                let open = ForwardOpen::decode(message)?;
                let conn = self.proxies.open(via, open.session);
                self.open_session(now, conn, open.peer());
            }
            ClockTold::KIND => {
                let told = ClockTold::decode(message)?;
                self.on_services(now, |services, cx| services.mons.take_clock(cx, via, &told));
            }
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

    /// Handles forwarded messages in order, as far as this monitor has the revisions that their senders had:
    /// a former leader may have committed changes that this monitor has not received yet.
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

    /// Handles the end of a session; if it was another monitor's, its proxies end too.
    pub(super) fn end_proxies_via(&mut self, now: Time, via: ConnId) {
        for conn in self.proxies.via(via) {
            self.proxies.forget(conn);
            self.close_session(now, conn);
        }
    }

    /// Closes the sessions of followers because another monitor leads: they look up the leader again.
    pub(super) fn end_proxies(&mut self, now: Time) {
        self.sessions.of_monitors().into_iter().for_each(|conn| self.close(now, conn));
    }
}
