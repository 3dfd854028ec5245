//! Groups whose members each keep a part of each object, for tests: two halves, and their parity (XOR).
//!
//! No member has a whole object, and any two of three can restore it. That is what an erasure-coded group
//! demands of the rules; its codes and partial writes are left out: a write replaces its object.

use super::{ReadPlan, WritePlan};
use crate::choice::{Choice, Infos};
use crate::members::Participants;
use crate::scrub::{self, Expected, Finding, ScrubMap};
use crate::{Interval, Member, Members, Osds};
use bytes::Bytes;
use std::collections::BTreeMap;
use store::{Change, Collection, RequestKind, Transaction};
use types::{HObject, OsdId, ShardId};

/// Members whose shards make up an object.
pub(crate) const ENOUGH: usize = 2;
const PARITY: usize = 2;

pub(super) fn can_serve(members: &Members) -> bool {
    members.acting_members().count() >= members.min_size.max(ENOUGH)
}

/// As many members with different shards as it takes.
pub(super) fn choose(holders: impl Iterator<Item = Member>) -> Option<Vec<Member>> {
    let mut chosen: Vec<Member> = Vec::new();
    for holder in holders {
        if chosen.iter().all(|member| member.shard != holder.shard) {
            chosen.push(holder);
        }
        if chosen.len() == ENOUGH {
            return Some(chosen);
        }
    }
    None
}

/// One survivor has all log entries of the interval, but not the data of its writes.
pub(super) fn blocked_by(interval: &Interval, osds: &Osds) -> Vec<OsdId> {
    let acting = interval.acting.iter().copied().filter(|osd| *osd != OsdId::NONE);
    let (up, down): (Vec<OsdId>, Vec<OsdId>) = acting.partition(|osd| osds.is_up(*osd));
    if !interval.maybe_went_rw || up.len() >= ENOUGH {
        return Vec::new();
    }
    down.into_iter().filter(|osd| !osds.is_lost(*osd, interval.first)).collect()
}

/// A write that was acknowledged is in all logs of the last activation, so the oldest of these has it. Later
/// entries may lack shards.
pub(super) fn choose_authority(infos: &Infos<'_>) -> Option<Member> {
    let complete = || infos.iter().filter(|(_, info)| info.is_complete());
    let started = complete().map(|(_, info)| info.last_epoch_started).max()?;
    let took_part = complete().filter(|(_, info)| info.last_epoch_started == started);
    took_part.min_by_key(|(member, info)| (info.last_update, **member)).map(|(member, _)| *member)
}

/// Members keep their positions; a member that cannot act leaves a hole.
pub(super) fn choose_acting(best: Member, infos: &Infos<'_>, members: &Members) -> Choice {
    let tail = infos[&best].log_tail;
    let can_act = |member: &Member| {
        infos.get(member).is_some_and(|info| info.is_complete() && info.last_update >= tail)
    };
    let mut choice = Choice { acting: members.up.clone(), backfill: Vec::new() };
    for member in members.up_members().filter(|member| !can_act(member)) {
        choice.acting[member.shard.position().expect("it has one")] = OsdId::NONE;
        choice.backfill.push(member);
    }
    choice
}

/// The shard of an object with this content: a half, behind it zeros up to the longer one; or the parity.
pub(crate) fn shard_of(content: &[u8], shard: ShardId) -> Bytes {
    let length = content.len().div_ceil(ENOUGH);
    let half = |at: usize| {
        let mut half = content[(at * length).min(content.len())..].to_vec();
        half.resize(length, 0);
        half
    };
    match shard.position().expect("a member of a striped group has a shard") {
        PARITY => half(0).iter().zip(half(1)).map(|(one, other)| one ^ other).collect(),
        position => half(position).into(),
    }
}

/// The content of an object of this size, from two of its shards.
pub(crate) fn assemble(size: usize, parts: &BTreeMap<ShardId, Bytes>) -> Bytes {
    let part = |at: usize| parts.get(&ShardId::at(at).expect("there are three"));
    let xor = |one: &Bytes, other: &Bytes| one.iter().zip(other).map(|(a, b)| a ^ b).collect();
    let (first, second): (Bytes, Bytes) = match (part(0), part(1), part(PARITY)) {
        (Some(first), Some(second), _) => (first.clone(), second.clone()),
        (Some(first), None, Some(parity)) => (first.clone(), xor(first, parity)),
        (None, Some(second), Some(parity)) => (xor(second, parity), second.clone()),
        _ => panic!("{} shards are not enough", parts.len()),
    };
    let mut content = [first, second].concat();
    content.truncate(size);
    content.into()
}

/// Each member gets its part of the data; all else is the same for all.
pub(super) fn plan_write(
    collection: Collection,
    changes: &[Change],
    participants: &Participants,
) -> WritePlan {
    let part = |change: &Change, shard| match change {
        Change::Write { object, offset: 0, data } => {
            Change::Write { object: object.clone(), offset: 0, data: shard_of(data, shard) }
        }
        Change::Write { .. } => panic!("a write replaces its object"),
        other => other.clone(),
    };
    let of_member = |member: &Member| {
        let mut transaction = Transaction::new();
        let parts = changes.iter().map(|change| part(change, member.shard));
        parts.for_each(|part| transaction.push(collection, part));
        transaction
    };
    WritePlan::PerShard(participants.iter().map(of_member).collect())
}

/// Attributes and omaps are the same on all members; data is read from two.
pub(super) fn plan_read(
    own: Member,
    read: RequestKind,
    holders: impl Iterator<Item = Member>,
) -> ReadPlan {
    let mut holders: Vec<Member> = holders.collect();
    // Halves need no computation, and our own shard no message.
    holders.sort_by_key(|holder| (holder.shard.position() == Some(PARITY), *holder != own));
    match (read, choose(holders.into_iter())) {
        (RequestKind::Read { collection, object, offset: 0, length }, Some(holders)) => {
            let length = length.div_ceil(ENOUGH as u64);
            let object = || object.clone();
            let kind = || RequestKind::Read { collection, object: object(), offset: 0, length };
            ReadPlan::Gather(holders.into_iter().map(|holder| (holder, kind())).collect())
        }
        (RequestKind::Read { .. }, _) => ReadPlan::Lost,
        (other, _) => ReadPlan::Local(other),
    }
}

/// Shards differ, so each member's map is checked for itself.
pub(super) fn compare(
    maps: &BTreeMap<Member, ScrubMap>,
    expected: impl Fn(&HObject) -> Expected,
) -> Vec<Finding> {
    let alone = |(member, map): (&Member, &ScrubMap)| {
        scrub::compare(&BTreeMap::from([(*member, map.clone())]), *member, &expected)
    };
    maps.iter().flat_map(alone).collect()
}
