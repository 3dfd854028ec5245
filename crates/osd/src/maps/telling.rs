//! Distribution of a new map to the groups, a bounded number per turn, so that an OSD with very
//! many groups neither misses heartbeats meanwhile nor blocks its core.
//!
//! Until all groups have handled the map, inputs are held in order, except for heartbeats and
//! secrets; so the several turns cannot be observed. Beyond a bound of held inputs, the rest is
//! done in one turn.
//!
//! If several maps are there, groups handle all of them before they store the intervals that began:
//! most of the earlier intervals ended before anything could happen in them. No input is handled in
//! between, so the effect is that of a single map.

use super::Maps;
use crate::{Osd, limits};
use engine::Time;
use maps::{Incremental, OsdMap};
use pg::Osds;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use types::{Epoch, PgId, PoolId};
use wire::OsdMapMessage;

/// The continuation when all groups have handled the map.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Then {
    /// Finish a map change.
    Map,
    /// Connect to a monitor for the first time.
    Boot,
}

/// Work that remains for a list of groups.
#[derive(Debug)]
pub(crate) struct Job {
    pub rest: std::vec::IntoIter<PgId>,
    pub task: Task,
    pub then: Then,
}

/// The kind of work.
#[derive(Debug)]
pub(crate) enum Task {
    Tell(Telling),
    /// Groups store the intervals that began.
    Store,
}

/// The map that groups handle.
#[derive(Debug)]
pub(crate) struct Telling {
    pub osds: Arc<Osds>,
    /// Maps before this one were skipped.
    pub is_gap: bool,
}

/// The map that the groups have handled last.
#[derive(Debug, Default)]
pub(super) struct Placed {
    epoch: Epoch,
    pools: BTreeSet<PoolId>,
}

impl Placed {
    fn of(map: &OsdMap) -> Self {
        Placed { epoch: map.epoch, pools: map.pools.keys().copied().collect() }
    }
}

/// State of the distribution.
#[derive(Debug, Default)]
pub(crate) struct Distribution {
    job: Option<Job>,
    /// The continuation when the intervals are stored that began with the maps handled so far.
    told: Option<Then>,
    /// Groups with such intervals, and the number of these maps.
    unstored: Vec<PgId>,
    maps_told: usize,
    /// Maps that follow, with the bytes of their messages that are counted in `bytes`.
    maps: VecDeque<(OsdMapMessage, usize)>,
    bytes: usize,
    /// Number of turns that worked on groups.
    #[cfg(test)]
    turns: usize,
}

impl Distribution {
    /// Starts a job. There must be none.
    fn begin(&mut self, job: Job) {
        assert!(self.job.is_none(), "maps are told one after the other");
        self.job = Some(job);
    }

    /// Whether groups have not handled the map, or have not stored the intervals that it began.
    fn is_on(&self) -> bool {
        self.job.is_some() || self.told.is_some()
    }

    fn push_maps(&mut self, maps: OsdMapMessage, bytes: usize) {
        self.bytes += bytes;
        self.maps.push_back((maps, bytes));
    }

    /// The message with the next map, and its bytes.
    fn pop_maps(&mut self) -> Option<(OsdMapMessage, usize)> {
        let (maps, bytes) = self.maps.pop_front()?;
        self.bytes -= bytes;
        Some((maps, bytes))
    }

    /// Puts a message back of which further maps may be applied.
    fn put_back(&mut self, maps: OsdMapMessage, bytes: usize) {
        self.bytes += bytes;
        self.maps.push_front((maps, bytes));
    }
}

impl Maps {
    /// Starts a job for some groups. There must be none.
    pub fn begin(&mut self, job: Job) {
        self.distribution.begin(job);
    }

    /// Whether groups have not handled the map, or have not stored the intervals that it began.
    pub fn is_telling(&self) -> bool {
        self.distribution.is_on()
    }

    /// Notes a group that has begun an interval and must store it.
    pub fn must_store(&mut self, pg: PgId) {
        self.distribution.unstored.push(pg);
    }

    /// Adds a message whose maps are applied behind those of earlier ones; `bytes` of it are counted
    /// as held.
    pub fn push(&mut self, maps: OsdMapMessage, bytes: usize) {
        self.distribution.push_maps(maps, bytes);
    }

    /// Whether messages wait with maps that are not applied.
    pub fn has_waiting(&self) -> bool {
        !self.distribution.maps.is_empty()
    }

    /// Number and bytes of the messages with maps that are not applied.
    pub fn waiting(&self) -> (usize, usize) {
        (self.distribution.maps.len(), self.distribution.bytes)
    }

    /// Whether maps were skipped between the one that the groups have handled and the newest.
    pub fn is_gap(&self) -> bool {
        let (newest, placed) = (self.map.epoch, self.placed.epoch);
        newest != placed.next() && placed != newest
    }

    /// Whether the groups have handled no map with this pool.
    pub fn is_new(&self, pool: PoolId) -> bool {
        !self.placed.pools.contains(&pool)
    }

    /// All groups have handled the newest map.
    pub fn note_placed(&mut self) {
        self.placed = Placed::of(&self.map);
    }

    /// Number of turns that worked on groups.
    #[cfg(test)]
    pub fn turns(&self) -> usize {
        self.distribution.turns
    }
}

impl Osd {
    /// One turn's share of the remaining work; true if groups have still not handled the map.
    pub(crate) fn place_turn(&mut self, now: Time) -> bool {
        if self.maps.is_telling() {
            self.go_on_placing(now);
            self.go_on_with_maps(now);
        } else if self.inbox.has_ready() {
            self.take_ready(now);
        } else if !self.maps.distribution.maps.is_empty() {
            self.go_on_with_maps(now);
        } else {
            self.take_held(now);
        }
        self.maps.is_telling()
    }

    /// Applies the maps one by one, so that no change of members is missed.
    pub(crate) fn take_maps(&mut self, now: Time, maps: OsdMapMessage) {
        self.maps.distribution.push_maps(maps, 0);
        self.go_on_with_maps(now);
    }

    /// Begins to distribute the next map, or to store the intervals that earlier ones began, unless
    /// a job is running.
    pub(crate) fn go_on_with_maps(&mut self, now: Time) {
        while self.maps.distribution.job.is_none() && !self.inbox.has_ready() {
            if self.maps.distribution.told.is_some() && !self.next_map_joins() {
                self.store_intervals(now);
                continue;
            }
            let Some((maps, bytes)) = self.maps.distribution.pop_maps() else { return };
            if self.apply_next(&maps) {
                self.maps.distribution.put_back(maps, bytes);
                self.map_changed(now);
            }
        }
    }

    /// Whether groups handle the next map before they store the intervals of earlier ones. A group
    /// splits or merges only after it has stored all earlier intervals.
    fn next_map_joins(&mut self) -> bool {
        let next = self.epoch().next();
        let known =
            self.maps.distribution.maps.iter().find_map(|(maps, _)| maps.incrementals.get(&next));
        let Some(encoded) =
            known.filter(|_| self.maps.distribution.maps_told < limits::MAPS_TOLD_MAX)
        else {
            return false;
        };
        let increment = codec::decode_all::<Incremental>("increment", encoded);
        let is_plain = |map: Incremental| map.new_pools.is_empty() && map.old_pools.is_empty();
        self.groups.split_merge.is_idle() && increment.is_ok_and(is_plain)
    }

    /// All groups have handled the map.
    pub(crate) fn told(&mut self, then: Then) {
        self.maps.distribution.maps_told += 1;
        self.maps.distribution.told = Some(then);
    }

    fn store_intervals(&mut self, now: Time) {
        let Some(then) = self.maps.distribution.told.take() else { return };
        self.maps.distribution.maps_told = 0;
        let mut groups = std::mem::take(&mut self.maps.distribution.unstored);
        groups.sort_unstable();
        groups.dedup();
        self.maps.distribution.begin(Job { rest: groups.into_iter(), task: Task::Store, then });
        self.go_on_placing(now);
    }

    /// Performs one turn's share of the job.
    pub(crate) fn go_on_placing(&mut self, now: Time) {
        let Some(mut job) = self.maps.distribution.job.take() else { return };
        #[cfg(test)]
        {
            self.maps.distribution.turns += 1;
        }
        let some: Vec<PgId> = job.rest.by_ref().take(self.env.config.sizes.groups_placed).collect();
        match &job.task {
            Task::Tell(telling) => self.tell_some(&some, telling),
            Task::Store => self.store_some(&some),
        }
        match (job.rest.as_slice().is_empty(), &job.task) {
            (false, _) => self.maps.distribution.job = Some(job),
            (true, Task::Tell(_)) => self.told_all(now, job.then),
            (true, Task::Store) => self.placed_all(now, job.then),
        }
    }

    fn store_some(&mut self, some: &[PgId]) {
        for pg in some {
            if let Some(group) = self.groups.by_id.get_mut(pg) {
                group.pg.store_interval();
                self.settle_and_release(*pg);
            }
        }
    }

    /// Performs the outputs of a group, as for all groups after a map, and frees the memory that they used.
    pub(crate) fn settle_and_release(&mut self, pg: PgId) {
        self.settle_group(pg);
        if let Some(group) = self.groups.by_id.get_mut(&pg) {
            group.pg.release_outputs();
        }
    }
}
