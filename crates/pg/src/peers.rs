//! The primary's knowledge of the other copies in this interval.

use crate::Member;
use crate::backend::{Authority, Claim, Evidence, TookPart};
use crate::choice::{Choice, Infos};
use crate::core::{Core, Output};
use crate::serving::UnfoundCount;
use crate::{Interval, Missing, Osds, PastIntervals, PgInfo, PgLog};
use std::collections::{BTreeMap, BTreeSet};
use types::{EVersion, Epoch, HObject, OsdId};

/// The copy of another OSD.
#[derive(Debug, Clone, Default)]
pub(crate) struct Peer {
    /// `None` if it has no copy.
    pub info: Option<PgInfo>,
    /// Size of the missing set that it reported.
    pub missing_count: u64,
    /// Its missing set, with the objects that it will miss when it follows our log. Complete only if
    /// `is_missing_known`; of an incomparable copy this is the missing set that it reported.
    pub missing: Missing,
    /// Whether `missing` has all objects that it needs to follow our log.
    pub is_missing_known: bool,
    /// Set if its log ends before ours begins, or diverges from it: the objects of our log that it
    /// lacks are unknown.
    pub is_incomparable: bool,
}

impl Peer {
    /// Whether it has the object in the version `need` of our history.
    pub fn has(&self, object: &HObject, need: EVersion) -> bool {
        let Some(info) = &self.info else { return false };
        self.is_missing_known
            && info.last_update >= need
            && *object < info.last_backfill
            && !self.missing.contains(object)
    }

    /// Whether it may have the object in that version although its log cannot prove it: its log is
    /// incomparable, or it is a backfill target that has not reached the object, whose former content stays
    /// in place until then.
    pub fn may_have(&self, object: &HObject, need: EVersion) -> bool {
        let Some(info) = &self.info else { return false };
        need > EVersion::ZERO
            && info.last_update >= need
            && (self.is_incomparable || *object >= info.last_backfill)
            && !self.missing.contains(object)
    }
}

/// The primary's knowledge of the present interval.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// The infos and missing sets of other OSDs, as told in this interval.
    pub peers: BTreeMap<Member, Peer>,
    /// The past intervals of another copy, which was told all maps, if the own ones have a gap.
    pub told: Option<PastIntervals>,
    /// Members of the past intervals that other copies have told, while the own list has a gap.
    pub heard_of: BTreeSet<Member>,
    /// The newest activation of a copy that was known when the log to follow was chosen.
    pub started: Epoch,
    /// OSDs that were queried in this interval.
    pub asked: BTreeSet<Member>,
    /// Down OSDs without which peering cannot proceed.
    pub blocked_by: BTreeSet<OsdId>,
    /// The acting set to ask the monitor for; empty means the up set.
    pub wanted: Option<Vec<OsdId>>,
    /// Set if our own copy has settled changes that the authoritative log does not have.
    pub cannot_follow: bool,
    /// Unfound objects.
    pub unfound: UnfoundCount,
    /// Logs of complete copies with their missing sets, while the authoritative one is chosen from them.
    pub logs: BTreeMap<Member, (PgLog, Missing)>,
}

impl Known {
    /// Another log is followed: forgets what copies miss by the former one.
    pub fn forget_comparisons(&mut self) {
        for peer in self.peers.values_mut() {
            (peer.is_missing_known, peer.is_incomparable) = (false, false);
            peer.missing.clear();
        }
    }

    /// The infos of all known copies, with an empty one for each member that has no copy.
    pub fn infos<'a>(&'a self, core: &'a Core, empty: &'a PgInfo) -> Infos<'a> {
        let mut infos: Infos<'a> = BTreeMap::from([(core.own.whoami, &core.copy.info)]);
        let members = &core.placement.members;
        for (osd, peer) in &self.peers {
            match &peer.info {
                Some(info) => drop(infos.insert(*osd, info)),
                None if members.has_member(*osd) => drop(infos.insert(*osd, empty)),
                None => {}
            }
        }
        infos
    }

    /// The past intervals, with those that another copy knows instead of gaps.
    pub fn past<'a>(&'a self, core: &'a Core) -> impl Iterator<Item = &'a Interval> {
        let own = core.copy.past.iter().filter(|past| !past.is_gap || self.told.is_none());
        own.chain(self.told.iter().flat_map(PastIntervals::iter))
    }

    /// A member's part, as far as it is known, in the activations of intervals from `first` to `last`, in
    /// which it acts: several with the same members are kept as one.
    pub fn part_in(
        &self,
        core: &Core,
        osds: &Osds,
        member: Member,
        (first, last): (Epoch, Epoch),
    ) -> TookPart {
        let info = match member == core.own.whoami {
            true => Some(&core.copy.info).filter(|_| core.copy.created),
            false => self.info(member),
        };
        // Since before the interval, the OSD has lost nothing that it stored.
        let is_same_life = osds.is_up(member.osd) && osds.status(member.osd).up_from <= first;
        let has_answered = member == core.own.whoami || self.peers.contains_key(&member);
        let absent_since =
            info.and_then(|info| info.shard).map_or(Epoch(0), |own| own.absent_since);
        let was_there = |started| absent_since <= started || last < absent_since;
        match info.map(|info| (info.is_complete(), info.last_epoch_started)) {
            Some((true, started)) if started >= first => TookPart::MayHave,
            // A new copy knows of no activation until it has stored all of its first one: it may be in the
            // place of a lost one.
            Some((true, started)) if is_same_life || started > Epoch(0) && was_there(started) => {
                TookPart::No
            }
            None if has_answered && is_same_life => TookPart::No,
            _ => TookPart::IsGone,
        }
    }

    /// Whether a copy of an acting member proves that no activation of this past interval was completed, from
    /// `first` on.
    fn was_not_activated(&self, core: &Core, past: &Interval, first: Epoch) -> bool {
        let Some(osds) = &core.placement.osds else { return false };
        let mut acting = core.placement.members.layout.members(&past.acting);
        acting.any(|member| {
            let has_copy = member == core.own.whoami || self.info(member).is_some();
            has_copy && self.part_in(core, osds, member, (first, past.last)) == TookPart::No
        })
    }

    /// Whether a copy of an acting member proves that the activation of this epoch was not completed. The
    /// epoch may lie in several past intervals that are kept as one each: the member acts in all of these.
    fn was_not_completed(&self, core: &Core, epoch: Epoch) -> bool {
        let Some(osds) = &core.placement.osds else { return false };
        let layout = core.placement.members.layout;
        let is_then = |past: &&Interval| past.first <= epoch && epoch <= past.last;
        let mut intervals = self.past(core).filter(is_then);
        let Some(first) = intervals.next() else { return false };
        let others: Vec<&Interval> = intervals.collect();
        layout.members(&first.acting).any(|member| {
            let has_copy = member == core.own.whoami || self.info(member).is_some();
            has_copy
                && others.iter().all(|other| layout.has(&other.acting, member))
                && self.part_in(core, osds, member, (epoch, epoch)) == TookPart::No
        })
    }

    /// Notes what is known when the log to follow is chosen.
    pub fn note_choice(&mut self, core: &Core) {
        let others = self.peers.values().filter_map(|peer| peer.info.as_ref());
        let started = others.map(|info| info.last_epoch_started);
        self.started = started.fold(core.copy.info.last_epoch_started, Epoch::max);
    }

    /// Whether a complete copy has taken part in a later activation than those that were known when the log
    /// to follow was chosen: it may have the newest writes.
    pub fn is_newer(&self, info: &PgInfo) -> bool {
        info.is_complete() && info.last_epoch_started > self.started
    }

    /// The info of another OSD's copy; `None` if it has none, or has not answered.
    pub fn info(&self, osd: Member) -> Option<&PgInfo> {
        self.peers.get(&osd)?.info.as_ref()
    }

    /// Whether a copy on this OSD was reported, or its absence.
    pub fn has_heard_of(&self, osd: OsdId) -> bool {
        let mut known = self.peers.range(Member::replicated(osd)..);
        known.next().is_some_and(|(member, _)| member.osd == osd)
    }

    /// The peer, which is created without a copy if it is unknown.
    pub fn peer_mut(&mut self, osd: Member) -> &mut Peer {
        self.peers.entry(osd).or_default()
    }

    /// The authoritative log; `None` if the group is incomplete.
    pub fn find_authority(&self, core: &Core) -> Option<Authority> {
        let empty = PgInfo::default();
        let infos = self.infos(core, &empty);
        let whoami = core.own.whoami;
        core.placement.backend.choose_authority(&infos, whoami, &Testimony { known: self, core })
    }

    /// The wanted members of a group with this authority, whose log counts up to `head`. A copy that has
    /// settled changes that the log does not have, as an OSD that was declared lost and returned, is treated
    /// as incomplete.
    pub fn choose_acting(&self, core: &Core, authority: Member, head: EVersion) -> Choice {
        let empty = PgInfo::default();
        let mut infos = self.infos(core, &empty);
        let log = self.log_with(core, authority, head);
        let has_parted = |member: Member, info: &PgInfo| {
            member == core.own.whoami && self.cannot_follow
                || log.is_some_and(|log| has_parted(log, info, head))
        };
        let parted = infos.iter().filter(|(member, info)| has_parted(**member, info));
        let incomplete =
            |info: &PgInfo| PgInfo { last_backfill: HObject::default(), ..info.clone() };
        let parted: Vec<(Member, PgInfo)> =
            parted.map(|(member, info)| (*member, incomplete(info))).collect();
        infos.extend(parted.iter().map(|(member, info)| (*member, info)));
        core.placement.backend.choose_acting(authority, &infos, &core.placement.members)
    }

    /// Whether only the log of the authority tells which copies have parted from it: our own lacks `head`,
    /// and what a copy of an older activation has settled. If such a copy acted, it would give way again.
    pub fn needs_log_of(&self, core: &Core, authority: Member, head: EVersion) -> bool {
        let is_known = authority == core.own.whoami || self.logs.contains_key(&authority);
        if is_known || self.log_with(core, authority, head).is_some() {
            return false;
        }
        let (empty, own) = (PgInfo::default(), &core.copy.log);
        let infos = self.infos(core, &empty);
        let started = infos[&authority].last_epoch_started;
        let mut older = infos.values().filter(|info| {
            info.shard.is_some() && info.is_complete() && info.last_epoch_started < started
        });
        older.any(|info| info.settled() > own.tail() && !own.contains(info.settled()))
    }

    /// A log of the history up to `head`, as far as we know one: ours, or the authority's.
    fn log_with<'a>(
        &'a self,
        core: &'a Core,
        authority: Member,
        head: EVersion,
    ) -> Option<&'a PgLog> {
        let theirs = self.logs.get(&authority).map(|(log, _)| log);
        [Some(&core.copy.log), theirs].into_iter().flatten().find(|log| log.contains(head))
    }

    /// Asks the monitor for another acting set if the present one is not the wanted one; whether it did.
    pub fn wants_other_members(&mut self, core: &mut Core, choice: &Choice) -> bool {
        let Choice { acting, .. } = choice;
        let (members, is_up_set) = (&core.placement.members, *acting == core.placement.members.up);
        let backend = core.placement.backend;
        let serves =
            core.placement.members.primary.is_some_and(|primary| acting.contains(&primary));
        if members.acting == *acting
            || !is_up_set && serves && backend.is_same_acting(&members.acting, acting)
        {
            self.wanted = None;
            return false;
        }
        self.wanted = Some(if is_up_set { Vec::new() } else { acting.clone() });
        core.outputs.push_back(Output::WantsMap);
        true
    }

    /// Whether the OSD lacks an object that it should have.
    pub fn is_missing_on(&self, osd: Member, object: &HObject) -> bool {
        self.peers.get(&osd).is_some_and(|peer| peer.missing.contains(object))
    }
}

/// Whether a copy has settled a change that is not in the history up to `head`, as far as this log tells.
fn has_parted(log: &PgLog, info: &PgInfo, head: EVersion) -> bool {
    let settled = info.settled();
    let is_above = info.shard.is_some() && settled > log.tail();
    is_above && (settled > head || !log.contains(settled))
}

/// The knowledge of other copies, as evidence for the choice of a log.
struct Testimony<'a> {
    known: &'a Known,
    core: &'a Core,
}

impl Testimony<'_> {
    /// The claims of one past interval on an entry that was written in this epoch.
    fn claims_of(&self, past: &Interval, written: Epoch) -> impl Iterator<Item = Claim> {
        let later = past.first.max(written.next());
        let is_followed =
            later <= past.last && !self.known.was_not_activated(self.core, past, later);
        let ways = [(is_followed, true), (past.first <= written, false)];
        let layout = self.core.placement.members.layout;
        let acting: BTreeSet<Member> = layout.members(&past.acting).collect();
        let ways = ways.into_iter().filter(|(is_possible, _)| *is_possible);
        ways.map(move |(_, is_followed)| Claim { acting: acting.clone(), is_followed })
    }
}

impl Evidence for Testimony<'_> {
    fn may_be_completed(&self, epoch: Epoch) -> bool {
        !self.known.was_not_completed(self.core, epoch)
    }

    fn log_of(&self, member: Member) -> Option<(&PgLog, &Missing)> {
        match member == self.core.own.whoami {
            true => Some((&self.core.copy.log, &self.core.copy.missing)),
            false => self.known.logs.get(&member).map(|(log, missing)| (log, missing)),
        }
    }

    fn misses_nothing(&self, member: Member) -> bool {
        match member == self.core.own.whoami {
            true => self.core.copy.missing.stored_len() == 0,
            false => self.known.peers.get(&member).is_some_and(|peer| peer.missing_count == 0),
        }
    }

    fn claims(&self, written: Epoch) -> Option<Vec<Claim>> {
        let past = self.known.past(self.core).filter(|past| past.last >= written);
        let since: Vec<&Interval> = past.filter(|interval| interval.maybe_went_rw).collect();
        let is_known = since.iter().any(|interval| interval.first <= written)
            && !since.iter().any(|interval| interval.is_gap);
        let claims = since.iter().flat_map(|interval| self.claims_of(interval, written));
        is_known.then(|| claims.collect())
    }
}
