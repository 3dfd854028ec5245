//! Bounds on the requests of clients in progress: their number and the bytes of their messages, per
//! session and in total.
//!
//! Beyond a bound, sessions are paused (not read from) until less is in progress; nothing is
//! dropped. Once half of the total is in use, each session is also limited to a share of the
//! remainder, so that clients of an inactive group do not stop those of others. Sessions of other
//! OSDs are never paused: they carry the messages that requests wait for.

use crate::operations::request::{Class, Request};
use crate::{Budgets, Osd};
use engine::{ConnId, Output};

/// A session may use one part in so many of the remaining bytes.
const SHARES: usize = 4;

/// Number and message bytes of clients' requests in progress.
#[derive(Debug, Default)]
pub(crate) struct Inflight {
    pub(super) requests: usize,
    pub(super) bytes: usize,
    /// All sessions of clients are paused.
    is_full: bool,
}

impl Inflight {
    /// The bytes one session may use while room is scarce; it shrinks with the room.
    fn share(&self, budgets: &Budgets) -> usize {
        budgets.all_bytes.saturating_sub(self.bytes) / SHARES
    }

    fn is_scarce(&self, budgets: &Budgets) -> bool {
        self.bytes > budgets.all_bytes / 2
    }

    fn exceeds(&self, budgets: &Budgets) -> bool {
        self.bytes > budgets.all_bytes || self.requests > budgets.all_requests
    }
}

impl Osd {
    /// Charges a client's request to its session.
    pub(crate) fn charge(&mut self, conn: ConnId, bytes: usize) {
        let Some(session) = self.clients.sessions.get_mut(&conn) else { return };
        session.requests += 1;
        session.bytes += bytes;
        self.clients.inflight.requests += 1;
        self.clients.inflight.bytes += bytes;
        self.throttle(conn);
        if !self.clients.inflight.is_full
            && self.clients.inflight.exceeds(&self.env.config.sizes.budgets)
        {
            self.clients.inflight.is_full = true;
            self.throttle_all();
        }
    }

    /// Ends a charge, without a change to the session's pause.
    pub(crate) fn uncharge(&mut self, conn: ConnId, bytes: usize) {
        self.clients.inflight.requests -= 1;
        self.clients.inflight.bytes -= bytes;
        if let Some(session) = self.clients.sessions.get_mut(&conn) {
            session.requests -= 1;
            session.bytes -= bytes;
        }
    }

    /// Ends a charge and resumes sessions that may be read from again.
    pub(crate) fn discharge(&mut self, conn: ConnId, bytes: usize) {
        self.uncharge(conn, bytes);
        if self.clients.sessions.get(&conn).is_some_and(|session| session.paused) {
            self.throttle(conn);
        }
        let Inflight { requests, bytes, is_full, .. } = self.clients.inflight;
        let budgets = &self.env.config.sizes.budgets;
        let is_low = bytes <= budgets.all_bytes / 2 && requests <= budgets.all_requests / 2;
        if is_full && is_low {
            self.clients.inflight.is_full = false;
            self.throttle_all();
        }
    }

    fn throttle_all(&mut self) {
        let conns: Vec<ConnId> = self.clients.sessions.keys().copied().collect();
        conns.into_iter().for_each(|conn| self.throttle(conn));
    }

    /// Pauses a session that exceeds its bounds, or all sessions' bounds, and resumes it at half of
    /// them.
    pub(crate) fn throttle(&mut self, conn: ConnId) {
        let (inflight, budgets) = (&self.clients.inflight, &self.env.config.sizes.budgets);
        let (share, is_scarce) = (inflight.share(budgets), inflight.is_scarce(budgets));
        let Some(session) = self.clients.sessions.get_mut(&conn).filter(|s| s.osd.is_none()) else {
            return;
        };
        let full = session.bytes > budgets.session_bytes
            || session.requests > budgets.session_requests
            || is_scarce && session.bytes > share;
        let low = session.bytes <= budgets.session_bytes / 2
            && session.requests <= budgets.session_requests / 2
            && (!is_scarce || session.bytes <= share / 2);
        let paused = inflight.is_full || if session.paused { !low } else { full };
        if paused != session.paused {
            session.paused = paused;
            self.outbox.push(Output::Pause { conn, paused });
        }
    }

    /// Describes a bound that is exceeded by more than the one message that reached it. Only for
    /// hosts that read nothing from a paused session.
    pub fn excess(&self) -> Option<String> {
        let budgets = &self.env.config.sizes.budgets;
        // Pieces that other OSDs read are not bounded here.
        let is_counted =
            |request: &Request| request.is_of_client() && request.class != Class::Piece;
        let requests = self.operations.checked().map(|(_, request)| request);
        let sizes = requests.filter(|request| is_counted(request)).map(|request| request.bytes);
        let sizes: Vec<usize> = sizes.chain(self.inbox.charged()).collect();
        let (requests, bytes) = (sizes.len(), sizes.iter().sum::<usize>());
        let largest = sizes.into_iter().max().unwrap_or(0);
        let passed = |count: usize, bytes: usize, counts: usize, sizes: usize| {
            count > counts + 1 || bytes > sizes + largest
        };
        if passed(requests, bytes, budgets.all_requests, budgets.all_bytes) {
            return Some(format!("{requests} requests of clients with {bytes} bytes"));
        }
        let clients = self.clients.sessions.values().filter(|session| session.osd.is_none());
        let mut sessions = clients.map(|session| (session.requests, session.bytes));
        let (counts, sizes) = (budgets.session_requests, budgets.session_bytes);
        let session = sessions.find(|(count, bytes)| passed(*count, *bytes, counts, sizes));
        let session = session.map(|(count, bytes)| format!("{count} of a session, {bytes} bytes"));
        session.or_else(|| self.inbox.excess(budgets))
    }
}
