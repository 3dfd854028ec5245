//! The search for the next object to recover, through all that is missing, the oldest first.
//!
//! Many objects may have no source within reach. They are passed once, a bounded number at a time, and not again before
//! something changes by which they may have one: else those in front would hide all that lie behind them.

use crate::Pg;
use std::ops::Bound::{Excluded, Unbounded};
use types::{EVersion, HObject};

/// Objects that one step looks at.
pub(crate) const LOOKED_AT_MAX: usize = 64;

/// A place in the lists of what is missing: what clients wait for, what the primary lacks, what it cannot read, and what
/// each participant lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    list: usize,
    /// The version is zero where a list has no order but that of its objects.
    after: (EVersion, HObject),
}

const WANTED: usize = 0;
const OWN: usize = 1;
const UNREADABLE: usize = 2;
const OF_PARTICIPANTS: usize = 3;

#[derive(Debug, Default)]
pub(crate) struct Search {
    /// Everything up to here was started, or could not be.
    place: Option<Place>,
    is_over: bool,
    /// Whether something was passed because it was being written.
    has_met_writes: bool,
}

impl Search {
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    pub fn has_met_writes(&self) -> bool {
        self.has_met_writes
    }

    pub fn passed(&mut self, place: Place) {
        self.place = Some(place);
    }

    pub fn end(&mut self) {
        self.is_over = true;
    }

    pub fn meet_write(&mut self) {
        self.has_met_writes = true;
    }
}

/// Objects that one step looks at.
#[derive(Debug, Default)]
pub(crate) struct Step {
    pub candidates: Vec<(HObject, Place)>,
    /// Nothing is behind them.
    pub is_last: bool,
}

impl Pg {
    pub(crate) fn search_step(&self) -> Step {
        let search = &self.recovery.search;
        let mut step = Step::default();
        if search.is_over {
            return step;
        }
        let first = search.place.as_ref().map_or(WANTED, |place| place.list);
        for list in first..OF_PARTICIPANTS + self.participants.len() {
            let after = search.place.as_ref().filter(|place| place.list == list);
            self.take_from_list(list, after.map(|place| &place.after), &mut step.candidates);
            if step.candidates.len() == LOOKED_AT_MAX {
                return step;
            }
        }
        step.is_last = true;
        step
    }

    /// Adds what lies in a list behind a place, until there are enough.
    fn take_from_list(
        &self,
        list: usize,
        after: Option<&(EVersion, HObject)>,
        candidates: &mut Vec<(HObject, Place)>,
    ) {
        let left = LOOKED_AT_MAX - candidates.len();
        let add = |(need, object): (EVersion, &HObject)| {
            let after = (need, object.clone());
            (object.clone(), Place { list, after })
        };
        let unversioned = |object| (EVersion::ZERO, object);
        let behind = match after {
            Some((_, object)) => (Excluded(object), Unbounded),
            None => (Unbounded, Unbounded),
        };
        match list {
            WANTED => {
                let objects = self.recovery.wanted.range::<HObject, _>(behind).map(unversioned);
                candidates.extend(objects.take(left).map(add));
            }
            OWN => candidates.extend(self.missing.by_need_after(after).take(left).map(add)),
            UNREADABLE => {
                let objects = self.recovery.unreadable.range::<HObject, _>(behind);
                candidates
                    .extend(objects.map(|(object, _)| unversioned(object)).take(left).map(add));
            }
            _ => {
                let osd = self.participants.get(list - OF_PARTICIPANTS);
                let Some(peer) = osd.and_then(|osd| self.peers.get(osd)) else { return };
                candidates.extend(peer.missing.by_need_after(after).take(left).map(add));
            }
        }
    }
}
