//! The plans of a backend, for the primary and its members to carry out.

use crate::Member;
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
