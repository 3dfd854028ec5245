//! Down: OSDs that may have accepted writes without the present members are down.

use super::World;

#[test]
fn the_osd_that_comes_back_lets_peering_continue() {
    World::new(3).run_script(
        "min 1
         map 20 0 1
         run
         down 0
         map 30 1
         run
         write a one
         run
         down 1
         up 0
         restart 0
         map 40 0
         run
         state 0 => Down blocked 1
         tell 2 0 log
         state 0 => Down blocked 1
         up 1
         restart 1
         map 50 0 1
         run
         state 0 => Active members 0 1
         get 0 a => one",
    );
}
