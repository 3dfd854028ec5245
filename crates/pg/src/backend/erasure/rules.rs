//! The rules of peering for groups with shards. A member's position is its shard.
//!
//! `docs/internals/erasure-coding.md` has the argument why nothing is lost.

use crate::choice::{Choice, Infos};
use crate::{ErasureLayout, Interval, Member, Members, Osds, PgInfo};
use types::{EVersion, Epoch, OsdId};

/// A member's part, as far as it is known, in the activation of a past interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TookPart {
    /// Its copy is here, and may have taken part.
    MayHave,
    /// It has not stored the activation, so nothing was acknowledged in that interval.
    No,
    /// Its copy is not within reach, or lost.
    IsGone,
}

/// Whether the acting members, without holes, are enough to serve requests.
pub(crate) fn can_serve(layout: ErasureLayout, members: &Members) -> bool {
    members.acting_members().count() >= members.min_size.max(layout.enough())
}

/// As many members at different positions as determine an object.
pub(crate) fn choose_holders(
    layout: ErasureLayout,
    holders: impl Iterator<Item = Member>,
) -> Option<Vec<Member>> {
    let mut chosen: Vec<Member> = Vec::with_capacity(layout.enough());
    for holder in holders {
        if chosen.iter().all(|member| member.shard != holder.shard) {
            chosen.push(holder);
        }
        if chosen.len() == layout.enough() {
            return Some(chosen);
        }
    }
    None
}

/// Each survivor has all log entries of its interval, but only its shard of the data.
pub(crate) fn blocked_by(
    layout: ErasureLayout,
    interval: &Interval,
    osds: &Osds,
    took_part: impl Fn(Member) -> TookPart,
) -> Vec<OsdId> {
    let acting: Vec<Member> = crate::Layout::Erasure(layout).members(&interval.acting).collect();
    let parts: Vec<TookPart> = acting.iter().map(|member| took_part(*member)).collect();
    let here = parts.iter().filter(|part| **part == TookPart::MayHave).count();
    if here >= layout.enough() || parts.contains(&TookPart::No) {
        return Vec::new();
    }
    let down = acting.iter().map(|member| member.osd).filter(|osd| !osds.is_up(*osd));
    down.filter(|osd| !osds.is_lost(*osd, interval.first)).collect()
}

/// A copy can act if it is complete and the authoritative log overlaps its own.
fn can_act(info: &PgInfo, tail: EVersion) -> bool {
    info.is_complete() && info.last_update >= tail
}

/// The choice of a member for each position.
struct Seats<'a> {
    infos: &'a Infos<'a>,
    tail: EVersion,
    acting: Vec<OsdId>,
}

impl Seats<'_> {
    fn is_usable(&self, member: Member) -> bool {
        self.infos.get(&member).is_some_and(|info| can_act(info, self.tail))
    }

    fn is_free(&self, position: usize) -> bool {
        self.acting[position] == OsdId::NONE
    }

    fn taken(&self) -> usize {
        self.acting.iter().filter(|osd| **osd != OsdId::NONE).count()
    }

    /// Whether the OSD acts with another shard.
    fn is_engaged(&self, member: Member) -> bool {
        let position = member.shard.position();
        let mut acting = self.acting.iter().enumerate();
        acting.any(|(at, osd)| Some(at) != position && *osd == member.osd)
    }

    /// Whether a member is usable, and took part in an activation: a copy that did not has no data.
    fn has_data(&self, member: Member) -> bool {
        let info = self.infos.get(&member);
        self.is_usable(member) && info.is_some_and(|info| info.last_epoch_started > Epoch(0))
    }

    /// Whether the member acts at its position.
    fn has_seat(&self, member: Member) -> bool {
        let position = member.shard.position().and_then(|at| self.acting.get(at));
        position == Some(&member.osd)
    }

    /// Fills free positions with these members, in order.
    fn fill(&mut self, members: impl Iterator<Item = Member>) {
        for member in members {
            let Some(position) = member.shard.position().filter(|at| *at < self.acting.len())
            else {
                continue;
            };
            if self.is_free(position) && self.is_usable(member) {
                self.acting[position] = member.osd;
            }
        }
    }
}

/// For each position the OSD of the up set, else another one with that shard, else a hole. A copy that took
/// part in no activation yet comes last: it would miss all objects, though others have them. Members of the
/// up set that do not act follow the log, or are backfilled.
pub(crate) fn choose_acting(
    layout: ErasureLayout,
    best: Member,
    infos: &Infos<'_>,
    members: &Members,
) -> Choice {
    let given = members.up.len().max(members.acting.len());
    let acting = vec![OsdId::NONE; given.max(layout.shards())];
    let mut seats = Seats { infos, tail: infos[&best].log_tail, acting };
    let up_with_data: Vec<Member> =
        members.up_members().filter(|member| seats.has_data(*member)).collect();
    seats.fill(up_with_data.into_iter());
    let mut others: Vec<Member> = members.acting_members().collect();
    let mut strays: Vec<Member> = infos.keys().copied().collect();
    strays.retain(|stray| !members.has_member(*stray));
    strays.sort_by_key(|stray| (std::cmp::Reverse(infos[stray].last_update), *stray));
    others.append(&mut strays);
    for member in &others {
        if !seats.is_engaged(*member) && seats.has_data(*member) {
            seats.fill([*member].into_iter());
        }
    }
    seats.fill(members.up_members());
    for member in others {
        if seats.taken() < layout.enough() {
            seats.fill([member].into_iter());
        }
    }
    let backfill = members.up_members().filter(|member| !seats.has_seat(*member)).collect();
    // The rule may find fewer OSDs than there are shards; holes behind them are not asked for.
    let last = seats.acting.iter().rposition(|osd| *osd != OsdId::NONE).map_or(0, |last| last + 1);
    seats.acting.truncate(given.max(last));
    Choice { acting: seats.acting, backfill }
}
