//! Log-based recovery: the primary pulls the objects that it misses, and pushes those that members miss,
//! while clients continue.
//!
//! The OSD bounds the number of objects in recovery over all its groups, and starts them one by one
//! ([`Pg::recover_next`]). Only objects that a client waits for are started at once ([`Pg::want_object`]).
//! While an object is in recovery, or missing on any participant, writes to it wait. So an object that is
//! read in several pieces does not change meanwhile.
//!
//! A piece is stored straight into its object. A part of an object is never visible: the object is in the
//! missing set until the transaction that stores its last piece, or beyond `last_backfill`. Nor is a part
//! taken for the whole in later comparisons: only the last piece stores the object's info, and with it a
//! version.
//!
//! An object may be pushed to a member again before the answer to an earlier attempt arrives. So an answer
//! counts only if it is to the piece that the member was sent last.

use crate::message::{Body, Cursor};
use crate::missing::Item;
use crate::peers::Peer;
use crate::search::Search;
use crate::{Output, Pg, State};
use std::collections::{BTreeMap, BTreeSet};
use types::{EVersion, HObject, OsdId};

/// The log-based recovery of a group, in one interval; all on the primary.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    active: BTreeMap<HObject, Operation>,
    /// Number of missing items of all other participants.
    pub members_missing: usize,
    /// Recoveries that were begun in this interval.
    begun: u64,
    /// Objects that this primary cannot read, and no other copy has, with the needed version.
    pub unreadable: BTreeMap<HObject, EVersion>,
    /// Copies of other OSDs that could not be read, and that their OSDs do not list as missing.
    pub spared: BTreeSet<(OsdId, HObject)>,
    /// Objects that clients wait for, and whose recovery could not be started.
    pub wanted: BTreeSet<HObject>,
    /// Set if no recovery can be started until something changes.
    is_stuck: bool,
    /// The progress of the search for objects to start.
    pub search: Search,
    /// Set if a disk has no room for an object to recover.
    pub is_toofull: bool,
}

#[derive(Debug, Default)]
struct Operation {
    /// The OSD from which the primary pulls it.
    pulling: Option<OsdId>,
    /// The members to which it is pushed.
    pushing: BTreeMap<OsdId, Sent>,
}

/// The piece of an object that a member was sent last in this operation.
#[derive(Debug, PartialEq)]
enum Sent {
    Nothing,
    /// A piece, and where the next one begins.
    Piece(Option<Cursor>),
}

impl Operation {
    /// Whether a member answers the piece that it was sent last, not one of an earlier operation.
    fn is_answer(&self, from: OsdId, next: Option<&Cursor>) -> bool {
        match self.pushing.get(&from) {
            // The member found a piece of another version, and asks for the object from its start.
            Some(_) if next.is_some_and(Cursor::is_start) => true,
            Some(Sent::Piece(sent)) => sent.as_ref() == next,
            _ => false,
        }
    }
}

impl Recovery {
    pub fn clear(&mut self) {
        *self = Recovery::default();
    }

    /// Begins with the primary's activation.
    pub fn begin(&mut self, members_missing: usize) {
        self.clear();
        self.members_missing = members_missing;
    }

    fn begin_one(&mut self, object: &HObject, operation: Operation) {
        self.begun += 1;
        self.active.insert(object.clone(), operation);
    }

    /// Objects may be recoverable that were not: searches from the beginning.
    pub fn retry(&mut self) {
        self.search = Search::default();
        self.is_stuck = false;
        self.is_toofull = false;
    }

    /// Objects that were pulled from this OSD are pulled from another one.
    pub fn forget_source(&mut self, source: OsdId) {
        self.active.retain(|_, operation| operation.pulling != Some(source));
        self.retry();
    }

    /// An object is missing that the search may have passed.
    pub fn look_anew(&mut self) {
        self.search = Search::default();
        self.is_stuck &= self.is_toofull;
    }

    /// A write is durable on all members: its object can be recovered.
    pub fn unstick(&mut self) {
        if self.search.has_met_writes() {
            self.search = Search::default();
        }
        self.is_stuck &= self.is_toofull;
    }

    /// Whether the object is in recovery.
    pub fn is_active(&self, object: &HObject) -> bool {
        self.active.contains_key(object)
    }
}

impl Pg {
    /// Counts the missing items of all other participants.
    pub(crate) fn members_missing(&self) -> usize {
        let missing =
            |osd: &OsdId| self.primary.peers.get(osd).map_or(0, |peer| peer.missing.len());
        self.agreed.participants.iter().map(missing).sum()
    }

    /// Whether no participant misses an object, the primary can read all of its own, and no recovery runs.
    pub fn is_whole(&self) -> bool {
        self.core.copy.missing.is_empty()
            && self.serving.recovery.members_missing == 0
            && self.serving.recovery.unreadable.is_empty()
            && self.serving.recovery.active.is_empty()
    }

    /// Number of recoveries that were begun in this interval.
    pub fn recoveries_begun(&self) -> u64 {
        self.serving.recovery.begun
    }

    /// Number of objects in recovery.
    pub fn recovering(&self) -> usize {
        self.serving.recovery.active.len()
    }

    /// Whether a disk has no room for an object to recover.
    pub fn is_recovery_toofull(&self) -> bool {
        self.serving.recovery.is_toofull
    }

    /// Number of missing objects, counted once for each copy that misses them.
    pub fn objects_missing(&self) -> usize {
        self.core.copy.missing.len() + self.serving.recovery.members_missing
    }

    /// Whether a request for the object must wait until it is recovered. Deletions need only the
    /// primary's metadata.
    pub fn is_blocked(&self, object: &HObject, writes: bool, deletes: bool) -> bool {
        if self.core.copy.missing.contains(object) {
            return true;
        }
        // Another copy may turn up.
        if !deletes && self.is_unreadable(object) && !self.is_lost(object) {
            return true;
        }
        if !writes || deletes {
            return false;
        }
        self.serving.recovery.is_active(object)
            || self.serving.recovery.members_missing > 0 && self.is_missing_on_members(object)
    }

    /// Whether a participant other than the primary misses the object.
    pub(crate) fn is_missing_on_members(&self, object: &HObject) -> bool {
        let lacks = |osd: &OsdId| {
            self.primary.peers.get(osd).is_some_and(|peer| peer.missing.contains(object))
        };
        self.agreed.participants.iter().any(lacks)
    }

    fn is_recovering_state(&self) -> bool {
        matches!(self.state(), State::Active | State::Inactive)
    }

    /// A client waits for this object: starts its recovery if that is possible now.
    pub fn want_object(&mut self, object: &HObject) {
        if !self.is_recovering_state() || self.serving.recovery.is_active(object) {
            return;
        }
        // A disk that had no room a moment ago has none now.
        if self.serving.recovery.is_toofull || !self.start_recovery(object) {
            self.serving.recovery.wanted.insert(object.clone());
        }
    }

    /// Whether [`Pg::recover_next`] may start something.
    pub fn wants_recovery(&self) -> bool {
        let missing = !self.core.copy.missing.is_empty()
            || self.serving.recovery.members_missing > 0
            || !self.serving.recovery.unreadable.is_empty();
        self.is_recovering_state()
            && !self.serving.recovery.is_stuck
            && (missing || self.agreed.backfill.has_work())
    }

    /// Starts the recovery of one more object, oldest version first; false if none could be started among a
    /// bounded number. There may be others as long as [`Pg::wants_recovery`].
    pub fn recover_next(&mut self) -> bool {
        if !self.is_recovering_state() || self.serving.recovery.is_stuck {
            return false;
        }
        if self.recover_missing() {
            return true;
        }
        if !self.serving.recovery.search.is_over() {
            return false;
        }
        let started = self.backfill_next();
        // Nothing can start until an operation ends, a write commits, or a copy turns up.
        self.serving.recovery.is_stuck = !started;
        started
    }

    fn recover_missing(&mut self) -> bool {
        let step = self.search_step();
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
    fn start_recovery(&mut self, object: &HObject) -> bool {
        if let Some(need) = self.serving.recovery.unreadable.get(object).copied() {
            if self.is_being_written(object) || self.find_source(object, need).is_none() {
                return false;
            }
            // Another copy turned up: now ours can be marked missing.
            self.miss_own(object, need);
        }
        if let Some(need) = self.core.copy.missing.need(object) {
            let source = self.find_source(object, need).or_else(|| self.find_chance(object));
            let Some(source) = source else { return false };
            let operation = Operation { pulling: Some(source), ..Operation::default() };
            self.serving.recovery.begin_one(object, operation);
            self.serving.recovery.wanted.remove(object);
            self.core.send(source, &Body::Pull(object.clone(), Cursor::default()));
            return true;
        }
        let lacks = |osd: &OsdId| {
            self.primary.peers.get(osd).is_some_and(|peer| peer.missing.contains(object))
        };
        let targets: Vec<OsdId> = self.agreed.participants.iter().copied().filter(lacks).collect();
        if targets.is_empty() {
            self.serving.recovery.wanted.remove(object);
            return false;
        }
        self.push_to(object, targets)
    }

    /// Pushes our copy of the object to members. False while a write of it is in flight, or if our copy is
    /// not valid.
    pub(crate) fn push_to(&mut self, object: &HObject, targets: Vec<OsdId>) -> bool {
        let is_bad = self.core.copy.missing.contains(object) || self.is_unreadable(object);
        if is_bad || self.is_being_written(object) {
            return false;
        }
        let pushing = targets.iter().map(|target| (*target, Sent::Nothing)).collect();
        let operation = Operation { pulling: None, pushing };
        self.serving.recovery.begin_one(object, operation);
        self.serving.recovery.wanted.remove(object);
        for target in targets {
            self.condemn(target, object);
            self.core.push_piece(target, object.clone(), Cursor::default());
        }
        true
    }

    /// Whether a write of the object is in flight; when it commits, the search starts over.
    fn is_being_written(&mut self, object: &HObject) -> bool {
        let is_written = self.has_write_in_flight(object);
        if is_written {
            self.serving.recovery.search.meet_write();
        }
        is_written
    }

    /// Whether the object is being written or recovered.
    pub(crate) fn is_in_work(&self, object: &HObject) -> bool {
        self.serving.recovery.is_active(object) || self.has_write_in_flight(object)
    }

    /// Whether an OSD besides this one and `but` has the object in the needed version.
    pub(crate) fn has_other_source(&self, object: &HObject, need: EVersion, but: &[OsdId]) -> bool {
        let others = self.primary.peers.keys().copied();
        let mut others = others.filter(|osd| *osd != self.core.own.whoami && !but.contains(osd));
        others.any(|osd| self.has_object(osd, object, need))
    }

    /// Whether the OSD has the object. The infos of peering are only the beginning: in an active group,
    /// acting members have all committed writes.
    fn has_object(&self, osd: OsdId, object: &HObject, need: EVersion) -> bool {
        let Some(peer) = self.primary.peers.get(&osd) else { return false };
        let is_filled = peer.info.as_ref().is_none_or(|info| *object < info.last_backfill);
        let follows = self.state() == State::Active
            && self.core.placement.members.acting.contains(&osd)
            && need <= self.core.copy.committed
            && is_filled;
        !peer.missing.contains(object) && (follows || peer.has(object, need))
    }

    /// Adds an object to the missing set of another copy.
    pub(crate) fn miss_on_member(&mut self, osd: OsdId, object: &HObject, item: Item) {
        let is_counted = self.agreed.participants.contains(&osd);
        let peer = self.peer_mut(osd);
        let is_new = !peer.missing.contains(object);
        peer.missing.add(object.clone(), item);
        self.serving.recovery.members_missing += usize::from(is_counted && is_new);
    }

    /// No reachable copy can be read: the object is left alone until the members change.
    pub(crate) fn give_up(&mut self, object: HObject, need: EVersion) {
        self.serving.recovery.unreadable.insert(object.clone(), need);
        self.serving.is_clean = false;
        self.end_recovery(&object);
        self.look_for_unfound_object(&object);
    }

    /// Ends an operation; returns the members to which the object was pushed.
    pub(crate) fn give_up_pushing(&mut self, object: &HObject) -> BTreeSet<OsdId> {
        let operation = self.serving.recovery.active.remove(object);
        operation.into_iter().flat_map(|operation| operation.pushing.into_keys()).collect()
    }

    /// Notes the piece that was sent to a member.
    pub(crate) fn note_sent(&mut self, to: OsdId, object: &HObject, next: Option<&Cursor>) {
        let operation = self.serving.recovery.active.get_mut(object);
        if let Some(sent) = operation.and_then(|operation| operation.pushing.get_mut(&to)) {
            *sent = Sent::Piece(next.cloned());
        }
    }

    /// Whether a write of the object is not durable on all participants.
    pub(crate) fn has_write_in_flight(&self, object: &HObject) -> bool {
        let mut uncertain = self.core.copy.log.above(self.core.copy.committed);
        uncertain.any(|entry| entry.changes_object() && entry.object == *object)
    }

    /// An OSD that has the object in the needed version, preferably a participant.
    pub(crate) fn find_source(&self, object: &HObject, need: EVersion) -> Option<OsdId> {
        let has = |osd: &OsdId| *osd != self.core.own.whoami && self.has_object(*osd, object, need);
        let member = self.agreed.participants.iter().copied().find(has);
        member.or_else(|| self.primary.peers.keys().copied().find(has))
    }

    /// An OSD that may have an object that this primary misses, although its content is unknown, and that was
    /// not asked for it yet. Its object is accepted only in just the missing version.
    pub(crate) fn find_chance(&self, object: &HObject) -> Option<OsdId> {
        let need = self.core.copy.missing.need(object)?;
        let may_have = |(osd, peer): &(&OsdId, &Peer)| {
            **osd != self.core.own.whoami && peer.may_have(object, need)
        };
        self.primary.peers.iter().find(may_have).map(|(osd, _)| *osd)
    }

    /// The primary has stored a pulled object: it is pushed to members that miss it. The operation may be
    /// gone, if the source was dropped meanwhile.
    pub(crate) fn fetched(&mut self, object: &HObject, was_missing: bool) {
        if self.serving.recovery.active.remove(object).is_none() && !was_missing {
            return;
        }
        if !self.is_missing_on_members(object) || !self.start_recovery(object) {
            self.end_recovery(object);
        }
    }

    /// The OSD from which an object was pulled does not have it, or our disk has no room for it.
    pub(crate) fn not_fetched(&mut self, object: &HObject, from: OsdId, has_room: bool) {
        let Some(need) = self.core.copy.missing.get(object) else { return };
        match has_room {
            true => self.miss_on_member(from, object, Item { have: EVersion::ZERO, ..need }),
            false => {
                (self.serving.recovery.is_toofull, self.serving.recovery.is_stuck) = (true, true)
            }
        }
        self.serving.recovery.active.remove(object);
        if !has_room || !self.start_recovery(object) {
            self.serving.recovery.wanted.insert(object.clone());
            self.look_for_unfound_object(object);
        }
    }

    /// The OSD from which the object is being pulled.
    pub(crate) fn pulled_from(&self, object: &HObject) -> Option<OsdId> {
        self.serving.recovery.active.get(object)?.pulling
    }

    /// A member has stored a piece of an object.
    pub(crate) fn told_pushed(
        &mut self,
        from: OsdId,
        object: &HObject,
        next: Option<Cursor>,
        has_room: bool,
    ) {
        let Some(operation) = self.serving.recovery.active.get_mut(object) else { return };
        // A member without room takes no more of the object, whichever piece it answers.
        if !operation.pushing.contains_key(&from)
            || has_room && !operation.is_answer(from, next.as_ref())
        {
            return;
        }
        if let (Some(next), true) = (next, has_room) {
            return self.core.push_piece(from, object.clone(), next);
        }
        operation.pushing.remove(&from);
        let is_over = operation.pushing.is_empty();
        match has_room {
            true => self.given(from, object),
            false => self.serving.recovery.is_toofull = true,
        }
        if is_over {
            self.serving.recovery.active.remove(object);
            self.end_recovery(object);
        }
    }

    fn given(&mut self, to: OsdId, object: &HObject) {
        if self.primary.peers.get_mut(&to).is_some_and(|peer| peer.missing.remove(object)) {
            self.serving.recovery.members_missing -= 1;
        }
        self.agreed.backfill.given(to, object);
    }

    fn end_recovery(&mut self, object: &HObject) {
        self.serving.recovery.is_stuck = self.serving.recovery.is_toofull;
        self.core.outputs.push_back(Output::Recovered { object: object.clone() });
        self.go_on_recovering();
    }

    /// A deletion supersedes the recovery of its object.
    pub(crate) fn deleted_unrecovered(&mut self, object: &HObject) {
        self.core.transfers.stop_sending(object);
        self.core.transfers.stop_receiving(object);
        self.serving.recovery.spared.retain(|(_, spared)| spared != object);
        for osd in self.agreed.participants.iter() {
            if self.primary.peers.get_mut(osd).is_some_and(|peer| peer.missing.remove(object)) {
                self.serving.recovery.members_missing -= 1;
            }
        }
        if self.serving.recovery.active.remove(object).is_some() {
            self.end_recovery(object);
        }
    }

    /// Continues recovery and backfill after a change, and checks whether the group is clean.
    pub(crate) fn go_on_recovering(&mut self) {
        if !self.serving.recovery.is_toofull {
            self.serving.recovery.is_stuck = false;
        }
        self.go_on_filling();
        self.check_clean();
    }

    /// Tries again what found no room or no reservation.
    pub fn retry_recovery(&mut self) {
        self.serving.recovery.retry();
        self.agreed.backfill.retry();
        if self.is_recovering_state() {
            self.go_on_recovering();
        }
    }

    /// Whether [`Pg::retry_recovery`] may help.
    pub fn wants_retry(&self) -> bool {
        self.is_recovering_state()
            && (self.serving.recovery.is_toofull || self.agreed.backfill.is_put_off())
    }

    /// Asks a stray for its log if objects are missing or unreadable here.
    pub(crate) fn ask_if_useful(&mut self, osd: OsdId) {
        if !self.core.copy.missing.is_empty() || !self.serving.recovery.unreadable.is_empty() {
            self.core.send(osd, &Body::LogRequest);
        }
    }
}
