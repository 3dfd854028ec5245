//! A placement group with its state in the OSD: object contexts, waiting requests, watches.

use crate::groups::states::GroupStates;
use crate::leases::{GroupLease, Leases};
use crate::operations::Operations;
use crate::operations::queues::{Counters, GroupQueues};
use crate::operations::service::Served;
use crate::operations::snapshots::PoolSnapshots;
use crate::premerge::Premerge;
use crate::recovery::scheduler::GroupRecovery;
use crate::report::group_state::GroupReport;
use crate::scrub::{GroupScrub, Scrubbed};
use crate::trim::{GroupTrim, Trimmed};
use crate::watches::{GroupWatches, Watched};
use engine::Time;
use pg::Pg;
use types::Epoch;

/// A placement group of this OSD.
#[derive(Debug)]
pub(crate) struct Group {
    pub pg: Pg,
    /// Identifies this instance of the group in completions of the store.
    pub serial: u64,
    /// The epoch since which this OSD is the primary.
    pub primary_since: Option<Epoch>,
    pub premerge: Premerge,
    pub states: GroupStates,
    pub queues: GroupQueues,
    pub snapshots: PoolSnapshots,
    pub counters: Counters,
    pub watches: GroupWatches,
    pub lease: GroupLease,
    pub recovery: GroupRecovery,
    pub scrub: GroupScrub,
    pub trim: GroupTrim,
    pub report: GroupReport,
}

impl Group {
    /// A group without requests; `serial` must differ from that of all earlier groups.
    pub fn new(pg: Pg, serial: u64) -> Self {
        Group {
            pg,
            serial,
            primary_since: None,
            premerge: Premerge::default(),
            states: GroupStates::default(),
            queues: GroupQueues::default(),
            snapshots: PoolSnapshots::default(),
            counters: Counters::default(),
            watches: GroupWatches::default(),
            lease: GroupLease::default(),
            recovery: GroupRecovery::default(),
            scrub: GroupScrub::default(),
            trim: GroupTrim::default(),
            report: GroupReport::default(),
        }
    }

    /// Whether the group takes no more requests: it is about to be merged, and was clean since the
    /// map said so.
    pub fn check_premerge(&mut self) -> bool {
        self.premerge.check_premerge(&mut self.pg)
    }

    /// Whether the group takes no more requests and has none in progress.
    pub fn is_ready_to_merge(&mut self, operations: &Operations) -> bool {
        self.check_premerge() && self.pg.is_settled() && operations.are_idle(&self.queues)
    }

    /// The parts that the service of requests touches.
    pub fn served(&mut self) -> Served<'_> {
        Served {
            id: self.pg.pg_shard(),
            pg: &mut self.pg,
            queues: &mut self.queues,
            snapshots: &self.snapshots,
            counters: &mut self.counters,
            watches: &mut self.watches,
            lease: &mut self.lease,
            scrub: &self.scrub,
            premerge: &mut self.premerge,
        }
    }

    /// The watches of the group, with its name.
    pub fn watched(&mut self) -> Watched<'_> {
        Watched { pg: self.pg.pg_shard(), watches: &mut self.watches }
    }

    /// The parts that trimming touches.
    pub fn trimmed(&mut self) -> Trimmed<'_> {
        Trimmed {
            pg: &self.pg,
            trim: &mut self.trim,
            queue: &self.snapshots.removed,
            generation: self.queues.generation,
        }
    }

    /// The parts that scrubs touch.
    pub fn scrubbed(&mut self) -> Scrubbed<'_> {
        Scrubbed {
            serial: self.serial,
            pg: &mut self.pg,
            scrub: &mut self.scrub,
            premerge: &mut self.premerge,
        }
    }

    /// Tells the group the time and the lease that its primary holds. Must precede every input that
    /// may end an interval or begin to serve one; while the group serves, it needs no time.
    pub fn tell_time(&mut self, leases: &Leases, now: Time) {
        let primary = self.pg.members().primary;
        let granted = match primary {
            None => Time::ZERO,
            Some(_) if self.pg.is_primary() => leases.replica_reads_until(),
            Some(primary) => leases.granted_until(primary),
        };
        self.pg.set_time(now, granted);
    }
}
