//! ReplicaActive: a replica that takes part in writes.

use super::World;

#[test]
fn it_stores_a_write_and_then_confirms_it() {
    World::new(3).run_script(
        "map 20 0 1 2
         run
         write a one
         pass 0 1
         sent 1 =>
         store 1
         sent 1 => Replicated to 0
         state 1 => ReplicaActive",
    );
}

/// A replica's confirmation covers all earlier writes.
#[test]
fn a_replica_that_a_write_did_not_reach_confirms_no_later_one() {
    World::new(3).run_script(
        "map 20 0 1 2
         run
         write a one
         lose 0 2
         run
         confirmed => 0
         write b two
         pass 0 2
         state 2 => Stalled
         sent 2 => Stalled to 0
         run
         confirmed => 0
         states => Stalled ReplicaActive Stalled
         map 30 0 1 2
         run
         states => Active ReplicaActive ReplicaActive
         get 2 a => one
         get 2 b => two
         equal 0 1 2
         write c three
         run
         confirmed => 1",
    );
}

#[test]
fn another_map_makes_it_wait_for_its_primary_again() {
    World::new(3)
        .run_script("map 20 0 1 2\n run\n down 2\n map 30 0 1\n state 1 => Replica asked 0");
}
