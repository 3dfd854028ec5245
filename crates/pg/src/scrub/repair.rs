//! Repair of bad copies: they become missing, and recovery replaces them.
//!
//! A bad copy is durably in its OSD's missing set before anything of it is replaced, so that an
//! interruption at any point leaves it known, and any later primary continues the repair.

use super::findings::{Authority, Finding};
use crate::message::Body;
use crate::missing::Item;
use crate::{EntryKind, Pg, State, Tag, Write};
use std::collections::BTreeMap;
use store::Change;
use types::{EVersion, HObject, OsdId, UTime};

/// The ticket of a removal for which no request waits.
const NO_TICKET: u64 = u64::MAX;

impl Pg {
    /// Makes the bad copies of an object equal to the authoritative one; whether that was begun.
    pub fn repair(&mut self, now: UTime, finding: &Finding) -> bool {
        match finding.authority {
            Authority::Copy(right) | Authority::Presumed(right) => {
                let object = finding.shards.get(&right).and_then(|shard| shard.object);
                let version = object.and_then(|object| object.version());
                version.is_some_and(|version| self.distrust(&finding.name, version, &finding.bad))
            }
            Authority::Absence => self.remove_remains(now, &finding.name),
            Authority::Nobody => false,
        }
    }

    fn may_repair(&self, object: &HObject) -> bool {
        self.state() == State::Active && !self.core.is_premerge && !self.is_in_work(object)
    }

    /// Marks these members' copies of an object as missing; they are recovered from others, in this
    /// version. False if that is not possible now.
    pub fn distrust(&mut self, object: &HObject, version: EVersion, bad: &[OsdId]) -> bool {
        let is_own = bad.contains(&self.core.own.whoami);
        let has_source = !is_own || self.has_other_source(object, version, bad);
        if !self.may_repair(object) || !has_source {
            return false;
        }
        tracing::warn!(pg = %self.core.own.id, %object, ?bad, "copies are bad and will be replaced");
        let item = Item { need: version, have: EVersion::ZERO };
        let whoami = self.core.own.whoami;
        for osd in bad.iter().copied().filter(|osd| *osd != whoami) {
            self.miss_on_member(osd, object, item);
            self.core.send(osd, &Body::Damaged(object.clone(), version));
        }
        if is_own {
            self.miss_own(object, version);
        }
        self.serving.is_clean = false;
        self.want_object(object);
        true
    }

    /// The primary says that this copy of the object is bad.
    pub(crate) fn told_damaged(&mut self, object: &HObject, version: EVersion) {
        if self.state() == State::ReplicaActive {
            self.miss_own(object, version);
        }
    }

    /// Adds an object to our own missing set, in this version, and stores that.
    pub(crate) fn miss_own(&mut self, object: &HObject, version: EVersion) {
        self.serving.recovery.unreadable.remove(object);
        self.core.copy.missing.add(object.clone(), Item { need: version, have: EVersion::ZERO });
        self.core.update_last_complete();
        let mut pairs = BTreeMap::from([self.core.info_pair()]);
        pairs.extend(self.core.copy.missing.pair(object));
        let mut transaction = self.core.transaction(1);
        self.core.set_meta(&mut transaction, pairs);
        self.core.commit(Tag::Progress, transaction);
    }

    /// Removes an object that should not exist, by a write on all members; whether that was begun.
    pub fn remove_remains(&mut self, now: UTime, object: &HObject) -> bool {
        if !self.may_repair(object) {
            return false;
        }
        self.submit(Write {
            ticket: NO_TICKET,
            object: object.clone(),
            kind: EntryKind::Delete,
            mtime: now,
            changes: vec![Change::Remove { object: object.clone() }],
            ..Write::default()
        });
        true
    }

    /// This OSD cannot read an object that it was to send to another one.
    pub(crate) fn source_failed(&mut self, object: HObject, to: OsdId, version: Option<EVersion>) {
        if !self.is_primary() {
            return self.core.send(to, &Body::Unreadable(object));
        }
        let need = version.unwrap_or_else(|| self.logged_version(&object));
        let targets = self.give_up_pushing(&object);
        // Other reads of it are not needed any more.
        self.core.transfers.stop_sending(&object);
        for target in targets {
            // A backfill target gets it like an object that it misses.
            let known = self.primary.peers.get(&target).and_then(|peer| peer.missing.get(&object));
            let item = known.unwrap_or(Item { need, have: EVersion::ZERO });
            self.miss_on_member(target, &object, item);
        }
        match self.has_other_source(&object, need, &[]) {
            true => {
                self.miss_own(&object, need);
                self.serving.is_clean = false;
                self.want_object(&object);
            }
            false => {
                tracing::error!(pg = %self.core.own.id, %object, "no copy within reach can be read");
                self.give_up(object, need);
            }
        }
    }

    /// The OSD from which an object was pulled cannot read it.
    pub(crate) fn told_unreadable(&mut self, from: OsdId, object: &HObject) {
        if self.pulled_from(object) == Some(from) {
            // It may be the only copy, and readable later: its OSD marks it missing only when it is replaced.
            self.serving.recovery.spared.insert((from, object.clone()));
            self.not_fetched(object, from, true);
        }
    }

    /// A copy that could not be read is about to be replaced: its OSD is told that it is bad.
    pub(crate) fn condemn(&mut self, osd: OsdId, object: &HObject) {
        if self.serving.recovery.spared.remove(&(osd, object.clone())) {
            let version = self.primary.peers.get(&osd).and_then(|peer| peer.missing.need(object));
            let version = version.unwrap_or_else(|| self.logged_version(object));
            self.core.send(osd, &Body::Damaged(object.clone(), version));
        }
    }
}
