//! Snapshots of clients: creation, removal, and requests that use them.
//!
//! All clients share their knowledge of snapshots, as the users of one image would. A snapshot is *sharp*
//! for an object if no write to that object was in flight when the snapshot became known: only then can no
//! later write have a context without it. Clients read only sharp snapshots: the creator of a snapshot is
//! responsible for that. Snapshots with odd numbers may be removed; the others are used for rollback.

use crate::history::{History, ObjectId};
use crate::model::Action;
use engine::{Duration, Time};
use std::collections::{BTreeMap, BTreeSet};
use stdx::Prng;
use types::SnapId;
use wire::SnapContext;

/// One in so many requests creates or removes a snapshot.
const CHANGE_ONE_IN: u64 = 30;
/// One in so many requests to an object reads a snapshot, or rolls back to one.
const LOOK_ONE_IN: u64 = 5;
const ROLLBACK_ONE_IN: u64 = 40;
const LIVE_MAX: usize = 6;
/// Time in which requests of a dead client may still take effect.
const AFTERMATH: Duration = Duration::from_secs(90);

/// An operation on snapshots of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotAction {
    Take,
    Remove(SnapId),
}

/// Snapshots that clients know.
#[derive(Debug)]
pub struct Snapshots {
    prng: Prng,
    is_used: bool,
    /// Known snapshots that are not to be removed, with the objects for which each is sharp.
    live: BTreeMap<SnapId, BTreeSet<ObjectId>>,
    newest: SnapId,
    /// Snapshots whose removal was requested; true once confirmed.
    removed: BTreeMap<SnapId, bool>,
}

impl Snapshots {
    /// No snapshots yet; without `is_used` there will be none.
    pub fn new(prng: Prng, is_used: bool) -> Self {
        let (live, removed) = (BTreeMap::new(), BTreeMap::new());
        Snapshots { prng, is_used, live, newest: SnapId(0), removed }
    }

    /// The snapshot context of a write.
    pub fn context(&self) -> SnapContext {
        SnapContext { seq: self.newest, snaps: self.live.keys().rev().copied().collect() }
    }

    /// Draws an operation on snapshots, now and then.
    pub fn next_change(&mut self) -> Option<SnapshotAction> {
        if !self.is_used || !self.prng.chance(1, CHANGE_ONE_IN) {
            return None;
        }
        let removable: Vec<SnapId> =
            self.live.keys().copied().filter(|snap| snap.0 % 2 == 1).collect();
        let takes = self.live.len() < LIVE_MAX && self.prng.chance(2, 3);
        match removable.as_slice() {
            _ if takes => Some(SnapshotAction::Take),
            [] => (self.live.len() < 2 * LIVE_MAX).then_some(SnapshotAction::Take),
            some => Some(SnapshotAction::Remove(*self.prng.choose(some))),
        }
    }

    /// Replaces `action` by a request that uses a snapshot, now and then.
    pub fn instead(&mut self, object: ObjectId, action: Action, is_journal: bool) -> Action {
        if !self.is_used {
            return action;
        }
        let sharp = self.sharp_for(object);
        if sharp.is_empty() {
            return action;
        }
        let snap = *self.prng.choose(&sharp);
        let goes_back = action.is_write() && !is_journal && snap.0.is_multiple_of(2);
        match action {
            _ if goes_back && self.prng.chance(1, ROLLBACK_ONE_IN) => Action::Rollback(snap),
            action if !self.prng.chance(1, LOOK_ONE_IN) => action,
            Action::Read => Action::ReadAt(snap),
            _ => Action::LookAt(snap),
        }
    }

    /// Snapshots with known content of the object.
    pub fn sharp_for(&self, object: ObjectId) -> Vec<SnapId> {
        let sharp = self.live.iter().filter(|(_, objects)| objects.contains(&object));
        sharp.map(|(snap, _)| *snap).collect()
    }

    /// A snapshot is known from now on.
    pub fn taken(&mut self, now: Time, snap: SnapId, objects: usize, history: &History) {
        let may_come = |object: ObjectId| {
            let writes = history.of_object(object).filter(|entry| entry.action.is_write());
            let mut open = writes.filter(|entry| entry.completed.is_none());
            open.any(|entry| entry.invoked + AFTERMATH > now)
        };
        let sharp = (0..objects).filter(|object| !may_come(*object)).collect();
        self.live.insert(snap, sharp);
        self.newest = self.newest.max(snap);
    }

    /// The removal of the snapshot is confirmed.
    pub fn confirm_removal(&mut self, snap: SnapId) {
        self.removed.insert(snap, true);
    }

    /// True if the removal of the snapshot was confirmed.
    pub fn is_removed(&self, snap: SnapId) -> bool {
        self.removed.get(&snap).is_some_and(|is_confirmed| *is_confirmed)
    }

    /// Marks a removal as requested; from then on no read uses the snapshot.
    pub fn removing(&mut self, snap: SnapId, history: &mut History) {
        self.live.remove(&snap);
        self.removed.insert(snap, false);
        for entry in history.waiting_mut() {
            entry.is_blurred |= entry.action.snapshot() == Some(snap);
        }
    }
}
