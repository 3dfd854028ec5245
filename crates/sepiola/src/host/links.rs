//! Local links: sessions between daemons of one process.

use engine::{ConnId, Message, Peer};
use rt::Sender;
use std::collections::VecDeque;
use stdx::FastMap;
use types::ParticipantName;

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
}

impl Directory {
    pub fn insert(&mut self, participant: ParticipantName, address: NodeAddress) {
        self.nodes.insert(participant, address);
    }

    pub fn find(&self, participant: ParticipantName) -> Option<NodeAddress> {
        self.nodes.get(&participant).copied()
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
