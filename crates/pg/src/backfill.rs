//! Filling in members whose copies the log does not reach, in hash order, while clients go on.
//!
//! The primary walks its own objects and the target's side by side, a page at a time. What differs is
//! pushed, what is too many is removed, and when all of a page is durable there, the target stores how
//! far it has come (`last_backfill`), so that an interruption costs no more than a page.
//!
//! Writes to objects before the present page's end go to the target as well, except to those of the page
//! that are still to be pushed; of the rest it gets only log entries. Whatever is written while a page is
//! being compared is pushed with it.
//!
//! An object and its clones are always on the same side of a page's end, because writes to the object
//! make clones. While one of them is still to be pushed, a write of the object is not sent: what it
//! changes is pushed, too.

use crate::message::{Body, Listing};
use crate::{LogEntry, Output, Pg, State, Tag};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use store::Change;
use types::{EVersion, Epoch, HObject, OsdId};

/// Removals that one message carries are no more than a page has objects, and the pages of both sides
/// are equally long; a target that has very many objects too many is listed several times.
const REMOVALS_MAX: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// Nobody is being filled in.
    #[default]
    Idle,
    /// Waits for permission, our own and then the target's.
    Reserving,
    /// The target, or this OSD, may not begin now.
    Refused,
    /// A store could not list what there is.
    Failed,
    Comparing,
    Pushing,
    /// The target stores how far it has come.
    Storing,
}

#[derive(Debug, Default)]
pub(crate) struct Backfill {
    targets: VecDeque<OsdId>,
    stage: Stage,
    /// Objects before this are done, or in `pending`.
    started: HObject,
    /// Where the present page begins.
    position: HObject,
    own: Page,
    theirs: Page,
    /// Objects of the page that are to be pushed.
    pending: BTreeSet<HObject>,
    removals: BTreeSet<HObject>,
    /// Written since the page was read.
    touched: BTreeSet<HObject>,
    /// The primary that this copy is to be filled in by, once it asked for a place.
    asked_by: Option<OsdId>,
}

/// Names and versions from `position` on, as far as they are read.
#[derive(Debug, Default)]
struct Page {
    objects: BTreeMap<HObject, EVersion>,
    /// Where it ends, if it is read.
    end: Option<HObject>,
}

impl Page {
    fn add(&mut self, objects: Vec<(HObject, EVersion)>, next: Option<HObject>) {
        self.objects.extend(objects);
        self.end = Some(next.unwrap_or_else(HObject::max));
    }
}

impl Backfill {
    pub fn set_targets(&mut self, targets: &[OsdId]) {
        *self = Backfill { targets: targets.iter().copied().collect(), ..Backfill::default() };
    }

    /// Whether someone is still to be filled in.
    pub fn is_needed(&self) -> bool {
        !self.targets.is_empty()
    }

    /// Whether it may be begun another time.
    pub fn is_put_off(&self) -> bool {
        matches!(self.stage, Stage::Refused | Stage::Failed)
    }

    pub fn retry(&mut self) {
        if self.is_put_off() {
            self.stage = Stage::Idle;
        }
    }

    pub fn has_work(&self) -> bool {
        self.stage == Stage::Pushing && !self.pending.is_empty()
    }

    pub fn given(&mut self, to: OsdId, object: &HObject) {
        if self.targets.front() == Some(&to) {
            self.pending.remove(object);
        }
    }

    fn target(&self) -> Option<OsdId> {
        self.targets.front().copied().filter(|_| self.stage > Stage::Failed)
    }

    /// Notes a write of the primary; whether `to`, which is filled in up to `last_backfill`, needs it.
    fn wants_write(&self, to: OsdId, object: &HObject, last_backfill: &HObject) -> bool {
        let is_covered =
            self.target() == Some(to) && *object < self.started && !self.is_pending(object);
        is_covered || object < last_backfill
    }

    /// Whether the object, or a clone of it, is to be pushed.
    fn is_pending(&self, object: &HObject) -> bool {
        let mut from_start = self.pending.range(object.family_start()..);
        from_start.next().is_some_and(|pending| pending.is_of_family(object))
    }

    fn note_write(&mut self, object: &HObject) {
        match self.stage {
            Stage::Comparing if *object >= self.position => {
                self.touched.insert(object.clone());
            }
            // What was to go comes back: it is replaced as a whole.
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
    /// Whether a write must tell apart who needs it.
    pub(crate) fn is_filling(&self) -> bool {
        self.backfill.is_needed()
    }

    /// Whether a member that is being filled in has just been given the object, and does not say so yet.
    pub(crate) fn is_being_filled_in(&self, object: &HObject) -> bool {
        let Some(target) = self.backfill.target() else { return false };
        let info = self.peers.get(&target).and_then(|peer| peer.info.as_ref());
        *object < self.backfill.started
            && info.is_some_and(|info| *object >= info.last_backfill)
            && !self.backfill.pending.contains(object)
    }

    /// Of a write to `object`, and of what it changes of its clones: the participants that get only
    /// the log entries.
    pub(crate) fn note_write(&mut self, object: &HObject, also: &[LogEntry]) -> BTreeSet<OsdId> {
        let objects = || also.iter().map(|entry| &entry.object).chain([object]);
        objects().for_each(|object| self.backfill.note_write(object));
        if *object < self.backfill.started && self.backfill.is_pending(object) {
            self.backfill.pending.extend(objects().cloned());
        }
        let skips = |osd: &OsdId| {
            let info = self.peers.get(osd).and_then(|peer| peer.info.as_ref());
            let last_backfill = info.map(|info| &info.last_backfill);
            last_backfill.is_some_and(|last_backfill| {
                !last_backfill.max && !self.backfill.wants_write(*osd, object, last_backfill)
            })
        };
        self.participants.iter().copied().filter(skips).collect()
    }

    /// Does the next thing that is not the recovery of an object.
    pub(crate) fn go_on_filling(&mut self) {
        let is_settled = matches!(self.state, State::Active | State::Inactive);
        if !is_settled || !self.backfill.is_needed() {
            return;
        }
        match self.backfill.stage {
            // What the log tells comes first.
            Stage::Idle if self.is_whole() => {
                self.backfill.stage = Stage::Reserving;
                self.outputs.push_back(Output::Reserve(None));
            }
            Stage::Pushing if self.backfill.pending.is_empty() => self.store_progress(),
            _ => {}
        }
    }

    /// The OSD decided about a permission that [`Output::Reserve`] asked for.
    pub fn reserved(&mut self, primary: Option<OsdId>, granted: bool) {
        match (primary, self.backfill.targets.front().copied()) {
            (Some(primary), _) if self.backfill.asked_by == Some(primary) => {
                self.backfill.asked_by = self.backfill.asked_by.filter(|_| granted);
                self.send(primary, &Body::Reserved(granted));
            }
            (None, Some(target)) if self.backfill.stage == Stage::Reserving => match granted {
                true => self.send(target, &Body::Reserve),
                false => self.backfill.stage = Stage::Refused,
            },
            // Nobody waits for it any more.
            _ => self.outputs.push_back(Output::Release),
        }
    }

    pub(crate) fn asked_to_reserve(&mut self, from: OsdId) {
        if self.state == State::ReplicaActive {
            self.backfill.asked_by = Some(from);
            self.outputs.push_back(Output::Reserve(Some(from)));
        }
    }

    pub(crate) fn told_to_release(&mut self) {
        self.backfill.asked_by = None;
        self.outputs.push_back(Output::Release);
    }

    pub(crate) fn told_reserved(&mut self, from: OsdId, granted: bool) {
        if self.backfill.targets.front() != Some(&from) {
            return;
        }
        let stage = match (self.backfill.stage, granted) {
            (Stage::Reserving, true) => Stage::Comparing,
            (Stage::Reserving, false) => Stage::Refused,
            // It cannot list its objects.
            (Stage::Comparing, false) => Stage::Failed,
            _ => return,
        };
        self.backfill.stage = stage;
        if !granted {
            self.sources.forget_own_scan();
            return self.outputs.push_back(Output::Release);
        }
        let info = self.peers.get(&from).and_then(|peer| peer.info.as_ref());
        let last_backfill = info.map(|info| info.last_backfill.clone()).unwrap_or_default();
        let first = HObject::hash_start(self.id.pool, 0);
        self.compare_page(last_backfill.max(first));
    }

    /// The target cannot say what it has: it is compared another time.
    pub(crate) fn cannot_list(&mut self, primary: OsdId) {
        if self.backfill.asked_by == Some(primary) {
            self.told_to_release();
            self.send(primary, &Body::Reserved(false));
        }
    }

    /// Nor can the primary.
    pub(crate) fn stop_comparing(&mut self) {
        let Some(target) = self.backfill.target() else { return };
        if self.backfill.stage == Stage::Comparing {
            self.backfill.stage = Stage::Failed;
            self.send(target, &Body::Release);
            self.outputs.push_back(Output::Release);
        }
    }

    /// Whether members are being filled in, wait for permission, or are refused it.
    pub fn backfill_state(&self) -> Option<BackfillState> {
        if !self.backfill.is_needed() {
            return None;
        }
        Some(match self.backfill.stage {
            Stage::Idle | Stage::Reserving | Stage::Failed => BackfillState::Waiting,
            Stage::Refused => BackfillState::TooFull,
            _ => BackfillState::Running,
        })
    }

    /// Members that are not filled in, with how far they have come.
    pub fn backfill_targets(&self) -> impl Iterator<Item = (OsdId, &HObject)> {
        let info = |osd: &OsdId| self.peers.get(osd).and_then(|peer| peer.info.as_ref());
        self.backfill.targets.iter().filter_map(move |osd| Some((*osd, &info(osd)?.last_backfill)))
    }

    fn compare_page(&mut self, position: HObject) {
        let Some(target) = self.backfill.targets.front().copied() else { return };
        let in_flight = self.log.above(self.committed).filter(|entry| entry.changes_object());
        let touched = in_flight.map(|entry| entry.object.clone());
        let touched = touched.filter(|object| *object >= position).collect();
        let backfill = &mut self.backfill;
        backfill.stage = Stage::Comparing;
        backfill.started = position.clone();
        backfill.position = position.clone();
        (backfill.own, backfill.theirs) = (Page::default(), Page::default());
        backfill.touched = touched;
        self.send(target, &Body::List(position.clone()));
        self.scan(None, position);
    }

    /// A page of our own objects.
    pub(crate) fn scanned_own(&mut self, objects: Vec<(HObject, EVersion)>, next: Option<HObject>) {
        if self.backfill.stage == Stage::Comparing {
            self.backfill.own.add(objects, next);
            self.compare();
        }
    }

    pub(crate) fn told_listing(&mut self, from: OsdId, listing: Listing) {
        if self.backfill.stage == Stage::Comparing && self.backfill.targets.front() == Some(&from) {
            self.backfill.theirs.add(listing.objects, listing.next);
            self.compare();
        }
    }

    /// When both sides are read: the page ends where the shorter one does.
    fn compare(&mut self) {
        let backfill = &mut self.backfill;
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
        let backfill = &mut self.backfill;
        let mut own = std::mem::take(&mut backfill.own.objects);
        let mut theirs = std::mem::take(&mut backfill.theirs.objects);
        own.split_off(&end);
        theirs.split_off(&end);
        let touched = std::mem::take(&mut backfill.touched);
        let mut pending: BTreeSet<HObject> =
            touched.into_iter().filter(|object| *object < end).collect();
        // What the primary lacks, or distrusts, is given when it has been fetched, whatever lies in its place.
        let lacked = self.missing.range_from(&backfill.position);
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
        let Some(target) = self.backfill.target() else { return };
        if own {
            self.backfill.own.end = None;
        }
        if theirs {
            self.backfill.theirs.end = None;
            self.send(target, &Body::List(from.clone()));
        }
        if own {
            self.scan(None, from);
        }
    }

    pub(crate) fn backfill_next(&mut self) -> bool {
        let Some(target) = self.backfill.target() else { return false };
        if self.backfill.stage != Stage::Pushing {
            return false;
        }
        let idle = self.backfill.pending.iter().filter(|object| !self.recovery.is_active(object));
        let candidates: Vec<HObject> = idle.take(16).cloned().collect();
        candidates.iter().any(|object| self.push_to(object, vec![target]))
    }

    /// All of the page is there.
    fn store_progress(&mut self) {
        let Some(target) = self.backfill.target() else { return };
        let removals = std::mem::take(&mut self.backfill.removals).into_iter().collect();
        self.backfill.stage = Stage::Storing;
        self.send(target, &Body::Backfill(self.backfill.started.clone(), removals));
    }

    /// The target: everything before `through` is here, but for these, which are too many.
    pub(crate) fn told_to_backfill(&mut self, through: HObject, removed: Vec<HObject>) {
        if self.state != State::ReplicaActive || self.info.is_complete() {
            return;
        }
        let mut transaction = self.transaction(removed.len() + 1);
        for object in removed {
            transaction.push(self.collection, Change::Remove { object });
        }
        self.info.last_backfill = through;
        self.update_last_complete();
        self.set_info(&mut transaction);
        self.commit(Tag::Backfilled(self.interval), transaction);
    }

    pub(crate) fn stored_backfill(&mut self, interval: Epoch) {
        if interval == self.interval && self.state == State::ReplicaActive {
            let primary = self.members.primary.expect("it told us how far we are");
            self.send(primary, &Body::Backfilled(self.info.last_backfill.clone()));
        }
    }

    pub(crate) fn told_backfilled(&mut self, from: OsdId, through: HObject) {
        if self.backfill.stage != Stage::Storing || self.backfill.target() != Some(from) {
            return;
        }
        if let Some(info) = self.peer_mut(from).info.as_mut() {
            info.last_backfill = through.clone();
        }
        // A write may have brought back what had been removed meanwhile.
        match (self.backfill.pending.is_empty(), through.max) {
            (false, _) => self.backfill.stage = Stage::Pushing,
            (true, false) => return self.compare_page(through),
            (true, true) => {
                self.send(from, &Body::Release);
                self.outputs.push_back(Output::Release);
                let targets: Vec<OsdId> = self.backfill.targets.iter().skip(1).copied().collect();
                self.backfill.set_targets(&targets);
            }
        }
        self.go_on_recovering();
    }

    /// What was asked for in an interval, as primary or as target, ends with it.
    pub(crate) fn end_backfill(&mut self) {
        if self.backfill.stage != Stage::Idle || self.backfill.asked_by.is_some() {
            self.outputs.push_back(Output::Release);
        }
        self.backfill = Backfill::default();
    }
}

/// How the filling in of members stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackfillState {
    Waiting,
    Running,
    TooFull,
}
