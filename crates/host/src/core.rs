//! One thread: a reactor, the daemons on it, and all their sessions.
//!
//! A turn hands all inputs to the daemons, runs them until no output is left, and then passes the pending
//! bytes of each socket and all disk operations to the kernel in one system call. A daemon without inputs in
//! a turn is not polled, so the cost of a turn depends on its events, not on the number of daemons.

use crate::contract::{Hosted, StreamEvent};
use crate::links::{Directory, LinkEnd, LocalMessage, NodeAddress, Outbox};
use crate::streams::Streams;
use crate::wire::{Listening, Wire, WireEvent, WireId};
use anyhow::{Context, Result};
use bytes::Bytes;
use engine::{ConnId, ConnectTarget, CoreLoad, NodeOutput, Peer, Time};
use rt::{
    Clock, Config, DiskFile, DiskResult, Event, FileId, ListenerId, Mailbox, Reactor, Sender,
    Waker, mailbox,
};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use stdx::FastMap;
use types::{EntityAddrVec, EntityName, ParticipantName, features};

/// Messages that a core's mailbox holds before senders have to wait.
const MAILBOX_CAPACITY: usize = 4096;
/// Interval of checking sessions for timeouts; keepalives need no finer one.
const SESSION_SWEEP: Duration = Duration::from_millis(250);
/// Delay before a full mailbox is tried again.
const OUTBOX_RETRY: Duration = Duration::from_micros(200);
/// Interval at which daemons are told the load of the core.
const LOAD_INTERVAL: Duration = Duration::from_secs(1);
/// Work of one turn beyond which clients notice that no daemon answers.
const STALL: Duration = Duration::from_millis(50);
/// Time for which a killed predecessor may hold a port.
pub const PORT_TIME_MAX: Duration = Duration::from_secs(5);
const PORT_RETRY: Duration = Duration::from_millis(10);
/// Token of a disk operation: the node's number in the upper bits, the node's own token below.
const NODE_SHIFT: u32 = 48;

/// A core's place in its process.
#[derive(Debug, Clone, Copy, Default)]
pub struct CoreConfig {
    /// Its number in the process.
    pub index: usize,
    /// Seed of session cookies and connection nonces, from the system's entropy.
    pub seed: u64,
}

/// Transport of a daemon's session.
#[derive(Debug, Clone, Copy)]
enum Link {
    Wire(WireId),
    Local(LinkEnd),
}

struct Slot<N> {
    node: N,
    links: FastMap<ConnId, Link>,
    /// Has had inputs and may have outputs.
    touched: bool,
    /// Has had inputs since its disk operations and its timeout were polled.
    is_stirred: bool,
    /// Time of the next timeout, while it is not stirred.
    due: Option<Time>,
}

impl<N: Hosted> Slot<N> {
    fn new(node: N) -> Self {
        Slot { node, links: FastMap::default(), touched: true, is_stirred: true, due: None }
    }

    fn touch(&mut self) -> &mut N {
        self.touched = true;
        self.is_stirred = true;
        &mut self.node
    }

    fn due(&self) -> Option<Time> {
        if self.is_stirred { self.node.poll_timeout() } else { self.due }
    }

    /// When there is something to do for it: at once if it may have outputs.
    fn wakes(&self) -> Option<Time> {
        if self.touched { Some(Time::ZERO) } else { self.due() }
    }

    /// All inputs have been processed.
    fn rest(&mut self) {
        self.is_stirred = false;
        self.due = self.node.poll_timeout();
    }
}

/// A reactor with the daemons of one thread and all their sessions.
pub struct Core<N> {
    config: CoreConfig,
    clock: Clock,
    now: Time,
    reactor: Reactor,
    streams: Streams,
    wire: Wire,
    slots: Vec<Slot<N>>,
    next_accepted: u64,
    /// Messages for daemons of this core.
    local_messages: VecDeque<LocalMessage>,
    outbox: Outbox,
    directory: Directory,
    mailbox: Mailbox<LocalMessage>,
    sender: Sender<LocalMessage>,
    next_sweep: Time,
    load: CoreLoad,
    /// When the daemons are told the load.
    next_load: Time,
}

impl<N: Hosted> Core<N> {
    /// A core without daemons; it belongs to the thread that makes it.
    pub fn new(config: CoreConfig, clock: Clock) -> Result<Self> {
        let reactor = Reactor::new(Config::default()).context("setting up io_uring")?;
        let (sender, mailbox) = mailbox(MAILBOX_CAPACITY, reactor.waker());
        Ok(Core {
            config,
            now: clock.now(),
            clock,
            reactor,
            streams: Streams::default(),
            wire: Wire::new(config.seed),
            slots: Vec::new(),
            next_accepted: ConnId::ACCEPTED,
            local_messages: VecDeque::new(),
            outbox: Outbox::new(Vec::new()),
            directory: Directory::default(),
            mailbox,
            sender,
            next_sweep: Time::ZERO,
            load: CoreLoad::default(),
            next_load: Time::ZERO,
        })
    }

    /// The time now, by the clock of all cores.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Wakes the core from another thread.
    pub fn waker(&self) -> Waker {
        self.reactor.waker()
    }

    /// The sending end of this core's mailbox.
    pub fn sender(&self) -> Sender<LocalMessage> {
        self.sender.clone()
    }

    /// Address of the next daemon that is added.
    pub fn next_address(&self) -> NodeAddress {
        NodeAddress { core: self.config.index, node: self.slots.len() }
    }

    /// Adds a daemon, which runs from the next turn on.
    pub fn add(&mut self, node: N) -> NodeAddress {
        let address = self.next_address();
        self.slots.push(Slot::new(node));
        address
    }

    /// Opens a file for the daemons of this core.
    pub fn add_file(&mut self, file: DiskFile) -> io::Result<FileId> {
        self.reactor.add_file(file)
    }

    /// True if the storage of all daemons is open; an error if one failed to open.
    pub fn is_open(&self) -> Result<bool> {
        self.slots.iter().try_fold(true, |all, slot| Ok(all & slot.node.is_open()?))
    }

    /// The reason why a daemon cannot go on, if one cannot.
    pub fn check(&mut self) -> Result<()> {
        self.slots.iter_mut().try_for_each(|slot| slot.node.check())
    }

    /// Lets daemons write what saves work at the next start. It is optional, so the wait is bounded.
    pub fn close(&mut self, time_max: Duration) -> Result<()> {
        self.slots.iter_mut().for_each(|slot| slot.touch().close());
        let give_up = self.clock.now() + time_max;
        while !self.slots.iter().all(|slot| slot.node.is_closed()) && self.clock.now() < give_up {
            self.settle();
            self.transmit();
            self.turn(give_up)?;
        }
        Ok(())
    }

    /// A daemon of this core, for its owner.
    pub fn node_mut(&mut self, node: usize) -> &mut N {
        self.slots[node].touch()
    }

    /// Sets the addresses of the other daemons; called before the first turn.
    pub fn introduce(&mut self, directory: Directory, cores: Vec<Sender<LocalMessage>>) {
        self.directory = directory;
        self.outbox = Outbox::new(cores);
    }

    /// Listens for sessions to a daemon, which presents itself there as `listening`.
    pub fn listen(&mut self, addr: SocketAddr, listening: Listening) -> Result<SocketAddr> {
        let (id, local) = self
            .listen_patiently(addr, PORT_TIME_MAX)
            .with_context(|| format!("listening on {addr}"))?;
        self.wire.add_listener(id, local, listening);
        Ok(local)
    }

    /// Retries while the port is in use: the kernel takes a killed process's ring apart in the background,
    /// and its sockets hold their ports until then.
    fn listen_patiently(
        &mut self,
        addr: SocketAddr,
        patience: Duration,
    ) -> io::Result<(ListenerId, SocketAddr)> {
        let give_up = Instant::now() + patience;
        loop {
            match self.reactor.listen(addr) {
                Err(error)
                    if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < give_up =>
                {
                    std::thread::sleep(PORT_RETRY);
                }
                other => return other,
            }
        }
    }

    /// Listens for streams to a daemon. Waits at most for `patience` while the port is in use.
    pub fn listen_for_streams(
        &mut self,
        addr: SocketAddr,
        node: usize,
        patience: Duration,
    ) -> Result<SocketAddr> {
        let listening = self.listen_patiently(addr, patience);
        let (id, local) = listening.with_context(|| format!("listening on {addr}"))?;
        self.streams.add_listener(id, node, Some(local));
        Ok(local)
    }

    /// Listens at a Unix socket.
    pub fn listen_for_streams_at(&mut self, path: &Path, node: usize) -> Result<()> {
        let listening = self.reactor.listen_unix(path);
        let id = listening.with_context(|| format!("listening on {}", path.display()))?;
        self.streams.add_listener(id, node, None);
        Ok(())
    }

    /// One turn of the loop; waits at most until `deadline`.
    pub fn turn(&mut self, deadline: Time) -> Result<()> {
        let is_outbox_waiting = self.outbox.offer_all();
        let now = self.clock.now();
        let until = match (self.wire.is_waiting(), is_outbox_waiting) {
            (true, _) => now,
            (false, true) => deadline.min(now + OUTBOX_RETRY),
            (false, false) => self.wake_time().min(deadline),
        };
        let timeout = until.since(now);
        self.count_turn(now);
        self.reactor.turn(Some(timeout)).context("waiting for io_uring")?;
        self.now = self.clock.now();
        while let Some(event) = self.reactor.poll_event() {
            self.handle_event(event);
        }
        while let Some(local_message) = self.mailbox.receive() {
            self.deliver(local_message);
        }
        self.run_nodes();
        self.sweep_sessions();
        self.settle();
        self.transmit();
        Ok(())
    }

    /// Sends the outputs of `settle`, and begins disk operations.
    pub fn transmit(&mut self) {
        self.wire.transmit(&mut self.reactor);
        for (node, slot) in self.slots.iter_mut().enumerate().filter(|(_, slot)| slot.is_stirred) {
            while let Some((socket, output)) = slot.node.poll_stream() {
                if self.streams.perform(&mut self.reactor, socket, output) {
                    slot.touch().handle_stream(self.now, socket, StreamEvent::Behind);
                }
            }
            while let Some(io) = slot.node.poll_io() {
                debug_assert!(io.token >> NODE_SHIFT == 0, "token {}", io.token);
                let token = (node as u64) << NODE_SHIFT | io.token;
                self.reactor.submit_disk(io.file, token, io.request);
            }
            // Beginning operations may complete requests: without this, nothing would wake the daemon.
            if slot.node.pump_storage(self.now) {
                slot.touch();
            } else {
                slot.rest();
            }
        }
    }

    /// Runs the daemons for requests that the caller made between turns.
    pub fn settle(&mut self) {
        loop {
            let mut quiet = self.run_wire();
            while let Some(local_message) = self.local_messages.pop_front() {
                self.deliver(local_message);
                quiet = false;
            }
            for node in 0..self.slots.len() {
                if !std::mem::take(&mut self.slots[node].touched) {
                    continue;
                }
                while let Some(output) = self.slots[node].node.poll_output(self.now) {
                    self.perform(node, output);
                    quiet = false;
                }
            }
            if quiet {
                return;
            }
        }
    }

    fn wake_time(&self) -> Time {
        let timeouts = self.slots.iter().filter_map(Slot::wakes);
        timeouts.min().unwrap_or(Time::FAR_FUTURE).min(self.next_sweep)
    }

    fn run_nodes(&mut self) {
        for slot in &mut self.slots {
            if slot.is_stirred && slot.node.pump_storage(self.now) {
                slot.touched = true;
            }
            if slot.due().is_some_and(|due| due <= self.now) {
                slot.touch().handle_timeout(self.now);
            }
        }
    }

    fn sweep_sessions(&mut self) {
        if self.now >= self.next_sweep {
            self.next_sweep = self.now + SESSION_SWEEP;
            self.wire.handle_timeout(self.now);
        }
    }

    /// Counts the turn that ends now, and tells the daemons the load if that is due.
    fn count_turn(&mut self, now: Time) {
        self.load.turns += 1;
        self.load.stalls += u64::from(now.since(self.now) > STALL);
        if now >= self.next_load {
            self.next_load = now + LOAD_INTERVAL;
            self.load.cpu = rt::thread_cpu_time() / self.slots.len().max(1) as u32;
            self.slots.iter_mut().for_each(|slot| slot.node.handle_load(self.load));
        }
    }

    fn handle_event(&mut self, event: Event) {
        let event = match self.streams.take(event) {
            Ok((node, socket, event)) => {
                return self.slots[node].touch().handle_stream(self.now, socket, event);
            }
            Err(event) => event,
        };
        match event {
            Event::Accepted { listener, socket, peer: Some(peer) } => {
                self.accepted(listener, socket, peer);
            }
            Event::Accepted { socket, peer: None, .. } => self.reactor.close(socket),
            Event::Connected { socket } => self.wire.connected(self.now, socket),
            Event::Received { socket, bytes } => self.received(socket, bytes),
            Event::Filled { socket, buffer } => {
                self.wire.filled(self.now, socket, buffer);
                self.run_wire();
            }
            Event::ReceiveIdle { socket } => self.wire.receive_idle(&mut self.reactor, socket),
            Event::Drained { socket } => self.wire.drained(socket),
            Event::Closed { socket, error } => self.disconnected(socket, error),
            Event::DiskDone { token, result } => self.disk_done(token, result),
            // A storage with threads has completions; the event does not name it.
            Event::Woken => self.slots.iter_mut().for_each(|slot| slot.is_stirred = true),
        }
    }

    fn disk_done(&mut self, token: u64, result: DiskResult) {
        let (node, token) = (token >> NODE_SHIFT, token & ((1 << NODE_SHIFT) - 1));
        self.slots[node as usize].touch().handle_io(self.now, token, result);
    }

    fn accepted(&mut self, listener: ListenerId, socket: rt::SocketId, peer: SocketAddr) {
        let conn = ConnId(self.next_accepted);
        self.next_accepted += 1;
        if let Some((node, id)) = self.wire.accept(self.now, listener, socket, peer, conn) {
            self.slots[node].links.insert(conn, Link::Wire(id));
        }
        while let Some(id) = self.wire.surplus() {
            tracing::debug!(%peer, "too many connections: the oldest that says nothing is dropped");
            self.end(id);
        }
    }

    /// Ends a session for its daemon as well.
    fn end(&mut self, id: WireId) {
        let (node, conn) = self.wire.owner(id);
        let slot = &mut self.slots[node];
        slot.links.remove(&conn);
        slot.touch().handle_closed(self.now, conn);
        self.wire.remove(&mut self.reactor, id);
    }

    fn disconnected(&mut self, socket: rt::SocketId, error: Option<io::Error>) {
        if let Some(id) = self.wire.disconnected(self.now, socket, error) {
            let (node, conn) = self.wire.owner(id);
            self.slots[node].touch().handle_refused(self.now, conn);
        }
    }

    fn received(&mut self, socket: rt::SocketId, bytes: Bytes) {
        self.wire.received(self.now, socket, bytes);
        // Messages are delivered as they are decoded, so that a long chunk does not pile up.
        self.run_wire();
        self.wire.after_received(&mut self.reactor, socket);
    }

    fn run_wire(&mut self) -> bool {
        let mut quiet = true;
        while let Some((id, event)) = self.wire.poll_event(self.now, &mut self.reactor) {
            self.handle_wire(id, event);
            quiet = false;
        }
        quiet
    }

    fn handle_wire(&mut self, id: WireId, event: WireEvent) {
        let (node, conn) = self.wire.owner(id);
        let node = self.slots[node].touch();
        match event {
            WireEvent::Auth(request) => node.handle_auth(self.now, conn, request),
            WireEvent::Connecting(step) => {
                let answer = node.authenticate(self.now, conn, step);
                self.wire.answer(id, answer);
            }
            WireEvent::Opened(peer) => node.handle_opened(self.now, conn, peer),
            WireEvent::Message(message) => node.handle_message(self.now, conn, message),
            WireEvent::Closed => self.end(id),
        }
    }

    fn perform(&mut self, node: usize, output: NodeOutput) {
        match output {
            NodeOutput::Send { conn, message } => match self.slots[node].links.get(&conn) {
                Some(Link::Wire(id)) => self.wire.send(&mut self.reactor, *id, message),
                Some(Link::Local(end)) => {
                    let to = *end;
                    self.dispatch(LocalMessage::Message { to, message });
                }
                None => {}
            },
            NodeOutput::Connect { conn, target } => self.connect(node, conn, &target),
            NodeOutput::Close { conn } => match self.slots[node].links.remove(&conn) {
                Some(Link::Wire(id)) => self.wire.remove(&mut self.reactor, id),
                Some(Link::Local(to)) => self.dispatch(LocalMessage::Closed { to }),
                None => {}
            },
            NodeOutput::Auth { conn, verdict } => {
                if let Some(Link::Wire(id)) = self.slots[node].links.get(&conn) {
                    self.wire.verdict(self.now, *id, verdict);
                }
            }
            NodeOutput::Pause { conn, paused } => {
                if let Some(Link::Wire(id)) = self.slots[node].links.get(&conn) {
                    self.wire.pause(&mut self.reactor, *id, paused);
                }
            }
        }
    }

    fn connect(&mut self, node: usize, conn: ConnId, target: &ConnectTarget) {
        let here = NodeAddress { core: self.config.index, node };
        if let Some(address) = self.directory.find(target) {
            let from = LinkEnd { address: here, conn };
            // The other end numbers the session in its own space, above the numbers of its sockets' sessions.
            let to = LinkEnd { address, conn: local_conn(here, conn) };
            self.slots[node].links.insert(conn, Link::Local(to));
            let participant = self.slots[node].node.participant();
            let me = local_peer(participant, self.wire.addrs_of(participant));
            self.dispatch(LocalMessage::Opened { to, from, peer: Box::new(me) });
            let other = local_peer(target.participant, target.addrs.clone());
            return self.slots[node].touch().handle_opened(self.now, conn, other);
        }
        let me = self.slots[node].node.participant();
        let id = self.wire.connect(self.now, node, me, conn, target);
        self.slots[node].links.insert(conn, Link::Wire(id));
    }

    fn dispatch(&mut self, local_message: LocalMessage) {
        if local_message.destination().address.core == self.config.index {
            self.local_messages.push_back(local_message);
        } else {
            self.outbox.send(local_message);
        }
    }

    fn deliver(&mut self, local_message: LocalMessage) {
        let slot = &mut self.slots[local_message.destination().address.node];
        match local_message {
            LocalMessage::Opened { to, from, peer } => {
                slot.links.insert(to.conn, Link::Local(from));
                slot.touch().handle_opened(self.now, to.conn, *peer);
            }
            // A message that crossed with the end of its session is dropped, as on any network.
            LocalMessage::Message { to, message } => {
                if slot.links.contains_key(&to.conn) {
                    slot.touch().handle_message(self.now, to.conn, message);
                }
            }
            LocalMessage::Closed { to } => {
                if slot.links.remove(&to.conn).is_some() {
                    slot.touch().handle_closed(self.now, to.conn);
                }
            }
        }
    }
}

/// Id of a local link at its accepting end: unique, because it holds the opener's address and number.
fn local_conn(from: NodeAddress, conn: ConnId) -> ConnId {
    const LOCAL: u64 = 1 << 63;
    ConnId(LOCAL | (from.core as u64) << 48 | (from.node as u64) << 33 | conn.0)
}

/// The peer of a local link; daemons of one process trust each other.
fn local_peer(participant: ParticipantName, addrs: EntityAddrVec) -> Peer {
    Peer {
        participant,
        name: EntityName::new(participant.kind, participant.number.to_string()),
        addrs,
        features: features::SUPPORTED,
        caps: Bytes::new(),
        seen_addr: types::EntityAddr::default(),
    }
}

#[cfg(test)]
mod tests;
