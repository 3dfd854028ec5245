//! The stages of a copy that is not the primary's.

use crate::State;
use crate::core::Core;
use types::OsdId;

/// A copy that is not the primary's.
#[derive(Debug)]
pub(crate) struct Follower {
    /// The primary that queried this copy while transactions were in flight.
    pub asked_by: Option<OsdId>,
    pub stage: FollowerStage,
}

/// The states of a follower. See [`State`].
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

impl FollowerStage {
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
    pub fn new(stage: FollowerStage) -> Self {
        Follower { asked_by: None, stage }
    }

    /// Whether this copy takes part in writes.
    pub fn is_active(&self) -> bool {
        matches!(self.stage, FollowerStage::Active { .. })
    }

    /// The primary of an active copy.
    pub(super) fn primary(&self, core: &Core) -> OsdId {
        core.placement.members.primary.expect("an active group has a primary")
    }

    /// Gives up the reservation; whether there was one.
    pub fn drop_reservation(&mut self) -> bool {
        match &mut self.stage {
            FollowerStage::Active { backfilled_by } => backfilled_by.take().is_some(),
            _ => false,
        }
    }

    /// Whether this copy, as a backfill target, has a reservation for this primary, or waits for one.
    pub fn is_backfilled_by(&self, primary: OsdId) -> bool {
        matches!(self.stage, FollowerStage::Active { backfilled_by } if backfilled_by == Some(primary))
    }
}
