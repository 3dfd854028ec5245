//! The authoritative log of a group with shards.
//!
//! An acknowledged entry is in all logs of the last activation, so it is at or below the oldest of their
//! ends. But an activation may have been begun by few members, and others have dropped entries since: an
//! entry with fewer than k logs lacks shards, and was not acknowledged. Infos prove what a log contains in
//! most cases.

use crate::backend::plans::Authority;
use crate::choice::Infos;
use crate::{ErasureLayout, Member, PgInfo, PgLog};
use std::cmp::Reverse;
use types::{EVersion, Epoch, ShardId};

/// The complete copies, of which some took part in the newest activation that may have been completed.
struct Copies<'a> {
    layout: ErasureLayout,
    complete: Vec<(Member, &'a PgInfo)>,
    took_part: Vec<Member>,
    /// The newest version that a copy has settled: it was committed.
    settled: EVersion,
}

impl<'a> Copies<'a> {
    fn of(
        layout: ErasureLayout,
        infos: &Infos<'a>,
        may_be_completed: impl Fn(Epoch) -> bool,
    ) -> Option<Self> {
        let complete: Vec<(Member, &PgInfo)> =
            infos.iter().map(|(member, info)| (*member, *info)).collect();
        let known = complete.iter().map(|(_, info)| info.history.last_epoch_started);
        let started = complete.iter().filter(|(_, info)| info.is_complete());
        let started = started.map(|(_, info)| info.last_epoch_started);
        let started = started.filter(|epoch| may_be_completed(*epoch));
        let newest = known.chain(started).max()?;
        let complete: Vec<_> =
            complete.into_iter().filter(|(_, info)| info.is_complete()).collect();
        let settled = complete.iter().map(|(_, info)| info.settled().max(info.log_tail)).max()?;
        // A copy that ends before what was settled went back in time: its objects are as old as its log.
        let took_part = complete
            .iter()
            .filter(|(_, info)| info.last_epoch_started >= newest && info.last_update >= settled);
        let took_part = took_part.map(|(member, _)| *member).collect();
        Some(Copies { layout, complete, took_part, settled })
    }

    /// Whether the positions of these copies are enough to restore objects.
    fn are_enough(&self, holds: impl Fn(Member, &PgInfo) -> bool) -> bool {
        let holders = self.complete.iter().filter(|(member, info)| holds(*member, info));
        let mut positions: Vec<ShardId> = holders.map(|(member, _)| member.shard).collect();
        positions.sort_unstable();
        positions.dedup();
        positions.len() >= self.layout.enough()
    }

    /// Whether the log of a copy contains a version that is at or below the ends of those that took part. A
    /// log that was trimmed beyond the version has it.
    fn surely_has(&self, member: Member, info: &PgInfo, version: EVersion) -> bool {
        self.took_part.contains(&member) || info.settled().max(info.log_tail) >= version
    }
}

/// The log of a copy that took part in the newest activation, up to the newest entry that all of these and at
/// least k logs have.
pub(crate) fn choose_authority<'a>(
    layout: ErasureLayout,
    infos: &Infos<'_>,
    own: Member,
    may_be_completed: impl Fn(Epoch) -> bool,
    log_of: impl Fn(Member) -> Option<&'a PgLog>,
) -> Option<Authority> {
    let copies = Copies::of(layout, infos, may_be_completed)?;
    let by_length =
        |member: &&Member| (Reverse(infos[*member].log_tail), **member == own, Reverse(**member));
    let member = *copies.took_part.iter().max_by_key(by_length)?;
    let ends = copies.took_part.iter().map(|member| infos[member].last_update);
    let oldest = ends.min()?;
    if copies.are_enough(|member, info| copies.surely_has(member, info, oldest)) {
        return Some(Authority::Log { member, head: oldest });
    }
    let others = copies.complete.iter().map(|(member, _)| *member);
    let others = others.filter(|other| !copies.took_part.contains(other)).chain([member]);
    let unknown: Vec<Member> = others.filter(|other| log_of(*other).is_none()).collect();
    if !unknown.is_empty() {
        return Some(Authority::LogsOf(unknown));
    }
    let has = |member: Member, info: &PgInfo, version: EVersion| {
        let log = || log_of(member).is_some_and(|log| log.contains(version));
        copies.surely_has(member, info, version) || log()
    };
    let log = log_of(member)?;
    let above = log.above(copies.settled).map(|entry| entry.version);
    let mut candidates = above.take_while(|version| *version <= oldest).collect::<Vec<_>>();
    candidates.reverse();
    let mut candidates = candidates.into_iter();
    let counted =
        candidates.find(|version| copies.are_enough(|member, info| has(member, info, *version)));
    Some(Authority::Log { member, head: counted.unwrap_or(copies.settled) })
}
