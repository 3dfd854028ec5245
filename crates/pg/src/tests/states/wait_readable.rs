//! WaitReadable: all members are activated, but a read lease of an earlier interval may still hold.

use super::World;

/// The replica that was marked down may not have seen the map, and may still answer reads.
#[test]
fn the_end_of_the_last_lease_makes_it_active() {
    World::new(3).run_script(
        "map 20 0 1 2
         run
         time 100
         lease 0 150
         down 2
         map 30 0 1
         run
         state 0 => WaitReadable members 0 1
         states => WaitReadable ReplicaActive ReplicaActive
         tell 1 0 activated
         state 0 => WaitReadable members 0 1
         time 149
         state 0 => WaitReadable members 0 1
         time 150
         state 0 => Active members 0 1
         run
         states => Active ReplicaActive ReplicaActive",
    );
}

#[test]
fn replicas_that_have_answered_have_seen_the_map() {
    World::new(3).run_script(
        "map 20 0 1 2
         run
         time 100
         lease 0 150
         map 30 0 1
         run
         states => Active ReplicaActive ReplicaActive",
    );
}

#[test]
fn a_primary_that_answers_itself_and_dead_osds_are_not_waited_for() {
    World::new(3).run_script(
        "map 20 0 1 2
         run
         time 100
         lease 1 150
         lease 2 150
         map 30 1 0 2
         run
         states => ReplicaActive Active ReplicaActive
         lease 0 150
         down 1
         dead 1 39
         map 40 0 2
         run
         states => Active Active ReplicaActive
         lease 1 0
         up 1
         restart 1
         map 50 0 1 2
         run
         lease 0 150
         down 2
         map 60 0 1
         run
         state 0 => WaitReadable members 0 1
         dead 2 60
         map 70 0 1
         state 0 => Active members 0 1",
    );
}
