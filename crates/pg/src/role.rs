//! The state of a copy that goes with its role in the group.

use crate::backfill::Backfill;
use crate::lost::UnfoundCount;
use crate::members::{MemberSet, Participants};
use crate::peers::Peer;
use crate::recovery::Recovery;
use crate::replicate::InFlight;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use types::OsdId;

/// The primary's knowledge of the present interval.
#[derive(Debug, Default)]
pub(crate) struct Primary {
    /// The infos and missing sets of other OSDs, as told in this interval.
    pub peers: BTreeMap<OsdId, Peer>,
    /// OSDs that were queried in this interval.
    pub asked: BTreeSet<OsdId>,
    /// Down OSDs without which peering cannot proceed.
    pub blocked_by: BTreeSet<OsdId>,
    /// The acting set to ask the monitor for; empty means the up set.
    pub wanted: Option<Vec<OsdId>>,
    pub unfound: UnfoundCount,
    /// OSDs whose answers the present state waits for.
    pub waiting: BTreeSet<OsdId>,
    /// The OSD with the authoritative log.
    pub authority: Option<OsdId>,
}

/// The members with which the primary continues, once it has chosen the authoritative log.
#[derive(Debug, Default)]
pub(crate) struct Agreed {
    /// Members that take part in writes: the acting set and backfill targets.
    pub participants: Participants,
    pub backfill: Backfill,
    /// The acting members whose disks are nearly full.
    pub short: MemberSet,
}

/// The work of an activated primary.
#[derive(Debug, Default)]
pub(crate) struct Serving {
    /// Writes that are not durable on all participants, oldest first.
    pub in_flight: VecDeque<InFlight>,
    pub recovery: Recovery,
    pub is_clean: bool,
}

/// The duties of a copy that is not the primary's.
#[derive(Debug, Default)]
pub(crate) struct Follower {
    /// The primary that queried this copy while transactions were in flight.
    pub asked_by: Option<OsdId>,
    /// The primary for which this copy, as a backfill target, has a reservation or waits for one.
    pub backfilled_by: Option<OsdId>,
}
