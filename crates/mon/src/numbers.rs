//! Steps of `pg_num` and `pgp_num` towards their targets.
//!
//! A user, or the autoscaler, sets targets. The actual numbers follow in steps, each once the one before it
//! has settled:
//!
//! * `pg_num` grows to at most twice itself; groups split in place, so no data moves.
//! * `pgp_num` follows in steps that misplace no more than `target_max_misplaced_ratio` of the groups, and
//!   shrinks first if `pg_num` is to shrink.
//! * `pg_num` shrinks by one: `pg_num_pending` announces it, and once both of the groups to be merged are in
//!   state `premerge`, the next map merges them.
//!
//! No step is taken that an OSD that is up does not support: OSDs state that in their metadata when they
//! boot.

use crate::autoscale::advice;
use crate::change::Change;
use crate::state::{Overrides, State};
use crate::statistics::Statistics;
use maps::{AutoscaleMode, MergeMeta, OsdMapFlags, Pool};
use types::{OsdId, PgId, PoolId};
use wire::internal::{PgStat, pg_state};

/// Metadata keys of OSDs that can split groups, and merge them.
pub const SPLITS: &str = "splits_groups";
pub const MERGES: &str = "merges_groups";
/// Metadata key of OSDs that can merge groups with clones.
pub const MERGES_CLONES: &str = "merges_clones";
/// Metadata key of OSDs that keep shards of erasure-coded pools.
pub const HOLDS_SHARDS: &str = "holds_shards";

/// Whether every OSD that is up has this key in its metadata.
pub fn all_osds_can(state: &State, what: &str) -> bool {
    osd_that_cannot(state, what).is_none()
}

/// The first OSD that is up and does not have this key in its metadata.
pub fn osd_that_cannot(state: &State, what: &str) -> Option<OsdId> {
    let says =
        |osd| state.osd_metadata.get(&osd).is_some_and(|metadata| metadata.contains_key(what));
    let mut up = state.osdmap.existing_osds().filter(|(_, osd)| osd.is_up()).map(|(osd, _)| osd);
    up.find(|osd| !says(*osd))
}

/// Takes the next step of each pool that has not reached its targets.
pub fn plan_steps(state: &State, running: &Overrides, stats: &Statistics, change: &mut Change) {
    let moving = state.osdmap.pools.iter().filter(|(_, pool)| {
        (pool.pg_num, pool.pgp_num) != (pool.pg_num_target, pool.pgp_num_target)
            || pool.pg_num_pending != pool.pg_num
    });
    for (id, pool) in moving {
        if let Some(next) = step(state, running, stats, *id, pool)
            && let Some(changed) = change.pool(state, *id)
        {
            assert!(next.pg_num > 0 && next.pg_num_pending > 0, "a pool has groups");
            assert!(next.pg_num <= pool.pg_num.saturating_mul(2), "a step doubles at most");
            let last_change = changed.last_change;
            *changed = Pool { last_change, ..next };
            let merging = changed.merging();
            unite(state, change, *id, merging);
        }
    }
}

/// Removes the upmaps of two groups that are going to be merged, if they are on different OSDs.
fn unite(state: &State, change: &mut Change, pool: PoolId, merging: Option<(u32, u32)>) {
    let Some((source, target)) = merging else { return };
    let map = &state.osdmap;
    let pgs = [source, target].map(|seed| PgId { pool, seed });
    let [source, target] = pgs.map(|pg| map.pg_to_osds(pg).up);
    if source == target {
        return;
    }
    let incremental = change.osdmap(state);
    for pg in pgs {
        if map.pg_upmap.contains_key(&pg) {
            incremental.old_pg_upmap.insert(pg);
        }
        if map.pg_upmap_items.contains_key(&pg) {
            incremental.old_pg_upmap_items.insert(pg);
        }
        if map.pg_upmap_primaries.contains_key(&pg) {
            incremental.old_pg_upmap_primaries.insert(pg);
        }
    }
}

/// The pool after its next step, if one may be taken now.
fn step(
    state: &State,
    running: &Overrides,
    stats: &Statistics,
    id: PoolId,
    pool: &Pool,
) -> Option<Pool> {
    let mut next = pool.clone();
    // A snapshot was taken, or an older OSD has joined, since the target was set.
    let may_merge = all_osds_can(state, needed_to_merge(pool));
    if pool.pg_num_target < pool.pg_num && pool.may_have_clones() && !may_merge {
        next.pg_num_target = pool.pg_num;
        next.pg_num_pending = pool.pg_num;
        return Some(next);
    }
    if pool.pg_num_pending < pool.pg_num {
        return merge(state, stats, id, next);
    }
    if pool.pg_num_target > pool.pg_num {
        let may = all_osds_can(state, SPLITS) && has_settled(state, stats, id, pool);
        let pg_num = pool.pg_num_target.min(pool.pg_num.saturating_mul(2));
        next.set_pg_num(pg_num, state.osdmap.epoch.next());
        return may.then_some(next);
    }
    let wanted = pool.pgp_num_target.min(pool.pg_num);
    if wanted != pool.pgp_num {
        let step = placement_step(state, running, stats, pool)?;
        next.pgp_num = match wanted > pool.pgp_num {
            true => wanted.min(pool.pgp_num.saturating_add(step)),
            false => wanted.max(pool.pgp_num.saturating_sub(step)),
        };
        return Some(next);
    }
    if pool.pg_num_target < pool.pg_num && pool.pgp_num < pool.pg_num {
        let may = may_merge && has_settled(state, stats, id, pool);
        next.pg_num_pending = pool.pg_num - 1;
        return may.then_some(next);
    }
    None
}

/// The metadata key that OSDs need for the groups of a pool to be merged.
pub fn needed_to_merge(pool: &Pool) -> &'static str {
    if pool.may_have_clones() { MERGES_CLONES } else { MERGES }
}

/// Whether every group of a pool has been reported clean since the pool changed.
fn has_settled(state: &State, stats: &Statistics, id: PoolId, pool: &Pool) -> bool {
    state.osdmap.pgs(id).all(|pg| {
        let is_clean = stats.pg_state(&state.osdmap, pg) & pg_state::CLEAN != 0;
        is_clean && stats.pg(pg).is_some_and(|stat| stat.reported_epoch >= pool.last_change)
    })
}

/// The largest change of `pgp_num` now; `None` while enough groups are misplaced already.
fn placement_step(
    state: &State,
    running: &Overrides,
    stats: &Statistics,
    pool: &Pool,
) -> Option<u32> {
    let allowed = state.options(running).real("target_max_misplaced_ratio");
    let (mut groups, mut moving) = (0u64, 0u64);
    for (_, bits) in stats.pg_states(&state.osdmap) {
        if bits & pg_state::ACTIVE == 0 || bits & (pg_state::DEGRADED | pg_state::STALE) != 0 {
            return None;
        }
        groups += 1;
        moving += u64::from(bits & pg_state::CLEAN == 0);
    }
    let is_busy = moving > 0 && moving as f64 >= allowed * groups as f64;
    let step = (allowed * f64::from(pool.pg_num)).max(1.0) as u32;
    assert!(step > 0, "a step changes something");
    (!is_busy).then_some(step)
}

/// Merges the last group into its parent, once both are in state `premerge`.
fn merge(state: &State, stats: &Statistics, id: PoolId, mut next: Pool) -> Option<Pool> {
    let (source, target) = next.merging()?;
    assert!(target < source, "group {source} is merged into one before it");
    let (source, target) = (PgId { pool: id, seed: source }, PgId { pool: id, seed: target });
    let is_ill = |pg: PgId| {
        let stat = stats.pg(pg).filter(|stat| stat.reported_epoch >= next.last_change);
        stat.is_some_and(|stat| stat.state & pg_state::CLEAN == 0)
    };
    let map = &state.osdmap;
    let is_apart = map.pg_to_osds(source).up != map.pg_to_osds(target).up;
    // The target was raised again, or the merge would take long and block clients meanwhile, or an upmap has
    // moved one of the groups: the other OSDs would never come.
    if next.pg_num_target > next.pg_num_pending || is_apart || is_ill(source) || is_ill(target) {
        next.pg_num_pending = next.pg_num;
        return Some(next);
    }
    let (from, into) =
        (at_rest(state, stats, &next, source)?, at_rest(state, stats, &next, target)?);
    if from.acting != into.acting {
        return None;
    }
    next.last_pg_merge_meta = MergeMeta {
        source,
        ready_epoch: from.reported_epoch.max(into.reported_epoch),
        last_epoch_started: from.last_epoch_clean.max(into.last_epoch_clean),
        last_epoch_clean: from.last_epoch_clean.min(into.last_epoch_clean),
        source_version: from.version,
        target_version: into.version,
    };
    next.merge_last_group(state.osdmap.epoch.next());
    Some(next)
}

/// The report of a group in state `premerge`, if its members are still the same incarnations. The report may
/// be about the map before this one: if the members had changed in this map, they would differ from the
/// reported ones.
fn at_rest<'a>(state: &State, stats: &'a Statistics, pool: &Pool, pg: PgId) -> Option<&'a PgStat> {
    let map = &state.osdmap;
    let rests = pg_state::PREMERGE | pg_state::CLEAN;
    let is_at_rest = stats.pg_state(map, pg) & (rests | pg_state::STALE) == rests;
    let stat = stats.pg(pg).filter(|_| is_at_rest)?;
    let mapping = map.pg_to_osds(pg);
    let is_same_life =
        |osd: &OsdId| map.osd(*osd).is_some_and(|osd| osd.info.up_from <= stat.reported_epoch);
    let is_whole = stat.acting.len() == usize::from(pool.size)
        && stat.acting == mapping.acting
        && stat.acting == mapping.up
        && stat.acting.iter().all(is_same_life);
    let is_new = stat.reported_epoch.next() >= map.epoch;
    (is_whole && is_new && stat.reported_epoch >= pool.last_change).then_some(stat)
}

/// Sets the targets of pools in autoscale mode `on`.
pub fn plan_targets(state: &State, running: &Overrides, stats: &Statistics, change: &mut Change) {
    let map = &state.osdmap;
    let is_automatic = |pool: &Pool| pool.pg_autoscale_mode == AutoscaleMode::ON;
    if map.flags.contains(OsdMapFlags::NOAUTOSCALE) || !map.pools.values().any(is_automatic) {
        return;
    }
    for advice in advice(state, running, stats).into_iter().filter(|one| one.would_adjust) {
        let grows = advice.pg_num_final > advice.pg_num_target;
        let Some(pool) = map.pool(advice.pool).filter(|pool| is_automatic(pool)) else {
            continue;
        };
        if all_osds_can(state, if grows { SPLITS } else { needed_to_merge(pool) })
            && let Some(pool) = change.pool(state, advice.pool)
        {
            set_target(pool, advice.pg_num_final);
        }
    }
}

/// Sets the target of `pg_num`; `pgp_num` follows unless it was set separately.
pub fn set_target(pool: &mut Pool, pg_num: u32) {
    assert!(pg_num > 0, "a pool has groups");
    if pool.pgp_num_target == pool.pg_num_target || pool.pgp_num_target > pg_num {
        pool.pgp_num_target = pg_num;
    }
    pool.pg_num_target = pg_num;
}
