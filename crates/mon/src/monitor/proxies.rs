//! The leader's proxies for sessions that other monitors own.
//!
//! A proxy is a session like any other here: it has a peer with capabilities, and if that is an OSD, the OSD
//! counts as connected as long as the proxy exists. Messages to it are routed through the monitor that owns
//! the session.

use super::relay::HELD_MAX;
use crate::sessions::Sessions;
use control::Revision;
use engine::{ConnId, Message, Time};
use std::collections::{BTreeMap, VecDeque};
use wire::MessageBody;
use wire::forward::{ForwardClosed, Routed};

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

    /// Adds the proxy of a monitor's session.
    pub fn open(&mut self, via: ConnId, session: u64) -> ConnId {
        self.made += 1;
        let conn = ConnId(PROXY | self.made);
        let before = self.routes.insert(conn, (via, session));
        assert!(before.is_none(), "{conn:?} is a new session");
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

    /// Panics if the two directions of the table differ, or if a proxy has no session.
    pub fn check_invariants(&self, sessions: &Sessions) {
        assert_eq!(self.routes.len(), self.by_route.len(), "each proxy has one route");
        assert!(self.held.len() <= HELD_MESSAGES_MAX, "{} messages are held", self.held.len());
        for (conn, route) in &self.routes {
            assert_eq!(self.by_route.get(route), Some(conn), "routes lead back");
            assert!(sessions.get(*conn).is_some(), "a proxy has a session");
        }
    }

    /// Holds a message of another monitor's session, or its end, until this monitor has its revision. False
    /// if the session has no proxy.
    pub fn hold(
        &mut self,
        now: Time,
        via: ConnId,
        session: u64,
        revision: Revision,
        message: Option<Message>,
    ) -> bool {
        let Some(conn) = self.find(via, session) else { return false };
        self.held.push_back(Held { conn, message, revision, until: now + HELD_MAX });
        true
    }

    /// Takes the next message, or the end of a proxy, in order, as far as this monitor has the revisions that
    /// their senders had: a former leader may have committed changes that this monitor has not received yet.
    pub fn release(&mut self, now: Time, known: Revision) -> Option<(ConnId, Option<Message>)> {
        while let Some(held) = self.held.front()
            && (held.revision <= known || held.until <= now || self.held.len() > HELD_MESSAGES_MAX)
        {
            let Held { conn, message, .. } = self.held.pop_front()?;
            if !self.is_proxy(conn) {
                continue;
            }
            if message.is_none() {
                self.forget(conn);
            }
            return Some((conn, message));
        }
        None
    }

    /// Ends the proxies of a monitor's sessions, and returns them.
    pub fn end_via(&mut self, via: ConnId) -> Vec<ConnId> {
        let conns = self.via(via);
        for conn in &conns {
            self.forget(*conn);
        }
        conns
    }
}
