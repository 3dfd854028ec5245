//! Local links: sessions between daemons of one process.

use engine::{ConnId, ConnectTarget, Message, Peer};
use rt::Sender;
use std::collections::VecDeque;
use std::net::SocketAddr;
use stdx::FastMap;
use types::{EntityType, ParticipantName};

/// Address of a daemon in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeAddress {
    pub core: usize,
    pub node: usize,
}

/// One end of a local link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkEnd {
    pub address: NodeAddress,
    pub conn: ConnId,
}

/// A message over a local link, with its destination.
#[derive(Debug)]
pub enum LocalMessage {
    Opened { to: LinkEnd, from: LinkEnd, peer: Box<Peer> },
    Message { to: LinkEnd, message: Message },
    Closed { to: LinkEnd },
}

impl LocalMessage {
    pub fn destination(&self) -> LinkEnd {
        match self {
            LocalMessage::Opened { to, .. }
            | LocalMessage::Message { to, .. }
            | LocalMessage::Closed { to } => *to,
        }
    }
}

/// The daemons of this process; fixed when the cores start.
#[derive(Debug, Clone, Default)]
pub struct Directory {
    nodes: FastMap<ParticipantName, NodeAddress>,
    /// Monitors by listening address: ranks change while they run, and may pass to another monitor.
    monitors: Vec<(SocketAddr, NodeAddress)>,
}

impl Directory {
    pub fn insert(&mut self, participant: ParticipantName, address: NodeAddress) {
        self.nodes.insert(participant, address);
    }

    pub fn insert_monitor(&mut self, listen: SocketAddr, address: NodeAddress) {
        self.monitors.push((listen, address));
    }

    /// The daemon for a target, if it runs in this process.
    pub fn find(&self, target: &ConnectTarget) -> Option<NodeAddress> {
        if target.participant.kind != EntityType::MON {
            return self.nodes.get(&target.participant).copied();
        }
        let is_meant = |listen: &SocketAddr| {
            target.addrs.0.iter().any(|addr| addr.socket.is_some_and(|socket| socket == *listen))
        };
        self.monitors.iter().find(|(listen, _)| is_meant(listen)).map(|(_, address)| *address)
    }
}

/// Sends local messages to the mailboxes of the other cores, in order.
#[derive(Debug)]
pub struct Outbox {
    cores: Vec<Sender<LocalMessage>>,
    /// Messages that a full mailbox did not take; they are offered again each turn. Their number is bounded
    /// by the requests that clients may have in flight.
    waiting: Vec<VecDeque<LocalMessage>>,
}

impl Outbox {
    pub fn new(cores: Vec<Sender<LocalMessage>>) -> Self {
        let waiting = cores.iter().map(|_| VecDeque::new()).collect();
        Outbox { cores, waiting }
    }

    pub fn send(&mut self, local_message: LocalMessage) {
        let core = local_message.destination().address.core;
        self.waiting[core].push_back(local_message);
        self.offer(core);
    }

    /// True if messages still wait.
    pub fn offer_all(&mut self) -> bool {
        (0..self.cores.len()).for_each(|core| self.offer(core));
        self.waiting.iter().any(|queue| !queue.is_empty())
    }

    fn offer(&mut self, core: usize) {
        while let Some(local_message) = self.waiting[core].pop_front() {
            if let Err(local_message) = self.cores[core].send(local_message) {
                self.waiting[core].push_front(local_message);
                return;
            }
        }
    }
}
