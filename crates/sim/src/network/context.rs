//! Parts of the world that a network uses, and arrivals that it hands over.

use super::faults::NetworkFaults;
use crate::agenda::Agenda;
use crate::event::Event;
use crate::node::{NodeId, Way};
use engine::{AuthRequest, ConnId, ConnectTarget, ConnectingStep, Duration, Message, Peer, Time};
use std::collections::VecDeque;
use stdx::Prng;
use types::{EntityAddrVec, EntityName, EntityType, ParticipantName};

/// Longest time in milliseconds before silence ends a session.
pub(super) const SILENCE_MS_MAX: u64 = 30_000;

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

/// An arrival and its place.
#[derive(Debug)]
pub struct Delivery {
    /// The process.
    pub node: NodeId,
    /// The session, as the process names it.
    pub conn: ConnId,
    /// The event.
    pub arrival: Arrival,
}

/// Addresses and identity of a process.
#[derive(Debug, Clone)]
pub struct Presence {
    /// All names under which others connect to it: a monitor is the manager too.
    pub participants: Vec<ParticipantName>,
    /// Name under which it authenticates.
    pub name: EntityName,
    /// Addresses at which it listens, or from which it connects.
    pub addrs: EntityAddrVec,
    /// Clients authenticate; daemons trust each other.
    pub is_client: bool,
    /// False while the process does not run.
    pub is_up: bool,
}

impl Presence {
    /// Its first name.
    pub fn participant(&self) -> ParticipantName {
        self.participants[0]
    }

    pub(super) fn answers_to(&self, target: &ConnectTarget) -> bool {
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
    /// True time and future events.
    pub agenda: &'a mut Agenda<Event>,
    /// The generator of delays.
    pub prng: &'a mut Prng,
    /// All processes.
    pub presences: &'a [Presence],
    /// Faults of links and suspended processes.
    pub network_faults: &'a NetworkFaults,
    /// Arrivals that processes have not handled yet.
    pub deliveries: &'a mut VecDeque<Delivery>,
}

impl Context<'_> {
    /// The clock of that process.
    pub(super) fn clock(&self, node: NodeId) -> Time {
        self.agenda.now() + self.skews[node]
    }

    pub(super) fn delay(&mut self, way: Way) -> Duration {
        self.network_faults.delay(self.prng, way)
    }

    pub(super) fn deliver(&mut self, node: NodeId, conn: ConnId, arrival: Arrival) {
        self.deliveries.push_back(Delivery { node, conn, arrival });
    }

    /// The process that a session's target names, if it exists.
    pub(super) fn find(&self, target: &ConnectTarget) -> Option<NodeId> {
        self.presences.iter().position(|node| node.is_up && node.answers_to(target))
    }
}
