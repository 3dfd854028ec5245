//! How many requests of clients are in work at the same time, and how large their messages are: in each
//! session, and together.
//!
//! Where a bound is reached, sessions are not read from until there is less; nothing is dropped. When half
//! of what all may have is in use, sessions wait that have more than a share of what is left, so that
//! clients of a group that stands still do not stop those of others. Sessions of other OSDs never wait: over
//! them goes what requests wait for.

use crate::{Osd, limits};
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
    fn share(&self) -> usize {
        limits::REQUESTS_BYTES_MAX.saturating_sub(self.bytes) / SHARES
    }

    fn is_scarce(&self) -> bool {
        self.bytes > limits::REQUESTS_BYTES_MAX / 2
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
        let Inflight { requests, bytes, is_full, .. } = self.inflight;
        if !is_full && (bytes > limits::REQUESTS_BYTES_MAX || requests > limits::REQUESTS_MAX) {
            self.inflight.is_full = true;
            self.throttle_all();
        }
    }

    /// It is done with.
    pub(crate) fn discharge(&mut self, conn: ConnId, bytes: usize) {
        self.inflight.requests -= 1;
        self.inflight.bytes -= bytes;
        if let Some(session) = self.sessions.get_mut(&conn) {
            session.requests -= 1;
            session.bytes -= bytes;
            if session.paused {
                self.throttle(conn);
            }
        }
        let Inflight { requests, bytes, is_full, .. } = self.inflight;
        let is_low =
            bytes <= limits::REQUESTS_BYTES_MAX / 2 && requests <= limits::REQUESTS_MAX / 2;
        if is_full && is_low {
            self.inflight.is_full = false;
            self.throttle_all();
        }
    }

    fn throttle_all(&mut self) {
        let conns: Vec<ConnId> = self.sessions.keys().copied().collect();
        conns.into_iter().for_each(|conn| self.throttle(conn));
    }

    /// Pauses a session that has too much in work, and resumes it when that has gone down.
    fn throttle(&mut self, conn: ConnId) {
        let inflight = &self.inflight;
        let (share, is_scarce) = (inflight.share(), inflight.is_scarce());
        let Some(session) = self.sessions.get_mut(&conn).filter(|s| s.osd.is_none()) else {
            return;
        };
        let full = session.bytes > limits::SESSION_BYTES_MAX
            || session.requests > limits::SESSION_REQUESTS_MAX
            || is_scarce && session.bytes > share;
        let low = session.bytes <= limits::SESSION_BYTES_RESUME
            && session.requests <= limits::SESSION_REQUESTS_MAX / 2
            && (!is_scarce || session.bytes <= share / 2);
        let paused = inflight.is_full || if session.paused { !low } else { full };
        if paused != session.paused {
            session.paused = paused;
            self.outputs.push_back(Output::Pause { conn, paused });
        }
    }
}
