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
    /// Number of its core in the process.
    pub core: usize,
    /// Its number on that core.
    pub node: usize,
}

/// One end of a local link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkEnd {
    /// The daemon at this end.
    pub address: NodeAddress,
    /// Its name for the session.
    pub conn: ConnId,
}

/// A message over a local link, with its destination.
#[derive(Debug)]
pub enum LocalMessage {
    /// Opens a session.
    Opened {
        /// End of the receiver.
        to: LinkEnd,
        /// End of the daemon that connects.
        from: LinkEnd,
        /// That daemon, as the receiver sees it; authentication is omitted within a process.
        peer: Box<Peer>,
    },
    /// A message of an open session.
    Message {
        /// End of the receiver.
        to: LinkEnd,
        /// The message, as it was made: it was never encoded.
        message: Message,
    },
    /// The other end has closed the session.
    Closed {
        /// End of the receiver.
        to: LinkEnd,
    },
}

impl LocalMessage {
    /// The end that it goes to.
    pub fn destination(&self) -> LinkEnd {
        match self {
            LocalMessage::Opened { to, .. }
            | LocalMessage::Message { to, .. }
            | LocalMessage::Closed { to } => *to,
        }
    }
}

/// How daemons of one process find another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addressing {
    /// By its name.
    Name(ParticipantName),
    /// By its kind and listening address, because its name may pass to another daemon while both run: ranks
    /// of monitors change.
    Listening(EntityType, SocketAddr),
}

/// The daemons of this process; fixed when the cores start.
#[derive(Debug, Clone, Default)]
pub struct Directory {
    by_name: FastMap<ParticipantName, NodeAddress>,
    listening: Vec<(EntityType, SocketAddr, NodeAddress)>,
}

impl Directory {
    /// Adds a daemon.
    pub fn insert(&mut self, addressing: Addressing, address: NodeAddress) {
        match addressing {
            Addressing::Name(participant) => {
                self.by_name.insert(participant, address);
            }
            Addressing::Listening(kind, listen) => self.listening.push((kind, listen, address)),
        }
    }

    /// The daemon for a target, if it runs in this process.
    pub fn find(&self, target: &ConnectTarget) -> Option<NodeAddress> {
        if let Some(address) = self.by_name.get(&target.participant) {
            return Some(*address);
        }
        let is_meant = |listen: &SocketAddr| {
            target.addrs.0.iter().any(|addr| addr.socket.is_some_and(|socket| socket == *listen))
        };
        let mut listening = self.listening.iter();
        let found = listening
            .find(|(kind, listen, _)| *kind == target.participant.kind && is_meant(listen));
        found.map(|(_, _, address)| *address)
    }
}

/// Sends local messages to the mailboxes of the other cores, in order.
#[derive(Debug)]
pub(crate) struct Outbox {
    cores: Vec<Sender<LocalMessage>>,
    /// Messages that a full mailbox did not take; they are offered again each turn. Their number is bounded
    /// by the requests that clients may have in flight.
    waiting: Vec<VecDeque<LocalMessage>>,
}

impl Outbox {
    pub(crate) fn new(cores: Vec<Sender<LocalMessage>>) -> Self {
        let waiting = cores.iter().map(|_| VecDeque::new()).collect();
        Outbox { cores, waiting }
    }

    pub(crate) fn send(&mut self, local_message: LocalMessage) {
        let core = local_message.destination().address.core;
        self.waiting[core].push_back(local_message);
        self.offer(core);
    }

    /// True if messages still wait.
    pub(crate) fn offer_all(&mut self) -> bool {
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
