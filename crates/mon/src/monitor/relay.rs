//! Forwarding of requests from a follower to the leader.
//!
//! Requests that need the OSDs' reports, or that write, are forwarded to the leader; its answers come back
//! through the same session. Requests are kept until they are answered, and forwarded again to the next
//! leader. If there is no leader for long, those that only read are answered from the known state.
//!
//! Reports of OSDs are not kept: a new leader requests them again. The boot of an OSD that has died since, or
//! was even removed from the cluster, must not be repeated by a monitor.

mod waiting;

pub(super) use waiting::Waiting;

use super::pipeline::Load;
use crate::service::Via;
use crate::services::via_of;
use crate::sessions::Sessions;
use control::Revision;
use engine::{ConnId, Message, Time};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use waiting::WaitingList;
use wire::MessageBody;
use wire::forward::{ClockReply, ClockRequest, Forward, ForwardClosed, ForwardOpen, Routed};

/// Pause before connecting to the leader is tried again.
const RETRY: Duration = Duration::from_millis(250);
/// Time without a session with the leader, after one was lost, at which the leader counts as gone.
const LEADER_GONE: Duration = Duration::from_millis(500);
/// Time for which an answer waits for its revision to arrive here, and a forwarded request for its sender's
/// revision.
pub(super) const HELD_MAX: Duration = Duration::from_secs(3);

/// A message, and the session to send it through.
pub(super) type Sent = (ConnId, Message);

/// A follower's session with the leader, and its pending requests.
#[derive(Default)]
pub(super) struct Relay {
    link: Option<Link>,
    next_attempt: Option<Time>,
    /// Time since which the leader cannot be reached, after it was.
    lost: Option<Time>,
    /// Time at which to check whether that has lasted for [`LEADER_GONE`].
    gone_due: Option<Time>,
    /// Sessions of this monitor that the leader knows.
    announced: BTreeSet<ConnId>,
    /// Requests that were not answered, or not forwarded yet.
    waiting: WaitingList,
    /// Answers of a newer revision than the state's.
    held: VecDeque<Held>,
    links_made: u64,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    conn: ConnId,
    is_open: bool,
}

struct Held {
    revision: Revision,
    until: Time,
    conn: ConnId,
    message: Message,
}

impl Relay {
    /// The next timeout.
    pub fn due(&self) -> Option<Time> {
        self.next_attempt.into_iter().chain(self.gone_due).min()
    }

    /// Whether the leader was reached before, and has been gone for [`LEADER_GONE`].
    pub fn misses_leader(&self, now: Time) -> bool {
        self.lost.is_some_and(|lost| now.since(lost) >= LEADER_GONE)
    }

    /// Number and size of a session's unanswered requests.
    pub fn load(&self, conn: ConnId) -> Load {
        self.waiting.load(conn)
    }

    fn open_conn(&self) -> Option<ConnId> {
        self.link.filter(|link| link.is_open).map(|link| link.conn)
    }

    /// Whether this is the session with the leader.
    pub fn is_link(&self, conn: ConnId) -> bool {
        self.link.is_some_and(|link| link.conn == conn)
    }

    /// Closes the session with the leader, and forgets what it knew. Returns the session.
    pub fn forget(&mut self) -> Option<ConnId> {
        self.next_attempt = None;
        (self.lost, self.gone_due) = (None, None);
        self.announced.clear();
        self.link.take().map(|link| link.conn)
    }

    /// The number of a new session with the leader.
    pub fn connect(&mut self) -> ConnId {
        assert!(self.link.is_none(), "there is one session with the leader");
        self.links_made += 1;
        let conn = ConnId(self.links_made);
        self.link = Some(Link { conn, is_open: false });
        conn
    }

    /// The leader's address is not known yet: it is looked up again.
    pub fn try_again(&mut self, now: Time) {
        assert!(self.link.is_none(), "the leader is looked up without a session");
        self.next_attempt = Some(now + RETRY);
    }

    /// Handles an opened session; false if it is not that with the leader.
    pub fn opened(&mut self, conn: ConnId) -> bool {
        let Some(link) = self.link.as_mut().filter(|link| link.conn == conn) else { return false };
        link.is_open = true;
        (self.lost, self.gone_due) = (None, None);
        true
    }

    /// Handles the end of the session with the leader.
    pub fn closed(&mut self, now: Time, conn: ConnId) {
        if !self.is_link(conn) {
            return;
        }
        let was_open = self.link.take().is_some_and(|link| link.is_open);
        self.announced.clear();
        self.next_attempt = Some(now + RETRY);
        if was_open {
            self.lost = Some(now);
            self.gone_due = Some(now + LEADER_GONE);
        }
    }

    /// Whether the leader has just been gone for [`LEADER_GONE`].
    pub fn finds_leader_gone(&mut self, now: Time) -> bool {
        self.gone_due.take_if(|due| *due <= now).is_some()
    }

    /// Whether the leader is to be connected to now.
    pub fn may_connect(&mut self, now: Time) -> bool {
        self.next_attempt.take_if(|due| *due <= now).is_some() && self.link.is_none()
    }

    /// Announces a session to the leader, once.
    pub fn announce(&mut self, sessions: &Sessions, conn: ConnId) -> Option<Sent> {
        let (link, session) = (self.open_conn()?, sessions.get(conn)?);
        let is_new = self.announced.insert(conn);
        is_new.then(|| (link, ForwardOpen::new(conn.0, session.peer()).encode(0)))
    }

    /// Handles the end of a session of this monitor: drops its requests, and tells the leader.
    pub fn session_closed(&mut self, conn: ConnId) -> Option<Sent> {
        self.waiting.end_session(conn);
        self.held.retain(|held| held.conn != conn);
        let was_announced = self.announced.remove(&conn);
        let link = self.open_conn().filter(|_| was_announced)?;
        Some((link, ForwardClosed { session: conn.0 }.encode(0)))
    }

    /// The leader has closed its end of a session.
    pub fn closed_by_leader(&mut self, conn: ConnId) {
        self.announced.remove(&conn);
    }

    /// The bound that another request of an OSD, or of another peer, would exceed.
    pub fn exceeded(&self, is_osd: bool) -> Option<u64> {
        self.waiting.exceeded(is_osd)
    }

    /// Adds a request, and forwards it if the leader can be reached.
    pub fn add(
        &mut self,
        now: Time,
        sessions: &Sessions,
        revision: Revision,
        conn: ConnId,
        message: Message,
    ) -> Vec<Sent> {
        let number = self.waiting.add(Waiting { conn, message, since: now });
        self.forward(sessions, revision, number)
    }

    /// Forwards all requests that wait.
    pub fn forward_all(&mut self, sessions: &Sessions, revision: Revision) -> Vec<Sent> {
        let numbers = self.waiting.numbers().into_iter();
        numbers.flat_map(|number| self.forward(sessions, revision, number)).collect()
    }

    fn forward(&mut self, sessions: &Sessions, revision: Revision, number: u64) -> Vec<Sent> {
        let Some(link) = self.open_conn() else { return Vec::new() };
        let Some(Waiting { conn, message, .. }) = self.waiting.get(number) else {
            return Vec::new();
        };
        let (conn, message) = (*conn, message.clone());
        if via_of(message.kind) != Some(Via::LeaderAnswers) {
            self.waiting.remove(number);
        }
        let announced = self.announce(sessions, conn);
        let forward = Forward { session: conn.0, revision, message: message.into() }.encode(0);
        announced.into_iter().chain([(link, forward)]).collect()
    }

    /// Handles an answer of the leader: it is held until this monitor has its revision. Returns whether it
    /// answers a request that waited.
    pub fn answered(&mut self, now: Time, routed: Routed) -> bool {
        let Routed { session, revision, message } = routed;
        let (conn, message) = (ConnId(session), Message::from(message));
        let number = self.waiting.answered(conn, &message);
        let request = number.and_then(|number| self.waiting.remove(number));
        self.held.push_back(Held { revision, until: now + HELD_MAX, conn, message });
        request.is_some()
    }

    /// Takes the answers, in order, as far as the state has reached their revisions.
    pub fn release(&mut self, now: Time, known: Revision) -> Vec<Sent> {
        let is_due = |held: &Held| held.revision <= known || held.until <= now;
        let count = self.held.iter().take_while(|held| is_due(held)).count();
        self.held.drain(..count).map(|held| (held.conn, held.message)).collect()
    }

    /// The numbers of requests that fulfil a condition, oldest first.
    pub fn find(&self, is_wanted: impl Fn(&Waiting) -> bool) -> Vec<u64> {
        self.waiting.find(is_wanted)
    }

    /// Takes a request out.
    pub fn take(&mut self, number: u64) -> Option<Waiting> {
        self.waiting.remove(number)
    }

    /// Whether the leader can be reached.
    pub fn is_open(&self) -> bool {
        self.open_conn().is_some()
    }

    /// Panics if the leader knows a session that is not open, or if there is a session with a leader although
    /// this monitor leads.
    pub fn check_invariants(&self, sessions: &Sessions, leads: bool) {
        self.waiting.check_invariants();
        assert!(!leads || self.link.is_none(), "a leader has no session with another one");
        assert!(
            self.announced.is_empty() || self.is_open(),
            "sessions are announced through an open one"
        );
        for conn in &self.announced {
            assert!(sessions.contains(*conn), "{conn:?} is announced and not open");
        }
    }

    /// The answer to the leader's question for the time.
    pub fn reply_clock(&self, now: Time, asked: &ClockRequest) -> Option<Sent> {
        let told = ClockReply { sent: asked.sent, clock: now.0 };
        Some((self.open_conn()?, told.encode(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "a leader has no session with another one")]
    fn a_leader_that_follows_is_found() {
        let mut relay = Relay::default();
        relay.connect();
        relay.check_invariants(&Sessions::default(), false);
        relay.check_invariants(&Sessions::default(), true);
    }

    #[test]
    #[should_panic(expected = "ConnId(7) is announced and not open")]
    fn an_announced_session_that_is_not_open_is_found() {
        let mut relay = Relay::default();
        let link = relay.connect();
        assert!(relay.opened(link));
        relay.announced.insert(ConnId(7));
        relay.check_invariants(&Sessions::default(), false);
    }
}
