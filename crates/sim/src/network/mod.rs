//! Links between processes: order is kept within a link and never between links.
//!
//! Two networks carry the same sessions. [`direct`] hands messages over as they are; [`wired`] puts
//! a `msgr` session and a stream of bytes, cut anywhere, between the two ends. Either way a process
//! sees what a real host would show it: authentication, sessions opened, messages, sessions closed.
//!
//! The network knows no process: it says what arrives where ([`Delivery`]), and is told what a
//! process wants by calls.

mod direct;
mod weather;
mod wired;

pub use direct::Direct;
pub use weather::{Way, Weather};
pub use wired::Wired;

use crate::agenda::Agenda;
use crate::world::Event;
use engine::{
    AuthRequest, AuthVerdict, ConnId, ConnectTarget, ConnectingAnswer, ConnectingStep, Duration,
    Message, Peer, Time,
};
use stdx::Prng;
use types::{EntityAddrVec, EntityName, EntityType, ParticipantName};

/// The index of a process.
pub type NodeId = usize;

/// How long silence is borne.
const SILENCE_MS_MAX: u64 = 30_000;

/// What arrives at a process.
#[derive(Debug)]
pub enum Arrival {
    /// Somebody connects and authenticates.
    Auth(AuthRequest),
    /// The other end's step in the authentication of a session that this end opens.
    Connecting(ConnectingStep),
    Opened(Peer),
    Message(Message),
    /// Nobody listens where the session leads.
    Refused,
    Closed,
}

#[derive(Debug)]
pub struct Delivery {
    pub node: NodeId,
    pub conn: ConnId,
    pub arrival: Arrival,
}

/// How a process is found and who it is to others.
#[derive(Debug, Clone)]
pub struct Presence {
    /// All names under which it is looked for: a monitor is the manager too.
    pub participants: Vec<ParticipantName>,
    pub name: EntityName,
    pub addrs: EntityAddrVec,
    /// Daemons trust each other; clients authenticate.
    pub is_client: bool,
    pub is_up: bool,
}

impl Presence {
    pub fn participant(&self) -> ParticipantName {
        self.participants[0]
    }

    fn answers_to(&self, target: &ConnectTarget) -> bool {
        let same_addr = target.addrs.0.iter().any(|addr| self.addrs.0.contains(addr));
        // Ranks of monitors change; they are told apart by their addresses.
        let is_it = |mine: &ParticipantName| {
            *mine == target.participant
                || mine.kind == EntityType::MON && mine.kind == target.participant.kind
        };
        self.participants.iter().any(is_it) && same_addr
    }
}

/// What a network needs of the world while it works.
pub struct Context<'a> {
    /// What each process's clock shows beyond the agenda's time.
    pub skews: &'a [Duration],
    pub agenda: &'a mut Agenda<Event>,
    pub prng: &'a mut Prng,
    pub presences: &'a [Presence],
    pub weather: &'a Weather,
    pub deliveries: &'a mut std::collections::VecDeque<Delivery>,
}

impl Context<'_> {
    /// What that process's clock shows.
    fn clock(&self, node: NodeId) -> Time {
        self.agenda.now() + self.skews[node]
    }

    fn delay(&mut self, way: Way) -> Duration {
        self.weather.delay(self.prng, way)
    }

    fn deliver(&mut self, node: NodeId, conn: ConnId, arrival: Arrival) {
        self.deliveries.push_back(Delivery { node, conn, arrival });
    }

    /// The process that a session is opened with, if it is there.
    fn find(&self, target: &ConnectTarget) -> Option<NodeId> {
        self.presences.iter().position(|node| node.is_up && node.answers_to(target))
    }
}

/// What happens in a network, at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkEvent {
    /// The first parcel for that end is due.
    Parcel {
        link: u64,
        end: usize,
    },
    /// An end has heard nothing for too long.
    Silence {
        link: u64,
    },
    /// The first bytes for that end are due.
    Bytes {
        socket: u64,
        end: usize,
    },
    /// The attempt to connect succeeds or fails.
    Dialed {
        session: u64,
        socket: u64,
    },
    /// An end learns that its connection is gone.
    Lost {
        session: u64,
        socket: u64,
    },
    Timeout {
        session: u64,
    },
}

/// Either network.
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

    /// The process is gone. Its peers find out: soon, or, if its host went silent with it, late.
    pub fn node_died(&mut self, cx: &mut Context<'_>, node: NodeId, silently: bool) {
        match self {
            Network::Direct(network) => network.node_died(cx, node, silently),
            Network::Wired(network) => network.node_died(cx, node, silently),
        }
    }

    /// Breaks about `share` percent of all connections that `node` takes part in.
    pub fn cut(&mut self, cx: &mut Context<'_>, node: NodeId, share: u64) {
        match self {
            Network::Direct(network) => network.cut(cx, node, share),
            Network::Wired(network) => network.cut(cx, node, share),
        }
    }

    /// Some processes do not reach each other any more.
    pub fn partitioned(&mut self, cx: &mut Context<'_>) {
        match self {
            Network::Direct(network) => network.partitioned(cx),
            // Sessions find out by themselves.
            Network::Wired(_) => {}
        }
    }

    /// The weather has changed: what was held back may go on.
    pub fn resume(&mut self, cx: &mut Context<'_>) {
        match self {
            Network::Direct(network) => network.resume(cx),
            Network::Wired(network) => network.resume(cx),
        }
    }
}
