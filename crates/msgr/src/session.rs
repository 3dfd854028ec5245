//! A session: its state, and how it begins, loses its connection, continues and ends.
//!
//! Above it, `join` brings a connection into the session and `drive` has the host's calls.

mod drive;
mod join;

use crate::config::Config;
use crate::event::{CloseReason, Event};
use crate::identity::Identity;
use crate::introduction::Introduction;
use crate::link::{Link, Phase};
use crate::numbers::Numbers;
use crate::queue::SendQueue;
use crate::receipts::Receipts;
use crate::silence::Silence;
use auth::Side;
use engine::{ConnectTarget, Duration, Peer, Policy, Time};
use std::collections::VecDeque;
use std::sync::Arc;
use thiserror::Error;
use types::{EntityAddr, EntityAddrVec, EntityType};
use wire::frame::Control;

/// Delay between attempts to connect: doubled each time, at most [`BACKOFF_MAX`] (Ceph's `ms_initial_backoff`
/// and `ms_max_backoff`).
const BACKOFF_MIN: Duration = Duration::from_millis(200);
const BACKOFF_MAX: Duration = Duration::from_secs(15);

/// One end of a session with one peer.
pub struct Session {
    config: Arc<Config>,
    now: Time,
    state: State,
    policy: Policy,
    /// Target of a connecting session; accepted sessions wait for their peer instead.
    target: Option<ConnectTarget>,
    link: Option<Link>,
    events: VecDeque<Event>,
    /// The peer's frames are not decoded until the host has answered an event.
    awaits_host: bool,
    queue: SendQueue,
    receipts: Receipts,
    silence: Silence,
    numbers: Numbers,
    identity: Identity,
    peer: Option<Peer>,
    /// `Opened` was reported.
    announced: bool,
    backoff: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// The host is opening a connection.
    Dialing,
    /// The ends authenticate each other.
    Handshake,
    /// Connecting: CLIENT_IDENT was sent.
    Identifying,
    /// Connecting: SESSION_RECONNECT was sent.
    Reconnecting,
    /// Accepting: the peer is known; it awaits an answer from `admit`.
    Introduced(Introduction),
    Open,
    /// The connection was lost; the next attempt is made at this time.
    Backoff(Time),
    /// The connection was lost; the peer is expected to reconnect before this time.
    Standby(Time),
    Closed,
}

/// Reason why a message cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SendError {
    /// The session has ended, or ends by this message, since too many wait to be sent.
    #[error("the session is closed")]
    Closed,
}

impl Session {
    /// Makes a session that this end opens. `seed` makes its cookies unlike those of other sessions.
    pub fn connect(config: Arc<Config>, now: Time, target: ConnectTarget, seed: u64) -> Self {
        let addr = target.addrs.msgr2().unwrap_or_default();
        let identity = Identity::new(target.participant.kind, addr);
        let mut session = Session::new(config, now, target.policy, identity, seed);
        session.target = Some(target);
        session.dial();
        session
    }

    /// Makes a session for an accepted connection: an anonymous handshake until its peer is known.
    /// `seen_addr` is the peer's address as seen here.
    pub fn accept(config: Arc<Config>, now: Time, seen_addr: EntityAddr, seed: u64) -> Self {
        let identity = Identity::new(EntityType::ANY, seen_addr);
        let mut session = Session::new(config, now, Policy::Lossy, identity, seed);
        session.link = Some(Link::new(Side::Accepting, now));
        session
    }

    fn new(config: Arc<Config>, now: Time, policy: Policy, identity: Identity, seed: u64) -> Self {
        Session {
            config,
            now,
            state: State::Handshake,
            policy,
            target: None,
            link: None,
            events: VecDeque::new(),
            awaits_host: false,
            queue: SendQueue::new(policy == Policy::Lossless),
            receipts: Receipts::default(),
            silence: Silence::new(now),
            numbers: Numbers::new(seed),
            identity,
            peer: None,
            announced: false,
            backoff: Duration::ZERO,
        }
    }

    /// Bytes of messages that are unsent or, lossless, unacknowledged.
    pub fn queued_bytes(&self) -> usize {
        self.queue.queued_bytes()
    }

    /// True while messages pass. A lossless session is not open between two connections.
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// True once the session has ended; `Closed` may not have been polled yet.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Lossy for an accepted session until the peer has said its kind.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// `None` before the first `Opened`.
    pub fn peer(&self) -> Option<&Peer> {
        self.peer.as_ref()
    }

    /// Key under which the host finds a lossless session when its peer connects: the peer's addresses.
    pub fn registry_key(&self) -> Option<&EntityAddrVec> {
        if self.policy == Policy::Lossy {
            return None;
        }
        let target = self.target.as_ref().map(|target| &target.addrs);
        self.peer.as_ref().map(|peer| &peer.addrs).or(target)
    }

    /// Ends the session without further events. The host closes the socket.
    pub fn close(&mut self) {
        self.state = State::Closed;
        self.link = None;
        self.awaits_host = false;
        self.events.clear();
        self.queue.clear();
    }

    fn set_policy(&mut self, policy: Policy) {
        assert!(self.state != State::Open, "the policy is agreed on before messages are sent");
        self.policy = policy;
        self.queue.set_retain(policy == Policy::Lossless);
    }

    fn send_control(&mut self, control: &Control) {
        if let Some(link) = &mut self.link {
            link.send(control);
        }
    }

    fn ask_host(&mut self, event: Event) {
        assert!(!self.awaits_host, "the host answers one event at a time");
        self.awaits_host = true;
        self.events.push_back(event);
    }

    /// Begins an attempt to connect.
    fn dial(&mut self) {
        let addr = self.identity.seen_addr().socket;
        let Some(addr) = addr else { return self.finish(CloseReason::NoAddress) };
        assert!(self.link.is_none(), "the former connection is dropped first");
        self.numbers.begin_attempt(self.now);
        self.silence.heard(self.now);
        self.state = State::Dialing;
        self.events.push_back(Event::Connect { addr });
    }

    /// Opens the session; the host gets `Opened` once.
    fn open(&mut self) {
        let peer = self.peer.clone().expect("the peer has introduced itself");
        if !std::mem::replace(&mut self.announced, true) {
            self.events.push_back(Event::Opened(peer));
        }
        self.resume();
    }

    /// Messages can be sent again.
    fn resume(&mut self) {
        assert!(self.announced, "a session is resumed after it was open once");
        self.state = State::Open;
        self.awaits_host = false;
        self.backoff = Duration::ZERO;
        self.silence.heard(self.now);
        if let Some(link) = &mut self.link {
            link.allow_messages();
        }
    }

    /// The connection is unusable. A lossless session that was open once continues without it.
    fn fail(&mut self, reason: CloseReason) {
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
        self.back_off((self.backoff * 2).clamp(BACKOFF_MIN, BACKOFF_MAX));
    }

    /// WAIT: the peer's own connection wins; if it does not come, this end tries again.
    fn lose_race(&mut self) {
        self.drop_link();
        self.back_off(BACKOFF_MAX);
    }

    fn back_off(&mut self, delay: Duration) {
        assert!(self.target.is_some(), "an accepted session waits for its peer");
        self.backoff = delay;
        self.state = State::Backoff(self.now + delay);
        self.events.push_back(Event::Disconnect);
    }

    fn drop_link(&mut self) {
        self.link = None;
        self.awaits_host = false;
        self.queue.rewind();
        self.receipts.connection_lost();
        // Questions to the host about the lost connection are dropped.
        self.events.retain(|event| matches!(event, Event::Opened(_)));
    }

    /// Ends the session and reports `Closed`.
    fn finish(&mut self, reason: CloseReason) {
        if self.state == State::Closed {
            return;
        }
        self.drop_link();
        self.state = State::Closed;
        self.queue.clear();
        self.events.push_back(Event::Closed { reason });
    }

    /// For tests and the simulator; takes time in proportion to the queue.
    ///
    /// # Panics
    /// If the state of the session contradicts itself.
    pub fn check_invariants(&self) {
        self.queue.check_invariants();
        self.receipts.check_invariants();
        let retains = self.queue.retains();
        assert_eq!(retains, self.policy == Policy::Lossless, "a lossy session has a replay queue");
        let has_link = !matches!(
            self.state,
            State::Dialing | State::Backoff(_) | State::Standby(_) | State::Closed
        );
        assert_eq!(self.link.is_some(), has_link, "connection in state {:?}", self.state);
        if let Some(link) = &self.link {
            link.check_invariants();
            let is_joining = !matches!(self.state, State::Handshake);
            let is_authentic = link.phase() == Phase::Session;
            assert!(is_authentic || !is_joining, "{:?} without proof", self.state);
        }
        assert!(self.state != State::Open || self.announced, "open and not reported");
        assert!(!self.announced || self.peer.is_some(), "reported without a peer");
        assert!(!self.awaits_host || self.link.is_some(), "asks the host about no connection");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn session() -> Session {
        let config = Arc::new(Config::client(1));
        Session::accept(config, Time(0), EntityAddr::default(), 1)
    }

    #[track_caller]
    fn is_noticed(what: &str, damage: impl FnOnce(&mut Session)) {
        let mut session = session();
        session.check_invariants();
        damage(&mut session);
        let checked = catch_unwind(AssertUnwindSafe(|| session.check_invariants()));
        let panic = checked.expect_err(what);
        let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
        let text = panic.downcast_ref::<&str>().map_or(text, |text| (*text).to_owned());
        assert!(text.contains(what), "{text}");
    }

    #[test]
    fn contradictions_of_the_session_are_noticed() {
        is_noticed("a lossy session has a replay queue", |session| session.queue.set_retain(true));
        is_noticed("connection in state Open", |session| {
            (session.link, session.state) = (None, State::Open);
        });
        is_noticed("connection in state Closed", |session| session.state = State::Closed);
        is_noticed("Identifying without proof", |session| session.state = State::Identifying);
        is_noticed("reported without a peer", |session| session.announced = true);
        is_noticed("asks the host about no connection", |session| {
            (session.link, session.state) = (None, State::Dialing);
            session.awaits_host = true;
        });
    }
}
