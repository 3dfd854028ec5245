//! Scrubs of all groups by an administrator.

use super::admin::{await_commands, command};
use super::clean::{LIVENESS_LIMIT, now_and_then};
use crate::events::run_until;
use crate::world::World;
use maps::Pool;
use osd::Osd;
use pg::scrub::Stamps;
use std::collections::BTreeMap;
use types::{PgId, UTime};

/// Scrubs of all groups that changes of their numbers may interrupt.
const SCRUB_ROUNDS_MAX: usize = 50;

/// Deep-scrubs all groups. Damage with another copy is repaired, and no error may remain.
pub(crate) fn scrub(world: &mut World) -> Result<(), String> {
    for _ in 0..SCRUB_ROUNDS_MAX {
        let groups = steady_groups(world);
        if scrub_all(world, &groups)? {
            return Ok(());
        }
    }
    Err("numbers of groups change for ever".to_owned())
}

/// `pg_num` and `pgp_num` of each pool, as soon as the autoscaler is changing none.
fn steady_groups(world: &mut World) -> Vec<(u32, u32)> {
    let is_steady =
        |pool: &Pool| pool.pg_num == pool.pg_num_target && pool.pgp_num == pool.pgp_num_target;
    run_until(world, LIVENESS_LIMIT, |world| {
        world.newest_map().is_some_and(|map| map.pools.values().all(is_steady))
    });
    numbers_of_groups(world)
}

fn numbers_of_groups(world: &World) -> Vec<(u32, u32)> {
    let numbers = |pool: &Pool| (pool.pg_num, pool.pgp_num);
    world.newest_map().map(|map| map.pools.values().map(numbers).collect()).unwrap_or_default()
}

/// False if numbers of groups changed before the end: a group that is split off a scrubbed one has no
/// order, and one that moves before it is clean loses its order.
fn scrub_all(world: &mut World, groups: &[(u32, u32)]) -> Result<bool, String> {
    // The response to an earlier command like this must not be mistaken for that to this one.
    await_commands(world)?;
    let before: BTreeMap<PgId, UTime> = primaries(world).map(last_deep).collect();
    command(world, r#"{"prefix":"osd deep-scrub","who":"all"}"#)?;
    let is_other = |world: &World| numbers_of_groups(world) != groups;
    let is_done = |world: &World| world.is_clean() && are_scrubbed(world, &before);
    let done = run_until(
        world,
        LIVENESS_LIMIT,
        now_and_then(|world: &World| is_other(world) || is_done(world)),
    );
    if done && is_other(world) {
        return Ok(false);
    }
    let states: Vec<_> = primaries(world).collect();
    if !done {
        return Err(format!("scrubs never end: {states:?}\n{}", world.groups()));
    }
    let stamps = states.iter().filter_map(|(_, stamps, _)| *stamps);
    let errors: u64 = stamps.map(|stamps| stamps.errors.total()).sum();
    let is_hopeless = world.scenario.disks.rotten.is_some() && world.scenario.cluster.size == 1;
    match errors == 0 || is_hopeless {
        true => Ok(true),
        false => Err(format!("a scrub finds {errors} errors that it does not repair: {states:?}")),
    }
}

/// True if the scrub stamps of all groups have changed. Clocks differ, so stamps cannot be ordered.
fn are_scrubbed(world: &World, before: &BTreeMap<PgId, UTime>) -> bool {
    primaries(world).all(|(pg, stamps, is_busy)| {
        !is_busy && before.get(&pg).is_none_or(|before| last_deep((pg, stamps, false)).1 != *before)
    })
}

fn last_deep((pg, stamps, _): (PgId, Option<Stamps>, bool)) -> (PgId, UTime) {
    (pg, stamps.unwrap_or_default().last_deep)
}

fn primaries(world: &World) -> impl Iterator<Item = (PgId, Option<Stamps>, bool)> {
    world.osds().flat_map(|osd| osd.daemon().into_iter().flat_map(Osd::scrubs))
}
