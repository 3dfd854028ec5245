//! Splits and merges of groups, when the `pg_num` of their pool grows or shrinks.
//!
//! Crate `pg` splits one copy and merges two. This module decides which groups are concerned, and
//! makes the rest of the OSD wait where it must. Maps are ignored until the last copy is split
//! or merged, and then requested again: so the stored state of a group is never more than one map
//! behind, and a group is never split during its split.

use crate::groups::Groups;
use crate::groups::jobs::Ended;
use crate::leases::Leases;
use engine::Time;
use maps::{OsdMap, stable_bits, stable_mod};
use pg::{MapChange, MergedVersions};
use std::collections::BTreeSet;
use types::{PgId, PgShard};

/// Whether no group is being split or merged.
pub(crate) fn is_idle(groups: &Groups) -> bool {
    groups.jobs.is_empty()
}

/// Whether maps must be ignored; if so, they are requested again later.
pub(crate) fn hold_maps(groups: &mut Groups) -> bool {
    groups.jobs.hold_maps()
}

/// Whether maps were ignored, which must be requested again.
pub(crate) fn take_missed_maps(groups: &mut Groups) -> bool {
    groups.jobs.take_missed_maps()
}

/// Whether this OSD already has the group of a part: then its copy is newer.
pub(crate) fn has_part(groups: &Groups, part: PgShard) -> bool {
    groups.get(part).is_some_and(|group| !group.pg.is_absent())
}

/// Adds the group for a part of another one, in place of an absent one.
pub(crate) fn add_part(groups: &mut Groups, pg: PgShard, part: PgShard) {
    assert!(groups.get(part).is_none(), "{part}: an absent group is forgotten first");
    let whole = groups.get(pg).expect("the whole group was just placed");
    let copy = whole.pg.new_part(part.pg);
    groups.add(copy);
}

/// Notes that a group is to be split into itself and these parts, if it is being split at all.
pub(crate) fn begin_split(groups: &mut Groups, pg: PgShard, parts: BTreeSet<PgShard>) {
    if groups.get(pg).is_some_and(|group| group.pg.is_splitting_or_merging()) {
        groups.jobs.add_split(pg, parts);
    }
}

/// Quiesces the groups that are merged into another one, and that group.
pub(crate) fn begin_merge(groups: &mut Groups, pg: PgShard, map: &OsdMap, change: &MapChange) {
    let Some(pool) = map.pool(pg.pg.pool) else { return };
    let is_source = |id: PgShard| {
        let is_same = id.pg.pool == pg.pg.pool && id.shard == pg.shard;
        let is_gone = is_same && id.pg.seed >= pool.pg_num;
        is_gone && stable_mod(id.pg.seed, pool.pg_num) == pg.pg.seed
    };
    let mut sources = BTreeSet::new();
    for (id, group) in groups.iter_mut().filter(|(id, _)| is_source(*id)) {
        if !group.pg.is_absent() {
            group.pg.begin_merging();
            sources.insert(id);
        }
    }
    let is_merging =
        |id: PgShard| groups.get(id).is_some_and(|group| group.pg.is_splitting_or_merging());
    if !is_merging(pg) {
        return; // absent, or out of service
    }
    sources.retain(|id| is_merging(*id));
    let meta = &pool.last_pg_merge_meta;
    let is_this = pool.last_change == map.epoch && meta.source.seed == pool.pg_num;
    let versions =
        (is_this && !change.is_gap && sources.contains(&PgShard { pg: meta.source, ..pg }))
            .then_some(MergedVersions { source: meta.source_version, target: meta.target_version });
    groups.jobs.add_merge(pg, sources, versions);
}

/// Whether a group that the map no longer has will be merged into one of this OSD.
pub(crate) fn is_merged_here(groups: &Groups, map: &OsdMap, pg: PgShard) -> bool {
    let Some(pool) = map.pool(pg.pg.pool) else { return false };
    let seed = stable_mod(pg.pg.seed, pool.pg_num);
    let target = PgShard { pg: PgId { seed, ..pg.pg }, ..pg };
    let bits = stable_bits(seed, pool.pg_num);
    let copy = |pg: PgShard| {
        let copy = groups.get(pg).map(|group| &group.pg);
        copy.filter(|copy| !copy.is_absent())
    };
    copy(pg).is_some() && copy(target).is_some_and(|copy| copy.members().hash_bits > bits)
}

/// A group is quiescent: the store has confirmed all its requests. Starts its split or merge if
/// no other group is waited for. Returns the group that may have outputs.
pub(crate) fn note_quiet(groups: &mut Groups, pg: PgShard) -> Option<PgShard> {
    let id = groups.jobs.of(pg)?;
    groups.jobs.note_quiet(id, pg);
    begin_job(groups, id);
    Some(id)
}

/// Merges without a source that cannot be read.
fn leave_out(groups: &mut Groups, id: PgShard, pg: PgShard) {
    groups.jobs.leave_out(id, pg);
    begin_job(groups, id);
}

fn begin_job(groups: &mut Groups, id: PgShard) {
    let copies = groups.by_id.iter_mut().map(|(pg, group)| (*pg, &mut group.pg));
    groups.jobs.begin(id, copies);
}

/// The consequences of the end of a split or merge.
#[derive(Debug, Default)]
pub(crate) struct Consequences {
    /// Groups that may have outputs.
    pub changed: Vec<PgShard>,
    /// Groups that are merged into another, and must be forgotten.
    pub forgotten: Vec<PgShard>,
    /// None is left, so that the map can be stored.
    pub is_last: bool,
}

/// The store has split or merged a group, or has failed to.
pub(crate) fn ended(
    groups: &mut Groups,
    leases: &Leases,
    now: Time,
    pg: PgShard,
    is_done: bool,
) -> Consequences {
    let mut then = Consequences::default();
    let Some(id) = groups.jobs.of(pg) else { return then };
    if id != pg {
        leave_out(groups, id, pg);
        then.changed.push(id);
        return then;
    }
    match groups.jobs.end(pg) {
        Some(Ended::Sources(sources)) if is_done => then.forgotten.extend(sources),
        Some(Ended::Parts(others) | Ended::Sources(others)) => {
            for other in others {
                finish(groups, leases, now, other, is_done);
                then.changed.push(other);
            }
        }
        None => {}
    }
    if is_done {
        finish(groups, leases, now, pg, true);
    }
    then.is_last = groups.jobs.is_empty();
    then
}

/// Starts service of a group after a split or merge; or leaves it out of service, if that failed.
fn finish(groups: &mut Groups, leases: &Leases, now: Time, pg: PgShard, is_done: bool) {
    let Some(group) = groups.get_mut(pg) else { return };
    group.tell_time(leases, now);
    match is_done {
        true => group.pg.finish_split_merge(),
        false => group.pg.fail_split_merge(),
    }
}
