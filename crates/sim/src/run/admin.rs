//! Commands of an administrator during a run, and waits for their effects.

use crate::commands::{purge_command, restore_weights};
use crate::events::{run_for, run_until};
use crate::world::World;
use engine::Duration;
use types::{Errno, OsdId};

/// Attempts for a command that may not have been executed.
pub(crate) const COMMAND_ATTEMPTS: usize = 5;
/// Time for a new cluster to create its pool.
pub(crate) const BOOT_LIMIT: Duration = Duration::from_secs(120);
/// Time for acknowledged data to reach all copies.
pub(crate) const QUIET: Duration = Duration::from_secs(15);

/// Runs a command of an administrator, with retries, since the OSD that it concerns may be out of reach.
/// The monitor itself waits for the control store.
pub(crate) fn command(world: &mut World, command: &str) -> Result<(), String> {
    let mut outcome = None;
    for _ in 0..COMMAND_ATTEMPTS {
        outcome = answer(world, command);
        match outcome {
            Some(Ok(0)) => return Ok(()),
            Some(Ok(result)) if result == -Errno::AGAIN.0 => {}
            _ => break,
        }
        run_for(world, QUIET);
    }
    Err(format!("{command}: {outcome:?}"))
}

/// Runs a command at the monitors and returns its output.
pub(crate) fn command_output(world: &mut World, asked: &str) -> Result<String, String> {
    command(world, asked)?;
    Ok(world.records.commands.output())
}

fn answer(world: &mut World, command: &str) -> Option<Result<i32, Errno>> {
    let client = world.cast.clients[0];
    world.records.commands.forget();
    world.command(client, command);
    // Responses to earlier commands may come late.
    run_until(world, BOOT_LIMIT, |world| world.records.commands.outcome(command).is_some());
    world.records.commands.outcome(command)
}

/// Waits for earlier commands: they must not be executed later, nor their responses be mistaken for others.
pub(crate) fn await_commands(world: &mut World) -> Result<(), String> {
    match run_until(world, BOOT_LIMIT, |world| !world.has_commands()) {
        true => Ok(()),
        false => Err(format!("commands are never answered: {:?}", world.waiting_for())),
    }
}

pub(crate) fn await_down(world: &mut World, osd: OsdId) -> Result<(), String> {
    // Earlier messages of the OSD are handled first: it may just have booted.
    run_for(world, QUIET);
    let is_down = |world: &mut World| world.newest_map().is_some_and(|map| !map.is_up(osd));
    match run_until(world, BOOT_LIMIT, is_down) {
        true => Ok(()),
        false => Err(format!("osd.{osd} is gone and never marked down")),
    }
}

/// Purges an OSD that was stopped for good.
pub(crate) fn purge_osd(world: &mut World, osd: OsdId) -> Result<(), String> {
    await_down(world, osd)?;
    command(world, &purge_command(osd))
}

/// Gives every OSD its normal weight again.
pub(crate) fn restore(world: &mut World) -> Result<(), String> {
    let removed = world.removed();
    let all = world.cast.osds.len() - usize::from(removed.is_some());
    if !run_until(world, BOOT_LIMIT, |world| {
        world.newest_map().is_some_and(|map| map.up_count() == all)
    }) {
        let osds = world.newest_map().into_iter().flat_map(|map| map.existing_osds());
        let down: Vec<OsdId> = osds.filter(|(_, osd)| !osd.is_up()).map(|(osd, _)| osd).collect();
        return Err(format!("not all OSDs come up again: {down:?} are down"));
    }
    await_commands(world)?;
    let ids = (0..world.cast.osds.len() as i32).map(OsdId).filter(|osd| Some(*osd) != removed);
    for osd in ids {
        for restoring in restore_weights(osd.0 as u64) {
            command(world, &restoring)?;
        }
    }
    Ok(())
}
