//! Load of clients: they make requests, watch objects, take snapshots, and use images.

use crate::event::Event;
use crate::file_load;
use crate::history::ObjectId;
use crate::model::Action;
use crate::names::POOL;
use crate::node::NodeId;
use crate::process::{ClientProcess, ImageUser};
use crate::snapshots::SnapshotAction;
use crate::trace::Brief;
use crate::workload::WatchAction;
use crate::world::World;
use engine::Duration;
use rados::PoolRequest;

/// A client makes a request, if it may; schedules the next one. `start` tells which life of the process was
/// to make it.
pub fn think(world: &mut World, node: NodeId, start: u32) {
    if world.nodes.starts(node) != start || !world.injection.is_busy() {
        return;
    }
    if world.nodes.process(node).as_file_client().is_some() {
        return file_load::think(world, node, start);
    }
    let average = world.scenario.load.think_us;
    let wait = Duration::from_micros(world.records.workload.think_us(average));
    if restart_if_shut_out(world, node) {
        return;
    }
    let Some(client) = world.nodes.client(node) else { return };
    let is_awake = client.daemon().is_some() && !world.transport.is_paused(node);
    let ready = is_awake && client.in_flight() < world.scenario.load.in_flight_max;
    if ready && client.image_user().is_some() {
        think_of_image(world, node);
    } else if ready {
        let actor = client.actor();
        let change = world.records.snapshots.next_change();
        match (change, world.records.workload.next_watch()) {
            (Some(change), _) => change_snapshots(world, node, change),
            (None, Some(action)) => watch(world, node, action),
            (None, None) => {
                let (object, action) = world.records.workload.next(actor);
                let target = &world.records.workload.targets[object];
                let (is_journal, has_snapshots) = (target.is_journal, target.pool == POOL);
                let action = match has_snapshots {
                    true => world.records.snapshots.instead(object, action, is_journal),
                    false => action,
                };
                request(world, node, object, action);
            }
        }
    }
    world.agenda.after(wait, Event::Think { node, start });
}

/// A client makes a request; returns false if it does not know the pool yet, and requests a map.
pub fn request(world: &mut World, node: NodeId, object: ObjectId, action: Action) -> bool {
    let (at, clock) = (world.now(), world.clock(node));
    let target = world.records.workload.targets[object].clone();
    let Some(client) = world.nodes.client_mut(node) else { return false };
    if !client.knows_pool(&target.pool) {
        if client.in_flight() == 0 {
            client.fetch_map();
        }
        world.touch(node);
        return false;
    }
    let context = match action.is_write() && target.pool == POOL {
        true => world.records.snapshots.context(),
        false => Default::default(),
    };
    let actor = client.actor();
    let history = &mut world.records.history;
    let request = history.invoke(at, actor, object, action.clone(), context.clone());
    client.submit(clock, request, &target.pool, &target.name, &action, context);
    let brief = Brief(&action);
    world.line(format_args!("request {request} of actor {actor}: {} {brief}", target.name));
    world.touch(node);
    true
}

/// True if a client knows the pool; one that does not requests a map.
pub fn knows_pool(world: &mut World, node: NodeId) -> bool {
    let Some(client) = world.nodes.client_mut(node) else { return false };
    let knows = client.knows_pool(POOL);
    if !knows && client.in_flight() == 0 {
        client.fetch_map();
        world.touch(node);
    }
    knows
}

fn change_snapshots(world: &mut World, node: NodeId, action: SnapshotAction) {
    let clock = world.clock(node);
    let Some(client) = world.nodes.client_mut(node) else { return };
    if !client.knows_pool(POOL) {
        return;
    }
    match action {
        SnapshotAction::Take => {
            client.pool_op(clock, POOL, PoolRequest::take_snapshot, action);
        }
        SnapshotAction::Remove(snap) => {
            world.records.snapshots.removing(snap, &mut world.records.history);
            let request = |pool| PoolRequest::remove_snapshot(pool, snap);
            client.pool_op(clock, POOL, request, action);
        }
    }
    world.line(format_args!("client {node}: {action:?}"));
    world.touch(node);
}

/// A client watches an object, ends its watch, or notifies its watchers.
fn watch(world: &mut World, node: NodeId, action: WatchAction) {
    let (at, clock) = (world.now(), world.clock(node));
    let (WatchAction::Toggle(object) | WatchAction::Notify(object)) = action;
    let target = world.records.workload.targets[object].clone();
    let Some(client) = world.nodes.client_mut(node) else { return };
    if !client.knows_pool(&target.pool) {
        return;
    }
    let watching = &mut world.records.watching;
    match (action, watching.of(client.actor(), object)) {
        (WatchAction::Notify(_), _) => {
            let number = watching.notify(at, object);
            client.notify(clock, number, &target.pool, &target.name);
        }
        (WatchAction::Toggle(_), Some(watch)) => {
            watching.ended(at, client.actor(), watch);
            client.unwatch(clock, watch);
        }
        (WatchAction::Toggle(_), None) => {
            client.watch(clock, object, &target.pool, &target.name);
        }
    }
    world.line(format_args!("client {node} {action:?}"));
    world.touch(node);
}

/// Lets the user of an image act, once it knows the pool.
fn think_of_image(world: &mut World, node: NodeId) {
    let pool = world.scenario.image_pool();
    if let Some(client) = world.nodes.client_mut(node) {
        match client.knows_pool(pool) {
            true => client.think_of_image(),
            false => client.fetch_map(),
        }
    }
    world.touch(node);
}

/// Restarts a blocklisted client as a new one.
fn restart_if_shut_out(world: &mut World, node: NodeId) -> bool {
    let user = world.nodes.client(node).and_then(ClientProcess::image_user);
    let is_shut_out = user.is_some_and(ImageUser::is_shut_out);
    if is_shut_out {
        world.line(format_args!("node {node} was shut out"));
        world.crash(node, false);
        world.start(node);
    }
    is_shut_out
}

/// True if all users of images know the expected content; others are led to that state.
pub fn image_users_are_ready(world: &mut World) -> bool {
    let mut are_ready = true;
    for node in world.cast.image_users.clone() {
        restart_if_shut_out(world, node);
        let Some(client) = world.nodes.client(node) else { continue };
        let is_open = client.image_user().is_some_and(ImageUser::is_open);
        let is_idle = client.in_flight() == 0;
        are_ready &= is_open && is_idle;
        if is_idle && !is_open {
            think_of_image(world, node);
        }
    }
    are_ready
}

/// States of all users of images, for a report.
pub fn describe_image_users(world: &World) -> String {
    let mut text = String::new();
    for node in world.cast.image_users.iter().copied() {
        let Some(client) = world.nodes.client(node) else { continue };
        let (in_flight, user) = (client.in_flight(), client.image_user());
        let user = user.map(|user| (user.failure(), user.is_open(), user.describe()));
        text += &format!("node {node}, {in_flight} in flight: {user:?}\n");
    }
    text
}

/// Each user reads its image or part.
pub fn look_at_images(world: &mut World) {
    for node in world.cast.image_users.clone() {
        if let Some(client) = world.nodes.client_mut(node) {
            client.look_at_image();
        }
        world.touch(node);
    }
}
