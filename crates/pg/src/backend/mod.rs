//! The rules of a group that depend on how it keeps an object: the members that suffice, the members that
//! store a write, the sources of reads and of recovery, the comparison of copies.
//!
//! A replicated group keeps the whole object on each member. Nothing outside of this folder relies on that:
//! it asks the backend, and carries out the plan.
//!
//! Pure functions. An enum instead of a trait object: all kinds are known here, and the calls are inlined.

#[cfg(test)]
mod erasure;
mod plans;
mod replicated;
#[cfg(test)]
pub(crate) mod striped;

pub use plans::ReadPlan;
pub(crate) use plans::{Fetch, Undo, WritePlan};

use crate::Member;
use crate::choice::{self, Choice, Infos};
use crate::members::{MemberSet, Participants};
use crate::scrub::{self, Expected, Finding, ScrubMap};
use crate::{Interval, Layout, LogEntry, Members, Osds};
use std::collections::BTreeMap;
use store::{Change, Collection, RequestKind};
use types::{HObject, OsdId};

/// The kind of a group. See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Backend {
    /// Each member keeps whole objects.
    #[default]
    Replicated,
    /// Each member keeps a part of each object.
    #[cfg(test)]
    Striped,
}

impl Backend {
    /// The backend of groups with this layout; `None` if this build has none.
    pub fn of(layout: Layout) -> Option<Self> {
        match layout {
            Layout::Replicated => Some(Backend::Replicated),
            #[cfg(test)]
            Layout::Erasure(_) => Some(Backend::Striped),
            #[cfg(not(test))]
            Layout::Erasure(_) => None,
        }
    }

    /// Whether the acting members are enough to serve requests.
    pub fn can_serve(self, members: &Members) -> bool {
        match self {
            Backend::Replicated => replicated::can_serve(members),
            #[cfg(test)]
            Backend::Striped => striped::can_serve(members),
        }
    }

    /// Whether an object can be read, given the members that have it, or their shards of it.
    pub fn can_restore(self, mut holders: impl Iterator<Item = Member>) -> bool {
        match self {
            Backend::Replicated => holders.next().is_some(),
            #[cfg(test)]
            Backend::Striped => striped::choose(holders).is_some(),
        }
    }

    /// The down OSDs without which an interval's writes may be lost; none if enough members survive.
    pub fn blocked_by(self, interval: &Interval, osds: &Osds, min_size: usize) -> Vec<OsdId> {
        match self {
            Backend::Replicated => replicated::blocked_by(interval, osds, min_size),
            #[cfg(test)]
            Backend::Striped => striped::blocked_by(interval, osds),
        }
    }

    /// For a primary without a copy and without history: the down OSDs that may hold the group's data. Their
    /// down stamps are ignored: clocks differ, so a stamp is no proof that the pool was created later.
    pub fn may_have_unknown(self, osds: &Osds, members: &Members) -> Vec<OsdId> {
        match self {
            Backend::Replicated => replicated::may_have_unknown(osds, members),
            #[cfg(test)]
            Backend::Striped => replicated::may_have_unknown(osds, members),
        }
    }

    /// The member with the authoritative log; `None` if no known copy is complete and new enough.
    pub fn choose_authority(self, infos: &Infos<'_>, own: Member) -> Option<Member> {
        match self {
            Backend::Replicated => choice::find_best_info(infos, own),
            #[cfg(test)]
            Backend::Striped => striped::choose_authority(infos),
        }
    }

    /// The wanted acting set, and the members that need backfill.
    pub fn choose_acting(self, best: Member, infos: &Infos<'_>, members: &Members) -> Choice {
        assert!(infos.contains_key(&best), "the authority has an info");
        match self {
            Backend::Replicated => choice::choose_acting(best, infos, members),
            #[cfg(test)]
            Backend::Striped => striped::choose_acting(best, infos, members),
        }
    }

    /// The participants that must have stored a write before it is acknowledged.
    pub fn must_confirm(self, participants: &Participants) -> MemberSet {
        match self {
            Backend::Replicated => MemberSet::all(participants),
            #[cfg(test)]
            Backend::Striped => MemberSet::all(participants),
        }
    }

    /// The transactions of a write with these changes.
    pub fn plan_write(
        self,
        collection: Collection,
        changes: Vec<Change>,
        participants: &Participants,
    ) -> WritePlan {
        assert!(!participants.is_empty(), "a write has participants");
        match self {
            Backend::Replicated => WritePlan::Same(replicated::transaction(collection, changes)),
            #[cfg(test)]
            Backend::Striped => striped::plan_write(collection, &changes, participants),
        }
    }

    /// The way in which `own` reads an object. `read` is the request to a store that has all of it, `holders`
    /// are the members that have it, or their shards of it.
    pub fn plan_read(
        self,
        own: Member,
        read: RequestKind,
        holders: impl Iterator<Item = Member>,
    ) -> ReadPlan {
        match self {
            Backend::Replicated => {
                drop((own, holders));
                ReadPlan::Local(read)
            }
            #[cfg(test)]
            Backend::Striped => striped::plan_read(own, read, holders),
        }
    }

    /// The source of an object that members lack, or the primary itself; `None` if there is none. `holders`
    /// are the other members that have it, or may have it, in order of preference.
    pub fn plan_recovery(
        self,
        is_own_missing: bool,
        mut holders: impl Iterator<Item = Member>,
    ) -> Option<Fetch> {
        match self {
            Backend::Replicated if is_own_missing => holders.next().map(Fetch::Whole),
            Backend::Replicated => Some(Fetch::Nothing),
            #[cfg(test)]
            Backend::Striped => striped::choose(holders).map(Fetch::Shards),
        }
    }

    /// The objects that are not intact and equal in all maps. `maps` has one map of each member.
    pub fn compare(
        self,
        maps: &BTreeMap<Member, ScrubMap>,
        primary: Member,
        expected: impl Fn(&HObject) -> Expected,
    ) -> Vec<Finding> {
        match self {
            Backend::Replicated => scrub::compare(maps, primary, expected),
            #[cfg(test)]
            Backend::Striped => striped::compare(maps, expected),
        }
    }

    /// The way in which a member rolls back an own entry that is divergent.
    pub fn undo(self, entry: &LogEntry) -> Undo {
        match self {
            _ if !entry.changes_object() => Undo::Nothing,
            Backend::Replicated => replicated::undo(entry),
            #[cfg(test)]
            Backend::Striped => Undo::Drop,
        }
    }
}
