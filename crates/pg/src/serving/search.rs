//! The search for the next object to recover, through all missing sets, oldest version first.
//!
//! Many objects may have no reachable source. The search passes them once, a bounded number at a time, and
//! not again until something changes that may give them a source: otherwise those in front would hide all
//! behind them.

use super::recovery::{OF_PARTICIPANTS, OWN, Place, UNREADABLE, WANTED};
use super::service::View;
use std::ops::Bound::{Excluded, Unbounded};
use types::{EVersion, HObject};

/// Objects that one step examines.
pub(crate) const EXAMINED_MAX: usize = 64;

/// The objects that one step examines, with their positions.
#[derive(Debug, Default)]
pub(crate) struct Step {
    /// In the order of the search.
    pub candidates: Vec<(HObject, Place)>,
    /// No objects follow them.
    pub is_last: bool,
}

impl View<'_> {
    /// The next objects to examine.
    pub fn search_step(self) -> Step {
        let search = &self.recovery.search;
        let mut step = Step::default();
        if search.is_over {
            return step;
        }
        let first = search.place.as_ref().map_or(WANTED, |place| place.list);
        for list in first..OF_PARTICIPANTS + self.agreed.participants.len() {
            let after = search.place.as_ref().filter(|place| place.list == list);
            self.take_from_list(list, after.map(|place| &place.after), &mut step.candidates);
            if step.candidates.len() == EXAMINED_MAX {
                return step;
            }
        }
        step.is_last = true;
        step
    }

    /// Adds objects of a list after a position, up to [`EXAMINED_MAX`].
    fn take_from_list(
        &self,
        list: usize,
        after: Option<&(EVersion, HObject)>,
        candidates: &mut Vec<(HObject, Place)>,
    ) {
        let left = EXAMINED_MAX - candidates.len();
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
            OWN => {
                candidates.extend(self.core.copy.missing.by_need_after(after).take(left).map(add))
            }
            UNREADABLE => {
                let objects = self.recovery.unreadable.range::<HObject, _>(behind);
                candidates
                    .extend(objects.map(|(object, _)| unversioned(object)).take(left).map(add));
            }
            _ => {
                let osd = self.agreed.participants.get(list - OF_PARTICIPANTS);
                let Some(peer) = osd.and_then(|osd| self.known.peers.get(osd)) else { return };
                candidates.extend(peer.missing.by_need_after(after).take(left).map(add));
            }
        }
    }
}
