//! Waits until requests are answered and groups are clean, and reasons for which that may not happen.

use super::admin::QUIET;
use crate::check::quiet;
use crate::events::{run_for, run_until};
use crate::model::Action;
use crate::process::{Contents, OsdProcess};
use crate::trace::Brief;
use crate::world::{START, World};
use engine::{Duration, Time};
use maps::PoolFlags;
use pg::{Pg, State};
use std::collections::BTreeSet;
use types::PgId;

/// Time for a healed cluster to answer every request.
pub(crate) const LIVENESS_LIMIT: Duration = Duration::from_secs(400);
/// Time for a run whose recovery makes progress.
const PATIENCE: Duration = Duration::from_secs(20_000);
/// Interval of checks that examine all groups.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Longer than the interval at which work that found no space is retried.
const ROOM_TRIED_WITHIN: Duration = Duration::from_secs(20);
/// Time for the slowest disk to finish.
const DISKS_LIMIT: Duration = Duration::from_secs(120);
/// Longer than the longest time for which an idle group holds committed changes.
const SETTLED_LIMIT: Duration = Duration::from_secs(300);

pub(crate) fn become_clean(world: &mut World) -> Result<(), String> {
    if !run_until(world, LIVENESS_LIMIT, |world| world.in_flight() == 0) {
        return Err(unanswered(world));
    }
    // Large objects in small pieces take long: as long as there is progress, it is waited for.
    let mut groups = String::new();
    loop {
        if run_until(world, LIVENESS_LIMIT, now_and_then(World::is_clean)) {
            return Ok(());
        }
        let before = std::mem::replace(&mut groups, world.groups());
        if groups == before || world.now() > START + PATIENCE {
            return Err(format!("groups are never clean:\n{groups}"));
        }
    }
}

/// Evaluates a condition over all groups at intervals, not after each event.
pub(crate) fn now_and_then(is_done: impl Fn(&World) -> bool) -> impl FnMut(&mut World) -> bool {
    let mut next = Time::ZERO;
    move |world| {
        let now = world.now();
        if now < next {
            return false;
        }
        next = now + LOOK_INTERVAL;
        is_done(world)
    }
}

pub(crate) fn unanswered(world: &World) -> String {
    let entries = world.records.history.entries().iter().enumerate();
    let waiting = entries.filter(|(_, entry)| entry.completed.is_none());
    let waiting: Vec<String> =
        waiting.take(5).map(|(index, entry)| format!("{index}: {}", Brief(entry))).collect();
    let others = world.waiting_for().join(", ");
    let (count, waiting) = (world.in_flight(), waiting.join("\n"));
    let groups = world.groups();
    format!("{count} requests are never answered, among them:\n{waiting}\n{others}\n{groups}")
}

/// Groups that may be blocked for lack of space: those whose copies do not fit their devices during
/// recovery, those without space to be split, and those whose only member refused a write and accepted a
/// later one.
fn without_room(world: &World) -> impl Iterator<Item = PgId> {
    let groups = world.osds().flat_map(|osd| osd.groups());
    let stalled = |pg: &&Pg| {
        matches!(pg.state(), State::Stalled | State::Refused | State::Incomplete)
            || pg.is_recovery_toofull()
            || pg.is_split_merge_toofull()
    };
    groups.filter(stalled).map(Pg::id)
}

/// True if each group that is not clean lacks space now or at a later look: a retry in progress lacks it a
/// moment later.
pub(crate) fn is_stuck_for_room(world: &mut World) -> bool {
    let mut found = BTreeSet::new();
    world.scenario.disks.is_tight
        && run_until(world, ROOM_TRIED_WITHIN, |world| {
            found.extend(without_room(world));
            !found.is_empty() && world.unclean().iter().all(|pg| found.contains(pg))
        })
}

/// True if each group that is not clean misses objects, and the OSD with rotten data has damaged copies of
/// objects of it. Requests that change no data are executed on a damaged object, too; those that change
/// data are refused there, and may be written to the other copies only. If those copies die before all have
/// the write, no copy has the version that the group continues with, and no OSD knows that the write was
/// not acknowledged.
pub(crate) fn is_stuck_for_rot(world: &World) -> Result<bool, String> {
    let Some(found) = rotten_contents(world)? else { return Ok(false) };
    let is_damaged = |pg: PgId| {
        let copies = found.store.collections().filter(|copy| copy.0.pg == pg);
        let mut objects = copies.flat_map(|copy| found.store.objects(copy));
        objects.any(|(object, _)| found.damaged.contains(object))
    };
    let misses = |pg| {
        let mut groups = world.osds().flat_map(|osd| osd.groups());
        groups.any(|group| group.id() == pg && group.is_primary() && group.objects_missing() > 0)
    };
    let unclean = world.unclean();
    Ok(!unclean.is_empty() && unclean.into_iter().all(|pg| misses(pg) && is_damaged(pg)))
}

/// Content of the OSD whose data rots.
pub(crate) fn rotten_contents(world: &World) -> Result<Option<Contents>, String> {
    let Some(node) = world.cast.rotting else { return Ok(None) };
    let of_node = |osd: &&OsdProcess| Some(osd.id()) == world.scenario.disks.rotting;
    let osd = world.osds().find(of_node).expect("the cast knows it");
    osd.disk().durable(world.clock(node)).map(Some)
}

/// True if waiting writes filled the space again before other clients learned of it, and only these writes
/// remain: they wait as long as the pool is full.
pub(crate) fn is_filled_again(world: &World) -> bool {
    let is_held = |action: &Action| action.is_write() && !action.is_let_through();
    world.scenario.disks.is_tight
        && is_full(world)
        && world.is_clean()
        && world.in_flight() > 0
        && world.waiting_for().is_empty()
        && world.unanswered().all(|entry| is_held(&entry.action))
}

/// True if clients hold writes back.
pub(crate) fn is_full(world: &World) -> bool {
    world
        .newest_map()
        .is_some_and(|map| map.pools.values().any(|pool| pool.flags.contains(PoolFlags::FULL)))
}

/// Waits until all copies have the acknowledged data, and disks have no background work.
pub(crate) fn fall_silent(world: &mut World) {
    run_for(world, QUIET);
    run_until(world, DISKS_LIMIT, |world| quiet::check(world).is_ok());
    become_settled(world);
}

/// Waits until no copy holds changes, and disks have no background work.
pub(crate) fn become_settled(world: &mut World) {
    if world.scenario.cluster.erasure.is_some() {
        run_until(world, SETTLED_LIMIT, now_and_then(are_settled));
        run_until(world, DISKS_LIMIT, |world| quiet::check(world).is_ok());
    }
}

/// True if no running OSD holds changes.
fn are_settled(world: &World) -> bool {
    let mut groups = world.osds().flat_map(OsdProcess::groups);
    groups.all(|pg| pg.info().shard.is_none_or(|shard| shard.settled >= pg.info().last_update))
}
