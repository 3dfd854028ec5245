//! The stages of a primary, with the state that goes with each.

use crate::Member;
use crate::State;
use crate::members::MemberSet;
use crate::peers::Known;
use crate::serving::{Agreed, Serving};
use std::collections::BTreeSet;
use types::EVersion;

/// The primary in the present interval.
#[derive(Debug)]
pub(crate) struct Primary {
    /// Knowledge of the other copies.
    pub known: Known,
    /// The stage of peering, or the work of an activated primary.
    pub stage: Stage,
}

/// The states of a primary. See [`State`].
#[derive(Debug)]
pub(crate) enum Stage {
    GetInfo {
        /// OSDs that have not answered.
        waiting: BTreeSet<Member>,
    },
    /// The authoritative log is found by comparing logs. Shown as GetLog.
    CompareLogs {
        /// Members that have not sent their logs.
        waiting: BTreeSet<Member>,
    },
    GetLog {
        agreed: Agreed,
        /// The OSD with the authoritative log.
        authority: Member,
        /// The newest entry of it that counts.
        head: EVersion,
    },
    GetMissing {
        agreed: Agreed,
        /// Participants that have not sent their logs.
        waiting: BTreeSet<Member>,
    },
    WaitActingChange,
    WaitUpThru(Agreed),
    Activating {
        agreed: Agreed,
        /// Participants that have not stored their activation.
        waiting: MemberSet,
    },
    WaitReadable(Agreed),
    Active(Serving),
    Inactive(Serving),
    Down,
    Incomplete,
    Stalled,
}

impl Stage {
    /// The state that is shown.
    pub fn state(&self) -> State {
        match self {
            Stage::GetInfo { .. } => State::GetInfo,
            Stage::CompareLogs { .. } | Stage::GetLog { .. } => State::GetLog,
            Stage::GetMissing { .. } => State::GetMissing,
            Stage::WaitActingChange => State::WaitActingChange,
            Stage::WaitUpThru(_) => State::WaitUpThru,
            Stage::Activating { .. } => State::Activating,
            Stage::WaitReadable(_) => State::WaitReadable,
            Stage::Active(_) => State::Active,
            Stage::Inactive(_) => State::Inactive,
            Stage::Down => State::Down,
            Stage::Incomplete => State::Incomplete,
            Stage::Stalled => State::Stalled,
        }
    }

    /// The beginning of peering, without a question to anyone.
    pub fn get_info() -> Self {
        Stage::GetInfo { waiting: BTreeSet::new() }
    }

    /// The work of an activated primary; `None` in other stages.
    pub fn serving(&self) -> Option<&Serving> {
        match self {
            Stage::Active(serving) | Stage::Inactive(serving) => Some(serving),
            _ => None,
        }
    }

    /// See [`Stage::serving`].
    pub fn serving_mut(&mut self) -> Option<&mut Serving> {
        match self {
            Stage::Active(serving) | Stage::Inactive(serving) => Some(serving),
            _ => None,
        }
    }

    /// The members that were agreed on; `None` before the authoritative log is chosen.
    pub fn agreed(&self) -> Option<&Agreed> {
        match self {
            Stage::GetLog { agreed, .. }
            | Stage::GetMissing { agreed, .. }
            | Stage::WaitUpThru(agreed)
            | Stage::Activating { agreed, .. }
            | Stage::WaitReadable(agreed) => Some(agreed),
            Stage::Active(serving) | Stage::Inactive(serving) => Some(&serving.agreed),
            Stage::GetInfo { .. }
            | Stage::CompareLogs { .. }
            | Stage::WaitActingChange
            | Stage::Down
            | Stage::Incomplete
            | Stage::Stalled => None,
        }
    }

    /// See [`Stage::agreed`].
    pub fn agreed_mut(&mut self) -> Option<&mut Agreed> {
        match self {
            Stage::GetLog { agreed, .. }
            | Stage::GetMissing { agreed, .. }
            | Stage::WaitUpThru(agreed)
            | Stage::Activating { agreed, .. }
            | Stage::WaitReadable(agreed) => Some(agreed),
            Stage::Active(serving) | Stage::Inactive(serving) => Some(&mut serving.agreed),
            Stage::GetInfo { .. }
            | Stage::CompareLogs { .. }
            | Stage::WaitActingChange
            | Stage::Down
            | Stage::Incomplete
            | Stage::Stalled => None,
        }
    }

    /// The OSDs whose answers this stage waits for.
    pub fn waiting_for(&self) -> BTreeSet<Member> {
        match self {
            Stage::GetInfo { waiting }
            | Stage::CompareLogs { waiting }
            | Stage::GetMissing { waiting, .. } => waiting.clone(),
            Stage::Activating { agreed, waiting } => agreed.participants.select(*waiting).collect(),
            _ => BTreeSet::new(),
        }
    }
}
