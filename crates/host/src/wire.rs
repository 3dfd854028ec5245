//! Sessions over sockets: the sessions of all daemons of one core, and the sockets that carry them.
//!
//! Invariants:
//! * A socket is known by at most one session; a session that is gone leaves no socket behind.
//! * What peers can make us hold is bounded: connections whose peers are not yet known, and what
//!   waits for a peer that does not read.

mod admission;
mod patience;

use bytes::{Bytes, BytesMut};
use engine::{
    AuthRequest, AuthVerdict, ConnId, ConnectTarget, ConnectingAnswer, ConnectingStep, Message,
    Peer, Policy, Time,
};
use msgr::{Config, Event, Session};
use rt::{ListenerId, Reactor, SocketId};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use stdx::{FastMap, Prng, Slab};
use types::{AddrType, EntityAddr, EntityAddrVec, EntityType, ParticipantName};

/// Bytes queued at a socket; the rest waits as messages, which take less memory than frames and can be
/// dropped with their session.
const SOCKET_QUEUE_MAX: usize = 1 << 20;
/// Bounds in bytes of an accepted session's send queue: above the first, receiving stops until the queue is
/// below the second (back-pressure). It applies to one end only, or both would wait for each other.
const SEND_QUEUE_HIGH: usize = 32 << 20;
const SEND_QUEUE_LOW: usize = 16 << 20;
/// Bytes queued for an accepted peer before its session ends. Replies to requests that arrived before
/// back-pressure still come: librados has 100 MiB in flight (`objecter_inflight_op_bytes`), the kernel's
/// block device 128 requests of 4 MiB.
const ACCEPTED_QUEUE_MAX: usize = 512 << 20;
/// Bytes that a metadata server keeps for a client that is away or does not acknowledge them.
const CLIENT_RETAINED_MAX: usize = 64 << 20;
/// Accepted connections with unauthenticated peers; beyond it the oldest is dropped.
const NEWCOMERS_MAX: usize = if cfg!(test) { 8 } else { 1024 };

/// Id of a session of this core; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WireId(u64);

/// Identity that a listener presents to connecting peers, with the daemon that it belongs to.
#[derive(Debug, Clone, Copy)]
pub struct Listening {
    /// The daemon's number on its core.
    pub node: usize,
    /// The name that it presents.
    pub participant: ParticipantName,
    /// Distinguishes incarnations of a daemon at the same address.
    pub nonce: u32,
}

/// Event of a session for its daemon.
#[derive(Debug)]
pub(crate) enum WireEvent {
    Auth(AuthRequest),
    Connecting(ConnectingStep),
    Opened(Peer),
    Message(Message),
    Closed,
}

struct Entry {
    session: Session,
    socket: Option<SocketId>,
    node: usize,
    conn: ConnId,
    /// The daemon has paused the session.
    paused: bool,
    /// Receiving is stopped because the peer does not read.
    choked: bool,
    /// The session is in `to_poll`.
    queued: bool,
    /// The session is in `to_transmit`.
    dirty: bool,
}

impl Entry {
    fn is_silenced(&self) -> bool {
        self.paused || self.choked
    }

    /// The end of a session is delivered even if the session is paused.
    fn poll_event(&mut self) -> Option<Event> {
        match self.is_silenced() && !self.session.is_closed() {
            true => None,
            false => self.session.poll_event(),
        }
    }

    fn tell_socket(&self, reactor: &mut Reactor) {
        if let Some(socket) = self.socket {
            reactor.pause(socket, self.is_silenced());
        }
    }
}

pub(crate) struct Wire {
    listeners: BTreeMap<ListenerId, (Arc<Config>, Listening)>,
    entries: Slab<Entry>,
    by_socket: FastMap<SocketId, WireId>,
    /// Accepted sessions in order; open ones are skipped.
    newcomers: VecDeque<WireId>,
    prng: Prng,
    nonce: u32,
    /// Sessions that may have events.
    to_poll: VecDeque<WireId>,
    /// Sessions that may have bytes to send.
    to_transmit: Vec<WireId>,
    pieces: Vec<Bytes>,
}

impl Wire {
    pub(crate) fn new(seed: u64) -> Self {
        let mut prng = Prng::new(seed);
        let nonce = prng.next_u64() as u32;
        Wire {
            listeners: BTreeMap::new(),
            entries: Slab::new(),
            by_socket: FastMap::default(),
            newcomers: VecDeque::new(),
            prng,
            nonce,
            to_poll: VecDeque::new(),
            to_transmit: Vec::new(),
            pieces: Vec::new(),
        }
    }

    pub(crate) fn add_listener(&mut self, id: ListenerId, addr: SocketAddr, listening: Listening) {
        let addrs = EntityAddrVec::one(EntityAddr::msgr2(addr, listening.nonce));
        let who = listening.participant;
        let mut config = Config::daemon(who.kind, who.number, addrs);
        config.queued_bytes_max = ACCEPTED_QUEUE_MAX;
        if who.kind == EntityType::MDS {
            config.retained_bytes_max = CLIENT_RETAINED_MAX;
        }
        self.listeners.insert(id, (Arc::new(config), listening));
    }

    /// Listening addresses of a daemon of this core.
    pub(crate) fn addrs_of(&self, participant: ParticipantName) -> EntityAddrVec {
        let mut configs = self.listeners.values();
        let found = configs.find(|(_, listening)| listening.participant == participant);
        found.map(|(config, _)| config.addrs.clone()).unwrap_or_default()
    }

    pub(crate) fn owner(&self, id: WireId) -> (usize, ConnId) {
        let entry = self.entries.get(id.0).expect("the core knows living sessions only");
        (entry.node, entry.conn)
    }

    #[cfg(test)]
    pub(crate) fn sessions(&self) -> usize {
        assert!(self.by_socket.len() <= self.entries.len(), "sockets without sessions");
        self.entries.len()
    }

    /// True if sessions wait to be polled.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.to_poll.is_empty()
    }

    /// Accepts a connection; returns its node and session.
    pub(crate) fn accept(
        &mut self,
        now: Time,
        listener: ListenerId,
        socket: SocketId,
        peer: SocketAddr,
        conn: ConnId,
    ) -> Option<(usize, WireId)> {
        let (config, listening) = self.listeners.get(&listener)?;
        let (config, node) = (config.clone(), listening.node);
        let seen = EntityAddr { kind: AddrType::Msgr2, nonce: 0, socket: Some(peer) };
        let session = Session::accept(config, now, seen, self.prng.next_u64());
        let id = self.insert(session, Some(socket), node, conn);
        self.newcomers.push_back(id);
        Some((node, id))
    }

    /// The oldest connection that has to make room for newer ones.
    pub(crate) fn surplus(&mut self) -> Option<WireId> {
        while self.newcomers.len() > NEWCOMERS_MAX {
            let id = self.newcomers.pop_front()?;
            if self.entries.get(id.0).is_some_and(|entry| !entry.session.is_open()) {
                return Some(id);
            }
        }
        None
    }

    /// Opens a session for a daemon.
    pub(crate) fn connect(
        &mut self,
        now: Time,
        node: usize,
        me: ParticipantName,
        conn: ConnId,
        target: &ConnectTarget,
    ) -> WireId {
        let mut config = match me.kind {
            EntityType::CLIENT => Config::client(self.nonce),
            // A daemon is known by its listening address.
            kind => Config::daemon(kind, me.number, self.addrs_of(me)),
        };
        patience::set(&mut config, target.participant.kind);
        let seed = self.prng.next_u64();
        let session = Session::connect(Arc::new(config), now, target.clone(), seed);
        self.insert(session, None, node, conn)
    }

    fn insert(
        &mut self,
        session: Session,
        socket: Option<SocketId>,
        node: usize,
        conn: ConnId,
    ) -> WireId {
        let (paused, choked, queued, dirty) = (false, false, false, false);
        let entry = Entry { session, socket, node, conn, paused, choked, queued, dirty };
        let id = WireId(self.entries.insert(entry));
        if let Some(socket) = socket {
            self.by_socket.insert(socket, id);
        }
        self.touch(id);
        id
    }

    pub(crate) fn connected(&mut self, now: Time, socket: SocketId) {
        self.on_socket(socket, |session| session.handle_connected(now));
    }

    pub(crate) fn received(&mut self, now: Time, socket: SocketId, bytes: Bytes) {
        self.on_socket(socket, |session| session.handle_received(now, bytes));
    }

    pub(crate) fn filled(&mut self, now: Time, socket: SocketId, buffer: BytesMut) {
        self.on_socket(socket, |session| session.handle_filled(now, buffer));
    }

    /// A connection is lost or was not established. Returns the session if the target refused the connection.
    pub(crate) fn disconnected(
        &mut self,
        now: Time,
        socket: SocketId,
        error: Option<io::Error>,
    ) -> Option<WireId> {
        let is_refused =
            error.as_ref().is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
        let refused = self.by_socket.get(&socket).copied().filter(|_| is_refused);
        if let Some(error) = error {
            tracing::debug!(%error, "a connection was lost");
        }
        self.on_socket(socket, |session| session.handle_disconnected(now));
        if let Some(id) = self.by_socket.remove(&socket)
            && let Some(entry) = self.entries.get_mut(id.0)
        {
            entry.socket = None;
        }
        refused
    }

    fn on_socket(&mut self, socket: SocketId, act: impl FnOnce(&mut Session)) {
        if let Some(id) = self.by_socket.get(&socket).copied() {
            act(&mut self.entry(id).session);
            self.touch(id);
        }
    }

    /// Called when all received bytes were processed: arms a receive of the rest of a large segment straight
    /// into its buffer.
    pub(crate) fn after_received(&mut self, reactor: &mut Reactor, socket: SocketId) {
        let session = self.by_socket.get(&socket).and_then(|id| self.entries.get(id.0));
        if session.is_some_and(|entry| entry.session.receive_hint().is_some()) {
            reactor.stop_receiving(socket);
        }
    }

    pub(crate) fn receive_idle(&mut self, reactor: &mut Reactor, socket: SocketId) {
        let Some(id) = self.by_socket.get(&socket).copied() else { return };
        let session = &mut self.entry(id).session;
        match session.receive_hint().zip(session.take_receive_buffer()) {
            Some((length, buffer)) => reactor.receive_into(socket, buffer, length),
            None => reactor.receive(socket),
        }
    }

    pub(crate) fn drained(&mut self, socket: SocketId) {
        if let Some(id) = self.by_socket.get(&socket).copied() {
            self.mark_dirty(id);
        }
    }

    pub(crate) fn send(&mut self, reactor: &mut Reactor, id: WireId, message: Message) {
        let Some(entry) = self.entries.get_mut(id.0) else { return };
        if entry.session.send(message).is_err() {
            // This message may have exceeded the queue's bound, and the daemon must be informed.
            return self.touch(id);
        }
        // A lossless session's queue may only wait for acknowledgements, which must be received.
        let is_behind = entry.session.policy() == Policy::Lossy
            && entry.session.queued_bytes() > SEND_QUEUE_HIGH;
        if is_behind && !entry.choked && entry.conn.is_accepted() {
            entry.choked = true;
            entry.tell_socket(reactor);
        }
        self.mark_dirty(id);
    }

    pub(crate) fn verdict(&mut self, now: Time, id: WireId, verdict: AuthVerdict) {
        self.entry(id).session.handle_auth_verdict(now, verdict);
        self.touch(id);
    }

    pub(crate) fn answer(&mut self, id: WireId, answer: ConnectingAnswer) {
        self.entry(id).session.answer(answer);
        self.touch(id);
    }

    pub(crate) fn pause(&mut self, reactor: &mut Reactor, id: WireId, paused: bool) {
        let entry = self.entry(id);
        entry.paused = paused;
        entry.tell_socket(reactor);
        self.touch(id);
    }

    /// Ends a session on request of its daemon or after its last event. Pending bytes are sent as far as the
    /// socket takes them at once.
    pub(crate) fn remove(&mut self, reactor: &mut Reactor, id: WireId) {
        if let Some(mut entry) = self.entries.remove(id.0) {
            fill(&mut self.pieces, reactor, &mut entry);
            self.forget_socket(reactor, entry.socket);
        }
    }

    fn forget_socket(&mut self, reactor: &mut Reactor, socket: Option<SocketId>) {
        if let Some(socket) = socket {
            self.by_socket.remove(&socket);
            reactor.close(socket);
        }
    }

    /// The next event of any session that is not paused.
    pub(crate) fn poll_event(
        &mut self,
        now: Time,
        reactor: &mut Reactor,
    ) -> Option<(WireId, WireEvent)> {
        while let Some(id) = self.to_poll.front().copied() {
            let Some(event) = self.entries.get_mut(id.0).and_then(Entry::poll_event) else {
                self.to_poll.pop_front();
                if let Some(entry) = self.entries.get_mut(id.0) {
                    entry.queued = false;
                }
                continue;
            };
            if let Some(event) = self.translate(now, reactor, id, event) {
                return Some((id, event));
            }
        }
        None
    }

    fn translate(
        &mut self,
        now: Time,
        reactor: &mut Reactor,
        id: WireId,
        event: Event,
    ) -> Option<WireEvent> {
        Some(match event {
            Event::Message(message) => WireEvent::Message(message),
            Event::AuthRequest(request) => WireEvent::Auth(request),
            Event::Connecting(step) => WireEvent::Connecting(step),
            Event::Opened(peer) => WireEvent::Opened(peer),
            Event::Connect { addr } => {
                self.dial(now, reactor, id, addr);
                return None;
            }
            Event::Disconnect => {
                let socket = self.entry(id).socket.take();
                self.forget_socket(reactor, socket);
                return None;
            }
            Event::Introduced(introduction) => {
                return self.admit(reactor, id, &introduction.addrs);
            }
            Event::Closed { reason } => {
                let fault = reason.fault().map(tracing::field::display);
                tracing::debug!(%reason, fault, "a session has ended");
                WireEvent::Closed
            }
        })
    }

    fn dial(&mut self, now: Time, reactor: &mut Reactor, id: WireId, addr: SocketAddr) {
        let old = self.entry(id).socket.take();
        self.forget_socket(reactor, old);
        match reactor.connect(addr) {
            Ok(socket) => {
                self.by_socket.insert(socket, id);
                let entry = self.entry(id);
                entry.socket = Some(socket);
                entry.tell_socket(reactor);
            }
            Err(error) => {
                tracing::debug!(%addr, %error, "cannot connect");
                self.entry(id).session.handle_disconnected(now);
            }
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        let due = |entry: &Entry| entry.session.poll_timeout().is_some_and(|time| time <= now);
        let all = self.entries.iter();
        let ids: Vec<WireId> =
            all.filter(|(_, entry)| due(entry)).map(|(key, _)| WireId(key)).collect();
        for id in ids {
            self.entry(id).session.handle_timeout(now);
            self.touch(id);
        }
    }

    /// Sends the pending bytes of all sessions, with one system call per socket.
    pub(crate) fn transmit(&mut self, reactor: &mut Reactor) {
        let mut ids = std::mem::take(&mut self.to_transmit);
        for id in ids.drain(..) {
            let Some(entry) = self.entries.get_mut(id.0) else { continue };
            entry.dirty = false;
            give(&mut self.pieces, reactor, entry);
            if entry.choked && entry.session.queued_bytes() < SEND_QUEUE_LOW {
                entry.choked = false;
                entry.tell_socket(reactor);
                self.touch(id);
            }
        }
        // Reuses the memory for sessions that were touched meanwhile.
        ids.append(&mut self.to_transmit);
        self.to_transmit = ids;
    }

    fn touch(&mut self, id: WireId) {
        if let Some(entry) = self.entries.get_mut(id.0)
            && !entry.queued
        {
            entry.queued = true;
            self.to_poll.push_back(id);
        }
        self.mark_dirty(id);
    }

    fn mark_dirty(&mut self, id: WireId) {
        if let Some(entry) = self.entries.get_mut(id.0)
            && !entry.dirty
        {
            entry.dirty = true;
            self.to_transmit.push(id);
        }
    }

    fn entry(&mut self, id: WireId) -> &mut Entry {
        self.entries.get_mut(id.0).expect("the core knows living sessions only")
    }
}

/// Moves a session's pending bytes to its socket; the rest follows after `Drained`.
fn give(pieces: &mut Vec<Bytes>, reactor: &mut Reactor, entry: &mut Entry) {
    fill(pieces, reactor, entry);
    if let Some(socket) = entry.socket {
        reactor.flush(socket);
    }
}

fn fill(pieces: &mut Vec<Bytes>, reactor: &mut Reactor, entry: &mut Entry) {
    let Some(socket) = entry.socket else { return };
    while reactor.send_queue_len(socket) < SOCKET_QUEUE_MAX
        && entry.session.poll_transmit(pieces) > 0
    {
        for piece in pieces.drain(..) {
            reactor.send(socket, piece);
        }
    }
}
