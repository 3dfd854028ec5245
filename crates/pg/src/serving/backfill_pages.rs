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

use super::backfill::{Page, Stage};
use super::service::Service;
use super::sources::{committed_shards, settle_member};
use crate::Member;
use crate::core::settling;
use crate::message::{Body, Listing};
use crate::missing::Item;
use crate::transfers;
use crate::{EntryKind, LogEntry, Output};
use std::collections::BTreeSet;
use types::{EVersion, HObject};

/// Removals that one message may carry. They are of one page, and the pages of both sides are equally
/// long; a target with very many surplus objects is listed several times.
const REMOVALS_MAX: usize = 4096;

impl Service<'_> {
    /// Notes a write to `object`, and to its clones in `also`. Returns the participants that get only the log
    /// entries.
    pub fn note_write(&mut self, object: &HObject, also: &[LogEntry]) -> BTreeSet<Member> {
        let objects = || also.iter().map(|entry| &entry.object).chain([object]);
        objects().for_each(|object| self.serving.agreed.backfill.note_write(object));
        if *object < self.serving.agreed.backfill.started
            && self.serving.agreed.backfill.is_pending(object)
        {
            self.serving.agreed.backfill.pending.extend(objects().cloned());
        }
        let skips = |osd: &Member| {
            let last_backfill = self.known.info(*osd).map(|info| &info.last_backfill);
            last_backfill.is_some_and(|last_backfill| {
                !last_backfill.max
                    && !self.serving.agreed.backfill.wants_write(*osd, object, last_backfill)
            })
        };
        self.serving.agreed.participants.iter().copied().filter(skips).collect()
    }

    /// Takes the next step of backfill, except for pushing objects.
    pub fn continue_backfill(&mut self) {
        if !self.serving.agreed.backfill.is_needed() {
            return;
        }
        match self.serving.agreed.backfill.stage {
            // Log-based recovery comes first.
            Stage::Idle if self.view().is_whole() || self.can_recover_nothing() => {
                self.serving.agreed.backfill.stage = Stage::Reserving;
                self.core.outputs.push_back(Output::Reserve(None));
            }
            Stage::Pushing if self.serving.agreed.backfill.pending.is_empty() => {
                self.store_progress()
            }
            _ => {}
        }
    }

    /// Whether a group that cannot serve before it is backfilled has recovered all that it can.
    pub(super) fn can_recover_nothing(&self) -> bool {
        self.may_put_off() && self.serving.recovery.search.is_over()
    }

    /// The target's answer: its reservation, or later that it cannot list its objects.
    pub fn handle_reserved(&mut self, from: Member, granted: bool) {
        if self.serving.agreed.backfill.targets.front() != Some(&from) {
            return;
        }
        let stage = match (self.serving.agreed.backfill.stage, granted) {
            (Stage::Reserving, true) => Stage::Comparing,
            (Stage::Reserving, false) => Stage::Refused,
            // The target cannot list its objects.
            (Stage::Comparing, false) => Stage::Failed,
            _ => return,
        };
        self.serving.agreed.backfill.stage = stage;
        if !granted {
            self.core.transfers.stop_own_listing();
            return self.core.outputs.push_back(Output::Release);
        }
        let info = self.known.info(from);
        let last_backfill = info.map(|info| info.last_backfill.clone()).unwrap_or_default();
        let first = HObject::hash_start(self.core.own.id.pool, 0);
        self.compare_page(last_backfill.max(first));
    }

    /// The primary's store cannot list its objects.
    pub fn stop_comparing(&mut self) {
        let Some(target) = self.serving.agreed.backfill.target() else { return };
        if self.serving.agreed.backfill.stage == Stage::Comparing {
            self.serving.agreed.backfill.stage = Stage::Failed;
            self.core.send(target, &Body::Release);
            self.core.outputs.push_back(Output::Release);
        }
    }

    fn compare_page(&mut self, position: HObject) {
        let Some(target) = self.serving.agreed.backfill.targets.front().copied() else { return };
        // Stores do not show changes that are not settled.
        let shown = self.core.copy.committed.min(settling::settled(self.core));
        let in_flight = self.core.copy.log.above(shown).filter(|entry| entry.changes_object());
        let touched = in_flight.map(|entry| entry.object.clone());
        let touched = touched.filter(|object| *object >= position).collect();
        let backfill = &mut self.serving.agreed.backfill;
        backfill.stage = Stage::Comparing;
        backfill.started = position.clone();
        backfill.position = position.clone();
        (backfill.own, backfill.theirs) = (Page::default(), Page::default());
        backfill.touched = touched;
        self.list(target, position.clone());
        self.scan_own(position);
    }

    /// Has the target list its objects, behind the changes that are committed.
    fn list(&mut self, target: Member, from: HObject) {
        settle_member(self.core, target);
        self.serving.agreed.backfill.listed_from = from.clone();
        self.core.send(target, &Body::List(from));
    }

    /// Lists our own objects, likewise.
    fn scan_own(&mut self, from: HObject) {
        let committed = committed_shards(self.core);
        transfers::scan(self.core, None, from, committed);
    }

    /// Takes a page of our own objects.
    pub fn scanned_own(&mut self, objects: Vec<(HObject, EVersion)>, next: Option<HObject>) {
        if self.serving.agreed.backfill.stage == Stage::Comparing {
            self.serving.agreed.backfill.own.add(objects, next);
            self.compare();
        }
    }

    /// Takes a page of the target's objects. One that was asked for before a retry may come late.
    pub fn handle_listing(&mut self, from: Member, listing: Listing) {
        let backfill = &mut self.serving.agreed.backfill;
        let is_awaited = backfill.stage == Stage::Comparing
            && backfill.targets.front() == Some(&from)
            && backfill.theirs.end.is_none()
            && backfill.listed_from == listing.from;
        if is_awaited {
            backfill.theirs.add(listing.objects, listing.next);
            self.compare();
        }
    }

    /// Compares the page once both sides are read. It ends where the shorter side does.
    fn compare(&mut self) {
        let backfill = &mut self.serving.agreed.backfill;
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
        let backfill = &mut self.serving.agreed.backfill;
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
        for (object, version) in &own {
            let theirs = theirs.remove(object);
            if theirs != Some(*version) || *version == EVersion::ZERO {
                pending.insert(object.clone());
            }
        }
        backfill.own.objects = own;
        backfill.removals = theirs.into_keys().filter(|object| !pending.contains(object)).collect();
        backfill.pending = pending;
        backfill.started = end;
        backfill.stage = Stage::Pushing;
        debug_assert!(backfill.removals.len() <= REMOVALS_MAX, "a page is short");
        self.continue_recovery();
    }

    fn read_on(&mut self, from: HObject, own: bool, theirs: bool) {
        let Some(target) = self.serving.agreed.backfill.target() else { return };
        if own {
            self.serving.agreed.backfill.own.end = None;
        }
        if theirs {
            self.serving.agreed.backfill.theirs.end = None;
            self.list(target, from.clone());
        }
        if own {
            self.scan_own(from);
        }
    }

    /// Begins to push an object of the page, or puts some off; false if neither is possible now.
    pub fn backfill_next(&mut self) -> bool {
        let Some(target) = self.serving.agreed.backfill.target() else { return false };
        if self.serving.agreed.backfill.stage != Stage::Pushing {
            return false;
        }
        let idle = self
            .serving
            .agreed
            .backfill
            .pending
            .iter()
            .filter(|object| !self.serving.recovery.is_active(object));
        let candidates: Vec<HObject> = idle.take(16).cloned().collect();
        let is_begun = candidates.iter().any(|object| self.push_to(object, vec![target]));
        if is_begun || !self.may_put_off() {
            return is_begun;
        }
        let before = self.serving.agreed.backfill.pending.len();
        self.put_off(candidates);
        let is_less = self.serving.agreed.backfill.pending.len() < before;
        self.continue_backfill();
        is_less
    }

    /// Whether objects that cannot be pushed are left to log-based recovery: if the group cannot serve before
    /// it is backfilled, their writes will not be committed before that.
    fn may_put_off(&self) -> bool {
        let has_shards = self.core.placement.code.is_some();
        has_shards && !self.is_active() && self.serving.recovery.active.is_empty()
    }

    /// The target will miss these objects of the page. The log is walked once for all of them.
    fn put_off(&mut self, objects: Vec<HObject>) {
        let copy = &self.core.copy;
        let newest = copy.log.newest_changes(objects.iter());
        let backfill = &mut self.serving.agreed.backfill;
        for object in &objects {
            let newest = newest.get(object);
            let is_removal = newest.is_some_and(|entry| entry.kind == EntryKind::Delete);
            let need = match newest {
                // The removal may be dropped. Until then, the target is as one that has removed it.
                Some(removal) if is_removal => removal.prior_version,
                Some(entry) => entry.version,
                None => {
                    let listed = backfill.own.objects.get(object).copied();
                    listed.or(copy.missing.need(object)).unwrap_or_default()
                }
            };
            if is_removal {
                backfill.removals.insert(object.clone());
            }
            if need > EVersion::ZERO {
                backfill.put_off.insert(object.clone(), need);
            }
            if need > EVersion::ZERO || is_removal {
                backfill.pending.remove(object);
            }
        }
    }

    /// The objects of the page that the target will miss.
    fn take_put_off(&mut self, target: Member) -> Vec<(HObject, EVersion)> {
        let put_off: Vec<_> =
            std::mem::take(&mut self.serving.agreed.backfill.put_off).into_iter().collect();
        let newest = self.core.copy.log.newest_changes(put_off.iter().map(|(object, _)| object));
        let is_removed = |object| {
            newest.get(object).is_some_and(|entry: &&LogEntry| entry.kind == EntryKind::Delete)
        };
        let missed: Vec<(HObject, EVersion)> =
            put_off.iter().filter(|(object, _)| !is_removed(object)).cloned().collect();
        for (object, need) in missed {
            self.miss_on_member(target, &object, Item { need, have: EVersion::ZERO });
        }
        put_off
    }

    /// The whole page is pushed: the target removes surplus objects, and stores its progress.
    fn store_progress(&mut self) {
        let Some(target) = self.serving.agreed.backfill.target() else { return };
        let removals =
            std::mem::take(&mut self.serving.agreed.backfill.removals).into_iter().collect();
        self.serving.agreed.backfill.stage = Stage::Storing;
        let put_off = self.take_put_off(target);
        let started = self.serving.agreed.backfill.started.clone();
        self.core.send(target, &Body::Backfill(started, removals, put_off));
    }

    /// The target has stored its progress: goes on with the next page, or the next target.
    pub fn handle_backfilled(&mut self, from: Member, through: HObject) {
        if self.serving.agreed.backfill.stage != Stage::Storing
            || self.serving.agreed.backfill.target() != Some(from)
        {
            return;
        }
        if let Some(info) = self.known.peer_mut(from).info.as_mut() {
            info.last_backfill = through.clone();
        }
        // A write may have recreated an object that was to be removed.
        match (self.serving.agreed.backfill.pending.is_empty(), through.max) {
            (false, _) => self.serving.agreed.backfill.stage = Stage::Pushing,
            (true, false) => return self.compare_page(through),
            (true, true) => {
                self.core.send(from, &Body::Release);
                self.core.outputs.push_back(Output::Release);
                let targets: Vec<Member> =
                    self.serving.agreed.backfill.targets.iter().skip(1).copied().collect();
                self.serving.agreed.backfill.set_targets(&targets);
            }
        }
        self.continue_recovery();
    }

    /// The OSD's decision on the local reservation; false if it is not needed any more.
    pub fn reserved(&mut self, granted: bool) -> bool {
        let Some(target) = self.serving.agreed.backfill.targets.front().copied() else {
            return false;
        };
        if self.serving.agreed.backfill.stage != Stage::Reserving {
            return false;
        }
        match granted {
            true => self.core.send(target, &Body::Reserve),
            false => self.serving.agreed.backfill.stage = Stage::Refused,
        }
        true
    }
}
