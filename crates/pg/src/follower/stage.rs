//! The stages of a copy that is not the primary's.

use crate::Member;
use crate::State;
use crate::core::Core;

/// A copy that is not the primary's.
#[derive(Debug)]
pub(crate) struct Follower {
    /// The primary that queried this copy while transactions were in flight.
    pub asked_by: Option<Member>,
    /// The stage of the follower in the present interval.
    pub stage: FollowerStage,
}

/// The states of a follower. See [`State`].
#[derive(Debug)]
pub(crate) enum FollowerStage {
    Stray,
    Replica,
    Active {
        /// The primary for which this copy, as a backfill target, has a reservation or waits for one.
        backfilled_by: Option<Member>,
    },
    Stalled,
}

impl FollowerStage {
    /// The state that is shown.
    pub fn state(&self) -> State {
        match self {
            FollowerStage::Stray => State::Stray,
            FollowerStage::Replica => State::Replica,
            FollowerStage::Active { .. } => State::ReplicaActive,
            FollowerStage::Stalled => State::Stalled,
        }
    }
}

impl Follower {
    /// A follower without a reservation or a pending query.
    pub fn new(stage: FollowerStage) -> Self {
        Follower { asked_by: None, stage }
    }

    /// Whether this copy takes part in writes.
    pub fn is_active(&self) -> bool {
        matches!(self.stage, FollowerStage::Active { .. })
    }

    /// The primary of an active copy.
    pub(super) fn primary(&self, core: &Core) -> Member {
        core.placement.members.primary_member().expect("an active group has a primary")
    }

    /// Gives up the reservation; whether there was one.
    pub fn drop_reservation(&mut self) -> bool {
        match &mut self.stage {
            FollowerStage::Active { backfilled_by } => backfilled_by.take().is_some(),
            _ => false,
        }
    }

    /// The primary for which this copy, as a backfill target, has a reservation or waits for one.
    pub fn backfilled_by(&self) -> Option<Member> {
        match self.stage {
            FollowerStage::Active { backfilled_by } => backfilled_by,
            _ => None,
        }
    }
}
