//! Events run one at a time: an arrival, a timer, a client's request, a fault. After each, the processes
//! involved are drained and their invariants checked.

use crate::event::Event;
use crate::file_load;
use crate::inject;
use crate::load;
use crate::world::World;
use engine::{Duration, Time};

/// Runs the next event, unless it is later than `limit`.
pub fn step(world: &mut World, limit: Time) -> bool {
    let Some(event) = world.agenda.next(limit) else { return false };
    world.control().borrow_mut().tell_time(world.now());
    match event {
        Event::Network(event) => world.network(|network, cx| network.handle(cx, event)),
        Event::Wake(node) => world.wake(node),
        Event::Restart(node) => world.start(node),
        Event::Strike(node, strike) => file_load::strike(world, node, strike),
        Event::Think { node, start } => load::think(world, node, start),
        // Faults scheduled before healing are dropped.
        Event::Fault(_) if !world.injection.is_busy() => {}
        Event::Fault(fault) => inject::apply(world, fault),
        Event::InjectFault => inject::inject(world),
    }
    world.settle();
    true
}

/// Runs until `done`, or until `limit`; returns true if `done` was reached.
pub fn run_until(
    world: &mut World,
    limit: Duration,
    mut done: impl FnMut(&mut World) -> bool,
) -> bool {
    let limit = world.now() + limit;
    loop {
        if done(world) {
            return true;
        }
        if !step(world, limit) {
            world.agenda.skip_to(limit);
            return done(world);
        }
    }
}

/// Lets so much time pass.
pub fn run_for(world: &mut World, duration: Duration) {
    run_until(world, duration, |_| false);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn a_monitor_that_has_read_nothing_has_no_map() {
        let mut world = crate::cluster::build(Scenario::draw(1), false);
        world.start(world.cast.monitors[0]);
        assert!(world.newest_map().is_none());
        let minute = Duration::from_secs(60);
        assert!(run_until(&mut world, minute, |world| world.newest_map().is_some()));
    }
}
