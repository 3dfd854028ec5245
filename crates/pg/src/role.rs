//! The state of a copy that goes with its role in the group.

use crate::Member;
use crate::State;
use crate::follower::{Follower, FollowerStage};
use crate::message::Header;
use crate::primary::Primary;
use crate::split_merge::SplitMerge;

/// The role of a copy in the present interval, with the state that goes with it.
#[derive(Debug)]
pub(crate) enum Role {
    Loading(Loading),
    Refused(Loading),
    Follower(Follower),
    Primary(Box<Primary>),
    SplitMerge(Box<SplitMerge>),
    Failed {
        /// The primary that queried this copy before, while transactions were in flight. It is answered
        /// when all are completed.
        asked_by: Option<Member>,
    },
}

impl Default for Role {
    fn default() -> Self {
        Role::follower(FollowerStage::Stray)
    }
}

impl Role {
    /// The role of a copy that is not primary.
    pub fn follower(stage: FollowerStage) -> Self {
        Role::Follower(Follower::new(stage))
    }

    /// The state that is shown.
    pub fn state(&self) -> State {
        match self {
            Role::Loading(_) => State::Loading,
            Role::Refused(_) => State::Refused,
            Role::Follower(follower) => follower.stage.state(),
            Role::Primary(primary) => primary.stage.state(),
            Role::SplitMerge(_) => State::SplitMerge,
            Role::Failed { .. } => State::Failed,
        }
    }

    /// The primary whose query is to be answered when no transaction is in flight any more.
    pub fn take_query(&mut self) -> Option<Member> {
        match self {
            Role::Follower(Follower { asked_by, .. }) | Role::Failed { asked_by } => {
                asked_by.take()
            }
            _ => None,
        }
    }
}

/// A copy whose stored state is not known yet, or not any more.
#[derive(Debug, Default)]
pub(crate) struct Loading {
    /// A query that arrived meanwhile.
    pub asked_by: Option<(Member, Header)>,
    /// Set if the map has split or merged the group: the copy stops once it is loaded.
    pub split_merge: Option<Box<SplitMerge>>,
}
