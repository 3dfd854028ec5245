//! The plans of a backend, for the primary and its members to carry out.

use crate::Member;
use store::{RequestKind, Transaction};
use types::EVersion;

/// The authoritative log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Authority {
    /// The log of this member, up to this version.
    Log {
        /// The member.
        member: Member,
        /// The newest entry that counts.
        head: EVersion,
    },
    /// The infos prove too little: the logs of these members decide.
    LogsOf(Vec<Member>),
}

/// The transactions of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WritePlan {
    /// All participants store the same.
    Same(Transaction),
    /// Each participant stores its own transaction; they are in the order of the participants.
    #[allow(dead_code, reason = "nothing writes to shards yet")]
    PerShard(Vec<Transaction>),
}

/// The way in which a member reads an object for a client.
#[derive(Debug, Clone)]
pub enum ReadPlan {
    /// Its own store has all of it.
    Local(RequestKind),
    /// The answers to these requests make it up.
    Gather(Vec<(Member, RequestKind)>),
    /// No reachable members have enough of it.
    Lost,
}

/// The way in which the primary gets hold of an object that it then gives to the members that lack it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fetch {
    /// It has the object.
    Nothing,
    /// It pulls the whole object from this member.
    Whole(Member),
    /// It reads the shards of these members, which make up the object.
    Shards(Vec<Member>),
}

/// The rollback of a log entry on the member that has it and should not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undo {
    /// The entry changed nothing.
    Nothing,
    /// The object did not exist before: it is removed.
    Remove,
    /// The object is missing in the version that it had before.
    Miss(EVersion),
}
