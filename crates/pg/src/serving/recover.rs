//! Log-based recovery: the primary pulls the objects that it misses, and pushes those that members miss,
//! while clients continue.
//!
//! The OSD bounds the number of objects in recovery over all its groups, and starts them one by one
//! ([`crate::Pg::recover_next`]). Only objects that a client waits for are started at once
//! ([`crate::Pg::want_object`]). While an object is in recovery, or missing on any participant, writes to it
//! wait. So an object that is read in several pieces does not change meanwhile.
//!
//! A piece is stored straight into its object. A part of an object is never visible: the object is in the
//! missing set until the transaction that stores its last piece, or beyond `last_backfill`. Nor is a part
//! taken for the whole in later comparisons: only the last piece stores the object's info, and with it a
//! version.
//!
//! An object may be pushed to a member again before the answer to an earlier attempt arrives. So an answer
//! counts only if it is to the piece that the member was sent last.

use super::reads::replace_suspects;
use super::rebuild;
use super::recovery::{Operation, Sent};
use super::service::Service;
use super::sources::shard_sources;
use crate::Member;
use crate::Output;
use crate::message::{Body, Cursor};
use crate::missing::Item;
use crate::rows::Purpose;
use crate::transfers;
use std::collections::BTreeSet;
use types::{EVersion, HObject};

impl Service<'_> {
    /// A client waits for this object: starts its recovery if that is possible now.
    pub fn want_object(&mut self, object: &HObject) {
        if self.serving.recovery.is_active(object) {
            return;
        }
        // A disk that had no space a moment ago has none now.
        if self.serving.recovery.is_toofull || !self.start_recovery(object) {
            self.serving.recovery.wanted.insert(object.clone());
        }
    }

    /// Starts the recovery of one more object, oldest version first; false if none could be started among a
    /// bounded number. There may be others as long as [`crate::Pg::wants_recovery`].
    pub fn recover_next(&mut self) -> bool {
        if self.serving.recovery.is_stuck {
            return false;
        }
        if self.recover_missing() {
            return true;
        }
        if !self.serving.recovery.search.is_over() {
            return false;
        }
        if self.can_recover_nothing() {
            self.continue_backfill();
            self.check_clean();
        }
        let started = self.backfill_next();
        // Nothing can start until an operation ends, a write commits, or a copy turns up.
        self.serving.recovery.is_stuck = !started;
        started
    }

    fn recover_missing(&mut self) -> bool {
        let step = self.view().search_step();
        for (object, place) in step.candidates {
            self.serving.recovery.search.passed(place);
            if !self.serving.recovery.is_active(&object) && self.start_recovery(&object) {
                return true;
            }
        }
        if step.is_last {
            self.serving.recovery.search.end();
        }
        false
    }

    /// Starts the recovery of an object; false if that is not possible now.
    pub(super) fn start_recovery(&mut self, object: &HObject) -> bool {
        let keeps_shards = self.core.placement.code.is_some();
        if let Some(need) = self.serving.recovery.unreadable.get(object).copied() {
            if self.is_being_written(object) || !self.is_found_again(object, need) {
                return false;
            }
            match keeps_shards {
                true => drop(self.serving.recovery.unreadable.remove(object)),
                // Another copy turned up: now ours can be marked missing.
                false => self.miss_own(object, need),
            }
        }
        if self.core.copy.missing.contains(object) && !keeps_shards {
            return self.fetch(object, Vec::new());
        }
        let participants = self.serving.agreed.participants.iter().copied();
        let lacks = |osd: &Member| match *osd == self.core.own.whoami {
            true => self.core.copy.missing.contains(object),
            false => self.known.is_missing_on(*osd, object),
        };
        let targets: Vec<Member> = participants.filter(lacks).collect();
        if targets.is_empty() {
            self.serving.recovery.wanted.remove(object);
            return false;
        }
        self.fetch(object, targets)
    }

    /// Whether an object that could not be read may be read now. Our own shard may be one of those that it
    /// takes.
    fn is_found_again(&self, object: &HObject, need: EVersion) -> bool {
        match self.core.placement.code.is_some() {
            true => {
                let sources = shard_sources(self, object, need);
                let is_missing = self.core.copy.missing.contains(object)
                    || self.view().is_missing_on_members(object);
                is_missing && self.core.placement.backend.can_restore(sources.into_iter())
            }
            false => self.view().is_found(object, need),
        }
    }

    /// Gets hold of an object that we lack, or else these members; false if that is not possible now.
    fn fetch(&mut self, object: &HObject, targets: Vec<Member>) -> bool {
        if self.core.placement.code.is_some() {
            return rebuild::rebuild(self, object, targets);
        }
        let Some(need) = self.core.copy.missing.need(object) else {
            return self.push_to(object, targets);
        };
        let view = self.view();
        let found = view.sources(object, need).next();
        let Some(source) = found.or_else(|| view.find_unfound_candidate(object)) else {
            return false;
        };
        let operation = Operation { pulling: Some(source), ..Operation::default() };
        self.serving.recovery.begin_one(object, operation);
        self.serving.recovery.wanted.remove(object);
        self.core.send(source, &Body::Pull(object.clone(), Cursor::default()));
        true
    }

    /// Pushes our copy of the object to members. False while a write of it is in flight, or if our copy is
    /// not valid.
    pub fn push_to(&mut self, object: &HObject, targets: Vec<Member>) -> bool {
        if self.core.placement.code.is_some() {
            return rebuild::rebuild(self, object, targets);
        }
        let is_bad = self.core.copy.missing.contains(object) || self.view().is_unreadable(object);
        if is_bad || self.is_being_written(object) {
            return false;
        }
        let pushing = targets.iter().map(|target| (*target, Sent::Nothing)).collect();
        let operation = Operation { pulling: None, pushing, rebuild: None };
        self.serving.recovery.begin_one(object, operation);
        self.serving.recovery.wanted.remove(object);
        for target in targets {
            self.report_damage(target, object);
            transfers::push_piece(self.core, target, object.clone(), Cursor::default());
        }
        true
    }

    /// Whether a write of the object is in flight; when it commits, the search starts over.
    pub(super) fn is_being_written(&mut self, object: &HObject) -> bool {
        let is_written = self.core.copy.has_write_in_flight(object);
        if is_written {
            self.serving.recovery.search.note_write_in_flight();
        }
        is_written
    }

    /// Adds an object to the missing set of another copy.
    pub fn miss_on_member(&mut self, osd: Member, object: &HObject, item: Item) {
        let is_counted = self.serving.agreed.participants.contains(&osd);
        let peer = self.known.peer_mut(osd);
        let is_new = !peer.missing.contains(object);
        peer.missing.add(object.clone(), item);
        self.serving.recovery.members_missing += usize::from(is_counted && is_new);
    }

    /// No reachable copy can be read: the object is left alone until the members change.
    pub fn give_up(&mut self, object: HObject, need: EVersion) {
        self.serving.recovery.unreadable.insert(object.clone(), need);
        self.serving.is_clean = false;
        self.end_recovery(&object);
        self.look_for_unfound_object(&object);
    }

    /// Ends an operation; returns the members to which the object was pushed.
    pub fn give_up_pushing(&mut self, object: &HObject) -> BTreeSet<Member> {
        let operation = self.serving.recovery.active.remove(object);
        operation.into_iter().flat_map(|operation| operation.pushing.into_keys()).collect()
    }

    /// Notes the piece that was sent to a member.
    pub fn note_sent(&mut self, to: Member, object: &HObject, next: Option<&Cursor>) {
        let operation = self.serving.recovery.active.get_mut(object);
        if let Some(sent) = operation.and_then(|operation| operation.pushing.get_mut(&to)) {
            *sent = Sent::Piece(next.cloned());
        }
    }

    /// The primary has stored a pulled object: it is pushed to members that miss it. The operation may be
    /// gone, if the source was dropped meanwhile.
    pub fn fetched(&mut self, object: &HObject, was_missing: bool) {
        if self.serving.recovery.active.remove(object).is_none() && !was_missing {
            return;
        }
        if !self.view().is_missing_on_members(object) || !self.start_recovery(object) {
            self.end_recovery(object);
        }
    }

    /// The OSD from which an object was pulled does not have it, or our disk has no space for it.
    pub fn not_fetched(&mut self, object: &HObject, from: Member, has_space: bool) {
        let Some(need) = self.core.copy.missing.get(object) else { return };
        match has_space {
            true => self.miss_on_member(from, object, Item { have: EVersion::ZERO, ..need }),
            false => {
                (self.serving.recovery.is_toofull, self.serving.recovery.is_stuck) = (true, true)
            }
        }
        self.serving.recovery.active.remove(object);
        if !has_space || !self.start_recovery(object) {
            self.serving.recovery.wanted.insert(object.clone());
            self.look_for_unfound_object(object);
        }
    }

    /// A member has stored a piece of an object.
    pub fn handle_pushed(
        &mut self,
        from: Member,
        object: &HObject,
        next: Option<Cursor>,
        has_space: bool,
    ) {
        let Some(operation) = self.serving.recovery.active.get_mut(object) else { return };
        // A member without space takes no more of the object, whichever piece it answers.
        if !operation.pushing.contains_key(&from)
            || has_space && !operation.is_answer(from, next.as_ref())
        {
            return;
        }
        let is_rebuilt = operation.rebuild.is_some();
        if let (Some(next), true, true) = (&next, has_space, is_rebuilt) {
            return rebuild::piece_given(self, object, from, next);
        }
        if let (Some(next), true) = (next, has_space) {
            return transfers::push_piece(self.core, from, object.clone(), next);
        }
        operation.pushing.remove(&from);
        let is_over = operation.pushing.is_empty();
        match has_space {
            true => self.given(from, object),
            false => self.serving.recovery.is_toofull = true,
        }
        if is_over {
            self.serving.recovery.active.remove(object);
            self.end_recovery(object);
        } else if is_rebuilt {
            // The others may have waited for this member.
            rebuild::read_piece_if_given(self, object);
        }
    }

    fn given(&mut self, to: Member, object: &HObject) {
        if self.known.peers.get_mut(&to).is_some_and(|peer| peer.missing.remove(object)) {
            assert!(self.serving.recovery.members_missing > 0, "missing objects are counted");
            self.serving.recovery.members_missing -= 1;
        }
        self.serving.agreed.backfill.given(to, object);
    }

    fn end_recovery(&mut self, object: &HObject) {
        if self.core.placement.code.is_some() {
            self.read_again(object);
        }
        self.serving.recovery.is_stuck = self.serving.recovery.is_toofull;
        self.core.outputs.push_back(Output::Recovered { object: object.clone() });
        self.continue_recovery();
    }

    /// Shards that could not be read while the object was recovered may be replaced now, and with all shards
    /// in place it is read like any other.
    fn read_again(&mut self, object: &HObject) {
        if self.serving.recovery.has_suspects() {
            replace_suspects(self);
        }
        let is_missing =
            self.core.copy.missing.contains(object) || self.view().is_missing_on_members(object);
        if !is_missing {
            self.serving.recovery.unreadable.remove(object);
        }
    }

    /// A deletion supersedes the recovery of its object.
    pub fn deleted_unrecovered(&mut self, object: &HObject) {
        self.core.transfers.stop_sending(object);
        self.core.transfers.stop_receiving(object);
        self.core.rows.stop(&Purpose::Recovery, object);
        self.serving.recovery.spared.retain(|(_, spared)| spared != object);
        for osd in self.serving.agreed.participants.iter() {
            if self.known.peers.get_mut(osd).is_some_and(|peer| peer.missing.remove(object)) {
                self.serving.recovery.members_missing -= 1;
            }
        }
        if self.serving.recovery.active.remove(object).is_some() {
            self.end_recovery(object);
        }
    }

    /// Tries again what found no space or no reservation.
    pub fn retry_recovery(&mut self) {
        self.serving.recovery.retry();
        self.serving.agreed.backfill.retry();
        self.continue_recovery();
    }

    /// Asks a stray for its log if objects are missing or unreadable here.
    pub fn ask_if_useful(&mut self, osd: Member) {
        // Of the primary's own shard alone, no object can be restored.
        let lacks_shards =
            self.core.placement.code.is_some() && self.serving.recovery.members_missing > 0;
        let lacks = !self.core.copy.missing.is_empty() || lacks_shards;
        if lacks || !self.serving.recovery.unreadable.is_empty() {
            self.core.send(osd, &Body::LogRequest);
        }
    }

    /// Adds an object to our own missing set, in this version, and stores that.
    pub fn miss_own(&mut self, object: &HObject, version: EVersion) {
        self.serving.recovery.unreadable.remove(object);
        self.core.miss(object, version);
    }

    /// A copy that could not be read is about to be replaced: its OSD is told that it is bad.
    pub fn report_damage(&mut self, osd: Member, object: &HObject) {
        if self.serving.recovery.spared.remove(&(osd, object.clone())) {
            let version = self.known.peers.get(&osd).and_then(|peer| peer.missing.need(object));
            let version = version.unwrap_or_else(|| self.core.copy.logged_version(object));
            self.core.send(osd, &Body::Damaged(object.clone(), version));
        }
    }

    /// The OSD from which an object was pulled cannot read it.
    pub fn handle_unreadable(&mut self, from: Member, object: &HObject) {
        if self.view().pulled_from(object) == Some(from) {
            // It may be the only copy, and readable later: its OSD marks it missing only when it is replaced.
            self.serving.recovery.spared.insert((from, object.clone()));
            self.not_fetched(object, from, true);
        }
    }

    /// Our own copy of the object, of this version, cannot be read. Returns whether requests for it should
    /// wait because another copy may turn up.
    pub fn cannot_read(&mut self, object: &HObject, version: EVersion) -> bool {
        let copy = &self.core.copy;
        let is_written = copy.is_written_above(object, copy.committed);
        if !self.is_active() || self.core.is_premerge || is_written {
            return false;
        }
        if self.core.placement.code.is_some() && !self.view().is_missing_on_members(object) {
            // All members have their shards, and some cannot be read now: others would not help.
            tracing::error!(pg = %self.core.own.id, %object, "too few shards can be read");
            return false;
        }
        let is_new = self.serving.recovery.unreadable.insert(object.clone(), version).is_none();
        self.look_for_unfound_object(object);
        let is_lost = self.view().is_lost(object);
        if is_lost && is_new && !self.view().is_missing_on_members(object) {
            // This is the only copy, and no member misses it: it stays, to be read as far as possible.
            self.serving.recovery.unreadable.remove(object);
            return false;
        }
        tracing::error!(pg = %self.core.own.id, %object, "no copy within reach can be read");
        self.serving.is_clean = false;
        self.serving.recovery.restart_search();
        !is_lost
    }

    /// Has all copies that could not be read read once more.
    pub fn retry_unreadable(&mut self) {
        for (osd, object) in std::mem::take(&mut self.serving.recovery.spared) {
            if self.known.peers.get_mut(&osd).is_some_and(|peer| peer.missing.remove(&object)) {
                self.serving.recovery.members_missing -=
                    usize::from(self.serving.agreed.participants.contains(&osd));
            }
        }
        for object in std::mem::take(&mut self.serving.recovery.unreadable).into_keys() {
            self.core.outputs.push_back(Output::Recovered { object });
        }
        self.serving.recovery.retry();
        self.look_for_unfound();
        self.continue_recovery();
    }

    /// A write replaces or removes the object, so it is not missing any more. Returns whether it was in our
    /// own missing set.
    pub fn forget_lost(&mut self, object: &HObject) -> bool {
        let was_missing = self.core.copy.missing.remove(object);
        if was_missing {
            self.core.transfers.stop_receiving(object);
            self.core.update_last_complete();
        }
        let was_unreadable = self.serving.recovery.unreadable.remove(object).is_some();
        if was_missing || was_unreadable {
            self.serving.recovery.wanted.remove(object);
            self.deleted_unrecovered(object);
        }
        was_missing
    }

    /// Wakes requests that wait for objects that turned out to be lost.
    pub fn report_lost(&mut self) {
        if !self.is_active() || self.serving.recovery.wanted.is_empty() || !self.view().all_probed()
        {
            return;
        }
        let wanted = self.serving.recovery.wanted.iter();
        let lost: Vec<HObject> =
            wanted.filter(|object| self.view().is_lost(object)).cloned().collect();
        for object in lost {
            self.serving.recovery.wanted.remove(&object);
            self.core.outputs.push_back(Output::Recovered { object });
        }
    }

    /// OSDs came up: queries those that may have unfound objects. The missing set is searched only if there
    /// is an OSD to query.
    pub fn look_for_unfound(&mut self) {
        let lacks_shards =
            self.core.placement.code.is_some() && self.serving.recovery.members_missing > 0;
        let is_nothing_missing =
            self.core.copy.missing.is_empty() && self.serving.recovery.unreadable.is_empty();
        if is_nothing_missing && !lacks_shards {
            return;
        }
        let unknown = self.view().not_probed();
        if !unknown.is_empty() && self.view().unfound().next().is_some() {
            unknown.into_iter().for_each(|osd| self.core.send(osd, &Body::Query));
        }
        self.report_lost();
    }

    /// Queries OSDs if the object is unfound now.
    pub fn look_for_unfound_object(&mut self, object: &HObject) {
        if self.view().is_unfound(object) {
            self.view().not_probed().into_iter().for_each(|osd| self.core.send(osd, &Body::Query));
            let keeps_shards = self.core.placement.code.is_some();
            let unknown = self.known.peers.iter().filter(|(_, peer)| {
                keeps_shards
                    && peer.info.is_some()
                    && !peer.is_missing_known
                    && !peer.is_incomparable
            });
            let unknown: Vec<Member> = unknown.map(|(member, _)| *member).collect();
            unknown.into_iter().for_each(|member| self.ask_if_useful(member));
            self.report_lost();
        }
    }
}
