//! Loss of a connection, and the end of a session.

use super::{Session, State};
use crate::event::{CloseReason, Event};
use engine::{Duration, Policy};

/// Delay between attempts to connect: doubled each time, at most [`BACKOFF_MAX`] (Ceph's `ms_initial_backoff`
/// and `ms_max_backoff`).
const BACKOFF_MIN: Duration = Duration::from_millis(200);
const BACKOFF_MAX: Duration = Duration::from_secs(15);

impl Session {
    /// The connection is unusable. A lossless session that was open once continues without it.
    pub(crate) fn fail(&mut self, reason: CloseReason) {
        let was_open = self.state == State::Open;
        let accepted_now = self.target.is_none() && self.peer.is_none();
        if self.policy == Policy::Lossy || accepted_now {
            return self.finish(reason);
        }
        self.drop_link();
        if self.target.is_none() {
            self.state = State::Standby(self.now + self.config.standby_max);
            return self.events.push_back(Event::Disconnect);
        }
        if was_open {
            return self.dial();
        }
        self.backoff = (self.backoff * 2).clamp(BACKOFF_MIN, BACKOFF_MAX);
        self.state = State::Backoff(self.now + self.backoff);
        self.events.push_back(Event::Disconnect);
    }

    /// WAIT: the peer's own connection wins; if it does not come, this end tries again.
    pub(super) fn lose_race(&mut self) {
        self.drop_link();
        self.backoff = BACKOFF_MAX;
        self.state = State::Backoff(self.now + BACKOFF_MAX);
        self.events.push_back(Event::Disconnect);
    }

    pub(crate) fn drop_link(&mut self) {
        self.link = None;
        self.awaits_host = false;
        self.queue.rewind();
        self.unacked.messages = 0;
        // Questions to the host about the lost connection are dropped.
        self.events.retain(|event| matches!(event, Event::Opened(_)));
    }

    pub(super) fn dial(&mut self) {
        let addr = self.seen_addr.socket;
        let Some(addr) = addr else { return self.finish(CloseReason::NoAddress) };
        if self.server_cookie != 0 {
            self.connect_seq += 1;
        }
        self.next_global_seq();
        self.keepalive_sent = false;
        self.last_received = self.now;
        self.state = State::Dialing;
        self.events.push_back(Event::Connect { addr });
    }

    /// Ends the session and reports `Closed`.
    pub(crate) fn finish(&mut self, reason: CloseReason) {
        if self.state == State::Closed {
            return;
        }
        self.drop_link();
        self.state = State::Closed;
        self.queue.clear();
        self.events.push_back(Event::Closed { reason });
    }
}
