//! The plans of a backend, for the primary and its members to carry out.

use crate::{Member, Missing, PgLog};
use std::collections::BTreeSet;
use types::{EVersion, Epoch};

/// The knowledge of other copies, and of past intervals, by which the authoritative log is chosen.
pub(crate) trait Evidence {
    /// Whether all members may have stored the activation of this epoch.
    fn may_be_completed(&self, epoch: Epoch) -> bool;
    /// The log and the missing set of a copy; `None` if it was not asked for them.
    fn log_of(&self, member: Member) -> Option<(&PgLog, &Missing)>;
    /// Whether the copy reported that it misses no object.
    fn misses_nothing(&self, member: Member) -> bool;
    /// The ways in which an entry that was written in this epoch may have been committed. `None` if the
    /// history since is not known.
    fn claims(&self, written: Epoch) -> Option<Vec<Claim>>;
}

/// Acting members that may have committed an entry together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    /// The members.
    pub acting: BTreeSet<Member>,
    /// Set if they may have committed it by an activation, in which some followed it; else they have all
    /// stored it as a write.
    pub is_followed: bool,
}

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
