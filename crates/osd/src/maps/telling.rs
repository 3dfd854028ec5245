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

use crate::limits;
use maps::{Incremental, OsdMap};
use pg::Osds;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use types::{Epoch, PgShard, PoolId};
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
    pub rest: std::vec::IntoIter<PgShard>,
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

impl Task {
    /// Whether groups handle a map.
    pub fn is_telling(&self) -> bool {
        matches!(self, Task::Tell(_))
    }
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
    pub fn of(map: &OsdMap) -> Self {
        Placed { epoch: map.epoch, pools: map.pools.keys().copied().collect() }
    }

    /// Whether maps were skipped between this one and the newest.
    pub fn is_gap(&self, newest: Epoch) -> bool {
        newest != self.epoch.next() && self.epoch != newest
    }

    pub fn contains(&self, pool: PoolId) -> bool {
        self.pools.contains(&pool)
    }
}

/// State of the distribution.
#[derive(Debug, Default)]
pub(crate) struct Distribution {
    job: Option<Job>,
    /// The continuation when the intervals are stored that began with the maps handled so far.
    told: Option<Then>,
    /// Groups with such intervals, and the number of these maps.
    unstored: Vec<PgShard>,
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
    pub fn begin(&mut self, job: Job) {
        assert!(self.job.is_none(), "maps are told one after the other");
        self.job = Some(job);
    }

    /// Whether a job has been started and is not complete.
    pub fn has_job(&self) -> bool {
        self.job.is_some()
    }

    /// Takes out the job for this turn; the caller starts it again with what is left of it.
    pub fn take_job(&mut self) -> Option<Job> {
        let job = self.job.take()?;
        #[cfg(test)]
        {
            self.turns += 1;
        }
        Some(job)
    }

    /// Whether groups have not handled the map, or have not stored the intervals that it began.
    pub fn is_on(&self) -> bool {
        self.job.is_some() || self.told.is_some()
    }

    /// All groups have handled the map.
    pub fn note_told(&mut self, then: Then) {
        self.maps_told += 1;
        self.told = Some(then);
    }

    /// Whether all groups have handled the map, and those that must store intervals may begin.
    pub fn is_told(&self) -> bool {
        self.told.is_some()
    }

    /// Starts a job for the groups that must store the intervals that began.
    pub fn begin_storing(&mut self) {
        let Some(then) = self.told.take() else { return };
        self.maps_told = 0;
        let mut groups = std::mem::take(&mut self.unstored);
        groups.sort_unstable();
        groups.dedup();
        self.begin(Job { rest: groups.into_iter(), task: Task::Store, then });
    }

    /// Notes a group that has begun an interval and must store it.
    pub fn must_store(&mut self, pg: PgShard) {
        self.unstored.push(pg);
    }

    /// Whether groups handle the map of this epoch before they store the intervals of earlier ones:
    /// it neither makes nor removes pools.
    pub fn joins(&self, next: Epoch) -> bool {
        let known = self.maps.iter().find_map(|(maps, _)| maps.incrementals.get(&next));
        let Some(encoded) = known.filter(|_| self.maps_told < limits::MAPS_TOLD_MAX) else {
            return false;
        };
        let increment = codec::decode_all::<Incremental>("increment", encoded);
        let is_plain = |map: Incremental| map.new_pools.is_empty() && map.old_pools.is_empty();
        increment.is_ok_and(is_plain)
    }

    /// Adds a message whose maps are applied behind those of earlier ones; `bytes` of it are counted
    /// as held.
    pub fn push_maps(&mut self, maps: OsdMapMessage, bytes: usize) {
        self.bytes += bytes;
        self.maps.push_back((maps, bytes));
    }

    /// The message with the next map, and its bytes.
    pub fn pop_maps(&mut self) -> Option<(OsdMapMessage, usize)> {
        let (maps, bytes) = self.maps.pop_front()?;
        self.bytes -= bytes;
        Some((maps, bytes))
    }

    /// Puts a message back of which further maps may be applied.
    pub fn put_back(&mut self, maps: OsdMapMessage, bytes: usize) {
        self.bytes += bytes;
        self.maps.push_front((maps, bytes));
    }

    /// Whether messages wait with maps that are not applied.
    pub fn has_waiting(&self) -> bool {
        !self.maps.is_empty()
    }

    /// Number and bytes of the messages with maps that are not applied.
    pub fn waiting(&self) -> (usize, usize) {
        (self.maps.len(), self.bytes)
    }

    /// Number of turns that worked on groups.
    #[cfg(test)]
    pub fn turns(&self) -> usize {
        self.turns
    }
}
