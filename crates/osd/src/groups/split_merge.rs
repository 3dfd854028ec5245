//! Splits and merges of groups, when the `pg_num` of their pool grows or shrinks.
//!
//! Crate `pg` splits one copy and merges two. This module decides which groups are concerned, and
//! makes the rest of the OSD wait where it must. Maps are ignored until the last copy is split
//! or merged, and then requested again: so the stored state of a group is never more than one map
//! behind, and a group is never split during its split.

use crate::Osd;
use crate::cx::cx;
use crate::groups::Group;
use crate::work::Work;
use engine::Time;
use maps::{OsdMap, stable_bits, stable_mod};
use pg::split::parts_of;
use pg::{MapChange, MergedVersions, Pg};
use std::collections::{BTreeMap, BTreeSet};
use types::PgId;

/// The splits and merges in progress.
#[derive(Debug, Default)]
pub(crate) struct Reshaping {
    /// By the group that is split, or that others are merged into.
    jobs: BTreeMap<PgId, Job>,
    /// Whether a map was ignored.
    missed_maps: bool,
}

#[derive(Debug)]
enum Job {
    /// A split into the group itself and these.
    Divide(BTreeSet<PgId>),
    Merge {
        sources: BTreeSet<PgId>,
        versions: Option<MergedVersions>,
        /// The groups, of the sources and the target, that have requests to the store in flight.
        busy: BTreeSet<PgId>,
    },
}

impl Reshaping {
    /// Whether maps must be ignored; if so, they are requested again later.
    pub fn holds_maps(&mut self) -> bool {
        self.missed_maps |= !self.jobs.is_empty();
        !self.jobs.is_empty()
    }

    /// Whether no group is being split or merged.
    pub fn is_idle(&self) -> bool {
        self.jobs.is_empty()
    }

    /// The group whose split or merge this group takes part in.
    fn job_of(&self, pg: PgId) -> Option<PgId> {
        let takes_part = |job: &Job| match job {
            Job::Divide(_) => false,
            Job::Merge { sources, .. } => sources.contains(&pg),
        };
        let found = self.jobs.iter().find(|(id, job)| **id == pg || takes_part(job));
        found.map(|(id, _)| *id)
    }
}

impl Osd {
    /// Starts a split or merge of a group that has just handled a map. `bits` is the number of hash
    /// bits that selected its objects before.
    pub(crate) fn reshape(&mut self, pg: PgId, bits: u8, map: &OsdMap, change: &MapChange) {
        let bits_now =
            self.groups.by_id.get(&pg).map_or(bits, |group| group.pg.members().hash_bits);
        match bits_now {
            now if now > bits => self.place_parts(pg, bits, map, change),
            now if now < bits => self.place_sources(pg, map, change),
            _ => {}
        }
    }

    /// Creates the parts of a group that is split, under the same map.
    fn place_parts(&mut self, pg: PgId, bits: u8, map: &OsdMap, change: &MapChange) {
        let whole = &self.groups.by_id.get(&pg).expect("it was just placed").pg;
        let (is_absent, is_reshaping) = (whole.is_absent(), whole.is_reshaping());
        let pg_num = map.pool(pg.pool).map_or(0, |pool| pool.pg_num);
        let mut parts = BTreeSet::new();
        for part in parts_of(pg, bits, pg_num) {
            let members = self.members(map, part);
            let is_wanted = !is_absent || change.is_up && members.is_member(self.env.config.id);
            if is_wanted && self.begin_part(pg, part) {
                self.place_group(part, change, members);
                parts.insert(part);
            }
        }
        if is_reshaping {
            self.groups.split_merge.jobs.insert(pg, Job::Divide(parts));
        }
    }

    /// Creates the group for a part of another one. False if this OSD already has that group: then
    /// its copy is newer.
    fn begin_part(&mut self, pg: PgId, part: PgId) -> bool {
        if self.groups.by_id.get(&part).is_some_and(|group| !group.pg.is_absent()) {
            tracing::error!(%pg, %part, osd = %self.env.config.id, "the part is there already");
            return false;
        }
        self.forget_group(self.env.now, part);
        self.groups.last_serial += 1;
        let copy = self.groups.by_id[&pg].pg.new_part(part);
        self.groups.by_id.insert(part, Box::new(Group::new(copy, self.groups.last_serial)));
        true
    }

    /// Quiesces the groups that are merged into another one, and that group.
    fn place_sources(&mut self, pg: PgId, map: &OsdMap, change: &MapChange) {
        let Some(pool) = map.pool(pg.pool) else { return };
        let is_source = |(id, group): &(&PgId, &Group)| {
            let is_gone = id.pool == pg.pool && id.seed >= pool.pg_num;
            is_gone && stable_mod(id.seed, pool.pg_num) == pg.seed && !group.pg.is_absent()
        };
        let sources = self
            .groups
            .by_id
            .iter()
            .map(|(id, group)| (id, &**group))
            .filter(is_source)
            .map(|(id, _)| *id);
        let mut sources: BTreeSet<PgId> = sources.collect();
        for id in &sources {
            self.groups.by_id.get_mut(id).expect("it was just listed").pg.begin_merging();
        }
        if !self.groups.by_id[&pg].pg.is_reshaping() {
            return; // absent, or out of service
        }
        sources.retain(|id| self.groups.by_id[id].pg.is_reshaping());
        let meta = &pool.last_pg_merge_meta;
        let is_this = pool.last_change == map.epoch && meta.source.seed == pool.pg_num;
        let versions = (is_this && !change.is_gap && sources.contains(&meta.source))
            .then_some(MergedVersions { source: meta.source_version, target: meta.target_version });
        let busy = sources.iter().copied().chain([pg]).collect();
        self.groups.split_merge.jobs.insert(pg, Job::Merge { sources, versions, busy });
    }

    /// Whether a group that the map no longer has will be merged into one of this OSD.
    pub(crate) fn is_merged_here(&self, pg: PgId) -> bool {
        let Some(pool) = self.maps.map().pool(pg.pool) else { return false };
        let target = PgId { seed: stable_mod(pg.seed, pool.pg_num), ..pg };
        let bits = stable_bits(target.seed, pool.pg_num);
        let copy = |pg: &PgId| {
            let copy = self.groups.by_id.get(pg).map(|group| &group.pg);
            copy.filter(|copy| !copy.is_absent())
        };
        copy(&pg).is_some() && copy(&target).is_some_and(|copy| copy.members().hash_bits > bits)
    }

    /// A group is quiescent: the store has confirmed all its requests. Starts its split or merge if
    /// no other group is waited for.
    pub(crate) fn stands_still(&mut self, pg: PgId) {
        let Some(id) = self.groups.split_merge.job_of(pg) else { return };
        if let Some(Job::Merge { busy, .. }) = self.groups.split_merge.jobs.get_mut(&id) {
            busy.remove(&pg);
        }
        self.begin_job(id);
    }

    fn begin_job(&mut self, id: PgId) {
        let Some(job) = self.groups.split_merge.jobs.get(&id) else { return };
        let (Job::Divide(others) | Job::Merge { sources: others, .. }) = job;
        let (mut whole, mut copies): (Option<&mut Pg>, Vec<&mut Pg>) = (None, Vec::new());
        for (pg, group) in &mut self.groups.by_id {
            match *pg == id {
                true => whole = Some(&mut group.pg),
                false if others.contains(pg) => copies.push(&mut group.pg),
                false => {}
            }
        }
        let Some(whole) = whole else { return };
        match job {
            Job::Divide(_) => {
                tracing::info!(pg = %id, osd = %self.env.config.id, parts = copies.len() + 1, "divides");
                whole.divide(&mut copies);
            }
            Job::Merge { busy, versions, .. } if busy.is_empty() => {
                tracing::info!(pg = %id, osd = %self.env.config.id, sources = copies.len(), "merges");
                whole.merge_from(&copies, *versions);
            }
            Job::Merge { .. } => {}
        }
        self.work.push(Work::Group(id));
    }

    /// The store has split or merged a group, or has failed to.
    pub(crate) fn reshaped(&mut self, now: Time, pg: PgId, is_done: bool) {
        let Some(id) = self.groups.split_merge.job_of(pg) else { return };
        if id != pg {
            return self.go_on_without(id, pg);
        }
        match self.groups.split_merge.jobs.remove(&pg) {
            Some(Job::Divide(parts)) => {
                parts.into_iter().for_each(|part| self.give_shape(now, part, is_done));
            }
            Some(Job::Merge { sources, .. }) if is_done => {
                sources.into_iter().for_each(|source| self.forget_group(now, source));
            }
            Some(Job::Merge { sources, .. }) => {
                sources.into_iter().for_each(|source| self.give_shape(now, source, false));
            }
            None => {}
        }
        if is_done && let Some(group) = self.groups.by_id.get_mut(&pg) {
            group.tell_time(&self.leases, now);
            group.pg.take_shape();
        }
        if self.groups.split_merge.jobs.is_empty() {
            self.work.push(Work::StoreMap);
        }
    }

    /// Stores the map behind all that groups stored because of it, and asks for those that were ignored
    /// meanwhile.
    pub(crate) fn store_reshaped_map(&mut self) {
        self.maps.store(&mut self.outbox);
        if std::mem::take(&mut self.groups.split_merge.missed_maps) {
            self.monitor.ask_for_maps(cx!(self));
        }
    }

    /// Starts service of a part or source after a split or merge; or leaves it out of service, if
    /// that failed.
    fn give_shape(&mut self, now: Time, pg: PgId, is_done: bool) {
        let Some(group) = self.groups.by_id.get_mut(&pg) else { return };
        group.tell_time(&self.leases, now);
        match is_done {
            true => group.pg.take_shape(),
            false => group.pg.lose_shape(),
        }
        self.work.push(Work::Group(pg));
    }

    /// Merges without a source that cannot be read: the merged group is incomplete.
    fn go_on_without(&mut self, id: PgId, pg: PgId) {
        if let Some(Job::Merge { sources, versions, busy }) =
            self.groups.split_merge.jobs.get_mut(&id)
        {
            sources.remove(&pg);
            busy.remove(&pg);
            *versions = None;
        }
        self.begin_job(id);
    }
}
