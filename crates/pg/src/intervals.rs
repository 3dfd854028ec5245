//! Intervals: times in which the members of a group stay the same (`PastIntervals`).
//!
//! Between two moments at which a group was clean, its members may change many times, and each of those
//! intervals may have accepted writes. A primary must hear from a survivor of each such interval before it
//! serves the group. An interval can have accepted writes only if it had at least `min_size` members, and if
//! the map has its primary alive in it (`up_thru`): a primary waits for that before it serves anything.
//!
//! Once the group is active, all its members have the log, and peering no longer needs earlier intervals;
//! but their participants may have objects that others still lack.
//!
//! Every copy keeps the intervals since the group was last known to be clean, so a copy's list reaches
//! at least as far back as that of any copy with a later `last_epoch_clean`.

use crate::members::{MEMBERS_MAX, TooManyMembers};
use crate::{Layout, Member, Osds};
use codec::{Decode, Encode, Reader, Result, Writer};
use std::collections::BTreeSet;
use types::{Epoch, OsdId};

const FORMAT: u8 = 1;

/// The members of a group in one interval, and the pool's settings that peering depends on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Members {
    /// The up set, in the order of CRUSH. Positions of an erasure-coded group may be empty.
    pub up: Vec<OsdId>,
    /// The acting set, in the order of the map. Positions of an erasure-coded group may be empty.
    pub acting: Vec<OsdId>,
    /// The primary; `None` if no OSD serves the group.
    pub primary: Option<OsdId>,
    /// For each acting member the epoch since which it is up: a restart makes it another member.
    pub up_from: Vec<Epoch>,
    /// The spread of objects over the members. With shards, a position of a set may be a hole
    /// ([`OsdId::NONE`]).
    pub layout: Layout,
    /// Copies that the pool wants.
    pub size: usize,
    /// Acting members that it takes to serve requests.
    pub min_size: usize,
    /// Number of the lowest hash bits that select the group's objects. A split or merge changes it, and so
    /// ends the interval.
    pub hash_bits: u8,
}

impl Members {
    /// Whether the OSD is in the up or the acting set.
    pub fn is_member(&self, osd: OsdId) -> bool {
        self.acting.contains(&osd) || self.up.contains(&osd)
    }

    /// Whether this copy or shard is in the up or the acting set.
    pub fn has_member(&self, member: Member) -> bool {
        self.is_acting(member) || self.layout.has(&self.up, member)
    }

    /// Whether it is in the acting set.
    pub(crate) fn is_acting(&self, member: Member) -> bool {
        self.layout.has(&self.acting, member)
    }

    /// The acting set.
    pub fn acting_members(&self) -> impl Iterator<Item = Member> + '_ {
        self.layout.members(&self.acting)
    }

    /// The up set.
    pub(crate) fn up_members(&self) -> impl Iterator<Item = Member> + '_ {
        self.layout.members(&self.up)
    }

    /// The primary; of several shards of its OSD the first.
    pub(crate) fn primary_member(&self) -> Option<Member> {
        let primary = self.primary?;
        match self.layout {
            Layout::Replicated => Some(Member::replicated(primary)),
            Layout::Erasure(_) => self.acting_members().find(|member| member.osd == primary),
        }
    }

    /// Whether the members are few enough to be served.
    pub(crate) fn check(&self) -> Result<(), TooManyMembers> {
        match self.all().count() {
            ..=MEMBERS_MAX => Ok(()),
            count => Err(TooManyMembers(count)),
        }
    }

    /// The acting set, then the rest of the up set.
    pub fn all(&self) -> impl Iterator<Item = Member> + '_ {
        let waiting = self.up_members().filter(|member| !self.is_acting(*member));
        self.acting_members().chain(waiting)
    }
}

/// A past interval.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interval {
    /// The first epoch.
    pub first: Epoch,
    /// The last epoch (inclusive).
    pub last: Epoch,
    /// The up set.
    pub up: Vec<OsdId>,
    /// The acting set.
    pub acting: Vec<OsdId>,
    /// The primary; `None` if no OSD served the group.
    pub primary: Option<OsdId>,
    /// Set if it may have accepted writes.
    pub maybe_went_rw: bool,
    /// Set if its maps were not available, so that anything may have happened in it.
    pub is_gap: bool,
}

impl Interval {
    /// The interval of `members`, which may have been enough to serve, from `first` to `last`; `osds` is its
    /// last map, if known.
    pub fn of(
        members: &Members,
        first: Epoch,
        last: Epoch,
        osds: Option<&Osds>,
        may_serve: bool,
    ) -> Self {
        let lived = |primary: OsdId| {
            osds.is_none_or(|osds| {
                let status = osds.status(primary);
                status.up_from <= first && status.up_thru >= first
            })
        };
        Interval {
            first,
            last,
            up: members.up.clone(),
            acting: members.acting.clone(),
            primary: members.primary,
            maybe_went_rw: may_serve && members.primary.is_some_and(lived),
            is_gap: false,
        }
    }

    /// All members in this interval.
    pub(crate) fn members(&self, layout: Layout) -> impl Iterator<Item = Member> + '_ {
        layout.members(&self.acting).chain(layout.members(&self.up))
    }

    /// A time whose maps were not available.
    pub fn gap(first: Epoch, last: Epoch) -> Self {
        Interval { first, last, maybe_went_rw: true, is_gap: true, ..Interval::default() }
    }
}

/// The intervals since the group was last clean, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PastIntervals(Vec<Interval>);

impl PastIntervals {
    /// Whether there are no past intervals.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The intervals, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Interval> {
        self.0.iter()
    }

    /// Whether the maps of some time were not available.
    pub(crate) fn has_gap(&self) -> bool {
        self.0.iter().any(|interval| interval.is_gap)
    }

    /// Adds an interval. It replaces earlier ones with the same members, because groups may flap for long.
    pub fn push(&mut self, interval: Interval) {
        self.0.retain(|known| {
            known.is_gap
                || (known.up != interval.up || known.acting != interval.acting)
                || known.maybe_went_rw != interval.maybe_went_rw
        });
        self.0.push(interval);
    }

    /// Adds an interval of a group with shards. Like [`PastIntervals::push`], but it begins where the first
    /// of those that it replaces did: a member that has not stored the activation of the last of these may
    /// have stored that of another one.
    pub(crate) fn push_of_shards(&mut self, interval: Interval) {
        let is_same = |known: &&Interval| {
            !known.is_gap && known.up == interval.up && known.acting == interval.acting
        };
        let same = self.0.iter().filter(is_same);
        let mut same = same.filter(|known| known.maybe_went_rw == interval.maybe_went_rw);
        let first = same.next().map_or(interval.first, |known| known.first);
        self.push(Interval { first: first.min(interval.first), ..interval });
    }

    /// Drops intervals that ended before the group was clean.
    pub fn trim(&mut self, last_epoch_clean: Epoch) {
        self.0.retain(|interval| interval.last >= last_epoch_clean);
    }

    /// Forgets all intervals.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The members that may have a copy, of a group with this layout.
    pub fn participants(&self, layout: Layout) -> BTreeSet<Member> {
        self.0.iter().flat_map(|interval| interval.members(layout)).collect()
    }

    /// The intervals that ended in this epoch or later, oldest first.
    pub fn since(&self, epoch: Epoch) -> impl Iterator<Item = &Interval> {
        self.0.iter().filter(move |interval| interval.last >= epoch)
    }
}

impl Encode for Interval {
    fn encode(&self, w: &mut Writer) {
        w.value(&self.first);
        w.value(&self.last);
        w.value(&self.up);
        w.value(&self.acting);
        w.value(&self.primary.unwrap_or(OsdId::NONE));
        w.bool(self.maybe_went_rw);
        w.bool(self.is_gap);
    }
}

impl Decode for Interval {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Interval {
            first: r.value()?,
            last: r.value()?,
            up: r.value()?,
            acting: r.value()?,
            primary: decode_primary(r)?,
            maybe_went_rw: r.bool("maybe went rw")?,
            is_gap: r.bool("is a gap")?,
        })
    }
}

fn decode_primary(r: &mut Reader<'_>) -> Result<Option<OsdId>> {
    Ok(Some(r.value()?).filter(|osd| *osd != OsdId::NONE))
}

impl Encode for PastIntervals {
    fn encode(&self, w: &mut Writer) {
        w.u8(FORMAT);
        w.value(&self.0);
    }
}

impl Decode for PastIntervals {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let at = *r;
        let format = r.u8("past intervals format")?;
        if format != FORMAT {
            return Err(at.invalid("past intervals format", format.into()));
        }
        r.value().map(PastIntervals)
    }
}

impl Encode for Members {
    fn encode(&self, w: &mut Writer) {
        w.value(&self.up);
        w.value(&self.acting);
        w.value(&self.primary.unwrap_or(OsdId::NONE));
        w.value(&self.up_from);
        w.u32(self.size as u32);
        w.u32(self.min_size as u32);
        w.u8(self.hash_bits);
    }
}

impl Decode for Members {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Members {
            up: r.value()?,
            acting: r.value()?,
            primary: decode_primary(r)?,
            up_from: r.value()?,
            size: r.u32("size")? as usize,
            min_size: r.u32("min size")? as usize,
            hash_bits: r.u8("hash bits")?,
            layout: Layout::Replicated,
        })
    }
}
