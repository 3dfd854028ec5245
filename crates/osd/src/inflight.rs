//! How many requests of clients are in work at the same time, and how large their messages are: in each
//! session, and together.
//!
//! Where a bound is reached, sessions are not read from until there is less; nothing is dropped. When half
//! of what all may have is in use, sessions wait that have more than a share of what is left, so that
//! clients of a group that stands still do not stop those of others. Sessions of other OSDs never wait: over
//! them goes what requests wait for.

use crate::budget::Class;
use crate::request::Request;
use crate::{Budgets, Osd};
use engine::{ConnId, Output};

/// Of the room that is left, a session may have one in so many parts.
const SHARES: usize = 4;

#[derive(Debug, Default)]
pub(crate) struct Inflight {
    pub requests: usize,
    pub bytes: usize,
    /// No client is read from.
    is_full: bool,
}

impl Inflight {
    /// What one session may have where room is scarce: the less there is, the less.
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
    /// A client's request has come.
    pub(crate) fn charge(&mut self, conn: ConnId, bytes: usize) {
        let Some(session) = self.sessions.get_mut(&conn) else { return };
        session.requests += 1;
        session.bytes += bytes;
        self.inflight.requests += 1;
        self.inflight.bytes += bytes;
        self.throttle(conn);
        if !self.inflight.is_full && self.inflight.exceeds(&self.config.sizes.budgets) {
            self.inflight.is_full = true;
            self.throttle_all();
        }
    }

    /// It counts no more, without a change for its session.
    pub(crate) fn uncharge(&mut self, conn: ConnId, bytes: usize) {
        self.inflight.requests -= 1;
        self.inflight.bytes -= bytes;
        if let Some(session) = self.sessions.get_mut(&conn) {
            session.requests -= 1;
            session.bytes -= bytes;
        }
    }

    /// It is done with.
    pub(crate) fn discharge(&mut self, conn: ConnId, bytes: usize) {
        self.uncharge(conn, bytes);
        if self.sessions.get(&conn).is_some_and(|session| session.paused) {
            self.throttle(conn);
        }
        let Inflight { requests, bytes, is_full, .. } = self.inflight;
        let budgets = &self.config.sizes.budgets;
        let is_low = bytes <= budgets.all_bytes / 2 && requests <= budgets.all_requests / 2;
        if is_full && is_low {
            self.inflight.is_full = false;
            self.throttle_all();
        }
    }

    fn throttle_all(&mut self) {
        let conns: Vec<ConnId> = self.sessions.keys().copied().collect();
        conns.into_iter().for_each(|conn| self.throttle(conn));
    }

    /// Pauses a session that has too much in work, or where all have, and resumes it when that has gone down.
    pub(crate) fn throttle(&mut self, conn: ConnId) {
        let (inflight, budgets) = (&self.inflight, &self.config.sizes.budgets);
        let (share, is_scarce) = (inflight.share(budgets), inflight.is_scarce(budgets));
        let Some(session) = self.sessions.get_mut(&conn).filter(|s| s.osd.is_none()) else {
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
            self.outputs.push_back(Output::Pause { conn, paused });
        }
    }

    /// What is above its bound, where hosts read nothing from a session once they were told to pause it: each bound
    /// is passed by the one message at most that reached it.
    pub fn excess(&self) -> Option<String> {
        let budgets = &self.config.sizes.budgets;
        // Pieces that other OSDs ask for are not bounded here.
        let is_counted =
            |request: &Request| request.is_of_client() && request.class != Class::Piece;
        let requests = self.requests.checked().map(|(_, request)| request);
        let sizes = requests.filter(|request| is_counted(request)).map(|request| request.bytes);
        let sizes: Vec<usize> = sizes.chain(self.placing.charged()).collect();
        let (requests, bytes) = (sizes.len(), sizes.iter().sum::<usize>());
        let largest = sizes.into_iter().max().unwrap_or(0);
        let passed = |count: usize, bytes: usize, counts: usize, sizes: usize| {
            count > counts + 1 || bytes > sizes + largest
        };
        if passed(requests, bytes, budgets.all_requests, budgets.all_bytes) {
            return Some(format!("{requests} requests of clients with {bytes} bytes"));
        }
        let clients = self.sessions.values().filter(|session| session.osd.is_none());
        let mut sessions = clients.map(|session| (session.requests, session.bytes));
        let (counts, sizes) = (budgets.session_requests, budgets.session_bytes);
        let session = sessions.find(|(count, bytes)| passed(*count, *bytes, counts, sizes));
        let session = session.map(|(count, bytes)| format!("{count} of a session, {bytes} bytes"));
        session.or_else(|| self.early.excess(budgets))
    }
}
