//! The authoritative log of a group with shards.
//!
//! An acknowledged entry is in all logs of the last activation, so it is at or below the oldest of their
//! ends. But an activation may have been begun by few members, and others have dropped entries since: an
//! entry with fewer than k logs lacks shards, and was not acknowledged. Nor was one of which fewer than k
//! shards are here, if it is proven that it was not committed with those that lack it. Infos prove what a log
//! contains in most cases.

use crate::backend::plans::{Authority, Claim, Evidence};
use crate::choice::Infos;
use crate::{EntryKind, ErasureLayout, Item, LogEntry, Member, PgInfo, PgLog};
use std::cmp::Reverse;
use types::{EVersion, Epoch, ShardId};

/// The complete copies, of which some took part in the newest activation that may have been completed.
struct Copies<'a, E> {
    layout: ErasureLayout,
    complete: Vec<(Member, &'a PgInfo)>,
    took_part: Vec<Member>,
    /// The newest version that a copy of that activation has settled: it was committed.
    settled: EVersion,
    evidence: &'a E,
}

impl<'a, E: Evidence> Copies<'a, E> {
    fn of(layout: ErasureLayout, infos: &Infos<'a>, evidence: &'a E) -> Option<Self> {
        let complete: Vec<(Member, &PgInfo)> =
            infos.iter().map(|(member, info)| (*member, *info)).collect();
        let known = complete.iter().map(|(_, info)| info.history.last_epoch_started);
        let started = complete.iter().filter(|(_, info)| info.is_complete());
        let started = started.map(|(_, info)| info.last_epoch_started);
        let started = started.filter(|epoch| evidence.may_be_completed(*epoch));
        let newest = known.chain(started).max()?;
        let complete: Vec<_> =
            complete.into_iter().filter(|(_, info)| info.is_complete()).collect();
        // An older copy may be of an OSD that was declared lost: the others need not have what it has
        // settled.
        let newer = complete.iter().filter(|(_, info)| info.last_epoch_started >= newest);
        let settled = newer.clone().map(|(_, info)| info.settled().max(info.log_tail)).max()?;
        // A copy that ends before what was settled went back in time: its objects are as old as its log.
        let took_part = newer.filter(|(_, info)| info.last_update >= settled);
        let took_part = took_part.map(|(member, _)| *member).collect();
        Some(Copies { layout, complete, took_part, settled, evidence })
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

    /// Whether enough copies have the entries up to this version, and miss nothing.
    fn surely_keeps(&self, version: EVersion) -> bool {
        self.are_enough(|member, info| {
            self.surely_has(member, info, version) && self.evidence.misses_nothing(member)
        })
    }

    fn has(&self, member: Member, info: &PgInfo, version: EVersion) -> bool {
        let logged = || self.evidence.log_of(member).is_some_and(|(log, _)| log.contains(version));
        self.surely_has(member, info, version) || logged()
    }

    /// The items by which the copy lacks data of a write in its log. An item that a later held change
    /// superseded counts, and one below a later entry, which the copy has followed, does not tell of the
    /// changes in between: those are held.
    fn items_without(&self, member: Member, write: &[&LogEntry]) -> Vec<Item> {
        let Some((_, missing)) = self.evidence.log_of(member) else { return Vec::new() };
        let mut items = Vec::new();
        for entry in write.iter().filter(|entry| entry.kind == EntryKind::Modify) {
            let lacks = |item: &Item| item.need >= entry.version && entry.version > item.have;
            items.extend(missing.items_of(&entry.object).filter(lacks));
        }
        items
    }

    /// Whether the copy lacks data of a write in its log.
    fn lacks_data(&self, member: Member, write: &[&LogEntry]) -> bool {
        !self.items_without(member, write).is_empty()
    }

    /// Whether the copy did not store the write as such, but followed its entries later. A damaged object
    /// that is missing has no version here at all, like a new clone. That a write came later and superseded
    /// the item changes nothing: the entry was followed in an activation before that, which this copy has
    /// stored. So the members of that activation are evidence for the entry, and this copy is one of them.
    fn has_followed(&self, member: Member, info: &PgInfo, write: &[&LogEntry]) -> bool {
        info.last_epoch_started > version_of(write).epoch
            && self.items_without(member, write).iter().any(|item| item.have > EVersion::ZERO)
    }

    /// Whether the write may have been committed, as far as the copies that are here tell: in the interval in
    /// which it was written, all members stored its data; in a later one, they may have followed it. `claims`
    /// are those of its epoch.
    fn may_be_committed(&self, write: &[&LogEntry], claims: Option<&[Claim]>) -> bool {
        let has = |member: Member, info: &PgInfo| self.has(member, info, version_of(write));
        let Some(claims) = claims else {
            return self.are_enough(has);
        };
        claims.iter().any(|claim| {
            self.are_enough(|member, info| {
                let is_evidence = claim.is_followed || !self.has_followed(member, info, write);
                claim.acting.contains(&member) && is_evidence && has(member, info)
            })
        })
    }

    /// Whether the entries of a write and its data are on enough members.
    fn is_kept(&self, write: &[&LogEntry]) -> bool {
        self.are_enough(|member, info| {
            self.has(member, info, version_of(write)) && !self.lacks_data(member, write)
        })
    }

    /// The newest entry of `log` up to `oldest` that may have been committed, or that like all before it has
    /// its data. The entries of one write are judged together: their changes are held and dropped as one.
    fn head_of(&self, log: &PgLog, oldest: EVersion) -> EVersion {
        let (mut head, mut is_sound) = (self.settled, true);
        // All entries of an epoch have the same claims.
        let mut claims: Option<(Epoch, Option<Vec<Claim>>)> = None;
        let entries: Vec<&LogEntry> = log.above(self.settled).collect();
        let writes = entries.chunk_by(|entry, next| entry.goes_on_in(next));
        for write in writes.take_while(|write| version_of(write) <= oldest) {
            let written = version_of(write).epoch;
            if claims.as_ref().is_none_or(|(epoch, _)| *epoch != written) {
                claims = Some((written, self.evidence.claims(written)));
            }
            let of_epoch = claims.as_ref().and_then(|(_, claims)| claims.as_deref());
            let is_certain = self.may_be_committed(write, of_epoch);
            is_sound = is_certain || is_sound && self.is_kept(write);
            if is_sound {
                head = version_of(write);
            }
        }
        head
    }
}

/// The version of a write: that of its last entry.
fn version_of(write: &[&LogEntry]) -> EVersion {
    write.last().expect("a write has an entry").version
}

/// The log of a copy that took part in the newest activation, up to the newest entry that all of these and at
/// least k logs have, with data as far as it is certain that it was not committed without.
pub(crate) fn choose_authority<E: Evidence>(
    layout: ErasureLayout,
    infos: &Infos<'_>,
    own: Member,
    evidence: &E,
) -> Option<Authority> {
    let copies = Copies::of(layout, infos, evidence)?;
    let by_length =
        |member: &&Member| (Reverse(infos[*member].log_tail), **member == own, Reverse(**member));
    let member = *copies.took_part.iter().max_by_key(by_length)?;
    let ends = copies.took_part.iter().map(|member| infos[member].last_update);
    let oldest = ends.min()?;
    if oldest <= copies.settled || copies.surely_keeps(oldest) {
        return Some(Authority::Log { member, head: oldest });
    }
    let whole = |other: &Member| {
        copies.took_part.contains(other) && evidence.misses_nothing(*other) && *other != member
    };
    let others = copies.complete.iter().map(|(other, _)| *other).filter(|other| !whole(other));
    let unknown: Vec<Member> = others.filter(|other| evidence.log_of(*other).is_none()).collect();
    if !unknown.is_empty() {
        return Some(Authority::LogsOf(unknown));
    }
    let (log, _) = evidence.log_of(member)?;
    Some(Authority::Log { member, head: copies.head_of(log, oldest) })
}
