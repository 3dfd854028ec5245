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

#[test]
fn a_write_that_does_not_follow_the_last_one_stalls_it() {
    World::new(3).run_script(
        "map 20 0 1 2
         run
         write a one
         lose 0 1
         write b two
         pass 0 1
         state 1 => Stalled
         sent 1 => Stalled to 0",
    );
}

#[test]
fn another_map_makes_it_wait_for_its_primary_again() {
    World::new(3)
        .run_script("map 20 0 1 2\n run\n down 2\n map 30 0 1\n state 1 => Replica asked 0");
}
