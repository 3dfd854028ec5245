//! The effect of a new map on the groups of this OSD.

use crate::Osd;
use crate::env::Stage;
use crate::groups::Group;
use crate::maps::telling::{Job, Task, Telling, Then};
use engine::Time;
use maps::{OsdMap, stable_bits};
use pg::{Layout, MapChange, Members, OsdStatus, Osds};
use std::sync::Arc;
use types::{Epoch, OsdId, PgId};

impl Osd {
    /// Starts the distribution of the map that was just applied.
    pub(crate) fn map_changed(&mut self, now: Time) {
        self.check_own_state();
        self.remove_groups_of_deleted_pools(now);
        self.begin_placing(now, Then::Map);
    }

    /// All groups have handled the new map and stored their intervals.
    fn map_is_told(&mut self, now: Time) {
        if self.groups.split_merge.is_idle() {
            self.maps.store(&mut self.outbox);
        }
        self.heartbeats.choose_anew();
        self.end_vain_copies();
        self.settle();
        self.resend_copies(now);
        self.settle();
        self.end_blocklisted_watches();
        self.settle();
        self.take_early(now);
    }

    fn remove_groups_of_deleted_pools(&mut self, now: Time) {
        let map = self.maps.map();
        let is_deleted = |pg: &PgId| map.pool(pg.pool).is_none_or(|pool| pg.seed >= pool.pg_num);
        // The stored state of a group may be ahead of the stored map.
        let deleted = self
            .groups
            .by_id
            .iter()
            .filter(|(pg, group)| is_deleted(pg) && group.pg.interval() <= map.epoch)
            .filter(|(pg, _)| !self.is_merged_here(**pg));
        let deleted: Vec<PgId> = deleted.map(|(pg, _)| *pg).collect();
        for pg in deleted {
            self.drop_requests(now, pg);
            let group = self.groups.by_id.get_mut(&pg).expect("its key was just read");
            group.pg.remove();
            self.settle_group(pg);
        }
    }

    /// Starts telling groups their members. This includes times in which this OSD is not up,
    /// because the groups must know these intervals later. With many groups, the rest follows in
    /// the next turns, and inputs are held meanwhile (`Osd::hold`).
    pub(crate) fn begin_placing(&mut self, now: Time, then: Then) {
        if self.env.stage == Stage::Loading {
            return self.placed_all(now, then);
        }
        let others = self.groups.by_id.keys().copied();
        let all = self.maps.groups_to_tell(self.env.config.id, others);
        let (map, is_gap) = (self.maps.map(), self.maps.is_gap());
        let rest = Vec::from_iter(all).into_iter();
        let task = Task::Tell(Telling { osds: Arc::new(statuses(map)), is_gap });
        self.maps.distribution.begin(Job { rest, task, then });
        self.go_on_placing(now);
    }

    /// Lets some groups handle the map, and performs their outputs.
    pub(crate) fn tell_some(&mut self, some: &[PgId], telling: &Telling) {
        let map = self.maps.take_map();
        for pg in some {
            self.tell_map(*pg, &map, telling);
        }
        self.maps.return_map(map);
        // Their outputs are not collected for all groups at once, which would need much memory.
        some.iter().for_each(|pg| self.settle_and_release(*pg));
    }

    fn tell_map(&mut self, pg: PgId, map: &OsdMap, telling: &Telling) {
        let is_up = self.is_up();
        // Erasure-coded pools are not supported yet.
        let pool = map.pool(pg.pool).filter(|pool| pool.is_replicated());
        if pool.is_none_or(|pool| pg.seed >= pool.pg_num) {
            return;
        }
        let members = self.members(map, pg);
        let is_member = is_up && members.is_member(self.env.config.id);
        let known = self.groups.by_id.get(&pg).map(|group| &group.pg);
        if !is_member && known.is_none() {
            return;
        }
        let bits = known.filter(|known| known.interval() > Epoch(0));
        let bits = bits.map(|known| known.members().hash_bits);
        let is_new = !telling.is_gap && self.maps.is_new(pg.pool);
        let (epoch, osds, is_gap) = (map.epoch, telling.osds.clone(), telling.is_gap);
        let change = MapChange { epoch, osds, is_up, is_gap, is_new };
        self.place_group(pg, &change, members);
        if let Some(bits) = bits {
            self.reshape(pg, bits, map, &change);
        }
    }

    /// Work that must wait until all groups have handled the map.
    pub(crate) fn told_all(&mut self, now: Time, then: Then) {
        self.maps.note_placed();
        self.announce_merges(now);
        self.take_pool_snapshots(self.env.now);
        self.settle_groups();
        self.peers_changed();
        self.maps.distribution.note_told(then);
    }

    /// Work that must wait until groups have stored the intervals that it began.
    pub(crate) fn placed_all(&mut self, now: Time, then: Then) {
        match then {
            Then::Map => self.map_is_told(now),
            Then::Boot => self.go_to_monitor(now),
        }
    }

    /// Tells groups whether they are about to be merged, and resumes those that are not any more.
    fn announce_merges(&mut self, now: Time) {
        let mut resumed = Vec::new();
        for (pg, group) in &mut self.groups.by_id {
            let pool = self.maps.map().pool(pg.pool);
            let is_merging = pool.is_some_and(|pool| pool.is_merging(pg.seed));
            if group.premerge.announce(is_merging, &mut group.pg) {
                resumed.push(*pg);
            }
        }
        // The monitor waits for the state of the groups.
        if self.maps.map().pools.values().any(|pool| pool.pg_num_target != pool.pg_num) {
            self.report.schedule.request(now);
        }
        for pg in resumed {
            self.activated(now, pg);
            self.settle();
        }
    }

    fn settle_groups(&mut self) {
        self.groups.ids().into_iter().for_each(|pg| self.settle_group(pg));
    }

    /// The up and acting set of a group under the map of the last update of the candidates.
    pub(crate) fn members(&self, map: &OsdMap, pg: PgId) -> Members {
        let Some(pool) = map.pool(pg.pool) else { return Members::default() };
        members(map, pg, pool, self.maps.mapping(map, pg))
    }

    /// Tells a group its members under a new map; creates the group if there is none.
    pub(crate) fn place_group(&mut self, pg: PgId, change: &MapChange, members: Members) {
        let (whoami, sizes) = (self.env.config.id, self.env.config.sizes.groups);
        let epoch = change.epoch;
        let serial = &mut self.groups.last_serial;
        let group = self.groups.by_id.entry(pg).or_insert_with(|| {
            *serial += 1;
            Box::new(Group::new(pg::Pg::new(pg, whoami).with_sizes(sizes), *serial))
        });
        group.pg.set_room(!self.usage.is_disk_full());
        group.tell_time(&self.leases, self.env.now);
        let was_primary = group.pg.is_primary();
        let was_due = group.pg.is_store_due();
        group.pg.handle_map(change, members);
        if group.pg.is_store_due() && !was_due {
            self.maps.distribution.must_store(pg);
        }
        if !group.pg.is_primary() {
            // No replica has the order, and it must not be repeated if this OSD becomes primary again.
            group.scrub.forget_order();
        }
        if group.pg.is_primary() && !was_primary {
            // A primary that has just restarted may have been primary for clients since its `up_from`.
            let up_from = group.pg.members().acting.iter().position(|osd| *osd == whoami);
            let up_from = up_from.map(|index| group.pg.members().up_from[index]);
            let first = group.primary_since.is_none();
            group.primary_since = if first { up_from } else { Some(epoch) };
        }
    }
}

fn members(map: &OsdMap, pg: PgId, pool: &maps::Pool, mapping: maps::Mapping) -> Members {
    let up_from = |osd: &OsdId| map.osd(*osd).map_or(Epoch(0), |osd| osd.info.up_from);
    Members {
        up_from: mapping.acting.iter().map(up_from).collect(),
        up: mapping.up,
        acting: mapping.acting,
        primary: mapping.acting_primary,
        size: pool.size.into(),
        min_size: pool.min_size.into(),
        hash_bits: stable_bits(pg.seed, pool.pg_num),
        layout: Layout::Replicated,
    }
}

fn statuses(map: &OsdMap) -> Osds {
    let status = |osd: &maps::Osd| OsdStatus {
        exists: true,
        is_up: osd.is_up(),
        up_from: osd.info.up_from,
        up_thru: osd.info.up_thru,
        down_at: osd.info.down_at,
        down_stamp: osd.xinfo.down_stamp,
        lost_at: osd.info.lost_at,
        dead_epoch: osd.xinfo.dead_epoch,
    };
    map.existing_osds().map(|(id, osd)| (id, status(osd))).collect()
}
