//! Snapshots that clients take and remove, and what they ask of them.
//!
//! All clients share what they know of snapshots, as the users of one image would. A snapshot is *sharp*
//! for an object if nothing was being written to that object when it came to be known: only then no
//! write that does not know of it can come later. Nobody looks at a snapshot that is not: whoever takes
//! one has to see to that. Those with odd numbers may be removed; the others are gone back to.

use crate::history::{History, ObjectId};
use crate::model::Action;
use engine::{Duration, Time};
use std::collections::{BTreeMap, BTreeSet};
use stdx::Prng;
use types::SnapId;
use wire::SnapContext;

/// Of so many requests one is about a snapshot as a whole.
const CHANGE_ONE_IN: u64 = 30;
/// Of so many requests to an object one looks at a snapshot, or goes back to one.
const LOOK_ONE_IN: u64 = 5;
const ROLLBACK_ONE_IN: u64 = 40;
const LIVE_MAX: usize = 6;
/// What a client asked that has died since may still come to be.
const AFTERMATH: Duration = Duration::from_secs(90);

/// What a client does about snapshots of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotAction {
    Take,
    Remove(SnapId),
}

#[derive(Debug)]
pub struct Snapshots {
    prng: Prng,
    is_used: bool,
    /// Known, and not to be removed, with the objects for which each is sharp.
    live: BTreeMap<SnapId, BTreeSet<ObjectId>>,
    newest: SnapId,
    /// Whose removal was asked for; whether that was answered.
    pub removed: BTreeMap<SnapId, bool>,
}

impl Snapshots {
    pub fn new(prng: Prng, is_used: bool) -> Self {
        let (live, removed) = (BTreeMap::new(), BTreeMap::new());
        Snapshots { prng, is_used, live, newest: SnapId(0), removed }
    }

    /// What a write must preserve.
    pub fn context(&self) -> SnapContext {
        SnapContext { seq: self.newest, snaps: self.live.keys().rev().copied().collect() }
    }

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

    /// A request for a snapshot's sake instead of `action`.
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

    /// The snapshots that say what an object was.
    pub fn sharp_for(&self, object: ObjectId) -> Vec<SnapId> {
        let sharp = self.live.iter().filter(|(_, objects)| objects.contains(&object));
        sharp.map(|(snap, _)| *snap).collect()
    }

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

    /// Someone asks for the removal: from now on nobody needs it.
    pub fn removing(&mut self, snap: SnapId, history: &mut History) {
        self.live.remove(&snap);
        self.removed.insert(snap, false);
        for entry in history.waiting_mut() {
            entry.is_blurred |= entry.action.snapshot() == Some(snap);
        }
    }
}
