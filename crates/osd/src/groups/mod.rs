//! The placement groups of this OSD: their table, and their way through maps, splits and merges.

pub(crate) mod group;
pub(crate) mod placement;
pub(crate) mod premerge;
pub(crate) mod split_merge;
pub(crate) mod states;
pub(crate) mod wants;

pub(crate) use group::Group;

use crate::operations::Operations;
use crate::scrub::GroupScrub;
use engine::Time;
use pg::Pg;
use split_merge::Reshaping;
use states::StateTimes;
use std::collections::{BTreeMap, BTreeSet};
use types::{OsdId, PgId};

/// All groups, and the work that is noted for several of them.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// Boxed: a node of the tree has room for eleven, and a group takes 3 kB.
    pub by_id: BTreeMap<PgId, Box<Group>>,
    /// Serial number of the latest group, so that completions for a removed one are recognised.
    pub last_serial: u64,
    /// All groups below this one have been read from the store.
    pub loaded_below: PgId,
    pub split_merge: Reshaping,
    pub state_times: StateTimes,
    /// When to check again whether read leases of prior intervals have expired, by group.
    pub waits: BTreeSet<(Time, PgId)>,
    /// Groups that need something of the monitor (`up_thru`, `pg_temp`), noted during the present
    /// input.
    pub asking: BTreeSet<PgId>,
    /// When to retry work that waits for space or for a map that the monitor has not made yet.
    pub retry_due: Option<Time>,
}

impl Groups {
    /// All groups with the state of their scrubs, ascending by id.
    pub fn scrubs(&self) -> impl Iterator<Item = (&Pg, &GroupScrub)> {
        self.by_id.values().map(|group| (&group.pg, &group.scrub))
    }

    /// Evicts the contexts of idle objects.
    pub fn drop_caches(&mut self, operations: &mut Operations) {
        for group in self.by_id.values_mut() {
            operations.evict_all(&mut group.queues, &group.watches);
        }
    }

    /// The ids of all groups, ascending.
    pub fn ids(&self) -> Vec<PgId> {
        self.by_id.keys().copied().collect()
    }

    /// The OSDs of the up and acting sets of all groups, some more than once.
    pub fn members(&self) -> impl Iterator<Item = OsdId> + '_ {
        self.by_id.values().flat_map(|group| {
            let members = group.pg.members();
            members.acting.iter().chain(&members.up).copied()
        })
    }
}
