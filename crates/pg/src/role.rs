//! The state of a copy that goes with its role in the group.

use crate::State;
use crate::message::Header;
use crate::primary::Primary;
use crate::reshape::SplitMerge;
use types::OsdId;

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
        asked_by: Option<OsdId>,
    },
}

impl Default for Role {
    fn default() -> Self {
        Role::follower(FollowerStage::Stray)
    }
}

impl Role {
    pub fn follower(stage: FollowerStage) -> Self {
        Role::Follower(Follower { asked_by: None, stage })
    }

    pub fn state(&self) -> State {
        match self {
            Role::Loading(_) => State::Loading,
            Role::Refused(_) => State::Refused,
            Role::Follower(follower) => match follower.stage {
                FollowerStage::Stray => State::Stray,
                FollowerStage::Replica => State::Replica,
                FollowerStage::Active { .. } => State::ReplicaActive,
                FollowerStage::Stalled => State::Stalled,
            },
            Role::Primary(primary) => primary.stage.state(),
            Role::SplitMerge(_) => State::Reshaping,
            Role::Failed { .. } => State::Failed,
        }
    }

    /// The primary whose query is to be answered when no transaction is in flight any more.
    pub fn take_query(&mut self) -> Option<OsdId> {
        match self {
            Role::Follower(Follower { asked_by, .. }) | Role::Failed { asked_by } => {
                asked_by.take()
            }
            _ => None,
        }
    }

    /// The reservation of an active replica.
    pub fn reservation(&mut self) -> Option<&mut Option<OsdId>> {
        match self {
            Role::Follower(Follower { stage: FollowerStage::Active { backfilled_by }, .. }) => {
                Some(backfilled_by)
            }
            _ => None,
        }
    }

    /// Gives up the reservation; whether there was one.
    pub fn drop_reservation(&mut self) -> bool {
        self.reservation().and_then(Option::take).is_some()
    }

    /// Whether this copy, as a backfill target, has a reservation for this primary, or waits for one.
    pub fn is_backfilled_by(&self, primary: OsdId) -> bool {
        let Role::Follower(follower) = self else { return false };
        matches!(follower.stage, FollowerStage::Active { backfilled_by } if backfilled_by == Some(primary))
    }
}

/// A copy that is not the primary's.
#[derive(Debug)]
pub(crate) struct Follower {
    /// The primary that queried this copy while transactions were in flight.
    pub asked_by: Option<OsdId>,
    pub stage: FollowerStage,
}

#[derive(Debug)]
pub(crate) enum FollowerStage {
    Stray,
    Replica,
    Active {
        /// The primary for which this copy, as a backfill target, has a reservation or waits for one.
        backfilled_by: Option<OsdId>,
    },
    Stalled,
}

/// A copy whose stored state is not known yet, or not any more.
#[derive(Debug, Default)]
pub(crate) struct Loading {
    /// A query that arrived meanwhile.
    pub asked_by: Option<(OsdId, Header)>,
    /// Set if the map has split or merged the group: the copy stops once it is loaded.
    pub split_merge: Option<Box<SplitMerge>>,
}
