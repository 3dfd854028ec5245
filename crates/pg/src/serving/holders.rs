//! Queries about the copies: which miss an object, and which have it.

use super::backfill::{BackfillState, Stage};
use super::service::View;
use crate::Member;
use crate::peers::Peer;
use types::{EVersion, HObject};

impl<'a> View<'a> {
    /// Whether no participant misses an object, the primary can read all of its own, and no recovery runs.
    pub fn is_whole(self) -> bool {
        self.core.copy.missing.is_empty()
            && self.recovery.members_missing == 0
            && self.recovery.unreadable.is_empty()
            && self.recovery.active.is_empty()
    }

    /// Number of missing objects, counted once for each copy that misses them.
    pub fn objects_missing(self) -> usize {
        self.core.copy.missing.len() + self.recovery.members_missing
    }

    /// Whether a request for the object must wait until it is recovered. Deletions need only the
    /// primary's metadata.
    pub fn is_blocked(self, object: &HObject, writes: bool, deletes: bool) -> bool {
        if self.core.copy.missing.stored(object).is_some() {
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

    /// Whether a participant other than the primary misses the object.
    pub fn is_missing_on_members(self, object: &HObject) -> bool {
        self.agreed.participants.iter().any(|osd| self.known.is_missing_on(*osd, object))
    }

    /// Whether [`crate::Pg::recover_next`] may start something.
    pub fn wants_recovery(self) -> bool {
        let missing = !self.core.copy.missing.is_empty()
            || self.recovery.members_missing > 0
            || !self.recovery.unreadable.is_empty();
        !self.recovery.is_stuck && (missing || self.agreed.backfill.has_work())
    }

    /// Whether [`crate::Pg::retry_recovery`] may help.
    pub fn wants_retry(self) -> bool {
        self.recovery.is_toofull || self.agreed.backfill.is_put_off()
    }

    /// Whether the object is being written or recovered.
    pub fn is_in_work(self, object: &HObject) -> bool {
        self.recovery.is_active(object) || self.core.copy.has_write_in_flight(object)
    }

    /// Whether the object can be restored in the needed version without this OSD and `but`.
    pub fn has_other_source(self, object: &HObject, need: EVersion, but: &[Member]) -> bool {
        let whoami = self.core.own.whoami;
        let others = self.known.peers.keys().copied();
        let others = others.filter(|osd| *osd != whoami && !but.contains(osd));
        let holders = others.filter(|osd| self.has_object(*osd, object, need));
        self.core.placement.backend.can_restore(holders)
    }

    /// Whether the OSD has the object. The infos of peering are only the beginning: in an active group,
    /// acting members have all committed writes.
    fn has_object(self, osd: Member, object: &HObject, need: EVersion) -> bool {
        let Some(peer) = self.known.peers.get(&osd) else { return false };
        let is_backfilled = peer.info.as_ref().is_none_or(|info| *object < info.last_backfill);
        let follows = self.is_active
            && self.core.placement.members.is_acting(osd)
            && need <= self.core.copy.committed
            && is_backfilled;
        !peer.missing.contains(object) && (follows || peer.has(object, need))
    }

    /// The OSDs besides this one that have the object in the needed version, participants first.
    pub fn sources(self, object: &'a HObject, need: EVersion) -> impl Iterator<Item = Member> + 'a {
        let whoami = self.core.own.whoami;
        let has = move |osd: &Member| *osd != whoami && self.has_object(*osd, object, need);
        let participants = self.agreed.participants.iter().copied().filter(has);
        let is_other = move |osd: &Member| !self.agreed.participants.contains(osd);
        let others = self.known.peers.keys().copied().filter(is_other).filter(has);
        participants.chain(others)
    }

    /// Whether other OSDs have the object in the needed version. In a group with shards, our own counts, too,
    /// and copies of unknown content: it is rebuilt from them, if they turn out to have this version.
    pub fn is_found(self, object: &HObject, need: EVersion) -> bool {
        let has_own = self.core.placement.code.is_some()
            && !self.core.copy.missing.contains(object)
            && !self.is_unreadable(object);
        let own = std::iter::once(self.core.own.whoami).filter(|_| has_own);
        let known = own.chain(self.sources(object, need));
        let backend = self.core.placement.backend;
        match self.core.placement.code {
            None => backend.can_restore(known),
            Some(_) => backend.can_restore(known.chain(self.possible_sources(object, need))),
        }
    }

    /// The OSDs that may have the object in the needed version, although their content is unknown.
    pub fn possible_sources(
        self,
        object: &'a HObject,
        need: EVersion,
    ) -> impl Iterator<Item = Member> + 'a {
        let may_have = move |(_, peer): &(&Member, &Peer)| peer.may_have(object, need);
        self.known.peers.iter().filter(may_have).map(|(member, _)| *member)
    }

    /// An OSD that may have an object that this primary misses, although its content is unknown, and that was
    /// not asked for it yet. Its object is accepted only in just the missing version.
    /// Shards come only from copies whose logs were compared.
    pub fn find_unfound_candidate(self, object: &HObject) -> Option<Member> {
        if self.core.placement.code.is_some() {
            return None;
        }
        let need = self.core.copy.missing.need(object)?;
        self.possible_sources(object, need).find(|osd| *osd != self.core.own.whoami)
    }

    /// The OSD from which the object is being pulled.
    pub fn pulled_from(self, object: &HObject) -> Option<Member> {
        self.recovery.active.get(object)?.pulling
    }

    /// Whether the backfill target was sent the object, and its stored progress does not cover it yet.
    pub fn is_being_backfilled(self, object: &HObject) -> bool {
        let Some(target) = self.agreed.backfill.target() else { return false };
        let info = self.known.info(target);
        *object < self.agreed.backfill.started
            && info.is_some_and(|info| *object >= info.last_backfill)
            && !self.agreed.backfill.pending.contains(object)
    }

    /// The state of backfill; `None` if no member needs it.
    pub fn backfill_state(self) -> Option<BackfillState> {
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
    pub fn backfill_targets(self) -> impl Iterator<Item = (Member, &'a HObject)> {
        self.agreed.backfill_targets(self.known)
    }
}
