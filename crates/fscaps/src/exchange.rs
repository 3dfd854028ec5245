//! Inputs and outputs of the lock machine.

use crate::group::Kind;
use crate::requests::{Entry, InodeId, RequestId};
use crate::sessions::EvictReason;
use engine::Time;
use wire::{CapBits, CapOp};

/// A message to a client about one of its capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notice {
    /// The client.
    pub client: u64,
    /// Grant or revocation.
    pub op: CapOp,
    /// The inode.
    pub ino: InodeId,
    /// Id of the capability.
    pub cap_id: u64,
    /// Number of the message.
    pub seq: u32,
    /// Number of the last reply that gave the capability.
    pub issue_seq: u32,
    /// Number of its migrations.
    pub mseq: u32,
    /// Bits that the client has from now on.
    pub caps: CapBits,
    /// Bits that it wants, as far as the server knows.
    pub wanted: CapBits,
}

/// A capability as a reply gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IssuedCap {
    /// Id of the capability.
    pub cap_id: u64,
    /// Number of the message.
    pub seq: u32,
    /// Number of its migrations.
    pub mseq: u32,
    /// Bits that the client has from now on.
    pub caps: CapBits,
    /// Bits that it wants, as far as the server knows.
    pub wanted: CapBits,
}

/// A capability that a reply is going to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Issue {
    /// The inode.
    pub ino: InodeId,
    /// Its kind.
    pub kind: Kind,
    /// The client.
    pub client: u64,
    /// Bits that the client wants from now on, besides those that it wants already.
    pub wanted: CapBits,
    /// Whether it may create and unlink asynchronously in this directory.
    pub may_delegate: bool,
    /// Bits that it may have at all; `PIN` is always one.
    pub allowed: CapBits,
    /// Whether the client has made the inode before it asked, and assumes a capability with the id 1.
    pub is_assumed: bool,
}

/// A client says what it has and wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Update {
    /// The client.
    pub client: u64,
    /// The inode.
    pub ino: InodeId,
    /// Id of the capability.
    pub cap_id: u64,
    /// Number of its migrations.
    pub mseq: u32,
    /// Number of the last message about it that the client has seen.
    pub seq: u32,
    /// Number of the last reply about it that the client has seen.
    pub issue_seq: u32,
    /// Bits that it keeps.
    pub kept: CapBits,
    /// Bits that it wants.
    pub wanted: CapBits,
}

/// A client says which capability it had from a predecessor of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The client.
    pub client: u64,
    /// The inode.
    pub ino: InodeId,
    /// Its kind.
    pub kind: Kind,
    /// Id of the capability.
    pub cap_id: u64,
    /// Number of its migrations.
    pub mseq: u32,
    /// Bits that it has.
    pub issued: CapBits,
    /// Bits that it wants.
    pub wanted: CapBits,
    /// Bits that it may have at all; others it loses.
    pub allowed: CapBits,
}

/// A client has dropped a capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    /// The client.
    pub client: u64,
    /// The inode.
    pub ino: InodeId,
    /// Id of the capability.
    pub cap_id: u64,
    /// Number of its migrations.
    pub mseq: u32,
    /// Number of the last reply about it that the client has seen.
    pub issue_seq: u32,
}

/// An effect that the server carries out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// A message for a client.
    Notice(Notice),
    /// No other client holds anything against the request any more: plan it again, and demand again.
    Ready(RequestId),
    /// A client must forget a lease.
    RevokeLease {
        /// The client.
        client: u64,
        /// The entry.
        entry: Entry,
        /// Number of the lease.
        seq: u32,
    },
    /// A range must be recorded, or its removal. When a range is durable, `handle_range_durable` is told.
    RecordRange {
        /// The inode.
        ino: InodeId,
        /// The writer.
        client: u64,
        /// Its end; `None` to remove it.
        end: Option<u64>,
    },
    /// A client should keep only so many capabilities.
    Recall {
        /// The client.
        client: u64,
        /// Capabilities that it may keep.
        caps_max: usize,
    },
    /// A client renews its session, and has not answered a revocation for long.
    LateRelease {
        /// The client.
        client: u64,
        /// The inode.
        ino: InodeId,
        /// When it was asked.
        since: Time,
    },
    /// A client must be evicted; `close_session` follows when it cannot write any more.
    Evict {
        /// The client.
        client: u64,
        /// The reason.
        reason: EvictReason,
    },
}
