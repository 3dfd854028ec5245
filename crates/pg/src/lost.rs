//! Objects that nobody within reach has: unfound, and lost.
//!
//! An object is *unfound* if the primary lacks it, or cannot read its own copy, and no other copy that is known of has
//! it. As long as somebody may have it who was not asked (an OSD that is down, or has not answered), whoever wants it
//! waits. If there is none, the object is *lost*: reads of it fail, and a write that needs nothing of it makes it good
//! again ([`Pg::submit`]).
//!
//! What a copy has whose log ends before ours begins, or has parted from it, is not known. It is asked for what is unfound
//! all the same ([`Pg::find_chance`]): the group may have gone on so long without it that the log does not reach it
//! any more, and nobody else has what it had.
//!
//! A copy that could not be read is not given up by that: its own OSD does not know of it, and
//! [`Pg::ask_again`] has all of them read once more.

use crate::message::Body;
use crate::missing::Item;
use crate::{Output, Pg, State};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use types::{EVersion, HObject, OsdId};

/// What is known of an OSD that may have unfound objects, in Ceph's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    Probed,
    /// It has not answered, or its answer does not tell.
    Querying,
    Down,
}

impl Probe {
    pub fn name(self) -> &'static str {
        match self {
            Probe::Probed => "already probed",
            Probe::Querying => "querying",
            Probe::Down => "osd is down",
        }
    }
}

/// How many objects are unfound: that takes a look at each that is missing, so it is counted in rounds.
#[derive(Debug, Default)]
pub(crate) struct UnfoundCount {
    /// What this round has not looked at: the rest of what is missing, or then of what is unreadable.
    next: Option<(Kind, HObject)>,
    so_far: u64,
    /// The result of the last round.
    known: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Missing,
    Unreadable,
}

/// Objects that are looked at when it is only asked whether any is unfound.
const GLANCE: usize = 64;

impl Pg {
    /// How many objects are unfound, by a look at so many of those that are missing: exact if there are no more, else
    /// what the last round said, or already this one.
    pub fn count_unfound(&mut self, looks: usize) -> u64 {
        let mut count = std::mem::take(&mut self.recovery.unfound_count);
        let next = {
            let mut rest = self.lacking_from(count.next.as_ref());
            let seen = rest.by_ref().take(looks.max(1));
            let unfound =
                seen.filter(|(_, object, need)| self.find_source(object, *need).is_none());
            count.so_far += unfound.count() as u64;
            rest.next().map(|(kind, object, _)| (kind, object.clone()))
        };
        count.next = next;
        if count.next.is_none() {
            count.known = std::mem::take(&mut count.so_far);
        }
        let known = count.known.max(count.so_far);
        self.recovery.unfound_count = count;
        known
    }

    /// Whether objects are unfound: as far as was counted, or among the first that are missing.
    pub fn has_unfound(&self) -> bool {
        let UnfoundCount { so_far, known, .. } = self.recovery.unfound_count;
        let mut first = self.lacking_from(None).take(GLANCE).peekable();
        let is_known = first.peek().is_some() && so_far.max(known) > 0;
        is_known || first.any(|(_, object, need)| self.find_source(object, need).is_none())
    }

    /// Objects that the primary lacks, then those that it cannot read.
    fn lacking_from(
        &self,
        from: Option<&(Kind, HObject)>,
    ) -> impl Iterator<Item = (Kind, &HObject, EVersion)> {
        let of = |kind| from.filter(|(of, _)| *of == kind).map(|(_, object)| object);
        let is_behind = of(Kind::Unreadable).is_some();
        let missing = (!is_behind).then(|| self.missing.items_from(of(Kind::Missing)));
        let missing = missing.into_iter().flatten();
        let missing = missing.map(|(object, item)| (Kind::Missing, object, item.need));
        let start = of(Kind::Unreadable).map_or(Bound::Unbounded, Bound::Included);
        let unreadable = self.recovery.unreadable.range::<HObject, _>((start, Bound::Unbounded));
        missing.chain(unreadable.map(|(object, need)| (Kind::Unreadable, object, *need)))
    }

    /// Objects that this primary lacks or cannot read, and that nobody within reach has.
    pub fn unfound(&self) -> impl Iterator<Item = &HObject> {
        let all = self.lacking_from(None);
        all.filter(|(_, object, need)| self.find_source(object, *need).is_none())
            .map(|(_, object, _)| object)
    }

    /// What is needed of an unfound object, and what is here.
    pub fn unfound_item(&self, object: &HObject) -> Item {
        let unreadable = || self.recovery.unreadable.get(object);
        let own = || unreadable().map(|need| Item { need: *need, have: EVersion::ZERO });
        self.missing.get(object).or_else(own).unwrap_or_default()
    }

    pub fn is_unfound(&self, object: &HObject) -> bool {
        let is_here = !self.missing.contains(object) && !self.is_unreadable(object);
        !is_here && self.find_source(object, self.unfound_item(object).need).is_none()
    }

    /// Whether our own copy could not be read, and is not given up.
    pub fn is_unreadable(&self, object: &HObject) -> bool {
        !self.recovery.unreadable.is_empty() && self.recovery.unreadable.contains_key(object)
    }

    /// Whether everybody was asked who may have the object, and nobody has it.
    pub fn is_lost(&self, object: &HObject) -> bool {
        self.state == State::Active
            && !self.is_in_work(object)
            && !self.is_being_filled_in(object)
            && self.is_unfound(object)
            && self.find_chance(object).is_none()
            && self.all_probed()
    }

    /// The version in which a lost object should be there of which not all members have a copy, though a damaged one,
    /// that could be written to.
    pub fn lost_version(&self, object: &HObject) -> Option<EVersion> {
        let is_owed = self.missing.contains(object) || self.is_missing_on_members(object);
        (is_owed && self.is_lost(object)).then(|| self.unfound_item(object).need)
    }

    /// Whether a copy within reach is of an older version.
    pub fn has_older(&self, object: &HObject) -> bool {
        let members = self.peers.values().filter_map(|peer| peer.missing.get(object));
        let mut items = members.chain(self.missing.get(object));
        items.any(|item| item.have > EVersion::ZERO && item.have < item.need)
    }

    /// Whether nobody is left who may have what is unfound and was not asked.
    pub fn all_probed(&self) -> bool {
        self.may_have_unfound().values().all(|probe| *probe == Probe::Probed)
    }

    /// Who may have what is unfound, besides this primary.
    pub fn may_have_unfound(&self) -> BTreeMap<OsdId, Probe> {
        let Some(osds) = &self.osds else { return BTreeMap::new() };
        let mut holders = BTreeSet::new();
        for interval in self.past.iter() {
            let took_part = interval.acting.iter().chain(&interval.up).copied();
            // Of a time of which nothing is known, anybody may have something.
            let anybody = osds.iter().map(|(osd, _)| osd).filter(|_| interval.is_gap);
            let all = took_part.chain(anybody);
            holders.extend(all.filter(|osd| !osds.is_lost(*osd, interval.first)));
        }
        holders.extend(self.members.all().chain(self.peers.keys().copied()));
        holders.remove(&self.whoami);
        let probe = |osd: OsdId| match self.peers.get(&osd) {
            _ if !osds.is_up(osd) => Probe::Down,
            Some(peer) if peer.info.is_none() || peer.is_missing_known => Probe::Probed,
            // It is asked for each object.
            Some(peer) if peer.is_incomparable => Probe::Probed,
            _ => Probe::Querying,
        };
        holders.into_iter().map(|osd| (osd, probe(osd))).collect()
    }

    /// Our own copy of the object cannot be read. Whether that is to be waited for: another one may turn up.
    pub fn cannot_read(&mut self, object: &HObject, version: EVersion) -> bool {
        if self.state != State::Active || self.is_resting || self.has_write_in_flight(object) {
            return false;
        }
        let is_new = self.recovery.unreadable.insert(object.clone(), version).is_none();
        self.look_for_unfound_object(object);
        let is_lost = self.is_lost(object);
        if is_lost && is_new && !self.is_missing_on_members(object) {
            // It is all that there is, and nobody waits for it: what can be read of it is read, now or some other time.
            self.recovery.unreadable.remove(object);
            return false;
        }
        tracing::error!(pg = %self.id, %object, "no copy within reach can be read");
        self.is_clean = false;
        self.recovery.look_anew();
        !is_lost
    }

    /// Reads all copies once more that could not be read.
    pub fn ask_again(&mut self) {
        if !matches!(self.state, State::Active | State::Inactive) {
            return;
        }
        for (osd, object) in std::mem::take(&mut self.recovery.spared) {
            if self.peers.get_mut(&osd).is_some_and(|peer| peer.missing.remove(&object)) {
                self.recovery.members_missing -= usize::from(self.participants.contains(&osd));
            }
        }
        for object in std::mem::take(&mut self.recovery.unreadable).into_keys() {
            self.outputs.push_back(Output::Recovered { object });
        }
        self.recovery.retry();
        self.look_for_unfound();
        self.go_on_recovering();
    }

    /// A write replaces the object, or removes it: what was missing of it is wanted no more. Says which of our own
    /// items are gone with it.
    pub(crate) fn forget_lost(&mut self, object: &HObject) -> bool {
        let was_missing = self.missing.remove(object);
        if was_missing {
            self.receiving.forget(object);
            self.update_last_complete();
        }
        let was_unreadable = self.recovery.unreadable.remove(object).is_some();
        if was_missing || was_unreadable {
            self.recovery.wanted.remove(object);
            self.deleted_unrecovered(object);
        }
        was_missing
    }

    /// Those who wait for objects that turned out to be lost are to be told.
    pub(crate) fn tell_lost(&mut self) {
        if self.state != State::Active || self.recovery.wanted.is_empty() || !self.all_probed() {
            return;
        }
        let wanted = self.recovery.wanted.iter();
        let lost: Vec<HObject> = wanted.filter(|object| self.is_lost(object)).cloned().collect();
        for object in lost {
            self.recovery.wanted.remove(&object);
            self.outputs.push_back(Output::Recovered { object });
        }
    }

    /// Someone came up: others may have what nobody within reach has. All that is missing is looked through only if
    /// there is somebody to be asked.
    pub(crate) fn look_for_unfound(&mut self) {
        let is_nothing_missing = self.missing.is_empty() && self.recovery.unreadable.is_empty();
        if is_nothing_missing {
            return;
        }
        let unknown = self.unasked();
        if !unknown.is_empty() && self.unfound().next().is_some() {
            unknown.into_iter().for_each(|osd| self.send(osd, &Body::Query));
        }
        self.tell_lost();
    }

    /// An object may be unfound now.
    pub(crate) fn look_for_unfound_object(&mut self, object: &HObject) {
        if self.is_unfound(object) {
            self.unasked().into_iter().for_each(|osd| self.send(osd, &Body::Query));
            self.tell_lost();
        }
    }

    /// OSDs that may have what is unfound and were asked nothing yet.
    fn unasked(&self) -> Vec<OsdId> {
        let is_unasked = |(osd, probe): &(OsdId, Probe)| {
            *probe == Probe::Querying && !self.peers.contains_key(osd)
        };
        self.may_have_unfound().into_iter().filter(is_unasked).map(|(osd, _)| osd).collect()
    }
}
