//! The state of backfill: the targets, the page that is compared or pushed, and the writes that a target
//! needs.

use crate::Member;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use types::{EVersion, HObject};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Stage {
    /// No backfill runs.
    #[default]
    Idle,
    /// Waits for the local reservation, and then for the target's.
    Reserving,
    /// The target, or this OSD, refused the reservation.
    Refused,
    /// A store could not list its objects.
    Failed,
    Comparing,
    Pushing,
    /// The target stores its progress.
    Storing,
}

/// The backfill of a group by its primary, of one target after the other.
#[derive(Debug, Default)]
pub(crate) struct Backfill {
    pub(super) targets: VecDeque<Member>,
    pub(super) stage: Stage,
    /// Objects before this are pushed, or in `pending`.
    pub(super) started: HObject,
    /// The first object of the present page.
    pub(super) position: HObject,
    pub(super) own: Page,
    pub(super) theirs: Page,
    /// The object from which on the target was asked to list.
    pub(super) listed_from: HObject,
    /// Objects of the page that are to be pushed.
    pub(super) pending: BTreeSet<HObject>,
    /// Objects of the page that the target will miss, in these versions: they cannot be pushed now. Only in a
    /// group with shards that does not serve.
    pub(super) put_off: BTreeMap<HObject, EVersion>,
    /// Surplus objects of the target in the page.
    pub(super) removals: BTreeSet<HObject>,
    /// Objects that were written since the page began to be read.
    pub(super) touched: BTreeSet<HObject>,
}

/// Objects and their versions from `position` on, as far as they are read.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) objects: BTreeMap<HObject, EVersion>,
    /// The end (exclusive) of the range that is read; `None` while a listing is awaited.
    pub(super) end: Option<HObject>,
}

impl Page {
    pub(super) fn add(&mut self, objects: Vec<(HObject, EVersion)>, next: Option<HObject>) {
        self.objects.extend(objects);
        self.end = Some(next.unwrap_or_else(HObject::max));
    }
}

impl Backfill {
    /// Restarts with these targets, in order.
    pub fn set_targets(&mut self, targets: &[Member]) {
        *self = Backfill { targets: targets.iter().copied().collect(), ..Backfill::default() };
    }

    /// The targets that are left, in order.
    pub fn targets(&self) -> impl Iterator<Item = Member> + '_ {
        self.targets.iter().copied()
    }

    /// Whether a target is left.
    pub fn is_needed(&self) -> bool {
        !self.targets.is_empty()
    }

    /// Whether a reservation was asked for, and not given back by the end of a target.
    pub fn is_begun(&self) -> bool {
        self.stage != Stage::Idle
    }

    /// Whether it was refused or has failed, and can be retried.
    pub fn is_put_off(&self) -> bool {
        matches!(self.stage, Stage::Refused | Stage::Failed)
    }

    /// Allows a refused or failed backfill to begin again.
    pub fn retry(&mut self) {
        if self.is_put_off() {
            self.stage = Stage::Idle;
        }
    }

    /// Whether objects are to be pushed.
    pub fn has_work(&self) -> bool {
        self.stage == Stage::Pushing && !self.pending.is_empty()
    }

    /// The target has stored an object.
    pub fn given(&mut self, to: Member, object: &HObject) {
        if self.targets.front() == Some(&to) {
            self.pending.remove(object);
        }
    }

    pub(super) fn target(&self) -> Option<Member> {
        self.targets.front().copied().filter(|_| self.stage > Stage::Failed)
    }

    /// Whether `to`, whose progress is `last_backfill`, needs a write of the object.
    pub(super) fn wants_write(
        &self,
        to: Member,
        object: &HObject,
        last_backfill: &HObject,
    ) -> bool {
        let is_covered =
            self.target() == Some(to) && *object < self.started && !self.is_pending(object);
        is_covered || object < last_backfill
    }

    /// Whether the object, or another one of its family, is to be pushed.
    pub(super) fn is_pending(&self, object: &HObject) -> bool {
        let mut from_start = self.pending.range(object.family_start()..);
        from_start.next().is_some_and(|pending| pending.is_of_family(object))
    }

    pub(super) fn note_write(&mut self, object: &HObject) {
        match self.stage {
            Stage::Comparing if *object >= self.position => {
                self.touched.insert(object.clone());
            }
            // It was to be removed and is written again: it is pushed as a whole.
            Stage::Pushing | Stage::Storing if self.removals.remove(object) => {
                self.pending.insert(object.clone());
            }
            _ => {}
        }
    }
}

impl PartialOrd for Stage {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        (*self as u8).partial_cmp(&(*other as u8))
    }
}

/// The state of a group's backfill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackfillState {
    /// It waits for log-based recovery, a reservation, or a retry after a store could not list.
    Waiting,
    /// Objects are compared or pushed.
    Running,
    /// The target, or this OSD, refused the reservation.
    TooFull,
}
