//! Numbers of processes, and directions between two of them.

/// Index of a process.
pub type NodeId = usize;

/// Direction of messages: from, to.
pub type Way = (NodeId, NodeId);
