//! Reads of all objects and images in the end, and removal of objects that take too much space.

use super::clean::{is_full, rotten_contents, unanswered};
use crate::events::run_until;
use crate::history::{Entry, ObjectId};
use crate::load;
use crate::model::Action;
use crate::world::World;
use engine::Duration;

/// Like [`LIVENESS_LIMIT`], without any other work.
const REPLY_LIMIT: Duration = Duration::from_secs(120);
/// Longer than the interval at which OSDs report their usage.
const ROOM_NOTICED_WITHIN: Duration = Duration::from_secs(20);

/// Reads every object in the end, so that acknowledged data must be visible.
pub(crate) fn look_at_everything(world: &mut World) -> Result<(), String> {
    let client = world.cast.clients[0];
    for object in 0..world.records.workload.targets.len() {
        ask_to_look(world, object, |world| world.in_flight() == 0)?;
        for snap in world.records.snapshots.sharp_for(object) {
            run_until(world, REPLY_LIMIT, |world| {
                world.in_flight() == 0 && load::request(world, client, object, Action::LookAt(snap))
            });
        }
    }
    if !run_until(world, REPLY_LIMIT, load::image_users_are_ready) {
        let users = load::describe_image_users(world);
        return Err(format!("the users of an image do not find out what is in it:\n{users}"));
    }
    load::look_at_images(world);
    match run_until(world, REPLY_LIMIT, |world| world.in_flight() == 0) {
        true => Ok(()),
        false => Err(unanswered(world)),
    }
}

fn ask_to_look(
    world: &mut World,
    object: ObjectId,
    may_ask: impl Fn(&World) -> bool,
) -> Result<(), String> {
    let client = world.cast.clients[0];
    let asked = run_until(world, REPLY_LIMIT, |world| {
        may_ask(world) && load::request(world, client, object, Action::Look)
    });
    match asked {
        true => Ok(()),
        false => Err(format!("object {object} could not be looked at")),
    }
}

/// A group that misses objects serves all others: only requests to damaged objects may stay without a
/// response.
pub(crate) fn look_at_the_undamaged(world: &mut World) -> Result<(), String> {
    let damaged = rotten_contents(world)?.unwrap_or_default().damaged;
    let is_damaged = |name: &str| damaged.iter().any(|object| object.name == name.as_bytes());
    let targets = &world.records.workload.targets;
    let damaged: Vec<bool> = targets.iter().map(|target| is_damaged(&target.name)).collect();
    let first = world.records.history.entries().len();
    for object in 0..damaged.len() {
        ask_to_look(world, object, |_| true)?;
    }
    let is_done = |entry: &Entry| entry.completed.is_some() || damaged[entry.object];
    let are_done = |world: &mut World| world.records.history.entries()[first..].iter().all(is_done);
    match run_until(world, REPLY_LIMIT, are_done) {
        true => Ok(()),
        false => Err(unanswered(world)),
    }
}

/// Recovery needs space: clients remove objects from a full cluster. The remaining data may still fill a
/// device that never had the removed objects; then the rest is removed, too.
pub(crate) fn make_room(world: &mut World) -> Result<(), String> {
    remove_half(world, 0)?;
    match run_until(world, ROOM_NOTICED_WITHIN, |world| !is_full(world)) {
        true => Ok(()),
        false => remove_half(world, 1),
    }
}

pub(crate) fn remove_half(world: &mut World, first: usize) -> Result<(), String> {
    let client = world.cast.clients[0];
    for object in (first..world.records.workload.targets.len()).step_by(2) {
        if !run_until(world, REPLY_LIMIT, |world| {
            load::request(world, client, object, Action::Remove)
        }) {
            return Err(format!("object {object} could not be removed"));
        }
    }
    Ok(())
}
