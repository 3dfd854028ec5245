//! The choice of the authoritative log and of the acting set (`find_best_info`, `choose_acting`).
//!
//! Pure functions of the infos that the OSDs reported.

use crate::Member;
use crate::{Members, PgInfo};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use types::{EVersion, OsdId};

/// The reported infos by OSD.
pub type Infos<'a> = BTreeMap<Member, &'a PgInfo>;

/// The OSD with the authoritative log. Among the copies that took part in the last known activation, it has
/// the newest entry, then the longest log. `None` if no complete copy took part in that activation.
///
/// A group becomes active only after all acting members have stored `last_epoch_started`, and a write is
/// acknowledged only after all have stored it. So each copy of that activation has all writes that were
/// acknowledged before it; the newest entries of any of them may have been acknowledged, and are kept.
pub fn find_best_info(infos: &Infos<'_>, whoami: Member) -> Option<Member> {
    let whole = || infos.iter().filter(|(_, info)| info.is_complete());
    let known = infos.values().map(|info| info.history.last_epoch_started);
    let started = whole().map(|(_, info)| info.last_epoch_started);
    let newest = known.chain(started).max()?;
    let took_part = whole().filter(|(_, info)| info.last_epoch_started >= newest);
    let best = took_part.max_by_key(|(osd, info)| {
        (info.last_update, Reverse(info.log_tail), **osd == whoami, Reverse(**osd))
    });
    best.map(|(osd, _)| *osd)
}

/// The wanted acting set, the primary first, and the other members, which need backfill.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Choice {
    /// As the map has them.
    pub acting: Vec<OsdId>,
    /// Members outside of the acting set that are backfilled meanwhile.
    pub backfill: Vec<Member>,
}

/// Whether both have the same OSDs.
pub(crate) fn is_same_set(one: &[OsdId], other: &[OsdId]) -> bool {
    let set = |osds: &[OsdId]| osds.iter().copied().collect::<BTreeSet<_>>();
    set(one) == set(other)
}

/// A copy can act if it is complete and the authoritative log overlaps its own.
fn can_act(info: &PgInfo, tail: EVersion) -> bool {
    info.is_complete() && info.last_update >= tail
}

/// The members of the up set that can act. If they are fewer than `size`, present acting members and then
/// other copies are added until the others are backfilled.
pub fn choose_acting(best: Member, infos: &Infos<'_>, members: &Members) -> Choice {
    let tail = infos[&best].log_tail;
    let usable = |member: &Member| infos.get(member).is_some_and(|info| can_act(info, tail));
    let up_primary = members.up.first().copied();
    let mut preferred = up_primary.into_iter().chain(members.primary).map(Member::replicated);
    let first = preferred.find(usable).unwrap_or(best);
    let mut choice = Choice { acting: vec![first.osd], backfill: Vec::new() };
    for member in members.up_members().filter(|member| *member != first) {
        match usable(&member) {
            true => choice.acting.push(member.osd),
            false => choice.backfill.push(member),
        }
    }
    let mut helpers: Vec<Member> = infos.keys().copied().filter(usable).collect();
    helpers.retain(|helper| !choice.acting.contains(&helper.osd));
    helpers.sort_by_key(|helper| {
        let acts = members.is_acting(*helper);
        (Reverse(acts), Reverse(infos[helper].last_update), *helper)
    });
    let room = members.size.max(1).saturating_sub(choice.acting.len());
    choice.acting.extend(helpers.into_iter().take(room).map(|helper| helper.osd));
    assert_eq!(choice.acting[0], first.osd, "the primary comes first");
    choice
}

#[cfg(test)]
mod tests {
    //! Copies are written as `osd: last_epoch_started last_update log_tail`, with `partial` for an
    //! incomplete one and `knew E` for the last activation that it heard of.

    use super::*;
    use types::{Epoch, HObject};

    fn infos(text: &str) -> BTreeMap<Member, PgInfo> {
        let one = |line: &str| {
            let (osd, rest) = line.split_once(':').unwrap();
            let words: Vec<&str> = rest.split_whitespace().collect();
            let version = |text: &str| {
                let (epoch, number) = text.split_once('\'').unwrap();
                EVersion::new(epoch.parse().unwrap(), number.parse().unwrap())
            };
            let mut info = PgInfo {
                last_epoch_started: Epoch(words[0].parse().unwrap()),
                last_update: version(words[1]),
                log_tail: version(words[2]),
                ..PgInfo::default()
            };
            match words.get(3..) {
                Some(["partial"]) => info.last_backfill = HObject::default(),
                Some(["knew", epoch]) => {
                    info.history.last_epoch_started = Epoch(epoch.parse().unwrap());
                }
                _ => {}
            }
            (Member::replicated(OsdId(osd.trim().parse().unwrap())), info)
        };
        text.split(',').map(one).collect()
    }

    fn member(osd: i32) -> Member {
        Member::replicated(OsdId(osd))
    }

    fn refs(infos: &BTreeMap<Member, PgInfo>) -> Infos<'_> {
        infos.iter().map(|(osd, info)| (*osd, info)).collect()
    }

    #[test]
    fn the_authoritative_log() {
        for (copies, best) in [
            // The last activation counts more than a longer log from before it.
            ("0: 5 5'9 0'0, 1: 7 7'3 0'0", Some(1)),
            ("0: 7 7'3 0'0, 1: 7 7'4 0'0", Some(1)),
            ("0: 7 7'4 5'2, 1: 7 7'4 0'0", Some(1)),
            // At a tie, our own.
            ("0: 7 7'4 0'0, 1: 7 7'4 0'0", Some(0)),
            // An incomplete copy cannot have it…
            ("0: 7 7'4 0'0 partial, 1: 5 5'9 0'0", Some(1)),
            ("0: 7 7'4 0'0 partial", None),
            // …and a copy may know of a later activation than its own.
            ("0: 5 5'9 0'0, 1: 5 5'9 0'0 knew 7", None),
        ] {
            let infos = infos(copies);
            assert_eq!(find_best_info(&refs(&infos), member(0)), best.map(member), "{copies}");
        }
    }

    #[test]
    fn who_acts() {
        let ids = |ids: &[i32]| ids.iter().copied().map(OsdId).collect::<Vec<_>>();
        for (copies, up, acting, wanted, backfill) in [
            // All overlap, though some are behind.
            ("0: 7 7'9 7'1, 1: 7 7'3 0'0", &[0, 1], &[0, 1], &[0, 1][..], &[][..]),
            // One is too far behind for the log.
            ("0: 7 7'9 7'5, 1: 7 7'3 0'0", &[0, 1], &[0, 1], &[0], &[1]),
            // The first of the up set is empty: complete copies serve until it is backfilled.
            ("1: 7 7'9 0'0, 2: 7 7'9 0'0", &[0, 1], &[0, 1], &[1, 2], &[0]),
            ("0: 7 7'9 0'0 partial, 2: 7 7'9 0'0", &[0, 1], &[2, 3], &[2], &[0, 1]),
        ] {
            let infos = infos(copies);
            let infos = refs(&infos);
            let (up, acting) = (ids(up), ids(acting));
            let members = Members { up, acting, size: 2, ..Members::default() };
            let best = find_best_info(&infos, member(0)).unwrap();
            let choice = choose_acting(best, &infos, &members);
            let expected = Choice {
                acting: ids(wanted),
                backfill: backfill.iter().copied().map(member).collect(),
            };
            assert_eq!(choice, expected, "{copies}");
        }
    }
}
