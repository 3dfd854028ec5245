//! WaitReadable: all members are activated, but a read lease of an earlier interval may still hold.

use super::World;

#[test]
fn the_end_of_the_last_lease_makes_it_active() {
    World::new(3).run_script(
        "map 20 0 1 2
         run
         time 100
         promise 0 150
         down 2
         map 30 0 1
         run
         state 0 => WaitReadable members 0 1
         tell 1 0 activated
         state 0 => WaitReadable members 0 1
         time 149
         state 0 => WaitReadable members 0 1
         time 150
         state 0 => Active members 0 1",
    );
}

#[test]
fn a_map_that_shows_the_lost_replica_dead_makes_it_active() {
    World::new(3).run_script(
        "map 20 0 1 2
         run
         time 100
         promise 0 150
         down 2
         map 30 0 1
         run
         state 0 => WaitReadable members 0 1
         dead 2 30
         map 40 0 1
         state 0 => Active members 0 1",
    );
}
