//! Local links: sessions between daemons of one process.

use engine::{ConnId, ConnectTarget, Message, Peer};
use rt::Sender;
use std::collections::VecDeque;
use std::net::SocketAddr;
use stdx::FastMap;
use types::{EntityType, ParticipantName};

/// Where a daemon of this process lives.
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

/// What travels over local links, to the end that is named.
#[derive(Debug)]
pub enum Parcel {
    Opened { to: LinkEnd, from: LinkEnd, peer: Box<Peer> },
    Message { to: LinkEnd, message: Message },
    Closed { to: LinkEnd },
}

impl Parcel {
    pub fn destination(&self) -> LinkEnd {
        match self {
            Parcel::Opened { to, .. } | Parcel::Message { to, .. } | Parcel::Closed { to } => *to,
        }
    }
}

/// The daemons of this process; fixed when the cores start.
#[derive(Debug, Clone, Default)]
pub struct Directory {
    nodes: FastMap<ParticipantName, NodeAddress>,
    /// Monitors, by where they listen: their ranks change while they run, and another one may come to have theirs.
    monitors: Vec<(SocketAddr, NodeAddress)>,
}

impl Directory {
    pub fn insert(&mut self, participant: ParticipantName, address: NodeAddress) {
        self.nodes.insert(participant, address);
    }

    pub fn insert_monitor(&mut self, listen: SocketAddr, address: NodeAddress) {
        self.monitors.push((listen, address));
    }

    /// The daemon that is meant, if it lives here.
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

/// Sends parcels to the mailboxes of the other cores, in order.
#[derive(Debug)]
pub struct Post {
    cores: Vec<Sender<Parcel>>,
    /// What a full mailbox did not take; it is offered again each turn. What waits here is bounded by
    /// what clients may have in flight.
    waiting: Vec<VecDeque<Parcel>>,
}

impl Post {
    pub fn new(cores: Vec<Sender<Parcel>>) -> Self {
        let waiting = cores.iter().map(|_| VecDeque::new()).collect();
        Post { cores, waiting }
    }

    pub fn send(&mut self, parcel: Parcel) {
        let core = parcel.destination().address.core;
        self.waiting[core].push_back(parcel);
        self.offer(core);
    }

    /// Whether parcels still wait.
    pub fn offer_all(&mut self) -> bool {
        (0..self.cores.len()).for_each(|core| self.offer(core));
        self.waiting.iter().any(|queue| !queue.is_empty())
    }

    fn offer(&mut self, core: usize) {
        while let Some(parcel) = self.waiting[core].pop_front() {
            if let Err(parcel) = self.cores[core].send(parcel) {
                self.waiting[core].push_front(parcel);
                return;
            }
        }
    }
}
