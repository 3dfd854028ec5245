//! Events that the agenda orders.

use crate::fault::Fault;
use crate::file_strikes::Strike;
use crate::node::NodeId;

/// A scheduled event of the world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A message, bytes, or a timer of the network are due.
    Network(NetworkEvent),
    /// A timer or the disk of a process is due.
    Wake(NodeId),
    /// A client makes its next request; `start` is compared with the process's, which may have restarted.
    Think { node: NodeId, start: u32 },
    /// A process starts whose run was over.
    Restart(NodeId),
    /// The metadata server has answered a client, and dies.
    Strike(NodeId, Strike),
    /// A fault happens that was scheduled together with another one.
    Fault(Fault),
    /// Draws the next fault.
    InjectFault,
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
