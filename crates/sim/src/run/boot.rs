//! Boot of a cluster, and objects that do not change afterwards.

use super::admin::{BOOT_LIMIT, command};
use super::clean::unanswered;
use super::scaling;
use crate::commands::{create_pool_command, set_option_command, set_pool_command};
use crate::erasure;
use crate::events::run_until;
use crate::load;
use crate::names::{POOL, QUOTA_OBJECTS, QUOTA_POOL};
use crate::scenario::ClusterShape;
use crate::world::World;
use maps::PoolFlags;

/// Groups of the pool that has a quota.
const QUOTA_GROUPS: u32 = 16;

pub(crate) fn boot(world: &mut World) -> Result<(), String> {
    // Metadata servers get their keys first.
    let later = [&world.cast.spares[..], &world.cast.servers].concat();
    let nodes = (0..world.nodes.count()).filter(|node| !later.contains(node));
    nodes.for_each(|node| world.start(node));
    let osds = world.scenario.cluster.osds;
    if !run_until(world, BOOT_LIMIT, |world| {
        world.newest_map().is_some_and(|map| map.up_count() == osds)
    }) {
        return Err("not all OSDs come up".to_owned());
    }
    if let Some(maps) = world.scenario.trials.maps_kept {
        command(world, &set_option_command("mon", "mon_min_osdmap_epochs", maps))?;
    }
    if let Some(shape) = world.scenario.cluster.erasure {
        let domain = world.scenario.failure_domain();
        let ClusterShape { size, min_size, pg_num, .. } = world.scenario.cluster;
        let commands = erasure::commands(&shape, (size, min_size), pg_num, domain);
        return commands.iter().try_for_each(|asked| command(world, asked));
    }
    let (pg_num, size, min_size) = (
        world.scenario.cluster.pg_num,
        world.scenario.cluster.size,
        world.scenario.cluster.min_size,
    );
    command(world, &create_pool_command(POOL, pg_num, size))?;
    command(world, &set_pool_command(POOL, "min_size", &min_size.to_string()))
}

/// Writes the objects that do not change afterwards.
pub(crate) fn prepare(world: &mut World) -> Result<(), String> {
    let (size, has_quota) = (world.scenario.cluster.size, world.scenario.trials.has_quota);
    if has_quota {
        command(world, &create_pool_command(QUOTA_POOL, QUOTA_GROUPS, size))?;
    }
    let client = world.cast.clients[0];
    for (object, action) in world.records.workload.preparation() {
        let ask = |world: &mut World| {
            world.in_flight() == 0 && load::request(world, client, object, action.clone())
        };
        if !run_until(world, BOOT_LIMIT, ask) {
            return Err(format!("object {object} cannot be made\n{}", world.groups()));
        }
    }
    if !run_until(world, BOOT_LIMIT, |world| world.in_flight() == 0) {
        return Err(unanswered(world));
    }
    if has_quota {
        await_quota(world)?;
    }
    if world.scenario.trials.scales { scaling::prepare(world) } else { Ok(()) }
}

/// Waits until a pool exceeds its quota.
fn await_quota(world: &mut World) -> Result<(), String> {
    let (pool, most) = (QUOTA_POOL, QUOTA_OBJECTS - 1);
    let set = format!(
        r#"{{"prefix":"osd pool set-quota","pool":"{pool}","field":"max_objects","val":"{most}"}}"#
    );
    command(world, &set)?;
    let is_over = |world: &mut World| {
        let Some(map) = world.newest_map() else { return false };
        let of_name = map.pool_id(pool).and_then(|id| Some((id, map.pool(id)?)));
        let over = of_name.filter(|(_, pool)| pool.flags.contains(PoolFlags::FULL_QUOTA));
        let Some((pool, since)) = over.map(|(id, _)| (id, map.epoch)) else { return false };
        world.checks.expect_over_quota(pool, since);
        true
    };
    match run_until(world, BOOT_LIMIT, is_over) {
        true => Ok(()),
        false => Err("a pool over its quota takes more".to_owned()),
    }
}
