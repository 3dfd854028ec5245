//! Objects without a reachable copy: unfound, and lost.
//!
//! An object is *unfound* if the primary lacks it, or cannot read its own copy, and no other known copy has
//! it; in a group with shards, if any member lacks it, and its shards of fewer than k positions are known.
//! While an OSD that may have it was not probed (it is down, or has not answered), requests for the object
//! wait. If there is no such OSD, the object is *lost*: reads of it fail, and a write that does not depend
//! on its content makes it valid again ([`crate::Pg::submit`]).
//!
//! The content of a copy whose log ends before ours begins, or diverges from it, is not known. It is asked
//! for unfound objects all the same ([`View::find_unfound_candidate`]): the group may have continued without
//! it for longer than the log reaches back, and no other copy has its objects.
//!
//! A copy that could not be read is not marked bad by that: its own OSD does not know it, and
//! [`crate::Pg::retry_unreadable`] has all such copies read once more.

use super::recovery::{Kind, UnfoundCount};
use super::service::View;
use crate::Member;
use crate::missing::Item;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use types::{EVersion, HObject};

/// The state of an OSD that may have unfound objects, in Ceph's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// Its log was compared (`already probed`).
    Probed,
    /// It has not answered, or its log was not compared.
    Querying,
    /// The map shows it down (`osd is down`).
    Down,
}

impl Probe {
    /// The word for it in `ceph pg query` (`might_have_unfound`).
    pub fn name(self) -> &'static str {
        match self {
            Probe::Probed => "already probed",
            Probe::Querying => "querying",
            Probe::Down => "osd is down",
        }
    }
}

/// Missing objects that [`crate::Pg::has_unfound`] examines.
const GLANCE: usize = 64;

impl<'a> View<'a> {
    /// Whether objects are unfound: as far as counted, or among the first that are missing.
    pub fn has_unfound(self) -> bool {
        let UnfoundCount { so_far, known, .. } = self.known.unfound;
        let mut first = self.lacking_from(None).take(GLANCE).peekable();
        let is_known = first.peek().is_some() && so_far.max(known) > 0;
        is_known || first.any(|(_, object, need)| !self.is_found(object, need))
    }

    /// The objects that the primary lacks, then those that it cannot read, with the needed versions. In a
    /// group with shards also those that other members lack: the primary's own shard does not restore them.
    fn lacking_from(
        self,
        from: Option<&(Kind, HObject)>,
    ) -> impl Iterator<Item = (Kind, &'a HObject, EVersion)> {
        let of = |kind| from.filter(|(of, _)| *of == kind).map(|(_, object)| object);
        let is_from = |kind| from.is_none_or(|(of, _)| *of <= kind);
        let missing = is_from(Kind::Missing);
        let missing = missing.then(|| self.core.copy.missing.items_from(of(Kind::Missing)));
        let missing = missing.into_iter().flatten();
        let missing = missing.map(|(object, item)| (Kind::Missing, object, item.need));
        let start = of(Kind::Unreadable).map_or(Bound::Unbounded, Bound::Included);
        let unreadable = is_from(Kind::Unreadable)
            .then(|| self.recovery.unreadable.range::<HObject, _>((start, Bound::Unbounded)));
        let unreadable = unreadable.into_iter().flatten();
        let unreadable = unreadable.map(|(object, need)| (Kind::Unreadable, object, *need));
        let members = if self.keeps_shards() { self.agreed.participants.len() } else { 0 };
        let members: Vec<_> = (0..members)
            .filter(|index| is_from(Kind::OfMember(*index)))
            .map(|index| self.lacking_on(index, of(Kind::OfMember(index))))
            .collect();
        missing.chain(unreadable).chain(members.into_iter().flatten())
    }

    /// The objects that a participant misses, and that are in no list before its own.
    fn lacking_on(
        self,
        index: usize,
        from: Option<&HObject>,
    ) -> impl Iterator<Item = (Kind, &'a HObject, EVersion)> {
        let participants = &self.agreed.participants;
        let peer = self.known.peers.get(&participants[index]);
        let missing = peer.map(|peer| peer.missing.items_from(from)).into_iter().flatten();
        let is_listed = move |object: &HObject| {
            let mut before = participants[..index].iter();
            self.core.copy.missing.contains(object)
                || self.is_unreadable(object)
                || before.any(|member| self.known.is_missing_on(*member, object))
        };
        missing
            .filter(move |(object, _)| !is_listed(object))
            .map(move |(object, item)| (Kind::OfMember(index), object, item.need))
    }

    fn keeps_shards(self) -> bool {
        self.core.placement.code.is_some()
    }

    /// Objects that this primary lacks or cannot read, and that no reachable copy has.
    pub fn unfound(self) -> impl Iterator<Item = &'a HObject> {
        let all = self.lacking_from(None);
        all.filter(move |(_, object, need)| !self.is_found(object, *need))
            .map(|(_, object, _)| object)
    }

    /// The needed and the stored version of an unfound object.
    pub fn unfound_item(self, object: &HObject) -> Item {
        let unreadable = || self.recovery.unreadable.get(object);
        let own = || unreadable().map(|need| Item { need: *need, have: EVersion::ZERO });
        let item = self.core.copy.missing.get(object).or_else(own);
        item.or_else(|| self.item_of_members(object)).unwrap_or_default()
    }

    /// Whether this primary lacks the object or cannot read it, and no reachable copy has it.
    pub fn is_unfound(self, object: &HObject) -> bool {
        let is_here = !self.core.copy.missing.contains(object) && !self.is_unreadable(object);
        let is_lacking = !is_here || self.item_of_members(object).is_some();
        is_lacking && !self.is_found(object, self.unfound_item(object).need)
    }

    /// In a group with shards, the newest item of the object that another member has.
    fn item_of_members(self, object: &HObject) -> Option<Item> {
        let participants = self.agreed.participants.iter().filter(|_| self.keeps_shards());
        let peers = participants.filter_map(|member| self.known.peers.get(member));
        peers.filter_map(|peer| peer.missing.get(object)).max_by_key(|item| item.need)
    }

    /// Whether our own copy could not be read, and is not in the missing set.
    pub fn is_unreadable(self, object: &HObject) -> bool {
        !self.recovery.unreadable.is_empty() && self.recovery.unreadable.contains_key(object)
    }

    /// Whether the object is unfound, and all OSDs that may have it were probed.
    pub fn is_lost(self, object: &HObject) -> bool {
        self.is_active
            && !self.is_in_work(object)
            && !self.is_being_backfilled(object)
            && self.is_unfound(object)
            && self.find_unfound_candidate(object).is_none()
            && self.all_probed()
    }

    /// The needed version of a lost object that is missing on a member. `None` if all members have at least a
    /// damaged copy, to which writes can be applied.
    pub fn lost_version(self, object: &HObject) -> Option<EVersion> {
        let is_owed = self.core.copy.missing.contains(object) || self.is_missing_on_members(object);
        (is_owed && self.is_lost(object)).then(|| self.unfound_item(object).need)
    }

    /// Whether a reachable copy has an older version.
    pub fn has_older(self, object: &HObject) -> bool {
        let members = self.known.peers.values().filter_map(|peer| peer.missing.get(object));
        let mut items = members.chain(self.core.copy.missing.get(object));
        items.any(|item| item.have > EVersion::ZERO && item.have < item.need)
    }

    /// Whether all OSDs that may have unfound objects were probed.
    pub fn all_probed(self) -> bool {
        self.may_have_unfound().values().all(|probe| *probe == Probe::Probed)
    }

    /// The OSDs that may have unfound objects, besides this primary.
    pub fn may_have_unfound(self) -> BTreeMap<Member, Probe> {
        let Some(osds) = &self.core.placement.osds else { return BTreeMap::new() };
        let layout = self.core.placement.members.layout;
        let mut holders = BTreeSet::new();
        for interval in self.known.past(self.core) {
            // In a gap, any OSD may have taken part.
            let anybody = osds.iter().filter(|_| interval.is_gap);
            let anybody = anybody.flat_map(|(osd, _)| layout.members_on(osd));
            let all = interval.members(layout).chain(anybody);
            holders.extend(all.filter(|member| !osds.is_lost(member.osd, interval.first)));
        }
        let with_copy = self.known.peers.iter().filter(|(_, peer)| peer.info.is_some());
        let with_copy = with_copy.map(|(member, _)| *member);
        holders.extend(self.core.placement.members.all().chain(with_copy));
        holders.remove(&self.core.own.whoami);
        let probe = |member: Member| match self.known.peers.get(&member) {
            _ if !osds.is_up(member.osd) => Probe::Down,
            Some(peer) if peer.info.is_none() || peer.is_missing_known => Probe::Probed,
            // It is asked for each object.
            Some(peer) if peer.is_incomparable => Probe::Probed,
            _ => Probe::Querying,
        };
        holders.into_iter().map(|member| (member, probe(member))).collect()
    }

    /// OSDs that may have unfound objects, and were not queried in this interval.
    pub fn not_probed(self) -> Vec<Member> {
        let is_not_probed = |(osd, probe): &(Member, Probe)| {
            *probe == Probe::Querying && !self.known.peers.contains_key(osd)
        };
        self.may_have_unfound().into_iter().filter(is_not_probed).map(|(osd, _)| osd).collect()
    }

    /// Counts unfound objects in rounds, by examining at most `looks` missing ones now.
    pub fn count_unfound(self, count: &mut UnfoundCount, looks: usize) -> u64 {
        let next = {
            let mut rest = self.lacking_from(count.next.as_ref());
            let seen = rest.by_ref().take(looks.max(1));
            let unfound = seen.filter(|(_, object, need)| !self.is_found(object, *need));
            count.so_far += unfound.count() as u64;
            rest.next().map(|(kind, object, _)| (kind, object.clone()))
        };
        count.next = next;
        if count.next.is_none() {
            count.known = std::mem::take(&mut count.so_far);
        }
        count.known.max(count.so_far)
    }
}
