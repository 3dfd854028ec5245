//! Two hosts, their sessions and the connections between them, in virtual time.

#![allow(dead_code)]

use bytes::{Bytes, BytesMut};
use engine::{
    AuthRequest, AuthVerdict, ConnectTarget, ConnectingAnswer, ConnectingStep, Duration, Message,
    Policy, Time,
};
use msgr::{Admission, CloseReason, Config, Event, MODE_CRC, MODE_SECURE, Session};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use stdx::Prng;
use types::{EntityAddr, EntityAddrVec, EntityName, EntityType, ParticipantName};

/// Turns after which the pump is taken for livelocked.
const TURNS_MAX: usize = 10_000;

pub struct World {
    pub now: Time,
    pub prng: Prng,
    pub hosts: [Host; 2],
    pub sockets: Vec<Socket>,
    pub secure: bool,
    /// The mode that the accepting host chooses, if it is not the one that it was offered.
    pub chosen_mode: Option<u32>,
    /// False: the network is cut.
    pub linked: bool,
}

pub struct Host {
    pub config: Arc<Config>,
    pub sessions: BTreeMap<u64, Entry>,
    next_session: u64,
    pub received: Vec<u64>,
    pub opened: usize,
    pub closed: Vec<CloseReason>,
    pub opened_peers: Vec<engine::Peer>,
}

pub struct Entry {
    pub session: Session,
    pub socket: Option<usize>,
}

/// A connection; end 0 has opened it.
pub struct Socket {
    ends: [Option<(usize, u64)>; 2],
    /// Bytes in flight to that end.
    bytes: [VecDeque<Bytes>; 2],
    pub open: bool,
}

pub fn addr(host: usize) -> EntityAddr {
    format!("v2:10.0.0.{}:6800/{}", host + 1, host + 1).parse().unwrap()
}

pub fn message(tid: u64, length: usize) -> Message {
    let front = Bytes::copy_from_slice(&tid.to_le_bytes());
    Message::new(42, 1, 1, front).with_tid(tid).with_data(Bytes::from(vec![tid as u8; length]))
}

impl World {
    pub fn new(seed: u64, policy: Policy, secure: bool) -> Self {
        let host = |index: usize| {
            let mut config =
                Config::daemon(EntityType::OSD, index as i64, EntityAddrVec::one(addr(index)));
            if policy == Policy::Lossy {
                config.lossless_peers = EntityType(0);
            }
            Host {
                config: Arc::new(config),
                sessions: BTreeMap::new(),
                next_session: 0,
                received: Vec::new(),
                opened: 0,
                closed: Vec::new(),
                opened_peers: Vec::new(),
            }
        };
        World {
            now: Time(1_000_000_000_000),
            prng: Prng::new(seed),
            hosts: [host(0), host(1)],
            sockets: Vec::new(),
            secure,
            chosen_mode: None,
            linked: true,
        }
    }

    /// Host `from` opens a session with the other one.
    pub fn connect(&mut self, from: usize, policy: Policy) -> u64 {
        let target = ConnectTarget {
            participant: ParticipantName::new(EntityType::OSD, 1 - from as i64),
            addrs: EntityAddrVec::one(addr(1 - from)),
            policy,
        };
        let config = self.hosts[from].config.clone();
        let session = Session::connect(config, self.now, target, self.prng.next_u64());
        self.add(from, session, None)
    }

    fn add(&mut self, host: usize, session: Session, socket: Option<usize>) -> u64 {
        let host = &mut self.hosts[host];
        host.next_session += 1;
        host.sessions.insert(host.next_session, Entry { session, socket });
        host.next_session
    }

    pub fn session(&mut self, host: usize, id: u64) -> &mut Session {
        &mut self.hosts[host].sessions.get_mut(&id).expect("the session exists").session
    }

    /// Runs everything that can happen without time passing.
    pub fn run(&mut self) {
        assert!(self.run_turns(TURNS_MAX) < TURNS_MAX, "the sessions never come to rest");
    }

    /// Runs at most `limit` turns; in each, every session acts once and gets some bytes.
    pub fn run_turns(&mut self, limit: usize) -> usize {
        (0..limit).find(|_| !self.turn()).unwrap_or(limit)
    }

    fn turn(&mut self) -> bool {
        let mut busy = false;
        for host in 0..2 {
            let ids: Vec<u64> = self.hosts[host].sessions.keys().copied().collect();
            for id in ids {
                busy |= self.drive(host, id);
            }
        }
        busy | (self.linked && self.deliver())
    }

    /// Advances time to the next timeout up to `limit`; false if there is none.
    pub fn advance(&mut self, limit: Duration) -> bool {
        let entries = || self.hosts.iter().flat_map(|host| host.sessions.values());
        let next = entries().filter_map(|entry| entry.session.poll_timeout()).min();
        let Some(next) = next.filter(|next| *next <= self.now + limit) else { return false };
        self.now = self.now.max(next);
        let now = self.now;
        let mut entries: Vec<&mut Entry> =
            self.hosts.iter_mut().flat_map(|host| host.sessions.values_mut()).collect();
        if self.prng.chance(1, 2) {
            entries.reverse();
        }
        entries.into_iter().for_each(|entry| entry.session.handle_timeout(now));
        self.run();
        true
    }

    /// Breaks all connections; the ends learn of it in random order.
    pub fn cut(&mut self) {
        for index in 0..self.sockets.len() {
            let reversed = self.prng.chance(1, 2);
            self.close_socket(index, reversed);
        }
    }

    fn close_socket(&mut self, index: usize, reversed: bool) {
        if !std::mem::replace(&mut self.sockets[index].open, false) {
            return;
        }
        let ends = if reversed { [1, 0] } else { [0, 1] };
        for end in ends {
            let Some((host, id)) = self.sockets[index].ends[end] else { continue };
            let now = self.now;
            let Some(entry) = self.hosts[host].sessions.get_mut(&id) else { continue };
            if entry.socket == Some(index) {
                entry.socket = None;
                entry.session.handle_disconnected(now);
            }
        }
    }

    fn drive(&mut self, host: usize, id: u64) -> bool {
        let mut busy = false;
        loop {
            let Some(entry) = self.hosts[host].sessions.get_mut(&id) else { return true };
            let Some(event) = entry.session.poll_event() else { break };
            busy = true;
            self.handle_event(host, id, event);
        }
        self.transmit(host, id) || busy
    }

    fn transmit(&mut self, host: usize, id: u64) -> bool {
        let entry = self.hosts[host].sessions.get_mut(&id).expect("it was just driven");
        let mut pieces = Vec::new();
        let length = entry.session.poll_transmit(&mut pieces);
        entry.session.check_invariants();
        assert_eq!(length, pieces.iter().map(Bytes::len).sum::<usize>());
        let Some(index) = entry.socket else { return false };
        let socket = &mut self.sockets[index];
        if length > 0 && socket.open {
            let end = socket.end_of(host, id);
            socket.bytes[1 - end].extend(pieces);
        }
        length > 0
    }

    fn deliver(&mut self) -> bool {
        let mut busy = false;
        for index in 0..self.sockets.len() {
            for end in 0..2 {
                busy |= self.deliver_to(index, end);
            }
        }
        busy
    }

    fn deliver_to(&mut self, index: usize, end: usize) -> bool {
        let socket = &mut self.sockets[index];
        let (Some((host, id)), true) = (socket.ends[end], socket.open) else { return false };
        let now = self.now;
        let Some(entry) = self.hosts[host].sessions.get_mut(&id) else { return false };
        if entry.socket != Some(index) {
            return false;
        }
        if let Some(lacking) = entry.session.receive_hint() {
            // Receives straight into the session's buffer, in part, as a host does.
            let mut buffer = entry.session.take_receive_buffer().unwrap();
            let wanted = 1 + self.prng.below(lacking as u64) as usize;
            let filled = socket.take(end, wanted);
            buffer.extend_from_slice(&filled);
            entry.session.handle_filled(now, buffer);
            return !filled.is_empty();
        }
        let wanted = 1 + self.prng.below(5000) as usize;
        let chunk = socket.take(end, wanted);
        if chunk.is_empty() {
            return false;
        }
        entry.session.handle_received(now, chunk.freeze());
        true
    }

    fn handle_event(&mut self, host: usize, id: u64, event: Event) {
        match event {
            Event::Connect { addr: to } => {
                assert_eq!(Some(to), addr(1 - host).socket);
                self.open_socket(host, id);
            }
            Event::Disconnect => self.release(host, id),
            Event::Closed { reason } => {
                self.release(host, id);
                self.hosts[host].sessions.remove(&id);
                self.hosts[host].closed.push(reason);
            }
            Event::Opened(peer) => {
                self.hosts[host].opened += 1;
                self.hosts[host].opened_peers.push(peer);
            }
            Event::Message(message) => {
                assert_eq!(message.front[..], message.tid.to_le_bytes());
                assert!(message.data.iter().all(|byte| *byte == message.tid as u8));
                self.hosts[host].received.push(message.tid);
            }
            Event::Introduced(introduction) => self.admit(host, id, &introduction.addrs),
            auth => self.authenticate(host, id, auth),
        }
    }

    /// Closes the socket of the session, if it has one.
    fn release(&mut self, host: usize, id: u64) {
        let entry = self.hosts[host].sessions.get_mut(&id).expect("it reported an event");
        if let Some(index) = entry.socket.take() {
            self.close_socket(index, false);
        }
    }

    fn open_socket(&mut self, host: usize, id: u64) {
        self.release(host, id);
        let index = self.sockets.len();
        let peer = 1 - host;
        let (config, seed) = (self.hosts[peer].config.clone(), self.prng.next_u64());
        let accepted = Session::accept(config, self.now, addr(host), seed);
        let accepted = self.add(peer, accepted, Some(index));
        self.sockets.push(Socket {
            ends: [Some((host, id)), Some((peer, accepted))],
            bytes: Default::default(),
            open: true,
        });
        let entry = self.hosts[host].sessions.get_mut(&id).expect("it asked for the socket");
        entry.socket = Some(index);
        entry.session.handle_connected(self.now);
    }

    fn admit(&mut self, host: usize, id: u64, peer: &EntityAddrVec) {
        let mut entry = self.hosts[host].sessions.remove(&id).expect("it reported an event");
        let existing = self.hosts[host]
            .sessions
            .iter_mut()
            .find(|(_, entry)| entry.session.registry_key() == Some(peer));
        let (existing_id, mut existing) = existing.map(|(id, entry)| (*id, entry)).unzip();
        let admission = entry.session.admit(existing.as_mut().map(|entry| &mut entry.session));
        if admission != Admission::Adopted {
            self.hosts[host].sessions.insert(id, entry);
            return;
        }
        let (existing, existing_id) = (existing.unwrap(), existing_id.unwrap());
        let (old, new) = (existing.socket, entry.socket.unwrap());
        existing.socket = Some(new);
        self.sockets[new].ends[1] = Some((host, existing_id));
        if let Some(old) = old {
            self.close_socket(old, false);
        }
        assert!(entry.session.poll_event().is_none());
    }

    fn authenticate(&mut self, host: usize, id: u64, event: Event) {
        let (key, secret) = (Bytes::from_static(b"session key"), Bytes::from(vec![7; 64]));
        let (mode, now) = (if self.secure { MODE_SECURE } else { MODE_CRC }, self.now);
        let chosen_mode = self.chosen_mode;
        let peer = EntityName::osd(1 - host as i32);
        let session = self.session(host, id);
        match event {
            Event::Connecting(ConnectingStep::Begin) => session.answer(ConnectingAnswer::Start {
                method: 2,
                preferred_modes: vec![mode],
                payload: Bytes::from_static(b"hello"),
            }),
            Event::Connecting(ConnectingStep::More { payload }) => {
                assert_eq!(payload, "challenge");
                session.answer(ConnectingAnswer::More { payload: Bytes::from_static(b"proof") });
            }
            Event::Connecting(ConnectingStep::Done { payload, .. }) => {
                assert_eq!(payload, "welcome");
                session.answer(ConnectingAnswer::Finish {
                    session_key: key,
                    connection_secret: secret,
                });
            }
            Event::AuthRequest(AuthRequest::Start { method, preferred_modes, .. }) => {
                assert_eq!((method, preferred_modes), (2, vec![mode]));
                let payload = Bytes::from_static(b"challenge");
                session.handle_auth_verdict(now, AuthVerdict::More { payload });
            }
            Event::AuthRequest(AuthRequest::More { payload }) => {
                assert_eq!(payload, "proof");
                let verdict = AuthVerdict::Done {
                    name: peer,
                    global_id: 0,
                    mode: chosen_mode.unwrap_or(mode),
                    payload: Bytes::from_static(b"welcome"),
                    session_key: key,
                    connection_secret: secret,
                    caps: Bytes::from_static(b"caps"),
                };
                session.handle_auth_verdict(now, verdict);
            }
            other => panic!("unexpected {other:?}"),
        }
    }
}

impl Socket {
    fn end_of(&self, host: usize, id: u64) -> usize {
        let end = self.ends.iter().position(|end| *end == Some((host, id)));
        end.expect("the session has this socket")
    }

    fn take(&mut self, end: usize, mut wanted: usize) -> BytesMut {
        let mut taken = BytesMut::new();
        while let Some(piece) = self.bytes[end].front_mut() {
            if wanted == 0 {
                break;
            }
            let part = piece.split_to(piece.len().min(wanted));
            wanted -= part.len();
            taken.extend_from_slice(&part);
            if piece.is_empty() {
                self.bytes[end].pop_front();
            }
        }
        taken
    }
}
