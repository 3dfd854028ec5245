//! Backfill of members whose logs do not overlap the primary's, in hash order, while clients continue.
//!
//! The primary compares its own objects with the target's, a page at a time. Objects that differ are
//! pushed, surplus objects are removed, and when all of a page is durable there, the target stores its
//! progress (`last_backfill`), so that an interruption costs no more than a page.
//!
//! Writes to objects before the present page's end go to the target as well, except to objects of the page
//! that are still to be pushed; for those, and for later objects, it gets only log entries. Objects that are
//! written while a page is being compared are pushed with it.
//!
//! An object and its clones are always on the same side of a page's end, because writes to the object
//! make clones. While one of them is still to be pushed, a write of the object is not sent, and all objects
//! that it changes are pushed, too.

use crate::message::{Body, Listing};
use crate::{LogEntry, Output, Pg, State, Tag};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use store::Change;
use types::{EVersion, Epoch, HObject, OsdId};

/// Removals that one message may carry. They are of one page, and the pages of both sides are equally
/// long; a target with very many surplus objects is listed several times.
const REMOVALS_MAX: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
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
    targets: VecDeque<OsdId>,
    stage: Stage,
    /// Objects before this are pushed, or in `pending`.
    started: HObject,
    /// The first object of the present page.
    position: HObject,
    own: Page,
    theirs: Page,
    /// Objects of the page that are to be pushed.
    pending: BTreeSet<HObject>,
    /// Surplus objects of the target in the page.
    removals: BTreeSet<HObject>,
    /// Objects that were written since the page began to be read.
    touched: BTreeSet<HObject>,
}

/// Objects and their versions from `position` on, as far as they are read.
#[derive(Debug, Default)]
struct Page {
    objects: BTreeMap<HObject, EVersion>,
    /// The end (exclusive) of the range that is read; `None` while a listing is awaited.
    end: Option<HObject>,
}

impl Page {
    fn add(&mut self, objects: Vec<(HObject, EVersion)>, next: Option<HObject>) {
        self.objects.extend(objects);
        self.end = Some(next.unwrap_or_else(HObject::max));
    }
}

impl Backfill {
    /// Begins anew with these targets, in order.
    pub fn set_targets(&mut self, targets: &[OsdId]) {
        *self = Backfill { targets: targets.iter().copied().collect(), ..Backfill::default() };
    }

    /// Whether a target is left.
    pub fn is_needed(&self) -> bool {
        !self.targets.is_empty()
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
    pub fn given(&mut self, to: OsdId, object: &HObject) {
        if self.targets.front() == Some(&to) {
            self.pending.remove(object);
        }
    }

    fn target(&self) -> Option<OsdId> {
        self.targets.front().copied().filter(|_| self.stage > Stage::Failed)
    }

    /// Whether `to`, whose progress is `last_backfill`, needs a write of the object.
    fn wants_write(&self, to: OsdId, object: &HObject, last_backfill: &HObject) -> bool {
        let is_covered =
            self.target() == Some(to) && *object < self.started && !self.is_pending(object);
        is_covered || object < last_backfill
    }

    /// Whether the object, or another one of its family, is to be pushed.
    fn is_pending(&self, object: &HObject) -> bool {
        let mut from_start = self.pending.range(object.family_start()..);
        from_start.next().is_some_and(|pending| pending.is_of_family(object))
    }

    fn note_write(&mut self, object: &HObject) {
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

impl Pg {
    /// Whether a write may have to be withheld from some participants.
    pub(crate) fn is_filling(&self) -> bool {
        self.agreed.backfill.is_needed()
    }

    /// Whether the backfill target was sent the object, and its stored progress does not cover it yet.
    pub(crate) fn is_being_filled_in(&self, object: &HObject) -> bool {
        let Some(target) = self.agreed.backfill.target() else { return false };
        let info = self.primary.peers.get(&target).and_then(|peer| peer.info.as_ref());
        *object < self.agreed.backfill.started
            && info.is_some_and(|info| *object >= info.last_backfill)
            && !self.agreed.backfill.pending.contains(object)
    }

    /// Notes a write to `object`, and to its clones in `also`. Returns the participants that get only the log
    /// entries.
    pub(crate) fn note_write(&mut self, object: &HObject, also: &[LogEntry]) -> BTreeSet<OsdId> {
        let objects = || also.iter().map(|entry| &entry.object).chain([object]);
        objects().for_each(|object| self.agreed.backfill.note_write(object));
        if *object < self.agreed.backfill.started && self.agreed.backfill.is_pending(object) {
            self.agreed.backfill.pending.extend(objects().cloned());
        }
        let skips = |osd: &OsdId| {
            let info = self.primary.peers.get(osd).and_then(|peer| peer.info.as_ref());
            let last_backfill = info.map(|info| &info.last_backfill);
            last_backfill.is_some_and(|last_backfill| {
                !last_backfill.max && !self.agreed.backfill.wants_write(*osd, object, last_backfill)
            })
        };
        self.agreed.participants.iter().copied().filter(skips).collect()
    }

    /// Takes the next step of backfill, except for pushing objects.
    pub(crate) fn go_on_filling(&mut self) {
        let is_settled = matches!(self.state(), State::Active | State::Inactive);
        if !is_settled || !self.agreed.backfill.is_needed() {
            return;
        }
        match self.agreed.backfill.stage {
            // Log-based recovery comes first.
            Stage::Idle if self.is_whole() => {
                self.agreed.backfill.stage = Stage::Reserving;
                self.core.outputs.push_back(Output::Reserve(None));
            }
            Stage::Pushing if self.agreed.backfill.pending.is_empty() => self.store_progress(),
            _ => {}
        }
    }

    /// The OSD's decision on a reservation that [`Output::Reserve`] requested; `primary` as there.
    pub fn reserved(&mut self, primary: Option<OsdId>, granted: bool) {
        match (primary, self.agreed.backfill.targets.front().copied()) {
            (Some(primary), _) if self.role.is_backfilled_by(primary) => {
                if !granted {
                    self.role.drop_reservation();
                }
                self.core.send(primary, &Body::Reserved(granted));
            }
            (None, Some(target)) if self.agreed.backfill.stage == Stage::Reserving => match granted
            {
                true => self.core.send(target, &Body::Reserve),
                false => self.agreed.backfill.stage = Stage::Refused,
            },
            // The reservation is not needed any more.
            _ => self.core.outputs.push_back(Output::Release),
        }
    }

    /// As target: the primary asks for a reservation.
    pub(crate) fn asked_to_reserve(&mut self, from: OsdId) {
        if let Some(backfilled_by) = self.role.reservation() {
            *backfilled_by = Some(from);
            self.core.outputs.push_back(Output::Reserve(Some(from)));
        }
    }

    /// As target: the primary gives the reservation back.
    pub(crate) fn told_to_release(&mut self) {
        self.role.drop_reservation();
        self.core.outputs.push_back(Output::Release);
    }

    /// The target's answer: its reservation, or later that it cannot list its objects.
    pub(crate) fn told_reserved(&mut self, from: OsdId, granted: bool) {
        if self.agreed.backfill.targets.front() != Some(&from) {
            return;
        }
        let stage = match (self.agreed.backfill.stage, granted) {
            (Stage::Reserving, true) => Stage::Comparing,
            (Stage::Reserving, false) => Stage::Refused,
            // The target cannot list its objects.
            (Stage::Comparing, false) => Stage::Failed,
            _ => return,
        };
        self.agreed.backfill.stage = stage;
        if !granted {
            self.core.transfers.stop_own_listing();
            return self.core.outputs.push_back(Output::Release);
        }
        let info = self.primary.peers.get(&from).and_then(|peer| peer.info.as_ref());
        let last_backfill = info.map(|info| info.last_backfill.clone()).unwrap_or_default();
        let first = HObject::hash_start(self.core.own.id.pool, 0);
        self.compare_page(last_backfill.max(first));
    }

    /// The target's store cannot list its objects: the primary retries the backfill later.
    pub(crate) fn cannot_list(&mut self, primary: OsdId) {
        if self.role.is_backfilled_by(primary) {
            self.told_to_release();
            self.core.send(primary, &Body::Reserved(false));
        }
    }

    /// The primary's store cannot list its objects.
    pub(crate) fn stop_comparing(&mut self) {
        let Some(target) = self.agreed.backfill.target() else { return };
        if self.agreed.backfill.stage == Stage::Comparing {
            self.agreed.backfill.stage = Stage::Failed;
            self.core.send(target, &Body::Release);
            self.core.outputs.push_back(Output::Release);
        }
    }

    /// The state of backfill; `None` if no member needs it.
    pub fn backfill_state(&self) -> Option<BackfillState> {
        if !self.agreed.backfill.is_needed() {
            return None;
        }
        Some(match self.agreed.backfill.stage {
            Stage::Idle | Stage::Reserving | Stage::Failed => BackfillState::Waiting,
            Stage::Refused => BackfillState::TooFull,
            _ => BackfillState::Running,
        })
    }

    /// Members that need backfill, with their progress.
    pub fn backfill_targets(&self) -> impl Iterator<Item = (OsdId, &HObject)> {
        let info = |osd: &OsdId| self.primary.peers.get(osd).and_then(|peer| peer.info.as_ref());
        self.agreed
            .backfill
            .targets
            .iter()
            .filter_map(move |osd| Some((*osd, &info(osd)?.last_backfill)))
    }

    fn compare_page(&mut self, position: HObject) {
        let Some(target) = self.agreed.backfill.targets.front().copied() else { return };
        let in_flight = self
            .core
            .copy
            .log
            .above(self.core.copy.committed)
            .filter(|entry| entry.changes_object());
        let touched = in_flight.map(|entry| entry.object.clone());
        let touched = touched.filter(|object| *object >= position).collect();
        let backfill = &mut self.agreed.backfill;
        backfill.stage = Stage::Comparing;
        backfill.started = position.clone();
        backfill.position = position.clone();
        (backfill.own, backfill.theirs) = (Page::default(), Page::default());
        backfill.touched = touched;
        self.core.send(target, &Body::List(position.clone()));
        self.core.scan(None, position);
    }

    /// Takes a page of our own objects.
    pub(crate) fn scanned_own(&mut self, objects: Vec<(HObject, EVersion)>, next: Option<HObject>) {
        if self.agreed.backfill.stage == Stage::Comparing {
            self.agreed.backfill.own.add(objects, next);
            self.compare();
        }
    }

    /// Takes a page of the target's objects.
    pub(crate) fn told_listing(&mut self, from: OsdId, listing: Listing) {
        if self.agreed.backfill.stage == Stage::Comparing
            && self.agreed.backfill.targets.front() == Some(&from)
        {
            self.agreed.backfill.theirs.add(listing.objects, listing.next);
            self.compare();
        }
    }

    /// Compares the page once both sides are read. It ends where the shorter side does.
    fn compare(&mut self) {
        let backfill = &mut self.agreed.backfill;
        let (Some(own_end), Some(their_end)) = (&backfill.own.end, &backfill.theirs.end) else {
            return;
        };
        let end = own_end.min(their_end);
        let (own_goes_on, they_go_on) = (own_end == end, their_end == end);
        let (read, end) = (end.clone(), end.family_start());
        if end <= backfill.position {
            // The first object has more clones than a page.
            return self.read_on(read, own_goes_on, they_go_on);
        }
        let backfill = &mut self.agreed.backfill;
        let mut own = std::mem::take(&mut backfill.own.objects);
        let mut theirs = std::mem::take(&mut backfill.theirs.objects);
        own.split_off(&end);
        theirs.split_off(&end);
        let touched = std::mem::take(&mut backfill.touched);
        let mut pending: BTreeSet<HObject> =
            touched.into_iter().filter(|object| *object < end).collect();
        // Objects that the primary lacks, or knows to be bad, are pushed once it has recovered them,
        // whatever the target has in their place.
        let lacked = self.core.copy.missing.range_from(&backfill.position);
        pending.extend(lacked.take_while(|object| **object < end).cloned());
        for (object, version) in own {
            let theirs = theirs.remove(&object);
            if theirs != Some(version) || version == EVersion::ZERO {
                pending.insert(object);
            }
        }
        backfill.removals = theirs.into_keys().filter(|object| !pending.contains(object)).collect();
        backfill.pending = pending;
        backfill.started = end;
        backfill.stage = Stage::Pushing;
        debug_assert!(backfill.removals.len() <= REMOVALS_MAX, "a page is short");
        self.go_on_recovering();
    }

    fn read_on(&mut self, from: HObject, own: bool, theirs: bool) {
        let Some(target) = self.agreed.backfill.target() else { return };
        if own {
            self.agreed.backfill.own.end = None;
        }
        if theirs {
            self.agreed.backfill.theirs.end = None;
            self.core.send(target, &Body::List(from.clone()));
        }
        if own {
            self.core.scan(None, from);
        }
    }

    /// Begins to push an object of the page; false if none can be pushed now.
    pub(crate) fn backfill_next(&mut self) -> bool {
        let Some(target) = self.agreed.backfill.target() else { return false };
        if self.agreed.backfill.stage != Stage::Pushing {
            return false;
        }
        let idle = self
            .agreed
            .backfill
            .pending
            .iter()
            .filter(|object| !self.serving.recovery.is_active(object));
        let candidates: Vec<HObject> = idle.take(16).cloned().collect();
        candidates.iter().any(|object| self.push_to(object, vec![target]))
    }

    /// The whole page is pushed: the target removes surplus objects, and stores its progress.
    fn store_progress(&mut self) {
        let Some(target) = self.agreed.backfill.target() else { return };
        let removals = std::mem::take(&mut self.agreed.backfill.removals).into_iter().collect();
        self.agreed.backfill.stage = Stage::Storing;
        self.core.send(target, &Body::Backfill(self.agreed.backfill.started.clone(), removals));
    }

    /// As the target: everything before `through` is stored here, and these objects are surplus.
    pub(crate) fn told_to_backfill(&mut self, through: HObject, removed: Vec<HObject>) {
        if self.state() != State::ReplicaActive || self.core.copy.info.is_complete() {
            return;
        }
        let mut transaction = self.core.transaction(removed.len() + 1);
        for object in removed {
            transaction.push(self.core.own.collection, Change::Remove { object });
        }
        self.core.copy.info.last_backfill = through;
        self.core.update_last_complete();
        self.core.set_info(&mut transaction);
        self.core.commit(Tag::Backfilled(self.core.placement.interval), transaction);
    }

    /// As target: the progress is durable.
    pub(crate) fn stored_backfill(&mut self, interval: Epoch) {
        if interval == self.core.placement.interval && self.state() == State::ReplicaActive {
            let primary = self.core.placement.members.primary.expect("it told us how far we are");
            self.core.send(primary, &Body::Backfilled(self.core.copy.info.last_backfill.clone()));
        }
    }

    /// The target has stored its progress: goes on with the next page, or the next target.
    pub(crate) fn told_backfilled(&mut self, from: OsdId, through: HObject) {
        if self.agreed.backfill.stage != Stage::Storing
            || self.agreed.backfill.target() != Some(from)
        {
            return;
        }
        if let Some(info) = self.peer_mut(from).info.as_mut() {
            info.last_backfill = through.clone();
        }
        // A write may have recreated an object that was to be removed.
        match (self.agreed.backfill.pending.is_empty(), through.max) {
            (false, _) => self.agreed.backfill.stage = Stage::Pushing,
            (true, false) => return self.compare_page(through),
            (true, true) => {
                self.core.send(from, &Body::Release);
                self.core.outputs.push_back(Output::Release);
                let targets: Vec<OsdId> =
                    self.agreed.backfill.targets.iter().skip(1).copied().collect();
                self.agreed.backfill.set_targets(&targets);
            }
        }
        self.go_on_recovering();
    }

    /// Ends the backfill of an interval, as primary or as target, and its reservations.
    pub(crate) fn end_backfill(&mut self) {
        let was_reserved = self.role.drop_reservation();
        if self.agreed.backfill.stage != Stage::Idle || was_reserved {
            self.core.outputs.push_back(Output::Release);
        }
        self.agreed.backfill = Backfill::default();
    }
}

/// The state of a group's backfill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackfillState {
    /// It waits for log-based recovery, a reservation, or a retry after a store could not list.
    Waiting,
    Running,
    /// The target, or this OSD, refused the reservation.
    TooFull,
}
