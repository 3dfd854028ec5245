//! Log-based recovery: the primary fetches what it misses, and gives members what they miss, while
//! clients go on.
//!
//! The OSD decides how many objects are in work at once, over all its groups, and starts them one by
//! one ([`Pg::recover_next`]). Only what a client waits for is started at once ([`Pg::want_object`]).
//! While an object is in work, or missing on anyone who takes part, writes to it wait. So what is read
//! in several pieces does not change meanwhile.
//!
//! A piece goes straight into the object that it belongs to. Nobody can see a part of an object: it is
//! listed as missing until the transaction that stores its last piece, or lies in the range that is not
//! filled in yet. Nor is a part taken for the whole later on, when those who lack something are told apart by other
//! means: only the last piece gives the object its info, and with it a version.
//!
//! An object may be given to a member again before its answer to an earlier attempt is here. So an answer
//! counts only if it is one to the piece that the member was sent last.

use crate::lost::UnfoundCount;
use crate::message::{Body, Cursor};
use crate::missing::Item;
use crate::peers::Peer;
use crate::search::Search;
use crate::{Output, Pg, State};
use std::collections::{BTreeMap, BTreeSet};
use types::{EVersion, HObject, OsdId};

#[derive(Debug, Default)]
pub(crate) struct Recovery {
    active: BTreeMap<HObject, Operation>,
    /// Items that members miss, all together.
    pub members_missing: usize,
    begun: u64,
    /// What this primary cannot read of its own, in which version, and nobody else has.
    pub unreadable: BTreeMap<HObject, EVersion>,
    pub unfound_count: UnfoundCount,
    /// Copies of others that could not be read, and do not know it.
    pub spared: BTreeSet<(OsdId, HObject)>,
    /// What clients wait for and could not be started.
    pub wanted: BTreeSet<HObject>,
    /// Nothing can be started until something changes.
    is_stuck: bool,
    /// How far the search for something to start has come.
    pub search: Search,
    /// A disk has no room for what is to be recovered.
    pub is_toofull: bool,
}

#[derive(Debug, Default)]
struct Operation {
    /// From whom the primary fetches it.
    pulling: Option<OsdId>,
    /// Who is being given it.
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
    /// Whether a member means the piece that it was sent last, and no piece of an operation before this one.
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

    pub fn begin(&mut self, members_missing: usize) {
        self.clear();
        self.members_missing = members_missing;
    }

    fn begin_one(&mut self, object: &HObject, operation: Operation) {
        self.begun += 1;
        self.active.insert(object.clone(), operation);
    }

    /// Something may be possible that was not.
    pub fn retry(&mut self) {
        self.search = Search::default();
        self.is_stuck = false;
        self.is_toofull = false;
    }

    /// What it was asked for is asked for anew, of whoever has it then.
    pub fn forget_source(&mut self, source: OsdId) {
        self.active.retain(|_, operation| operation.pulling != Some(source));
        self.retry();
    }

    /// Something is missing that the search may have passed.
    pub fn look_anew(&mut self) {
        self.search = Search::default();
        self.is_stuck &= self.is_toofull;
    }

    /// A write is durable everywhere: its object can be read.
    pub fn unstick(&mut self) {
        if self.search.has_met_writes() {
            self.search = Search::default();
        }
        self.is_stuck &= self.is_toofull;
    }

    pub fn is_active(&self, object: &HObject) -> bool {
        self.active.contains_key(object)
    }
}

impl Pg {
    pub(crate) fn members_missing(&self) -> usize {
        let missing = |osd: &OsdId| self.peers.get(osd).map_or(0, |peer| peer.missing.len());
        self.participants.iter().map(missing).sum()
    }

    /// Whether nobody misses anything that the log knows, and nothing is being recovered.
    pub fn is_whole(&self) -> bool {
        self.missing.is_empty()
            && self.recovery.members_missing == 0
            && self.recovery.unreadable.is_empty()
            && self.recovery.active.is_empty()
    }

    /// How many recoveries were begun in this interval.
    pub fn recoveries_begun(&self) -> u64 {
        self.recovery.begun
    }

    /// How many objects are being recovered.
    pub fn recovering(&self) -> usize {
        self.recovery.active.len()
    }

    /// Whether a disk has no room for what is to be recovered.
    pub fn is_recovery_toofull(&self) -> bool {
        self.recovery.is_toofull
    }

    /// Objects that some copy lacks, counted once for each such copy.
    pub fn objects_missing(&self) -> usize {
        self.missing.len() + self.recovery.members_missing
    }

    /// Whether a request for the object must wait until it is recovered. Deletions need no more than
    /// what the primary knows.
    pub fn is_blocked(&self, object: &HObject, writes: bool, deletes: bool) -> bool {
        if self.missing.contains(object) {
            return true;
        }
        // Another copy may turn up.
        if !deletes && self.is_unreadable(object) && !self.is_lost(object) {
            return true;
        }
        if !writes || deletes {
            return false;
        }
        self.recovery.is_active(object)
            || self.recovery.members_missing > 0 && self.is_missing_on_members(object)
    }

    pub(crate) fn is_missing_on_members(&self, object: &HObject) -> bool {
        let lacks =
            |osd: &OsdId| self.peers.get(osd).is_some_and(|peer| peer.missing.contains(object));
        self.participants.iter().any(lacks)
    }

    fn is_recovering_state(&self) -> bool {
        matches!(self.state, State::Active | State::Inactive)
    }

    /// A client waits for this object.
    pub fn want_object(&mut self, object: &HObject) {
        if !self.is_recovering_state() || self.recovery.is_active(object) {
            return;
        }
        // Where there was no room a moment ago there is none now.
        if self.recovery.is_toofull || !self.start_recovery(object) {
            self.recovery.wanted.insert(object.clone());
        }
    }

    /// Whether it makes sense to call [`Pg::recover_next`].
    pub fn wants_recovery(&self) -> bool {
        let missing = !self.missing.is_empty()
            || self.recovery.members_missing > 0
            || !self.recovery.unreadable.is_empty();
        self.is_recovering_state()
            && !self.recovery.is_stuck
            && (missing || self.backfill.has_work())
    }

    /// Starts the recovery of one more object, the oldest first; false if none was found to start among a bounded
    /// number. There may be another as long as [`Pg::wants_recovery`] says so.
    pub fn recover_next(&mut self) -> bool {
        if !self.is_recovering_state() || self.recovery.is_stuck {
            return false;
        }
        if self.recover_missing() {
            return true;
        }
        if !self.recovery.search.is_over() {
            return false;
        }
        let started = self.backfill_next();
        // Until an operation ends, a write commits, or a copy turns up.
        self.recovery.is_stuck = !started;
        started
    }

    fn recover_missing(&mut self) -> bool {
        let step = self.search_step();
        for (object, place) in step.candidates {
            self.recovery.search.passed(place);
            if !self.recovery.is_active(&object) && self.start_recovery(&object) {
                return true;
            }
        }
        if step.is_last {
            self.recovery.search.end();
        }
        false
    }

    /// False if that is not possible now.
    fn start_recovery(&mut self, object: &HObject) -> bool {
        if let Some(need) = self.recovery.unreadable.get(object).copied() {
            if self.is_being_written(object) || self.find_source(object, need).is_none() {
                return false;
            }
            // Another copy turned up: now ours can be given up.
            self.miss_own(object, need);
        }
        if let Some(need) = self.missing.need(object) {
            let source = self.find_source(object, need).or_else(|| self.find_chance(object));
            let Some(source) = source else { return false };
            let operation = Operation { pulling: Some(source), ..Operation::default() };
            self.recovery.begin_one(object, operation);
            self.recovery.wanted.remove(object);
            self.send(source, &Body::Pull(object.clone(), Cursor::default()));
            return true;
        }
        let lacks =
            |osd: &OsdId| self.peers.get(osd).is_some_and(|peer| peer.missing.contains(object));
        let targets: Vec<OsdId> = self.participants.iter().copied().filter(lacks).collect();
        if targets.is_empty() {
            self.recovery.wanted.remove(object);
            return false;
        }
        self.push_to(object, targets)
    }

    /// Gives the object to members, as it is here. False while a write of it is on its way, or if what is here counts
    /// for nothing.
    pub(crate) fn push_to(&mut self, object: &HObject, targets: Vec<OsdId>) -> bool {
        let is_bad = self.missing.contains(object) || self.is_unreadable(object);
        if is_bad || self.is_being_written(object) {
            return false;
        }
        let pushing = targets.iter().map(|target| (*target, Sent::Nothing)).collect();
        let operation = Operation { pulling: None, pushing };
        self.recovery.begin_one(object, operation);
        self.recovery.wanted.remove(object);
        for target in targets {
            self.condemn(target, object);
            self.pulled(target, object.clone(), Cursor::default());
        }
        true
    }

    /// Whether its recovery must wait for a write, after which it is looked for again.
    fn is_being_written(&mut self, object: &HObject) -> bool {
        let is_written = self.has_write_in_flight(object);
        if is_written {
            self.recovery.search.meet_write();
        }
        is_written
    }

    /// Whether it is being written or recovered.
    pub(crate) fn is_in_work(&self, object: &HObject) -> bool {
        self.recovery.is_active(object) || self.has_write_in_flight(object)
    }

    /// Whether anybody else, but for these, has the object as it should be.
    pub(crate) fn has_other_source(&self, object: &HObject, need: EVersion, but: &[OsdId]) -> bool {
        let others = self.peers.keys().copied();
        let mut others = others.filter(|osd| *osd != self.whoami && !but.contains(osd));
        others.any(|osd| self.has_object(osd, object, need))
    }

    /// What was said before the group became active is only the beginning: who takes part in writes
    /// has all that are confirmed.
    fn has_object(&self, osd: OsdId, object: &HObject, need: EVersion) -> bool {
        let Some(peer) = self.peers.get(&osd) else { return false };
        let is_filled = peer.info.as_ref().is_none_or(|info| *object < info.last_backfill);
        let follows = self.state == State::Active
            && self.members.acting.contains(&osd)
            && need <= self.committed
            && is_filled;
        !peer.missing.contains(object) && (follows || peer.has(object, need))
    }

    /// A member does not have the object, though its log does.
    pub(crate) fn miss_on_member(&mut self, osd: OsdId, object: &HObject, item: Item) {
        let is_counted = self.participants.contains(&osd);
        let peer = self.peer_mut(osd);
        let is_new = !peer.missing.contains(object);
        peer.missing.add(object.clone(), item);
        self.recovery.members_missing += usize::from(is_counted && is_new);
    }

    /// The version in which the group has an object, as far as the log tells.
    pub fn logged_version(&self, object: &HObject) -> EVersion {
        let mut entries = self.log.entries().rev();
        let last = entries.find(|entry| entry.changes_object() && entry.object == *object);
        last.map_or(EVersion::ZERO, |entry| entry.version)
    }

    /// No copy within reach can be read: it is left alone, until the members change.
    pub(crate) fn give_up(&mut self, object: HObject, need: EVersion) {
        self.recovery.unreadable.insert(object.clone(), need);
        self.is_clean = false;
        self.end_recovery(&object);
        self.look_for_unfound_object(&object);
    }

    /// Those who were being given it do not get it from here.
    pub(crate) fn give_up_pushing(&mut self, object: &HObject) -> BTreeSet<OsdId> {
        let operation = self.recovery.active.remove(object);
        operation.into_iter().flat_map(|operation| operation.pushing.into_keys()).collect()
    }

    /// A piece goes to a member, which says when it has stored it.
    pub(crate) fn note_sent(&mut self, to: OsdId, object: &HObject, next: Option<&Cursor>) {
        let operation = self.recovery.active.get_mut(object);
        if let Some(sent) = operation.and_then(|operation| operation.pushing.get_mut(&to)) {
            *sent = Sent::Piece(next.cloned());
        }
    }

    pub(crate) fn has_write_in_flight(&self, object: &HObject) -> bool {
        let mut uncertain = self.log.above(self.committed);
        uncertain.any(|entry| entry.changes_object() && entry.object == *object)
    }

    /// Who has the object as it should be: members first.
    pub(crate) fn find_source(&self, object: &HObject, need: EVersion) -> Option<OsdId> {
        let has = |osd: &OsdId| *osd != self.whoami && self.has_object(*osd, object, need);
        let member = self.participants.iter().copied().find(has);
        member.or_else(|| self.peers.keys().copied().find(has))
    }

    /// Who may have an object that this primary lacks, though nothing is known of it, and was not asked for it yet. What
    /// it gives counts only in the very version that is missing.
    pub(crate) fn find_chance(&self, object: &HObject) -> Option<OsdId> {
        let need = self.missing.need(object)?;
        let may_have =
            |(osd, peer): &(&OsdId, &Peer)| **osd != self.whoami && peer.may_have(object, need);
        self.peers.iter().find(may_have).map(|(osd, _)| *osd)
    }

    /// The primary has fetched an object durably: members who lack it get it from here. Whoever gave it may be
    /// forgotten by now, and the operation with him.
    pub(crate) fn fetched(&mut self, object: &HObject, was_missing: bool) {
        if self.recovery.active.remove(object).is_none() && !was_missing {
            return;
        }
        if !self.is_missing_on_members(object) || !self.start_recovery(object) {
            self.end_recovery(object);
        }
    }

    /// The one who was asked for an object does not have it, or the disk has no room for it.
    pub(crate) fn not_fetched(&mut self, object: &HObject, from: OsdId, has_room: bool) {
        let Some(need) = self.missing.get(object) else { return };
        match has_room {
            true => self.miss_on_member(from, object, Item { have: EVersion::ZERO, ..need }),
            false => (self.recovery.is_toofull, self.recovery.is_stuck) = (true, true),
        }
        self.recovery.active.remove(object);
        if !has_room || !self.start_recovery(object) {
            self.recovery.wanted.insert(object.clone());
            self.look_for_unfound_object(object);
        }
    }

    pub(crate) fn pulled_from(&self, object: &HObject) -> Option<OsdId> {
        self.recovery.active.get(object)?.pulling
    }

    /// A member has stored a piece of an object.
    pub(crate) fn told_pushed(
        &mut self,
        from: OsdId,
        object: &HObject,
        next: Option<Cursor>,
        has_room: bool,
    ) {
        let Some(operation) = self.recovery.active.get_mut(object) else { return };
        // One without room takes no more of it, whichever piece that was.
        if !operation.pushing.contains_key(&from)
            || has_room && !operation.is_answer(from, next.as_ref())
        {
            return;
        }
        if let (Some(next), true) = (next, has_room) {
            return self.pulled(from, object.clone(), next);
        }
        operation.pushing.remove(&from);
        let is_over = operation.pushing.is_empty();
        match has_room {
            true => self.given(from, object),
            false => self.recovery.is_toofull = true,
        }
        if is_over {
            self.recovery.active.remove(object);
            self.end_recovery(object);
        }
    }

    fn given(&mut self, to: OsdId, object: &HObject) {
        if self.peers.get_mut(&to).is_some_and(|peer| peer.missing.remove(object)) {
            self.recovery.members_missing -= 1;
        }
        self.backfill.given(to, object);
    }

    fn end_recovery(&mut self, object: &HObject) {
        self.recovery.is_stuck = self.recovery.is_toofull;
        self.outputs.push_back(Output::Recovered { object: object.clone() });
        self.go_on_recovering();
    }

    /// A deletion has overtaken the recovery of its object.
    pub(crate) fn deleted_unrecovered(&mut self, object: &HObject) {
        self.sources.forget(object);
        self.receiving.forget(object);
        self.recovery.spared.retain(|(_, spared)| spared != object);
        for osd in self.participants.clone() {
            if self.peers.get_mut(&osd).is_some_and(|peer| peer.missing.remove(object)) {
                self.recovery.members_missing -= 1;
            }
        }
        if self.recovery.active.remove(object).is_some() {
            self.end_recovery(object);
        }
    }

    /// What could not be started may be possible now.
    pub(crate) fn go_on_recovering(&mut self) {
        if !self.recovery.is_toofull {
            self.recovery.is_stuck = false;
        }
        self.go_on_filling();
        self.check_clean();
    }

    /// Tries again what found no room, or no permission.
    pub fn retry_recovery(&mut self) {
        self.recovery.retry();
        self.backfill.retry();
        if self.is_recovering_state() {
            self.go_on_recovering();
        }
    }

    /// Whether there is something that [`Pg::retry_recovery`] may help.
    pub fn wants_retry(&self) -> bool {
        self.is_recovering_state() && (self.recovery.is_toofull || self.backfill.is_put_off())
    }

    /// A copy that is no member's may have what is missing here.
    pub(crate) fn ask_if_useful(&mut self, osd: OsdId) {
        if !self.missing.is_empty() || !self.recovery.unreadable.is_empty() {
            self.send(osd, &Body::LogRequest);
        }
    }
}
