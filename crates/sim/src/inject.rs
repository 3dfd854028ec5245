//! Fault injection: draws faults during the load, and applies them to the world.

mod asking;
mod ballast;
mod disks;
mod omission;
mod removal;
mod shards;

pub use disks::end_replacement;
pub use omission::omit;

use crate::commands::create_pool_command;
use crate::event::Event;
use crate::fault::Fault;
use crate::faults;
use crate::node::NodeId;
use crate::world::World;
use engine::Duration;

/// Starts or stops the load and the faults.
pub fn set_busy(world: &mut World, busy: bool) {
    world.injection.set_busy(busy);
    if !busy {
        return;
    }
    let users = world.cast.clients.iter().chain(&world.cast.image_users);
    for node in users.chain(&world.cast.file_clients).copied() {
        let start = world.nodes.starts(node);
        world.agenda.after(Duration::ZERO, Event::Think { node, start });
    }
    plan(world);
}

fn plan(world: &mut World) {
    let interval = world.scenario.faults.interval_ms;
    if interval > 0 && !world.scenario.faults.weights.is_empty() {
        let wait = Duration::from_millis(world.injection.prng().below(2 * interval) + 1);
        world.agenda.after(wait, Event::InjectFault);
    }
}

/// Draws a fault with its consequences, applies it, and schedules the next draw.
pub fn inject(world: &mut World) {
    if !world.injection.is_busy() {
        return;
    }
    let (mix, prng) = (&world.scenario.faults, world.injection.prng());
    let Some(kind) = mix.draw_kind(prng) else { return };
    let (fault, follows) = faults::draw(prng, kind, mix, &world.cast);
    if takes_place(world, &fault) {
        world.injection.count(kind);
    }
    for (wait, next) in follows {
        world.agenda.after(wait, Event::Fault(next));
    }
    apply(world, fault);
    plan(world);
}

/// True if the fault happens now: a process that runs cannot join, and some faults wait until they are safe.
fn takes_place(world: &World, fault: &Fault) -> bool {
    match fault {
        Fault::Start(nodes) => nodes.iter().any(|node| !world.nodes.is_up(*node)),
        Fault::Remove(_) | Fault::RotSoon(_) => false,
        _ => true,
    }
}

/// Applies a fault.
pub fn apply(world: &mut World, fault: Fault) {
    world.line(format_args!("fault: {fault:?}"));
    match fault {
        Fault::Crash(nodes) => nodes.into_iter().for_each(|node| world.crash(node, false)),
        Fault::Vanish(nodes) => nodes.into_iter().for_each(|node| world.crash(node, true)),
        Fault::Stifle(nodes) => stifle(world, &nodes, true),
        Fault::Fall(nodes) => {
            for node in &nodes {
                world.network(|network, _| network.forget_sent(*node));
                world.crash(*node, true);
            }
            stifle(world, &nodes, false);
        }
        Fault::Start(nodes) => nodes.into_iter().for_each(|node| world.start(node)),
        Fault::Pause(nodes) => {
            let faults = world.transport.faults_mut();
            nodes.into_iter().for_each(|node| faults.set_paused(node, true));
        }
        Fault::Resume(nodes) => resume(world, &nodes),
        Fault::ClockJump(by) => {
            world.clocks.jump(by);
            (0..world.nodes.count()).for_each(|node| world.touch(node));
        }
        Fault::Resend(node) => resend(world, node),
        Fault::CreatePool => create_another_pool(world),
        Fault::Command(command) => {
            world.injection.note_churned();
            world.command(world.cast.clients[0], &command);
        }
        Fault::Order(order) => world.command(world.cast.clients[0], &order),
        Fault::Remove(node) => removal::remove(world, node),
        fault => apply_to_links(world, fault),
    }
}

fn apply_to_links(world: &mut World, fault: Fault) {
    match fault {
        Fault::Cut { node, share } => world.network(|network, cx| network.cut(cx, node, share)),
        Fault::Partition(apart) => part(world, &apart, true, true),
        Fault::Deafness(apart) => part(world, &apart, true, false),
        Fault::Muteness(apart) => part(world, &apart, false, true),
        Fault::Slow(ways, factor) => {
            let faults = world.transport.faults_mut();
            ways.into_iter().for_each(|way| faults.slow_down(way, factor));
        }
        Fault::Lossy(ways, share) => {
            let faults = world.transport.faults_mut();
            ways.into_iter().for_each(|way| faults.lose(way, share));
        }
        Fault::Storm { factor } => world.transport.faults_mut().storm_factor = factor,
        Fault::Mend => {
            world.control().borrow_mut().mend();
            world.transport.faults_mut().mend();
            world.network(|network, cx| network.resume(cx));
        }
        fault => apply_to_stores(world, fault),
    }
}

fn apply_to_stores(world: &mut World, fault: Fault) {
    match fault {
        Fault::StoreDown(duration) => world.control().borrow_mut().fail(duration),
        Fault::ControlRefuses(duration) => world.control().borrow_mut().refuse(duration),
        Fault::BackUpControl => world.control().borrow_mut().back_up(),
        Fault::RestoreControl { with_marks } => restore_control(world, with_marks),
        Fault::StoreCut(node, duration) => cut_store(world, node, duration),
        Fault::Fill(node, percent) => ballast::fill(world, node, percent),
        Fault::Unfill(node) => ballast::unfill(world, node),
        Fault::Rot(node) => disks::rot(world, node),
        Fault::RotSoon(node) => disks::rot_soon(world, node),
        Fault::DiskStops(node) => world.with_store(node, |store, _| store.stop()),
        Fault::DiskGoesOn(node) => {
            world.with_store(node, |store, _| store.go_on());
            world.touch(node);
        }
        Fault::DiskDies(node) => disks::kill(world, node),
        Fault::DiskMisreads(node, per_million) => disks::misread(world, node, per_million),
        Fault::DiskHeals(node) => disks::heal(world, node),
        Fault::Replace(node) => disks::replace(world, node),
        Fault::FailRead(node, after) => disks::fail_read(world, node, after),
        Fault::ReadsHeal(node) => disks::heal_reads(world, node),
        Fault::Unindex => omission::unindex(world),
        Fault::Lose(node) => shards::lose(world, node),
        Fault::FailCopy(node) => shards::fail_copy(world, node),
        Fault::CopyHeals(node) => shards::heal_copy(world, node),
        fault => unreachable!("{fault:?} concerns no store"),
    }
}

/// Blocks directions between some processes and the others.
fn part(world: &mut World, apart: &[NodeId], inward: bool, outward: bool) {
    let faults = world.transport.faults_mut();
    for inner in apart.iter().copied() {
        for other in (0..world.nodes.count()).filter(|other| !apart.contains(other)) {
            if inward {
                faults.block((other, inner));
            }
            if outward {
                faults.block((inner, other));
            }
        }
    }
    world.network(|network, cx| network.partitioned(cx));
}

/// Blocks or opens the ways from processes to all OSDs.
fn stifle(world: &mut World, nodes: &[NodeId], is_stifled: bool) {
    let osds = [&world.cast.osds[..], &world.cast.spares].concat();
    let faults = world.transport.faults_mut();
    for way in nodes.iter().flat_map(|node| osds.iter().map(|osd| (*node, *osd))) {
        match is_stifled {
            true => faults.block(way),
            false => faults.unblock(way),
        }
    }
}

fn resume(world: &mut World, nodes: &[NodeId]) {
    let faults = world.transport.faults_mut();
    nodes.iter().for_each(|node| faults.set_paused(*node, false));
    world.network(|network, cx| network.resume(cx));
    nodes.iter().for_each(|node| world.touch(*node));
}

/// Resends all requests in flight of a client, in order.
fn resend(world: &mut World, node: NodeId) {
    if world.transport.is_paused(node) {
        return;
    }
    for (conn, message) in world.resending.of(node) {
        world.line(format_args!("client {node} sends tid {} again", message.tid));
        world.network(|network, cx| network.send(cx, node, conn, message));
    }
}

/// One monitor loses the control store.
fn cut_store(world: &mut World, node: NodeId, duration: Duration) {
    let number = world.cast.monitors.iter().position(|monitor| *monitor == node);
    let number = number.expect("only monitors have a control store");
    world.control().borrow_mut().cut(number, duration);
}

fn restore_control(world: &mut World, with_marks: bool) {
    world.control().borrow_mut().restore();
    if with_marks {
        world.nodes.monitors_mut().for_each(|monitor| monitor.lose_mark());
    }
}

fn create_another_pool(world: &mut World) {
    let (pool, size) = (world.injection.next_pool(), world.scenario.cluster.size);
    world.command(world.cast.clients[0], &create_pool_command(&pool, 2, size));
}

/// Ends all faults: all processes run, and all messages are delivered.
pub fn heal(world: &mut World) {
    set_busy(world, false);
    apply(world, Fault::Mend);
    for node in world.disks.bad().clone() {
        disks::heal(world, node);
    }
    for node in world.disks.failing_reads().clone() {
        disks::heal_reads(world, node);
    }
    for node in world.disks.failing_copies().clone() {
        shards::heal_copy(world, node);
    }
    let now = world.now();
    world.cast.rotting.into_iter().for_each(|node| world.disks.end_misread(now, node));
    let all: Vec<NodeId> = (0..world.nodes.count()).collect();
    resume(world, &all);
    apply(world, Fault::Start(all));
    ballast::unfill_all(world);
    world.settle();
}
