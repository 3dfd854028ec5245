//! The table of groups, and the work that is noted for several of them.

use crate::groups::Group;
use crate::groups::jobs::Jobs;
use crate::groups::states::StateTimes;
use crate::leases::Leases;
use crate::operations::Operations;
use crate::operations::snapshots::PoolSnapshots;
use crate::scrub::GroupScrub;
use crate::work::{Work, WorkQueue};
use engine::Time;
use pg::{Output, Pg};
use std::collections::{BTreeMap, BTreeSet};
use types::{OsdId, PgId, PgShard, PoolId};

/// All groups, and the work that is noted for several of them.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// Boxed: a node of the tree has room for eleven, and a group takes 3 kB.
    pub(super) by_id: BTreeMap<PgShard, Box<Group>>,
    /// Serial number of the latest group, so that completions for a removed one are recognised.
    last_serial: u64,
    /// All groups below this one have been read from the store.
    loaded_below: PgShard,
    /// Splits and merges.
    pub(super) jobs: Jobs,
    state_times: StateTimes,
    /// When to check again whether read leases of prior intervals have expired, by group.
    waits: BTreeSet<(Time, PgShard)>,
    /// Groups that need something of the monitor (`up_thru`, `pg_temp`), noted during the present
    /// input.
    pub(super) asking: BTreeSet<PgShard>,
    /// When to retry work that waits for space or for a map that the monitor has not made yet.
    pub(super) retry_due: Option<Time>,
}

/// The next output of a group.
pub(crate) enum Polled<'a> {
    /// With the serial number of the group.
    Output(u64, Output),
    /// There is none left.
    Drained(&'a mut Group),
    /// There is no such group.
    Gone,
}

impl Groups {
    pub fn get(&self, pg: PgShard) -> Option<&Group> {
        self.by_id.get(&pg).map(|group| &**group)
    }

    /// The copy that serves requests for a group here: of a replicated pool the only one, otherwise the
    /// primary's shard, as no other one has whole objects to read.
    pub fn serving(&self, pg: PgId, is_replicated: bool) -> Option<&Group> {
        if is_replicated {
            return self.get(PgShard::replicated(pg));
        }
        self.shards_of(pg).filter_map(|id| self.get(id)).find(|group| group.pg.is_primary())
    }

    /// The copies of a group that are here, ascending by shard: several only in erasure-coded pools.
    pub fn shards_of(&self, pg: PgId) -> impl Iterator<Item = PgShard> + '_ {
        let shards = self.by_id.range(PgShard::replicated(pg)..);
        shards.map(|(id, _)| *id).take_while(move |id| id.pg == pg)
    }

    pub fn get_mut(&mut self, pg: PgShard) -> Option<&mut Group> {
        self.by_id.get_mut(&pg).map(|group| &mut **group)
    }

    /// The group with this serial number: not one that has taken its place.
    pub fn get_same(&mut self, pg: PgShard, serial: u64) -> Option<&mut Group> {
        self.get_mut(pg).filter(|group| group.serial == serial)
    }

    /// All groups, ascending by id.
    pub fn iter(&self) -> impl Iterator<Item = (PgShard, &Group)> {
        self.by_id.iter().map(|(pg, group)| (*pg, &**group))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (PgShard, &mut Group)> {
        self.by_id.iter_mut().map(|(pg, group)| (*pg, &mut **group))
    }

    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// The ids of all groups, ascending.
    pub fn ids(&self) -> Vec<PgShard> {
        self.by_id.keys().copied().collect()
    }

    /// Adds the group of a copy, in place of an earlier one.
    pub fn add(&mut self, copy: Pg) -> &mut Group {
        self.last_serial += 1;
        let (pg, group) = (copy.pg_shard(), Box::new(Group::new(copy, self.last_serial)));
        self.by_id.insert(pg, group);
        self.by_id.get_mut(&pg).expect("it was just added")
    }

    /// Takes out a group whose collection is removed. It must have no requests.
    pub fn remove(&mut self, pg: PgShard) -> Option<Box<Group>> {
        self.by_id.remove(&pg)
    }

    /// Whether all groups have been read from the store. A loaded group stays loaded, so each is checked
    /// again only until it is.
    pub fn are_loaded(&mut self) -> bool {
        let mut rest = self.by_id.range(self.loaded_below..);
        match rest.find(|(_, group)| !group.pg.is_loaded()) {
            None => true,
            Some((pg, _)) => {
                self.loaded_below = *pg;
                false
            }
        }
    }

    /// The next output of a group. When there is none left, notes the state that it has reached.
    pub fn poll(&mut self, now: Time, pg: PgShard) -> Polled<'_> {
        let Some(group) = self.by_id.get_mut(&pg) else { return Polled::Gone };
        if let Some(output) = group.pg.poll_output() {
            return Polled::Output(group.serial, output);
        }
        if let Some(past) = group.states.note(now, group.pg.interval(), group.pg.state()) {
            self.state_times.add(past);
        }
        Polled::Drained(group)
    }

    /// The durations of states.
    pub fn state_times(&self) -> &StateTimes {
        &self.state_times
    }

    /// Forgets the durations of states so far.
    pub fn reset_state_times(&mut self) {
        self.state_times.reset();
    }

    /// A group waits until this time for the end of leases of prior intervals.
    pub fn wait_until(&mut self, until: Time, pg: PgShard) {
        self.waits.insert((until, pg));
    }

    /// When the next of these waits ends.
    pub fn next_wait(&self) -> Option<Time> {
        self.waits.first().map(|(until, _)| *until)
    }

    /// Ends the wait of one group whose time has come, and informs it.
    pub fn end_wait(&mut self, leases: &Leases, now: Time) -> Option<PgShard> {
        self.waits.first().filter(|(until, _)| *until <= now)?;
        let (_, pg) = self.waits.pop_first()?;
        if let Some(group) = self.by_id.get_mut(&pg) {
            group.tell_time(leases, now);
            group.pg.time_passed();
        }
        Some(pg)
    }

    /// All groups with the state of their scrubs, ascending by id.
    pub fn scrubs(&self) -> impl Iterator<Item = (&Pg, &GroupScrub)> {
        self.by_id.values().map(|group| (&group.pg, &group.scrub))
    }

    /// Replaces the snapshots of all groups' pools. Returns the groups with snapshots to trim.
    pub fn take_snapshots(&mut self, known: &BTreeMap<PoolId, PoolSnapshots>) -> Vec<PgShard> {
        let (mut wanting, none) = (Vec::new(), PoolSnapshots::default());
        for (pg, group) in self.iter_mut() {
            group.snapshots = known.get(&pg.pg.pool).unwrap_or(&none).clone();
            group.trim.forget_purged(&group.snapshots.removed);
            if !group.snapshots.removed.is_empty() {
                wanting.push(pg);
            }
        }
        wanting
    }

    /// Has the watches end whose clients are silent for too long, in active groups.
    pub fn expire_watches(&mut self, now: Time, work: &mut WorkQueue) {
        for (pg, group) in self.iter_mut().filter(|(_, group)| group.pg.is_active()) {
            for (object, key) in group.watches.expire(now) {
                work.push(Work::Unwatch(Box::new((pg, object, key))));
            }
        }
    }

    /// The groups whose recovery lacked space or a reservation, ascending.
    pub fn waiting_for_retry(&self) -> Vec<PgShard> {
        let waiting = self.iter().filter(|(_, group)| group.pg.wants_retry());
        waiting.map(|(pg, _)| pg).collect()
    }

    /// Evicts the contexts of idle objects.
    pub fn drop_caches(&mut self, operations: &mut Operations) {
        for group in self.by_id.values_mut() {
            operations.evict_all(&mut group.queues, &group.watches);
        }
    }

    /// The OSDs of the up and acting sets of all groups, some more than once.
    pub fn members(&self) -> impl Iterator<Item = OsdId> + '_ {
        self.by_id.values().flat_map(|group| group.pg.members().all().map(|member| member.osd))
    }

    /// The other acting members of the groups whose primary this OSD is.
    pub fn followers(&self, own: OsdId) -> BTreeSet<OsdId> {
        let groups = self.by_id.values().filter(|group| group.pg.is_primary());
        let members = groups.flat_map(|group| group.pg.members().acting_members());
        members.map(|member| member.osd).filter(|osd| *osd != own).collect()
    }

    /// Panics if the groups contradict themselves, or the work that is noted for them.
    pub fn check_invariants(&self) {
        let mut serials = BTreeSet::new();
        for (pg, group) in &self.by_id {
            assert_eq!(*pg, group.pg.pg_shard(), "a group is found by its id");
            assert!(serials.insert(group.serial), "serial numbers are unique");
            assert!(group.serial <= self.last_serial);
            group.pg.check_invariants();
        }
        self.jobs.check_invariants(|pg| self.by_id.contains_key(&pg));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pg::{ErasureCode, ErasureLayout, Layout, MapChange, Members};
    use types::{Epoch, ShardId};

    const PG: PgId = PgId { pool: PoolId(1), seed: 3 };
    const OWN: OsdId = OsdId(7);

    fn shard(position: usize) -> PgShard {
        PgShard { pg: PG, shard: ShardId::at(position).unwrap() }
    }

    /// The copies of shards 0 and 2, and those of other groups; this OSD is at a position of the acting set.
    fn groups(position: usize) -> Groups {
        let mut groups = Groups::default();
        let (before, behind) = (PgId { seed: 2, ..PG }, PgId { seed: 4, ..PG });
        for other in [before, behind] {
            groups.add(Pg::new(PgShard::replicated(other), OWN));
        }
        let acting: Vec<OsdId> =
            (0..3).map(|place| if place == position { OWN } else { OsdId(place as i32) }).collect();
        for id in [shard(0), shard(2)] {
            let members =
                Members { up: acting.clone(), acting: acting.clone(), ..Members::default() };
            let primary = acting.first().copied();
            let code = ErasureCode::IsaVandermonde;
            let layout = Layout::Erasure(ErasureLayout { data: 2, parity: 1, unit: 4096, code });
            let members = Members { up_from: vec![Epoch(1); 3], primary, layout, ..members };
            let change = MapChange {
                epoch: Epoch(1),
                osds: Default::default(),
                is_up: true,
                is_gap: false,
                is_new: true,
            };
            groups.add(Pg::new(id, OWN)).pg.handle_map(&change, members);
        }
        groups
    }

    #[test]
    fn requests_find_the_primarys_shard_and_messages_the_one_that_they_name() {
        for (position, serving) in [(0, Some(shard(0))), (1, None), (2, None)] {
            let groups = groups(position);
            let found = groups.serving(PG, false).map(|group| group.pg.pg_shard());
            assert_eq!(found, serving, "position {position}");
            assert!(groups.serving(PG, true).is_none(), "the pool is not replicated");
            assert_eq!(groups.shards_of(PG).collect::<Vec<_>>(), [shard(0), shard(2)]);
            for id in [shard(0), shard(2)] {
                assert_eq!(groups.get(id).map(|group| group.pg.whoami().shard), Some(id.shard));
            }
        }
    }
}
