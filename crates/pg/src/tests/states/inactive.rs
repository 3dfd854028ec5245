//! Inactive: the group recovers, but its members are too few to accept writes.

use super::World;

#[test]
fn it_serves_when_fewer_members_are_enough() {
    World::new(3).run_script(
        "map 20 0
         run
         state 0 => Inactive members 0
         states => Inactive Stray Stray
         min 1
         map 30 0
         run
         states => Active Stray Stray",
    );
}

#[test]
fn promises_outlast_an_interval_with_too_few_members() {
    World::new(3).run_script(
        "map 20 0 1 2
         run
         time 100
         lease 1 150
         down 0
         down 2
         map 30 1
         run
         state 1 => Inactive members 1
         states => Active Inactive ReplicaActive
         lease 1 0
         up 2
         restart 2
         map 40 1 2
         run
         states => Active WaitReadable ReplicaActive
         time 151
         run
         state 1 => Active members 1 2
         states => Active Active ReplicaActive",
    );
}

/// A primary that was away takes over the log of a member that took part in a later activation. The member
/// still knows that activation afterwards, or no complete copy would.
#[test]
fn a_stale_primary_leaves_members_the_activation_that_they_took_part_in() {
    World::new(3).run_script(
        "map 20 0 1 2
         run
         write a one
         run
         down 0
         map 30 1 2
         run
         write a two
         run
         min 3
         down 2
         up 0
         restart 0
         map 40 0 1
         run
         states => Inactive ReplicaActive ReplicaActive
         restart 1
         map 50 0 1
         run
         states => Inactive ReplicaActive ReplicaActive
         min 2
         map 60 0 1
         run
         states => Active ReplicaActive ReplicaActive
         get 0 a => two",
    );
}
