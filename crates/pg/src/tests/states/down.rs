//! Down: OSDs that may have accepted writes without the present members are down.

use super::World;

#[test]
fn the_osd_that_comes_back_lets_peering_continue() {
    World::new(3).run_script(
        "min 1
         map 20 0 1
         run
         write a one
         run
         down 1
         map 30 0
         run
         states => Active ReplicaActive Stray
         write a two
         run
         confirmed => 2
         down 0
         up 1
         restart 1
         map 40 1
         run
         state 1 => Down blocked 0
         blocked-by 1 => 0
         tell 2 1 log
         state 1 => Down blocked 0
         up 0
         restart 0
         map 50 1 0
         run
         state 1 => Active members 1 0
         states => ReplicaActive Active Stray
         get 1 a => two",
    );
}
