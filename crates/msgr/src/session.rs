//! A session: its state, inputs and outputs.
//!
//! Submodules: `handshake` authenticates a connection; `introduce` joins it to the session; `exchange`
//! carries messages; `recover` decides about a session whose connection is lost.

mod admission;
mod exchange;
mod handshake;
mod introduce;
mod recover;

use crate::config::Config;
use crate::event::{CloseReason, Event};
use crate::link::{Link, Phase};
use crate::queue::SendQueue;
pub use admission::{Admission, Introduction};
use auth::Side;
use bytes::{Bytes, BytesMut};
use engine::{ConnectTarget, Duration, Message, Peer, Policy, Time};
use handshake::Credentials;
use std::collections::VecDeque;
use std::sync::Arc;
use stdx::Prng;
use thiserror::Error;
use types::{EntityAddr, EntityAddrVec, EntityType, ParticipantName};
use wire::frame::Control;

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
    prng: Prng,

    /// The peer's claimed and proved identity.
    peer_kind: EntityType,
    credentials: Credentials,
    peer: Option<Peer>,
    /// `Opened` was reported.
    announced: bool,
    seen_addr: EntityAddr,
    /// Our address as the peer sees it.
    own_addr: EntityAddr,

    /// Ids of the session at the end that started it, and at the other end. Zero: not agreed on yet.
    client_cookie: u64,
    server_cookie: u64,
    /// Orders this end's attempts to connect, also across restarts.
    global_seq: u64,
    peer_global_seq: u64,
    /// Number of connections of the session.
    connect_seq: u64,
    /// Sequence number of the last message received.
    in_seq: u64,
    unacked: Unacked,

    last_received: Time,
    keepalive_sent: bool,
    backoff: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
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

/// Messages received and not yet acknowledged.
#[derive(Debug, Default)]
struct Unacked {
    messages: u32,
    since: Time,
}

/// Reason why a message cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SendError {
    #[error("the session is closed")]
    Closed,
}

impl Session {
    /// Makes a session that this end opens. `seed` makes its cookies unlike those of other sessions.
    pub fn connect(config: Arc<Config>, now: Time, target: ConnectTarget, seed: u64) -> Self {
        let addr = target.addrs.msgr2().unwrap_or_default();
        let mut session = Session::new(config, now, target.policy, addr, seed);
        session.peer_kind = target.participant.kind;
        session.target = Some(target);
        session.dial();
        session
    }

    /// Makes a session for an accepted connection: an anonymous handshake until its peer is known.
    /// `seen_addr` is the peer's address as seen here.
    pub fn accept(config: Arc<Config>, now: Time, seen_addr: EntityAddr, seed: u64) -> Self {
        let mut session = Session::new(config, now, Policy::Lossy, seen_addr, seed);
        session.link = Some(Link::new(Side::Accepting, now));
        session
    }

    fn new(
        config: Arc<Config>,
        now: Time,
        policy: Policy,
        seen_addr: EntityAddr,
        seed: u64,
    ) -> Self {
        let queue = SendQueue::new(policy == Policy::Lossless);
        Session {
            config,
            now,
            state: State::Handshake,
            policy,
            target: None,
            link: None,
            events: VecDeque::new(),
            awaits_host: false,
            queue,
            prng: Prng::new(seed),
            peer_kind: EntityType::ANY,
            credentials: Credentials::default(),
            peer: None,
            announced: false,
            seen_addr,
            own_addr: EntityAddr::default(),
            client_cookie: 0,
            server_cookie: 0,
            global_seq: 0,
            peer_global_seq: 0,
            connect_seq: 0,
            in_seq: 0,
            unacked: Unacked::default(),
            last_received: now,
            keepalive_sent: false,
            backoff: Duration::ZERO,
        }
    }

    /// The connection of [`Event::Connect`] is established.
    pub fn handle_connected(&mut self, now: Time) {
        self.now = now;
        if self.state == State::Dialing {
            self.link = Some(Link::new(Side::Connecting, now));
            self.state = State::Handshake;
            self.awaits_host = false;
            self.last_received = now;
        }
    }

    /// The connection ended, or could not be established.
    pub fn handle_disconnected(&mut self, now: Time) {
        self.now = now;
        if self.link.is_some() || self.state == State::Dialing {
            self.fail(CloseReason::ConnectionLost);
        }
    }

    /// Bytes of the current connection, in order, in any fragments. They are decoded by `poll_event`.
    pub fn handle_received(&mut self, now: Time, chunk: Bytes) {
        self.now = now;
        let Some(link) = &mut self.link else { return };
        self.last_received = now;
        self.keepalive_sent = false;
        if let Err(reason) = link.receive(chunk) {
            self.fail(reason);
        }
    }

    /// Valid after `poll_event` returned `None`: the number of missing bytes of a large message. The host may
    /// receive them straight into [`Session::take_receive_buffer`].
    pub fn receive_hint(&self) -> Option<usize> {
        self.link.as_ref()?.direct_length()
    }

    /// The start of that message, with capacity for the rest of it. The host appends up to
    /// [`Session::receive_hint`] bytes (more are harmless) and hands it back with
    /// [`Session::handle_filled`], full or not.
    pub fn take_receive_buffer(&mut self) -> Option<BytesMut> {
        self.link.as_mut()?.lend_buffer()
    }

    /// Valid only for a buffer of the current connection.
    pub fn handle_filled(&mut self, now: Time, buffer: BytesMut) {
        self.now = now;
        let Some(link) = &mut self.link else { return };
        self.last_received = now;
        self.keepalive_sent = false;
        link.return_buffer(buffer);
    }

    /// Queues a message; allowed before the session is open.
    pub fn send(&mut self, message: Message) -> Result<(), SendError> {
        if self.state == State::Closed {
            return Err(SendError::Closed);
        }
        self.queue.push(message);
        let limit = match self.policy {
            Policy::Lossy => self.config.queued_bytes_max,
            Policy::Lossless => self.config.retained_bytes_max,
        };
        if self.queue.queued_bytes() > limit {
            // Dropping single messages would break the order that the session guarantees.
            self.finish(CloseReason::QueueFull { limit });
            return Err(SendError::Closed);
        }
        Ok(())
    }

    /// Ends the session without further events. The host closes the socket.
    pub fn close(&mut self) {
        self.state = State::Closed;
        self.link = None;
        self.events.clear();
        self.queue.clear();
    }

    pub fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        if self.poll_timeout().is_none_or(|deadline| now < deadline) {
            return;
        }
        match self.state {
            State::Closed => {}
            State::Open => self.open_timeout(),
            State::Backoff(_) => self.dial(),
            State::Standby(_) => self.finish(CloseReason::StandbyTimeout),
            _ => self.fail(CloseReason::HandshakeTimeout),
        }
    }

    pub fn poll_timeout(&self) -> Option<Time> {
        match self.state {
            State::Closed => None,
            State::Open => Some(self.open_deadline()),
            State::Backoff(until) | State::Standby(until) => Some(until),
            State::Dialing => Some(self.last_received + self.config.handshake_timeout),
            _ => {
                let started = self.link.as_ref().map_or(self.now, |link| link.started);
                Some(started + self.config.handshake_timeout)
            }
        }
    }

    /// The next event. Decodes received bytes; the host drains it after every input.
    pub fn poll_event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            if self.awaits_host {
                return None;
            }
            match self.advance() {
                Ok(Step::Idle) => return None,
                Ok(Step::Progress) => {}
                Ok(Step::Arrived(message)) => return Some(Event::Message(message)),
                Err(reason) => self.fail(reason),
            }
        }
    }

    fn advance(&mut self) -> Result<Step, CloseReason> {
        let Some(link) = &mut self.link else { return Ok(Step::Idle) };
        if link.phase == Phase::Banner {
            return self.advance_banner();
        }
        let Some(frame) = link.next_frame()? else { return Ok(Step::Idle) };
        match link.phase {
            Phase::Session if self.state == State::Open => self.exchange(frame),
            Phase::Session => self.introduce(frame),
            _ => self.shake(frame),
        }
    }

    /// Appends the next bytes to send to `pieces`, enough for about one system call, and returns their
    /// length; 0 if there are none. Returned bytes count as sent.
    pub fn poll_transmit(&mut self, pieces: &mut Vec<Bytes>) -> usize {
        let start = pieces.len();
        if self.state == State::Open {
            self.transmit_messages(pieces);
        }
        if let Some(link) = &mut self.link {
            link.encoder.flush(pieces);
        }
        pieces[start..].iter().map(Bytes::len).sum()
    }

    /// Bytes of messages that are unsent or, lossless, unacknowledged.
    pub fn queued_bytes(&self) -> usize {
        self.queue.queued_bytes()
    }

    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

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

    fn send_control(&mut self, control: &Control) {
        if let Some(link) = &mut self.link {
            link.send(control);
        }
    }

    fn participant(&self, number: i64) -> ParticipantName {
        // A client's number is its global id, which was authenticated; its own claim was not.
        let proved = i64::try_from(self.credentials.global_id).unwrap_or(0);
        match self.peer_kind {
            EntityType::CLIENT if proved > 0 => ParticipantName::new(self.peer_kind, proved),
            kind => ParticipantName::new(kind, number),
        }
    }
}

/// Result of parsing received bytes.
enum Step {
    /// More bytes are needed.
    Idle,
    Progress,
    Arrived(Message),
}
