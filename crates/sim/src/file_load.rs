//! Load of the clients of the file system, and deaths of its server that belong to it.

use crate::event::Event;
use crate::fault::Fault;
use crate::file_strikes::{Strike, Victims};
use crate::inject;
use crate::node::NodeId;
use crate::world::World;
use engine::Duration;
use fsclient::Call;
use maps::MdsState;

/// Time in which a client that was shut out starts again.
const RESTART: Duration = Duration::from_secs(1);

/// A client makes a call, if it may; schedules the next one.
pub fn think(world: &mut World, node: NodeId, start: u32) {
    let Some(shape) = world.scenario.file_system else { return };
    let wait = Duration::from_micros(world.records.files.think_us(shape.think_us));
    if restart_if_shut_out(world, node) {
        return;
    }
    let Some(client) = world.nodes.process(node).as_file_client() else { return };
    let actor = client.actor();
    if is_idle(world, node) && !world.records.files.is_full() {
        let call = world.records.files.next(actor);
        self::call(world, node, call);
    }
    world.agenda.after(wait, Event::Think { node, start });
}

/// True if a client runs and has no call without an answer.
pub fn is_idle(world: &World, node: NodeId) -> bool {
    let client = world.nodes.process(node).as_file_client();
    let is_awake = !world.transport.is_paused(node);
    client.is_some_and(|it| is_awake && it.daemon().is_some() && it.in_flight() == 0)
}

/// A client that was shut out gives up, and starts again.
pub fn restart_if_shut_out(world: &mut World, node: NodeId) -> bool {
    let daemon = world.nodes.process(node).as_file_client().and_then(|client| client.daemon());
    let is_shut_out = daemon.is_some_and(fsclient::FsClient::is_shut_out);
    if is_shut_out {
        world.line(format_args!("node {node} is shut out"));
        world.crash(node, false);
        world.agenda.after(RESTART, Event::Restart(node));
    }
    is_shut_out
}

/// A client makes a call; returns its index in the history.
pub fn call(world: &mut World, node: NodeId, call: Call) -> Option<usize> {
    let (at, clock) = (world.now(), world.clock(node));
    let client = world.nodes.process_mut(node).as_file_client_mut()?;
    client.daemon()?;
    let actor = client.actor();
    let index = world.records.files.invoke(at, actor, call.clone());
    client.call(clock, index, call.clone());
    world.line(format_args!("call {index} of actor {actor}: {call:?}"));
    world.touch(node);
    Some(index)
}

/// Metadata servers that serve.
pub fn serving(world: &World) -> Vec<NodeId> {
    let serves = |node: &NodeId| {
        let daemon = world.nodes.process(*node).as_mds().and_then(|server| server.daemon());
        daemon.is_some_and(|server| server.state() == MdsState::ACTIVE)
    };
    world.cast.servers.iter().copied().filter(serves).collect()
}

/// The server dies soon, perhaps with clients. Other clients look first.
pub fn strike(world: &mut World, node: NodeId, strike: Strike) {
    let Strike { look, stifles, after, victims, away } = strike;
    let servers = serving(world);
    if !world.injection.is_busy() || servers.is_empty() {
        return;
    }
    let clients = match victims {
        Victims::None => Vec::new(),
        Victims::One => vec![node],
        Victims::All => world.cast.file_clients.clone(),
    };
    let struck = [&servers[..], &clients].concat();
    let fall = if stifles { Fault::Fall(struck.clone()) } else { Fault::Crash(struck.clone()) };
    if stifles {
        inject::apply(world, Fault::Stifle(servers));
    }
    world.agenda.after(after, Event::Fault(fall));
    world.agenda.after(after + away, Event::Fault(Fault::Start(struck)));
    let others = world.cast.file_clients.clone().into_iter().filter(|other| *other != node);
    for other in others.collect::<Vec<_>>() {
        if let Some(look) = look.clone().filter(|_| is_idle(world, other)) {
            call(world, other, look);
        }
    }
}
