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

use crate::env::Env;
use crate::outbox::Outbox;
use crate::tokens::Token;
use engine::{Duration, Time};
use maps::{OsdMap, OsdMapFlags, SnapIntervals};
use pg::Pg;
use pg::snaps::{decode_index_key, index_keys_of};
use std::collections::{BTreeMap, BTreeSet};
use store::{Outcome, RequestKind, StoreError};
use types::{EVersion, HObject, PgShard, SnapId};
use wire::internal::pg_state::{SNAPTRIM, SNAPTRIM_WAIT};

/// Objects of one step.
const STEP_OBJECTS: usize = 16;
const STEP_BYTES_MAX: usize = 64 << 10;
/// Groups that an OSD trims at once (`osd_max_trimming_pgs`).
const GROUPS_MAX: usize = 2;
/// Groups that one turn examines.
pub(crate) const LOOKED_AT_MAX: usize = 64;
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

    /// Number of snapshots of the queue that are still to be trimmed here. What is purged is a part
    /// of the queue.
    pub fn left(&self, queue: &SnapIntervals) -> u64 {
        queue.len().saturating_sub(self.purged.len())
    }

    fn next(&self, queue: &SnapIntervals) -> Option<SnapId> {
        queue.first_not_in(&self.purged)
    }

    /// Whether a step is in progress.
    pub fn is_busy(&self) -> bool {
        self.step.is_some()
    }

    /// State bits of snapshot trimming.
    pub fn state_bits(&self, is_clean: bool, queue: &SnapIntervals) -> u64 {
        match (is_clean, &self.step) {
            (true, Some(_)) => SNAPTRIM,
            (true, None) if self.next(queue).is_some() => SNAPTRIM_WAIT,
            _ => 0,
        }
    }

    /// Handles a page of the index.
    pub fn listed(&mut self, pg: PgShard, outcome: Result<Outcome, StoreError>) -> Listed {
        let Some(step) = &mut self.step else { return Listed::Nothing };
        let pairs = match outcome {
            Ok(Outcome::OmapPage(page)) => page.pairs,
            Err(StoreError::NoObject { .. }) => BTreeMap::new(),
            other => {
                tracing::error!(%pg, ?other, "the index of clones cannot be read");
                return Listed::Ended { has_failed: true };
            }
        };
        let clones: Vec<(SnapId, HObject)> =
            pairs.keys().filter_map(|key| decode_index_key(key)).collect();
        if clones.is_empty() && !pairs.is_empty() {
            tracing::error!(%pg, snap = step.snap.0, "the index of clones does not decode");
            return Listed::Ended { has_failed: true };
        }
        if clones.is_empty() {
            self.purged.insert(step.snap);
            tracing::debug!(%pg, snap = step.snap.0, "nothing is left of a removed snapshot");
            return Listed::Ended { has_failed: false };
        }
        step.left = Some(clones.len());
        Listed::Clones(clones)
    }

    /// Notes that one object of a step is done or has failed. After the last one, returns whether
    /// one has failed.
    pub fn ended(&mut self, succeeded: bool) -> Option<bool> {
        let step = self.step.as_mut()?;
        let left = step.left.as_mut()?;
        step.has_failed |= !succeeded;
        *left -= 1;
        (*left == 0).then_some(step.has_failed)
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

/// The outcome of reading a page of the index.
pub(crate) enum Listed {
    /// No step is in progress.
    Nothing,
    /// Clones to trim, each with the snapshot that it is to lose.
    Clones(Vec<(SnapId, HObject)>),
    /// The step ends.
    Ended { has_failed: bool },
}

/// The parts of a group that trimming touches.
pub(crate) struct Trimmed<'a> {
    pub pg: &'a Pg,
    pub trim: &'a mut GroupTrim,
    /// Snapshots whose removal has begun.
    pub queue: &'a SnapIntervals,
    /// Changes with the members: the completion of an earlier read is ignored.
    pub generation: u64,
}

/// The groups that have snapshots to trim.
#[derive(Debug, Default)]
pub(crate) struct Trims {
    /// Groups that may start a step, those that pause until a time, and those with a step in progress.
    queue: BTreeSet<PgShard>,
    resting: BTreeSet<(Time, PgShard)>,
    busy: BTreeSet<PgShard>,
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
    pub fn next(&mut self) -> Option<PgShard> {
        if self.busy.len() >= GROUPS_MAX {
            return None;
        }
        #[cfg(test)]
        {
            self.looked_at += 1;
        }
        self.queue.pop_first()
    }

    /// Queues a group that may have snapshots to trim.
    pub fn note(&mut self, now: Time, group: &mut Trimmed<'_>) {
        group.trim.since = group.pg.submitted();
        if group.pg.is_primary() && group.trim.next(group.queue).is_some() {
            self.queue.insert(group.pg.pg_shard());
            self.look_at(now);
        }
    }

    /// Whether to begin steps of groups that are due; if so, [`Trims::begin_step`] begins each.
    /// `is_busy` says whether a step of a group is in progress.
    pub fn begin_look(
        &mut self,
        now: Time,
        map: &OsdMap,
        is_busy: impl Fn(PgShard) -> bool,
    ) -> bool {
        if self.due.is_none_or(|due| now < due) {
            return false;
        }
        self.due = None;
        // The map that clears the flag queues all groups again.
        if map.flags.contains(OsdMapFlags::NOSNAPTRIM) {
            return false;
        }
        self.wake(now);
        // A step is forgotten when the members change.
        self.busy.retain(|pg| is_busy(*pg));
        true
    }

    /// Begins a step of a group, or lets the group pause if it is not ready.
    pub fn begin_step(&mut self, now: Time, out: &mut Outbox, group: &mut Trimmed<'_>) {
        // The end of its step queues it again.
        if !group.pg.is_primary() || group.trim.is_busy() {
            return;
        }
        let Some(snap) = group.trim.next(group.queue) else { return };
        let pg = group.pg.pg_shard();
        let is_ready = group.pg.is_clean() && group.pg.committed() >= group.trim.since;
        let again = if is_ready { group.trim.not_before } else { now + RETRY };
        if again > now {
            self.resting.insert((again, pg));
            return;
        }
        self.busy.insert(pg);
        group.trim.step = Some(Step { snap, left: None, has_failed: false });
        let kind = RequestKind::OmapList {
            collection: group.pg.collection(),
            object: pg::meta_object(pg.pg),
            after: None,
            prefix: index_keys_of(snap),
            entries_max: STEP_OBJECTS,
            bytes_max: STEP_BYTES_MAX,
        };
        out.ask(Token::Trim { pg, generation: group.generation }, kind);
    }

    /// Panics unless a group with a step is known, and its step waits for so many `requests`.
    pub fn check_invariants(&self, pg: PgShard, trim: &GroupTrim, requests: usize) {
        let left = trim.step.as_ref().map(|step| step.left.unwrap_or(0));
        assert!(left.is_none() || self.busy.contains(&pg), "{pg}: its step is known");
        assert_eq!(left.unwrap_or(0), requests, "{pg}: a step waits for its requests");
    }

    /// Ends a look: notes when the next one is due.
    pub fn end_look(&mut self, now: Time) {
        if let Some((until, _)) = self.resting.first() {
            self.look_at(*until);
        }
        let has_place = self.busy.len() < GROUPS_MAX;
        match self.queue.is_empty() {
            true => {}
            false if has_place => self.look_at(now),
            // The end of a step triggers this, too, but not after a change of the members.
            false => self.look_at(now + RETRY),
        }
    }

    /// Ends a step. The next one begins immediately unless clients have requests in progress.
    /// Returns whether no snapshot is left to trim.
    pub fn end_step(
        &mut self,
        env: &Env,
        group: &mut Trimmed<'_>,
        has_failed: bool,
        has_clients: bool,
    ) -> bool {
        let pause = match has_failed {
            true => RETRY,
            false if has_clients => env.options.snap_trim_sleep,
            false => Duration::ZERO,
        };
        let pg = group.pg.pg_shard();
        group.trim.step = None;
        group.trim.not_before = env.now + pause;
        self.busy.remove(&pg);
        self.queue.insert(pg);
        self.look_at(env.now + pause);
        group.trim.next(group.queue).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use pg::snaps::index_key;
    use store::OmapPage;

    const SNAP: SnapId = SnapId(3);

    fn listed(keys: &[Bytes]) -> (GroupTrim, Listed) {
        let step = Step { snap: SNAP, left: None, has_failed: false };
        let mut trim = GroupTrim { step: Some(step), ..GroupTrim::default() };
        let pairs = keys.iter().map(|key| (key.clone(), Bytes::new())).collect();
        let page = OmapPage { pairs, more: false };
        let listed = trim.listed(PgShard::default(), Ok(Outcome::OmapPage(page)));
        (trim, listed)
    }

    #[test]
    #[should_panic(expected = "a step waits for its requests")]
    fn a_step_that_waits_for_a_request_that_is_gone_is_seen() {
        let clone = HObject::default().at(SNAP);
        let (trim, _) = listed(&[index_key(SNAP, &clone)]);
        let busy = BTreeSet::from([PgShard::default()]);
        let trims = Trims { busy, ..Trims::default() };
        trims.check_invariants(PgShard::default(), &trim, 1);
        trims.check_invariants(PgShard::default(), &trim, 0);
    }

    #[test]
    fn a_snapshot_is_purged_when_its_index_is_empty_and_not_when_it_cannot_be_decoded() {
        let (trim, ended) = listed(&[]);
        assert!(matches!(ended, Listed::Ended { has_failed: false }));
        assert_eq!(trim.purged().len(), 1);
        let damaged = index_keys_of(SNAP);
        let (trim, ended) = listed(std::slice::from_ref(&damaged));
        assert!(matches!(ended, Listed::Ended { has_failed: true }));
        assert_eq!(trim.purged().len(), 0);
        let clone = HObject::default().at(SNAP);
        let (_, ended) = listed(&[damaged, index_key(SNAP, &clone)]);
        assert!(matches!(ended, Listed::Clones(clones) if clones == [(SNAP, clone)]));
    }
}
