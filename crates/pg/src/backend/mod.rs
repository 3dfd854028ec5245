//! The rules of a group that depend on how it keeps an object: the members that suffice, the members that
//! store a write, the sources of reads and of recovery, the comparison of copies.
//!
//! A replicated group keeps the whole object on each member. Nothing outside of this folder relies on that:
//! it asks the backend, and carries out the plan.
//!
//! Pure functions. An enum instead of a trait object: all kinds are known here, and the calls are inlined.

pub(crate) mod erasure;
mod plans;
mod replicated;

pub use erasure::ROW;
pub(crate) use erasure::TookPart;
pub(crate) use plans::{Authority, Claim, Evidence, Undo};

use crate::Member;
use crate::choice::{self, Choice, Infos};
use crate::{ErasureLayout, Interval, Layout, LogEntry, Members, Osds};
use types::{Epoch, OsdId};

/// The kind of a group. See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Backend {
    /// Each member keeps whole objects.
    #[default]
    Replicated,
    /// Each member keeps a shard of each object.
    Erasure(ErasureLayout),
}

impl Backend {
    /// The backend of groups with this layout; `None` if no shards can have it.
    pub fn of(layout: Layout) -> Option<Self> {
        match layout {
            Layout::Replicated => Some(Backend::Replicated),
            Layout::Erasure(layout) => {
                erasure::Geometry::new(&layout).map(|_| Backend::Erasure(layout))
            }
        }
    }

    /// Whether the acting members are enough to serve requests.
    pub fn can_serve(self, members: &Members) -> bool {
        match self {
            Backend::Replicated => replicated::can_serve(members),
            Backend::Erasure(layout) => erasure::can_serve(layout, members),
        }
    }

    /// Whether an object can be read, given the members that have it, or their shards of it.
    pub fn can_restore(self, mut holders: impl Iterator<Item = Member>) -> bool {
        match self {
            Backend::Replicated => holders.next().is_some(),
            Backend::Erasure(layout) => erasure::choose_holders(layout, holders).is_some(),
        }
    }

    /// The down OSDs without which an interval's writes may be lost; none if enough members survive.
    /// `took_part` tells what is known of a member's part in the interval.
    pub fn blocked_by(
        self,
        interval: &Interval,
        osds: &Osds,
        took_part: impl Fn(Member) -> TookPart,
    ) -> Vec<OsdId> {
        if !interval.maybe_went_rw {
            return Vec::new();
        }
        if interval.is_gap {
            return doubtful(osds, interval.first);
        }
        match self {
            Backend::Replicated => replicated::blocked_by(interval, osds),
            Backend::Erasure(layout) => erasure::blocked_by(layout, interval, osds, took_part),
        }
    }

    /// The authoritative log, as far as the known infos and logs tell; `None` if no known copy is complete
    /// and new enough.
    pub fn choose_authority(
        self,
        infos: &Infos<'_>,
        own: Member,
        evidence: &impl Evidence,
    ) -> Option<Authority> {
        match self {
            Backend::Replicated => {
                let member = choice::find_best_info(infos, own)?;
                Some(Authority::Log { member, head: infos[&member].last_update })
            }
            Backend::Erasure(layout) => erasure::choose_authority(layout, infos, own, evidence),
        }
    }

    /// Whether acting sets are the same: in a replicated group, positions besides the primary's are alike.
    pub fn is_same_acting(self, acting: &[OsdId], other: &[OsdId]) -> bool {
        match self {
            Backend::Replicated => choice::is_same_set(acting, other),
            Backend::Erasure(_) => acting == other,
        }
    }

    /// Whether the group is whole once nothing is missing: the OSDs of the up set act, and there are enough.
    /// Where the up set has a hole, the OSD that had the shard before may act.
    pub fn is_full(self, members: &Members) -> bool {
        match self {
            Backend::Replicated => {
                let acts = |osd| members.acting.contains(osd);
                members.acting.len() >= members.size && members.up.iter().all(acts)
            }
            Backend::Erasure(layout) => {
                let acting = members.acting_members().count();
                let mut pairs = members.up.iter().zip(&members.acting);
                acting >= layout.shards()
                    && members.up.len() == members.acting.len()
                    && pairs.all(|(up, acts)| *up == OsdId::NONE || up == acts)
            }
        }
    }

    /// The wanted acting set, and the members that need backfill.
    pub fn choose_acting(self, best: Member, infos: &Infos<'_>, members: &Members) -> Choice {
        assert!(infos.contains_key(&best), "the authority has an info");
        match self {
            Backend::Replicated => choice::choose_acting(best, infos, members),
            Backend::Erasure(layout) => erasure::choose_acting(layout, best, infos, members),
        }
    }
}

/// For a primary without a copy and without history: the down OSDs that may hold the group's data. Their down
/// stamps are ignored: clocks differ, so a stamp is no proof that the pool was created later.
pub(crate) fn may_have_unknown(osds: &Osds) -> Vec<OsdId> {
    doubtful(osds, Epoch(0))
}

/// The OSDs that went down in a time without known history. Even the pool's `min_size` of that time is not
/// known: no more members may have served than determine an object, and then each of them is needed.
fn doubtful(osds: &Osds, since: Epoch) -> Vec<OsdId> {
    osds.gone_since(since).collect()
}

/// The way in which a member with whole objects rolls back an own entry that is divergent.
pub(crate) fn undo(entry: &LogEntry) -> Undo {
    match entry.changes_object() {
        true => replicated::undo(entry),
        false => Undo::Nothing,
    }
}
