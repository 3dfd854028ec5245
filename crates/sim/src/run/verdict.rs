//! Checks at the end of a run.

use crate::check::{
    image, linearizable, log, media, once, order, quiet, replicas, shards, snapshots, stores,
    watches,
};
use crate::history::Entry;
use crate::world::World;

/// Checks the history of clients; returns the number of undecided objects.
pub(crate) fn check_history(world: &World) -> Result<usize, String> {
    image::check(world)?;
    once::check_seen(&world.records.history)?;
    watches::check(&world.records.watching)?;
    for (object, target) in world.records.workload.targets.iter().enumerate() {
        if target.is_journal {
            once::check_journal(&world.records.history, object)?;
        }
    }
    let mut undecided = 0;
    for object in 0..world.records.workload.targets.len() {
        let may_overtake = |before: &Entry, _: &Entry| {
            world.scenario.may_lack_room() && before.action.is_overtaken_when_full()
        };
        order::check(world.records.history.of_object(object), may_overtake)?;
        linearizable::check_client_order(world.records.history.of_object(object), may_overtake)?;
        match linearizable::check(world.records.history.of_object(object)) {
            linearizable::Verdict::Linearizable => {}
            linearizable::Verdict::Undecided => undecided += 1,
            linearizable::Verdict::Violated(why) => {
                let name = &world.records.workload.targets[object].name;
                return Err(format!("{name} is not linearizable:\n{why}"));
            }
        }
    }
    Ok(undecided)
}

/// Checks the content of OSDs; returns the number of reads that met damage.
pub(crate) fn check_stores(world: &World) -> Result<usize, String> {
    quiet::check(world)?;
    let stores = stores::read(world)?;
    replicas::check(world, &stores)?;
    shards::check(world, &stores)?;
    log::check(world, &stores)?;
    image::check_maps(world, &stores)?;
    snapshots::check(world, &stores)?;
    media::check(world, &stores)
}
