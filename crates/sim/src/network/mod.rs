//! Links between processes: order is kept within a link, and never between links.
//!
//! Two networks carry the same sessions. [`direct`] delivers messages as values; [`wired`] puts a `msgr`
//! session and a stream of bytes, cut anywhere, between the two ends. Either way a process sees the events
//! of a real host: authentication, sessions opened, messages, sessions closed.
//!
//! The network knows no process: it returns arrivals ([`Delivery`]), and processes act on it by calls.

mod direct;
mod faults;
mod wired;

pub use direct::Direct;
pub use faults::{NetworkFaults, Way};
pub use wired::Wired;

use crate::agenda::Agenda;
use crate::world::Event;
use engine::{
    AuthRequest, AuthVerdict, ConnId, ConnectTarget, ConnectingAnswer, ConnectingStep, Duration,
    Message, Peer, Time,
};
use stdx::Prng;
use types::{EntityAddrVec, EntityName, EntityType, ParticipantName};

/// Index of a process.
pub type NodeId = usize;

/// Longest time in milliseconds before silence ends a session.
const SILENCE_MS_MAX: u64 = 30_000;

/// An event that arrives at a process.
#[derive(Debug)]
pub enum Arrival {
    /// A peer connects and authenticates.
    Auth(AuthRequest),
    /// A step of the other end in the authentication of a session that this end opens.
    Connecting(ConnectingStep),
    Opened(Peer),
    Message(Message),
    /// No process listens at the session's target.
    Refused,
    Closed,
}

#[derive(Debug)]
pub struct Delivery {
    pub node: NodeId,
    pub conn: ConnId,
    pub arrival: Arrival,
}

/// Addresses and identity of a process.
#[derive(Debug, Clone)]
pub struct Presence {
    /// All names under which others connect to it: a monitor is the manager too.
    pub participants: Vec<ParticipantName>,
    pub name: EntityName,
    pub addrs: EntityAddrVec,
    /// Clients authenticate; daemons trust each other.
    pub is_client: bool,
    pub is_up: bool,
}

impl Presence {
    pub fn participant(&self) -> ParticipantName {
        self.participants[0]
    }

    fn answers_to(&self, target: &ConnectTarget) -> bool {
        let same_addr = target.addrs.0.iter().any(|addr| self.addrs.0.contains(addr));
        // Ranks of monitors change, so monitors are identified by their addresses.
        let is_it = |mine: &ParticipantName| {
            *mine == target.participant
                || mine.kind == EntityType::MON && mine.kind == target.participant.kind
        };
        self.participants.iter().any(is_it) && same_addr
    }
}

/// Parts of the world that a network uses.
pub struct Context<'a> {
    /// By how much the clock of each process is ahead of the agenda's time.
    pub skews: &'a [Duration],
    pub agenda: &'a mut Agenda<Event>,
    pub prng: &'a mut Prng,
    pub presences: &'a [Presence],
    pub network_faults: &'a NetworkFaults,
    pub deliveries: &'a mut std::collections::VecDeque<Delivery>,
}

impl Context<'_> {
    /// The clock of that process.
    fn clock(&self, node: NodeId) -> Time {
        self.agenda.now() + self.skews[node]
    }

    fn delay(&mut self, way: Way) -> Duration {
        self.network_faults.delay(self.prng, way)
    }

    fn deliver(&mut self, node: NodeId, conn: ConnId, arrival: Arrival) {
        self.deliveries.push_back(Delivery { node, conn, arrival });
    }

    /// The process that a session's target names, if it exists.
    fn find(&self, target: &ConnectTarget) -> Option<NodeId> {
        self.presences.iter().position(|node| node.is_up && node.answers_to(target))
    }
}

/// A scheduled event of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkEvent {
    /// The first message for that end is due.
    LinkMessage {
        link: u64,
        end: usize,
    },
    /// An end has not heard from the other for too long.
    Silence {
        link: u64,
    },
    /// The first bytes for that end are due.
    Bytes {
        socket: u64,
        end: usize,
    },
    /// A connection attempt succeeds or fails.
    Dialed {
        session: u64,
        socket: u64,
    },
    /// An end learns that its connection is lost.
    Lost {
        session: u64,
        socket: u64,
    },
    Timeout {
        session: u64,
    },
}

/// One of the two networks.
pub enum Network {
    Direct(Direct),
    Wired(Wired),
}

impl Network {
    pub fn connect(
        &mut self,
        cx: &mut Context<'_>,
        node: NodeId,
        conn: ConnId,
        target: &ConnectTarget,
    ) {
        match self {
            Network::Direct(network) => network.connect(cx, node, conn, target),
            Network::Wired(network) => network.connect(cx, node, conn, target),
        }
    }

    pub fn send(&mut self, cx: &mut Context<'_>, node: NodeId, conn: ConnId, message: Message) {
        match self {
            Network::Direct(network) => network.send(cx, node, conn, message),
            Network::Wired(network) => network.send(cx, node, conn, message),
        }
    }

    pub fn close(&mut self, cx: &mut Context<'_>, node: NodeId, conn: ConnId) {
        match self {
            Network::Direct(network) => network.close(cx, node, conn),
            Network::Wired(network) => network.close(cx, node, conn),
        }
    }

    pub fn pause(&mut self, cx: &mut Context<'_>, node: NodeId, conn: ConnId, paused: bool) {
        match self {
            Network::Direct(network) => network.pause(cx, node, conn, paused),
            Network::Wired(network) => network.pause(cx, node, conn, paused),
        }
    }

    pub fn verdict(
        &mut self,
        cx: &mut Context<'_>,
        node: NodeId,
        conn: ConnId,
        verdict: AuthVerdict,
    ) {
        match self {
            Network::Direct(network) => network.verdict(cx, node, conn, verdict),
            Network::Wired(network) => network.verdict(cx, node, conn, verdict),
        }
    }

    pub fn answer(
        &mut self,
        cx: &mut Context<'_>,
        node: NodeId,
        conn: ConnId,
        answer: ConnectingAnswer,
    ) {
        match self {
            Network::Direct(network) => network.answer(cx, node, conn, answer),
            Network::Wired(network) => network.answer(cx, node, conn, answer),
        }
    }

    pub fn handle(&mut self, cx: &mut Context<'_>, event: NetworkEvent) {
        match self {
            Network::Direct(network) => network.handle(cx, event),
            Network::Wired(network) => network.handle(cx, event),
        }
    }

    /// Removes a process that died. Its peers are notified: soon, or late if its host went silent with it.
    pub fn node_died(&mut self, cx: &mut Context<'_>, node: NodeId, silently: bool) {
        match self {
            Network::Direct(network) => network.node_died(cx, node, silently),
            Network::Wired(network) => network.node_died(cx, node, silently),
        }
    }

    /// Breaks about `share` percent of all connections of `node`.
    pub fn cut(&mut self, cx: &mut Context<'_>, node: NodeId, share: u64) {
        match self {
            Network::Direct(network) => network.cut(cx, node, share),
            Network::Wired(network) => network.cut(cx, node, share),
        }
    }

    /// Called after a partition has begun.
    pub fn partitioned(&mut self, cx: &mut Context<'_>) {
        match self {
            Network::Direct(network) => network.partitioned(cx),
            // `msgr` sessions detect a partition by themselves.
            Network::Wired(_) => {}
        }
    }

    /// Called after faults of the network have changed: messages held back may continue.
    pub fn resume(&mut self, cx: &mut Context<'_>) {
        match self {
            Network::Direct(network) => network.resume(cx),
            Network::Wired(network) => network.resume(cx),
        }
    }
}
