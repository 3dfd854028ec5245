//! Copies that turned out to be bad: they become missing, and recovery makes them good again.
//!
//! That a copy counts for nothing is stored where it is before anything of it is replaced, so that an
//! interruption at any point leaves it known. Whoever becomes the primary goes on with it.

use super::findings::{Authority, Finding};
use crate::message::Body;
use crate::missing::Item;
use crate::{EntryKind, Pg, State, Tag, Write};
use std::collections::BTreeMap;
use store::Change;
use types::{EVersion, HObject, OsdId, UTime};

/// Names no request: nobody waits for the removal of what should not be there.
const NO_TICKET: u64 = u64::MAX;

impl Pg {
    /// Makes the bad copies of an object equal to the right one; whether that was begun.
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
        self.state == State::Active && !self.is_resting && !self.is_in_work(object)
    }

    /// What these members have of an object counts for nothing from now on; it is recovered from
    /// others, in the version that it should have. False if that is not possible now.
    pub fn distrust(&mut self, object: &HObject, version: EVersion, bad: &[OsdId]) -> bool {
        let is_own = bad.contains(&self.whoami);
        let has_source = !is_own || self.has_other_source(object, version, bad);
        if !self.may_repair(object) || !has_source {
            return false;
        }
        tracing::warn!(pg = %self.id, %object, ?bad, "copies are bad and will be replaced");
        let item = Item { need: version, have: EVersion::ZERO };
        let whoami = self.whoami;
        for osd in bad.iter().copied().filter(|osd| *osd != whoami) {
            self.miss_on_member(osd, object, item);
            self.send(osd, &Body::Damaged(object.clone(), version));
        }
        if is_own {
            self.miss_own(object, version);
        }
        self.is_clean = false;
        self.want_object(object);
        true
    }

    /// The primary says that this copy of the object is bad.
    pub(crate) fn told_damaged(&mut self, object: &HObject, version: EVersion) {
        if self.state == State::ReplicaActive {
            self.miss_own(object, version);
        }
    }

    pub(crate) fn miss_own(&mut self, object: &HObject, version: EVersion) {
        self.recovery.unreadable.remove(object);
        self.missing.add(object.clone(), Item { need: version, have: EVersion::ZERO });
        self.update_last_complete();
        let mut pairs = BTreeMap::from([self.info_pair()]);
        pairs.extend(self.missing.pair(object));
        let mut transaction = self.transaction(1);
        self.set_meta(&mut transaction, pairs);
        self.commit(Tag::Progress, transaction);
    }

    /// An object that should not be there goes by a write of its own, on all members; whether that was
    /// begun.
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

    /// This OSD cannot read an object that it was to give to another.
    pub(crate) fn source_failed(&mut self, object: HObject, to: OsdId, version: Option<EVersion>) {
        if !self.is_primary() {
            return self.send(to, &Body::Unreadable(object));
        }
        let need = version.unwrap_or_else(|| self.logged_version(&object));
        let targets = self.give_up_pushing(&object);
        // What else was being read of it is wanted by nobody now.
        self.sources.forget(&object);
        for target in targets {
            // Who was being filled in gets it like what it misses.
            let known = self.peers.get(&target).and_then(|peer| peer.missing.get(&object));
            let item = known.unwrap_or(Item { need, have: EVersion::ZERO });
            self.miss_on_member(target, &object, item);
        }
        match self.has_other_source(&object, need, &[]) {
            true => {
                self.miss_own(&object, need);
                self.is_clean = false;
                self.want_object(&object);
            }
            false => {
                tracing::error!(pg = %self.id, %object, "no copy within reach can be read");
                self.give_up(object, need);
            }
        }
    }

    /// The one who was asked for an object cannot read it.
    pub(crate) fn told_unreadable(&mut self, from: OsdId, object: &HObject) {
        if self.pulled_from(object) == Some(from) {
            // It may be the only one, and be read some other time: it is given up when another one is there.
            self.recovery.spared.insert((from, object.clone()));
            self.not_fetched(object, from, true);
        }
    }

    /// A member's copy that could not be read is about to be replaced.
    pub(crate) fn condemn(&mut self, osd: OsdId, object: &HObject) {
        if self.recovery.spared.remove(&(osd, object.clone())) {
            let version = self.peers.get(&osd).and_then(|peer| peer.missing.need(object));
            let version = version.unwrap_or_else(|| self.logged_version(object));
            self.send(osd, &Body::Damaged(object.clone(), version));
        }
    }
}
