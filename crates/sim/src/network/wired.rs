//! Network of `msgr` sessions over byte streams that arrive late, in pieces, and break anywhere.
//!
//! Between daemons the network answers authentication itself. Clients authenticate with their own method.

mod sockets;

use super::context::{Arrival, Context, Presence, SILENCE_MS_MAX};
use crate::event::{Event as WorldEvent, NetworkEvent};
use crate::node::NodeId;
use bytes::Bytes;
use engine::{
    AuthVerdict, ConnId, ConnectTarget, ConnectingAnswer, ConnectingStep, Duration, Message, Time,
};
use msgr::{Admission, Config, Event, MODE_CRC, Session};
use sockets::Sockets;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use types::{EntityAddrVec, EntityType, ParticipantName};

/// Authentication method between daemons; private to the simulation.
const METHOD_TRUSTED: u32 = 1;
/// Interval at which delivery to a suspended process is retried.
const PAUSED_AGAIN: Duration = Duration::from_millis(100);

/// Sessions and sockets by number.
#[derive(Default)]
pub struct Wired {
    sessions: BTreeMap<u64, Entry>,
    conns: BTreeMap<(NodeId, ConnId), u64>,
    sessions_made: u64,
    sockets: Sockets,
}

struct Entry {
    session: Session,
    socket: Option<u64>,
    node: NodeId,
    conn: ConnId,
    /// The daemon at the other end, which proves nothing.
    trusts: Option<NodeId>,
    paused: bool,
    /// The scheduled timeout.
    timeout: Option<Time>,
}

impl Wired {
    /// Opens a session from a process to a target.
    pub fn connect(
        &mut self,
        cx: &mut Context<'_>,
        node: NodeId,
        conn: ConnId,
        target: &ConnectTarget,
    ) {
        let seed = cx.prng.next_u64();
        let config = config_of(cx, node, cx.presences[node].participant());
        let session = Session::connect(config, cx.clock(node), target.clone(), seed);
        let id = self.insert(session, node, conn);
        self.entry(id).trusts = (!cx.presences[node].is_client).then_some(node);
        self.drive(cx, id);
    }

    fn insert(&mut self, session: Session, node: NodeId, conn: ConnId) -> u64 {
        self.sessions_made += 1;
        let id = self.sessions_made;
        let entry =
            Entry { session, socket: None, node, conn, trusts: None, paused: false, timeout: None };
        self.sessions.insert(id, entry);
        self.conns.insert((node, conn), id);
        id
    }

    fn entry(&mut self, id: u64) -> &mut Entry {
        self.sessions.get_mut(&id).expect("the session exists")
    }

    fn find(&self, node: NodeId, conn: ConnId) -> Option<u64> {
        self.conns.get(&(node, conn)).copied()
    }

    /// Sends a message over a session.
    pub fn send(&mut self, cx: &mut Context<'_>, node: NodeId, conn: ConnId, message: Message) {
        let Some(id) = self.find(node, conn) else { return };
        // A session that has just ended reports that by an event.
        let _ = self.entry(id).session.send(message);
        self.drive(cx, id);
    }

    /// Closes a session at one end.
    pub fn close(&mut self, cx: &mut Context<'_>, node: NodeId, conn: ConnId) {
        let Some(id) = self.find(node, conn) else { return };
        self.transmit(cx, id);
        self.entry(id).session.close();
        self.remove(cx, id);
    }

    fn remove(&mut self, cx: &mut Context<'_>, id: u64) {
        self.release(cx, id);
        if let Some(entry) = self.sessions.remove(&id) {
            self.conns.remove(&(entry.node, entry.conn));
        }
    }

    /// Stops or resumes delivery to one end of a session.
    pub fn pause(&mut self, cx: &mut Context<'_>, node: NodeId, conn: ConnId, paused: bool) {
        let Some(id) = self.find(node, conn) else { return };
        self.entry(id).paused = paused;
        self.drive(cx, id);
        self.resume(cx);
    }

    /// The acceptor's verdict on an authentication.
    pub fn verdict(
        &mut self,
        cx: &mut Context<'_>,
        node: NodeId,
        conn: ConnId,
        verdict: AuthVerdict,
    ) {
        let Some(id) = self.find(node, conn) else { return };
        let clock = cx.clock(node);
        self.entry(id).session.handle_auth_verdict(clock, verdict);
        self.drive(cx, id);
    }

    /// The opener's answer to a step of its authentication.
    pub fn answer(
        &mut self,
        cx: &mut Context<'_>,
        node: NodeId,
        conn: ConnId,
        answer: ConnectingAnswer,
    ) {
        let Some(id) = self.find(node, conn) else { return };
        self.entry(id).session.answer(answer);
        self.drive(cx, id);
    }

    /// Handles an event that the network scheduled.
    pub fn handle(&mut self, cx: &mut Context<'_>, event: NetworkEvent) {
        if self.stands_still(cx, event) {
            return cx.agenda.after(PAUSED_AGAIN, WorldEvent::Network(event));
        }
        match event {
            NetworkEvent::LinkMessage { .. } | NetworkEvent::Silence { .. } => {}
            NetworkEvent::Bytes { socket, end } => self.bytes_due(cx, socket, end),
            NetworkEvent::Dialed { session, socket } => self.dialed(cx, session, socket),
            NetworkEvent::Lost { session, socket } => self.lost(cx, session, socket),
            NetworkEvent::Timeout { session } => self.timeout(cx, session),
        }
    }

    /// True if the event is for a suspended process, which handles it later. Bytes are accepted, as by a
    /// kernel, and held back by the reader.
    fn stands_still(&self, cx: &Context<'_>, event: NetworkEvent) -> bool {
        let is_paused = |session: u64| {
            self.sessions.get(&session).is_some_and(|entry| cx.network_faults.is_paused(entry.node))
        };
        match event {
            NetworkEvent::Dialed { session, socket } => {
                let acceptor = self.sockets.acceptor(socket);
                is_paused(session)
                    || acceptor.is_some_and(|(to, _)| cx.network_faults.is_paused(to))
            }
            NetworkEvent::Lost { session, .. } | NetworkEvent::Timeout { session } => {
                is_paused(session)
            }
            _ => false,
        }
    }

    fn timeout(&mut self, cx: &mut Context<'_>, id: u64) {
        if let Some(entry) = self.sessions.get_mut(&id) {
            entry.timeout = None;
            entry.session.handle_timeout(cx.clock(entry.node));
            self.drive(cx, id);
        }
    }

    /// Reports the result of a connection attempt to the session.
    fn dialed(&mut self, cx: &mut Context<'_>, id: u64, socket: u64) {
        let Some(entry) = self.sessions.get_mut(&id) else { return };
        if entry.socket != Some(socket) {
            return;
        }
        let (node, conn, clock) = (entry.node, entry.conn, cx.clock(entry.node));
        let acceptor = self.sockets.acceptor(socket).filter(|to| cx.presences[to.0].is_up);
        if acceptor.is_none() && !cx.presences[node].is_client {
            cx.deliver(node, conn, Arrival::Refused);
        }
        let Some((to, participant)) = acceptor.filter(|to| !cx.network_faults.is_cut(node, to.0))
        else {
            self.sockets.remove(socket);
            self.entry(id).socket = None;
            self.entry(id).session.handle_disconnected(clock);
            return self.drive(cx, id);
        };
        self.entry(id).session.handle_connected(clock);
        let config = config_of(cx, to, participant);
        let seen = cx.presences[node].addrs.msgr2().unwrap_or_default();
        let accepted = Session::accept(config, cx.clock(to), seen, cx.prng.next_u64());
        let conn = ConnId(ConnId::ACCEPTED + self.sessions_made);
        let accepted = self.insert(accepted, to, conn);
        self.entry(accepted).socket = Some(socket);
        self.entry(accepted).trusts = (!cx.presences[node].is_client).then_some(node);
        self.sockets.join(socket, [id, accepted]);
        self.drive(cx, accepted);
        self.drive(cx, id);
    }

    fn lost(&mut self, cx: &mut Context<'_>, id: u64, socket: u64) {
        let Some(entry) = self.sessions.get_mut(&id) else { return };
        if entry.socket == Some(socket) {
            entry.socket = None;
            entry.session.handle_disconnected(cx.clock(entry.node));
            self.drive(cx, id);
        }
    }

    fn bytes_due(&mut self, cx: &mut Context<'_>, socket: u64, end: usize) {
        let Some((id, other)) = self.sockets.ends(socket, end) else { return };
        let peer = other.and_then(|other| self.sessions.get(&other)).map(|other| other.node);
        let Some(entry) = self.sessions.get_mut(&id) else { return };
        let clock = cx.clock(entry.node);
        let held = entry.paused
            || cx.network_faults.is_paused(entry.node)
            || peer.is_some_and(|peer| cx.network_faults.is_blocked((peer, entry.node)));
        let Some(chunk) = self.sockets.take(cx, socket, end, held) else { return };
        if entry.socket != Some(socket) {
            return;
        }
        if let Some(lacking) = entry.session.receive_hint()
            && let Some(mut buffer) = entry.session.take_receive_buffer()
        {
            // Like a host that receives straight into the session's buffer.
            let direct = chunk.len().min(lacking);
            buffer.extend_from_slice(&chunk[..direct]);
            entry.session.handle_filled(clock, buffer);
            if direct < chunk.len() {
                self.drive(cx, id);
                if let Some(entry) = self.sessions.get_mut(&id) {
                    entry.session.handle_received(clock, chunk.slice(direct..));
                }
            }
        } else {
            entry.session.handle_received(clock, chunk);
        }
        self.drive(cx, id);
    }

    /// Processes a session's events and sends its output.
    fn drive(&mut self, cx: &mut Context<'_>, id: u64) {
        while let Some(entry) = self.sessions.get_mut(&id) {
            let Some(event) = (!entry.paused).then(|| entry.session.poll_event()).flatten() else {
                break;
            };
            self.happened(cx, id, event);
        }
        self.transmit(cx, id);
        let Some(entry) = self.sessions.get_mut(&id) else { return };
        entry.session.check_invariants();
        let due = entry.session.poll_timeout();
        if let Some(due) = due
            && entry.timeout.is_none_or(|scheduled| due < scheduled)
        {
            entry.timeout = Some(due);
            let wait = due.since(cx.clock(entry.node));
            cx.agenda.after(wait, WorldEvent::Network(NetworkEvent::Timeout { session: id }));
        }
    }

    fn transmit(&mut self, cx: &mut Context<'_>, id: u64) {
        let Some(entry) = self.sessions.get_mut(&id) else { return };
        let mut pieces = Vec::new();
        while entry.session.poll_transmit(&mut pieces) > 0 {}
        let Some(socket) = entry.socket.filter(|_| !pieces.is_empty()) else { return };
        let from = entry.node;
        let peer = self.sockets.peer(socket, id).and_then(|peer| self.sessions.get(&peer));
        let to = peer.map_or(from, |peer| peer.node);
        self.sockets.send(cx, socket, id, (from, to), pieces);
    }

    fn happened(&mut self, cx: &mut Context<'_>, id: u64, event: Event) {
        let (node, conn) = (self.entry(id).node, self.entry(id).conn);
        let arrival = match event {
            Event::Message(message) => Arrival::Message(message),
            Event::Opened(peer) => Arrival::Opened(peer),
            Event::Connect { addr } => return self.dial(cx, id, addr),
            Event::Disconnect => return self.release(cx, id),
            Event::Introduced(introduction) => return self.admit(cx, id, &introduction.addrs),
            Event::Closed { .. } => {
                self.transmit(cx, id);
                self.remove(cx, id);
                Arrival::Closed
            }
            auth => match self.entry(id).trusts {
                Some(daemon) => return self.trust(cx, id, daemon, auth),
                None => match auth_arrival(auth) {
                    Some(arrival) => arrival,
                    None => return self.entry(id).session.answer(ConnectingAnswer::Refuse),
                },
            },
        };
        cx.deliver(node, conn, arrival);
    }

    /// Daemons prove no identity: the other end of the session is the daemon that opened it.
    fn trust(&mut self, cx: &mut Context<'_>, id: u64, opener: NodeId, event: Event) {
        let clock = cx.clock(self.entry(id).node);
        let name = cx.presences[opener].name.clone();
        let session = &mut self.entry(id).session;
        match event {
            Event::Connecting(ConnectingStep::Begin) => session.answer(ConnectingAnswer::Start {
                method: METHOD_TRUSTED,
                preferred_modes: vec![MODE_CRC],
                payload: Bytes::new(),
            }),
            Event::Connecting(ConnectingStep::Done { .. }) => {
                let (session_key, connection_secret) = (Bytes::new(), Bytes::new());
                session.answer(ConnectingAnswer::Finish { session_key, connection_secret });
            }
            Event::AuthRequest(_) => {
                let verdict = AuthVerdict::Done {
                    name,
                    global_id: 0,
                    mode: MODE_CRC,
                    payload: Bytes::new(),
                    session_key: Bytes::new(),
                    connection_secret: Bytes::new(),
                    caps: Bytes::new(),
                };
                session.handle_auth_verdict(clock, verdict);
            }
            _ => session.answer(ConnectingAnswer::Refuse),
        }
    }

    fn dial(&mut self, cx: &mut Context<'_>, id: u64, addr: std::net::SocketAddr) {
        self.release(cx, id);
        let listener =
            |presence: &Presence| presence.addrs.0.iter().position(|own| own.socket == Some(addr));
        let found = cx.presences.iter().enumerate().find_map(|(node, presence)| {
            // A monitor listens as the manager at its second address.
            let index = listener(presence)?;
            Some((node, presence.participants[index.min(presence.participants.len() - 1)]))
        });
        let socket = self.sockets.make(found);
        self.entry(id).socket = Some(socket);
        let from = self.entry(id).node;
        let delay = cx.delay((from, found.map_or(from, |(to, _)| to)));
        cx.agenda.after(delay, WorldEvent::Network(NetworkEvent::Dialed { session: id, socket }));
    }

    /// Closes the session's socket, if any; the other end is notified.
    fn release(&mut self, cx: &mut Context<'_>, id: u64) {
        let Some(socket) = self.sessions.get_mut(&id).and_then(|entry| entry.socket.take()) else {
            return;
        };
        self.sockets.close(cx, socket, Some(id));
    }

    fn admit(&mut self, cx: &mut Context<'_>, id: u64, peer: &EntityAddrVec) {
        let mut entry = self.sessions.remove(&id).expect("it reported an event");
        let node = entry.node;
        let existing = self
            .sessions
            .iter_mut()
            .find(|(_, other)| other.node == node && other.session.registry_key() == Some(peer));
        let (existing_id, mut existing) = existing.map(|(id, entry)| (*id, entry)).unzip();
        let admission = entry.session.admit(existing.as_mut().map(|entry| &mut entry.session));
        if admission != Admission::Adopted {
            self.sessions.insert(id, entry);
        } else {
            let socket = entry.socket.expect("it was introduced over a socket");
            self.conns.remove(&(node, entry.conn));
            let adopter = existing_id.expect("someone adopted it");
            self.release(cx, adopter);
            self.entry(adopter).socket = Some(socket);
            self.sockets.hand_over(socket, id, adopter);
        }
        if let Some(existing) = existing_id {
            self.drive(cx, existing);
        }
    }

    /// Ends all sessions of a process that died; peers learn of it soon, or late if its host died with it.
    pub fn node_died(&mut self, cx: &mut Context<'_>, node: NodeId, silently: bool) {
        let of_node = self.sessions.iter().filter(|(_, entry)| entry.node == node);
        let dead: Vec<u64> = of_node.map(|(id, _)| *id).collect();
        for id in dead {
            if silently && let Some(socket) = self.entry(id).socket.take() {
                let silence = Duration::from_millis(cx.prng.below(SILENCE_MS_MAX));
                self.sockets.close_after(cx, socket, Some(id), silence);
            }
            self.remove(cx, id);
        }
    }

    /// Breaks about `share` percent of all connections of a process.
    pub fn cut(&mut self, cx: &mut Context<'_>, node: NodeId, share: u64) {
        let sockets: BTreeSet<u64> = self
            .sessions
            .values()
            .filter(|entry| entry.node == node)
            .filter_map(|entry| entry.socket)
            .collect();
        for socket in sockets {
            if cx.prng.chance(share, 100) {
                self.sockets.close(cx, socket, None);
            }
        }
    }

    /// Delivers what faults held back, as far as they are over.
    pub fn resume(&mut self, cx: &mut Context<'_>) {
        self.sockets.resume(cx);
    }
}

fn auth_arrival(event: Event) -> Option<Arrival> {
    Some(match event {
        Event::AuthRequest(request) => Arrival::Auth(request),
        Event::Connecting(ConnectingStep::BadMethod { .. }) => return None,
        Event::Connecting(step) => Arrival::Connecting(step),
        _ => return None,
    })
}

/// Identity that a process presents at the listener of `participant`.
fn config_of(cx: &Context<'_>, node: NodeId, participant: ParticipantName) -> Arc<Config> {
    let presence = &cx.presences[node];
    // A metadata server authenticates like a client, and listens.
    if participant.kind == EntityType::CLIENT {
        let nonce = presence.addrs.msgr2().map_or(0, |addr| addr.nonce);
        return Arc::new(Config::client(nonce));
    }
    Arc::new(Config::daemon(participant.kind, participant.number, presence.addrs.clone()))
}
