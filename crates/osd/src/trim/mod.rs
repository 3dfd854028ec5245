//! Snapshot trimming, in steps while clients are served.
//!
//! The map has a queue of snapshots whose removal has begun. The primary of a clean group removes
//! them from the clones of its objects, one snapshot after the other: it reads a page of the
//! group's index of clones, and starts a request for each object found there, which waits in the
//! object's queue like any other. So the cost of a step is proportional to what it removes, and
//! clients wait for one object at most. When the index has no more entries of a snapshot, the
//! primary reports that to the monitor, which takes the snapshot off the queue once all groups of
//! the pool have reported it.
//!
//! No progress is stored: after a change of the primary, the index holds what is left.

use crate::Osd;
use crate::groups::Group;
use crate::operations::request::{Nature, Origin, Request};
use crate::tokens::Token;
use classes::Caller;
use engine::{Duration, Time};
use maps::{OsdMapFlags, SnapIntervals};
use pg::snaps::{decode_index_key, index_keys_of};
use std::collections::BTreeSet;
use store::{Collection, Outcome, RequestKind, StoreError};
use types::{EVersion, HObject, PgId, SnapId};
use wire::internal::pg_state::{SNAPTRIM, SNAPTRIM_WAIT};
use wire::{OsdRequest, ShardPgId};

/// Objects of one step.
const STEP_OBJECTS: usize = 16;
const STEP_BYTES_MAX: usize = 64 << 10;
/// Groups that an OSD trims at once (`osd_max_trimming_pgs`).
const GROUPS_MAX: usize = 2;
/// Groups that one turn examines.
const LOOKED_AT_MAX: usize = 64;
/// Pause before a group is tried again that cannot be trimmed now.
const RETRY: Duration = Duration::from_millis(500);

/// Progress of trimming in one group.
#[derive(Debug, Default)]
pub(crate) struct GroupTrim {
    /// Snapshots of the queue that this group has trimmed completely.
    purged: SnapIntervals,
    step: Option<Step>,
    not_before: Time,
    /// The index is complete once this version is durable: no later write makes clones for
    /// snapshots of the queue.
    since: EVersion,
}

#[derive(Debug)]
struct Step {
    snap: SnapId,
    /// Requests in flight, once the index page is read.
    left: Option<usize>,
    /// Whether one of them was aborted.
    has_failed: bool,
}

impl GroupTrim {
    /// Snapshots of the queue that this group has trimmed completely.
    pub fn purged(&self) -> &SnapIntervals {
        &self.purged
    }

    /// Restarts, after a change of the members.
    pub fn begin_anew(&mut self) {
        *self = GroupTrim::default();
    }

    /// Forgets purged snapshots that are no longer in the queue.
    pub fn forget_purged(&mut self, queue: &SnapIntervals) {
        let mut gone = self.purged.clone();
        gone.subtract(queue);
        self.purged.subtract(&gone);
    }
}

impl Group {
    /// Number of snapshots that are still to be trimmed here. `purged` is a part of the queue.
    pub fn left_to_trim(&self) -> u64 {
        self.snapshots.removed.len().saturating_sub(self.trim.purged.len())
    }

    fn next_to_trim(&self) -> Option<SnapId> {
        self.snapshots.removed.first_not_in(&self.trim.purged)
    }

    /// State bits of snapshot trimming.
    pub fn trim_state_bits(&self) -> u64 {
        match (self.pg.is_clean(), &self.trim.step) {
            (true, Some(_)) => SNAPTRIM,
            (true, None) if self.next_to_trim().is_some() => SNAPTRIM_WAIT,
            _ => 0,
        }
    }
}

/// The groups that have snapshots to trim.
#[derive(Debug, Default)]
pub(crate) struct Trims {
    /// Groups that may start a step, those that pause until a time, and those with a step in progress.
    queue: BTreeSet<PgId>,
    resting: BTreeSet<(Time, PgId)>,
    busy: BTreeSet<PgId>,
    due: Option<Time>,
    /// Number of groups examined.
    #[cfg(test)]
    looked_at: usize,
}

impl Trims {
    /// When a group may be trimmed.
    pub fn due(&self) -> Option<Time> {
        self.due
    }

    /// Number of groups examined.
    #[cfg(test)]
    pub fn looked_at(&self) -> usize {
        self.looked_at
    }

    fn look_at(&mut self, when: Time) {
        self.due = Some(self.due.map_or(when, |due| due.min(when)));
    }

    /// Moves groups whose pause is over to the queue.
    fn wake(&mut self, now: Time) {
        while let Some((until, pg)) =
            self.resting.first().copied().filter(|(until, _)| *until <= now)
        {
            self.resting.remove(&(until, pg));
            self.queue.insert(pg);
        }
    }

    /// The next group to start a step, unless the limit is reached.
    fn next(&mut self) -> Option<PgId> {
        if self.busy.len() >= GROUPS_MAX {
            return None;
        }
        #[cfg(test)]
        {
            self.looked_at += 1;
        }
        self.queue.pop_first()
    }
}

impl Osd {
    /// Queues a group that may have snapshots to trim.
    pub(crate) fn note_trim(&mut self, now: Time, pg: PgId) {
        let Some(group) = self.groups.by_id.get_mut(&pg) else { return };
        group.trim.since = group.pg.info().last_update;
        if group.pg.is_primary() && group.next_to_trim().is_some() {
            self.trim.queue.insert(pg);
            self.trim.look_at(now);
        }
    }

    /// Begins steps of groups that are due.
    pub(crate) fn trim_if_due(&mut self, now: Time) {
        if self.trim.due.is_none_or(|due| now < due) {
            return;
        }
        self.trim.due = None;
        // The map that clears the flag queues all groups again.
        if self.maps.map().flags.contains(OsdMapFlags::NOSNAPTRIM) {
            return;
        }
        self.trim.wake(now);
        let groups = &self.groups.by_id;
        // A step is forgotten when the members change.
        self.trim.busy.retain(|pg| groups.get(pg).is_some_and(|group| group.trim.step.is_some()));
        for _ in 0..LOOKED_AT_MAX {
            let Some(pg) = self.trim.next() else { break };
            let group = self.groups.by_id.get(&pg).filter(|group| group.pg.is_primary());
            // The end of its step queues it again.
            let Some(group) = group else { continue };
            if group.trim.step.is_some() || group.next_to_trim().is_none() {
                continue;
            }
            let is_ready = group.pg.is_clean() && group.pg.committed() >= group.trim.since;
            let again = if is_ready { group.trim.not_before } else { now + RETRY };
            match again <= now {
                true => self.begin_step(pg),
                false => drop(self.trim.resting.insert((again, pg))),
            }
        }
        if let Some((until, _)) = self.trim.resting.first() {
            self.trim.look_at(*until);
        }
        let has_place = self.trim.busy.len() < GROUPS_MAX;
        match self.trim.queue.is_empty() {
            true => {}
            false if has_place => self.trim.look_at(now),
            // The end of a step triggers this, too, but not after a change of the members.
            false => self.trim.look_at(now + RETRY),
        }
    }

    fn begin_step(&mut self, pg: PgId) {
        let Some(group) = self.groups.by_id.get_mut(&pg) else { return };
        let Some(snap) = group.next_to_trim() else { return };
        self.trim.busy.insert(pg);
        group.trim.step = Some(Step { snap, left: None, has_failed: false });
        let kind = RequestKind::OmapList {
            collection: Collection(pg),
            object: pg::meta_object(pg),
            after: None,
            prefix: index_keys_of(snap),
            entries_max: STEP_OBJECTS,
            bytes_max: STEP_BYTES_MAX,
        };
        let generation = group.queues.generation;
        self.outbox.ask(Token::Trim { pg, generation }, kind);
    }

    /// Handles a page of the index: starts a request for each clone, or notes that the snapshot is purged.
    pub(crate) fn trim_listed(
        &mut self,
        now: Time,
        pg: PgId,
        generation: u64,
        outcome: Result<Outcome, StoreError>,
    ) {
        let group =
            self.groups.by_id.get_mut(&pg).filter(|group| group.queues.generation == generation);
        let Some(group) = group else { return };
        let Some(step) = &mut group.trim.step else { return };
        let keys = match outcome {
            Ok(Outcome::OmapPage(page)) => page.pairs.into_keys(),
            Err(StoreError::NoObject { .. }) => Default::default(),
            other => {
                tracing::error!(%pg, ?other, "the index of clones cannot be read");
                return self.end_step(now, pg, true);
            }
        };
        let clones: Vec<(SnapId, HObject)> =
            keys.filter_map(|key| decode_index_key(&key)).collect();
        if clones.is_empty() {
            group.trim.purged.insert(step.snap);
            tracing::debug!(%pg, snap = step.snap.0, "nothing is left of a removed snapshot");
            return self.end_step(now, pg, false);
        }
        step.left = Some(clones.len());
        for (snap, clone) in clones {
            let request = self.operations.insert(self.trim_request(pg, snap, &clone));
            self.start(now, pg, request);
        }
    }

    fn trim_request(&self, pg: PgId, snap: SnapId, clone: &HObject) -> Request {
        let message = OsdRequest {
            pg: ShardPgId::replicated(pg),
            map_epoch: self.epoch(),
            flags: 0,
            request_id: Default::default(),
            client_incarnation: 0,
            mtime: Default::default(),
            object: clone.at(SnapId::HEAD),
            ops: Vec::new(),
            snap_context: Default::default(),
            retry_attempt: 0,
            features: 0,
        };
        let origin = Origin::SnapTrim { snap, clone: clone.snap };
        let mut request = Request::new(origin, message, 0, Caller::default());
        request.nature = Nature { may_write: true, ..Nature::default() };
        request
    }

    /// Notes that one object of a step is done or has failed.
    pub(crate) fn trim_ended(&mut self, pg: PgId, succeeded: bool) {
        let now = self.env.now;
        let Some(group) = self.groups.by_id.get_mut(&pg) else { return };
        let Some(step) = &mut group.trim.step else { return };
        let Some(left) = &mut step.left else { return };
        step.has_failed |= !succeeded;
        *left -= 1;
        if *left == 0 {
            let has_failed = step.has_failed;
            self.end_step(now, pg, has_failed);
        }
    }

    /// Ends a step. The next one begins immediately unless clients have requests in progress.
    fn end_step(&mut self, now: Time, pg: PgId, has_failed: bool) {
        let is_client = |request: &Request| matches!(request.origin, Origin::Client { .. });
        let has_clients = self.operations.iter().any(|(_, request)| is_client(request));
        let pause = match has_failed {
            true => RETRY,
            false if has_clients => self.env.options.snap_trim_sleep,
            false => Duration::ZERO,
        };
        let Some(group) = self.groups.by_id.get_mut(&pg) else { return };
        group.trim.step = None;
        group.trim.not_before = now + pause;
        self.trim.busy.remove(&pg);
        self.trim.queue.insert(pg);
        if group.next_to_trim().is_none() {
            self.report.request(now);
        }
        self.trim.look_at(now + pause);
    }
}
