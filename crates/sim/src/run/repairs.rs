//! Disks that are replaced, OSDs that leave, and data that rots, in a healthy cluster.

use super::admin::{
    COMMAND_ATTEMPTS, QUIET, await_commands, await_down, command, purge_osd, restore,
};
use super::clean::{LIVENESS_LIMIT, become_clean, fall_silent};
use super::looking::look_at_everything;
use super::scrub::scrub;
use crate::check::snapshots;
use crate::commands::{out_command, set_pool_command};
use crate::erasure;
use crate::events::{run_for, run_until};
use crate::fault::Fault;
use crate::inject;
use crate::names::{POOL, POOL_ID};
use crate::world::World;
use types::OsdId;

/// A disk of a healthy cluster dies for good, and its OSD gets an empty one.
pub(crate) fn replace(world: &mut World, osd: OsdId) -> Result<(), String> {
    let node = world.cast.osds[osd.0 as usize];
    restore_min_size(world)?;
    inject::apply(world, Fault::DiskDies(node));
    run_for(world, QUIET);
    for _ in 0..COMMAND_ATTEMPTS {
        inject::apply(world, Fault::Replace(node));
        if world.disks.replacement().is_some() {
            finish_replacement(world)?;
            restore(world)?;
            return become_clean(world).map_err(|why| format!("osd.{osd} was replaced: {why}"));
        }
        run_for(world, QUIET);
    }
    Err(format!("osd.{osd} is not up, and cannot be done without:\n{}", world.groups()))
}

/// Undoes the changes of `min_size`: a group that serves only with all its members cannot do without one.
fn restore_min_size(world: &mut World) -> Result<(), String> {
    let cluster = &world.scenario.cluster;
    let Some(shape) = cluster.erasure else { return Ok(()) };
    let usual = erasure::least(&shape, cluster.min_size);
    let pool = world.newest_map().and_then(|map| map.pool(POOL_ID));
    match pool.is_some_and(|pool| pool.min_size != usual) {
        true => command(world, &set_pool_command(POOL, "min_size", &usual.to_string())),
        false => Ok(()),
    }
}

/// Announces the new disk of an OSD whose old disk is gone.
pub(crate) fn finish_replacement(world: &mut World) -> Result<(), String> {
    let Some(replacement) = world.disks.replacement().cloned() else { return Ok(()) };
    await_commands(world)?;
    await_down(world, replacement.osd)?;
    for next in replacement.commands() {
        command(world, &next)?;
    }
    inject::end_replacement(world);
    Ok(())
}

/// Removes an OSD from the cluster; the others take over its data.
pub(crate) fn leave(world: &mut World, osd: OsdId) -> Result<(), String> {
    command(world, &out_command(osd))?;
    become_clean(world).map_err(|why| format!("osd.{osd} is out: {why}"))?;
    inject::apply(world, Fault::Crash(vec![world.cast.osds[osd.0 as usize]]));
    purge_osd(world, osd)?;
    become_clean(world).map_err(|why| format!("osd.{osd} has left: {why}"))
}

/// Purges an OSD that was stopped while faults happened, if it is not purged yet.
pub(crate) fn finish_removal(world: &mut World) -> Result<(), String> {
    let Some(osd) = world.removed() else { return Ok(()) };
    await_commands(world)?;
    purge_osd(world, osd)
}

/// Waits until all confirmed removals of snapshots are complete.
pub(crate) fn purge(world: &mut World) -> Result<(), String> {
    match run_until(world, LIVENESS_LIMIT, |world| snapshots::are_purged(world)) {
        true => Ok(()),
        false => {
            let queue = world.newest_map().map(|map| map.removed_snaps_queue.clone());
            Err(format!("removed snapshots are never purged: {queue:?}\n{}", world.groups()))
        }
    }
}

/// The device of one OSD loses data that is certainly stored, and everything is read once more.
pub(crate) fn rot(world: &mut World, osd: OsdId) -> Result<(), String> {
    let node = world.cast.osds[osd.0 as usize];
    // The OSD's memory would hide damage.
    inject::apply(world, Fault::Crash(vec![node]));
    inject::apply(world, Fault::Rot(node));
    inject::apply(world, Fault::Start(vec![node]));
    fall_silent(world);
    become_clean(world)?;
    // Half of the seeds read before they scrub.
    let looks_first = world.scenario.seed.is_multiple_of(2);
    if looks_first {
        look_at_everything(world)?;
    }
    scrub(world)?;
    if !looks_first {
        look_at_everything(world)?;
    }
    fall_silent(world);
    Ok(())
}
