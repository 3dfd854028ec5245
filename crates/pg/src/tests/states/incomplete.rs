//! Incomplete: no copy within reach is both complete and new enough.

use super::World;
use crate::LOG_ENTRIES_MAX;

#[test]
fn the_osd_with_a_complete_copy_ends_it() {
    let mut world = World::pair(3);
    world.outgrow_log(|_| "b".to_owned(), LOG_ENTRIES_MAX + 1);
    world.run_script(
        "hold
         down 1
         map 30 0 2
         run
         state 2 => ReplicaActive reserved 0
         down 0
         lost 0
         map 40 2
         run
         state 2 => Incomplete
         tell 1 2 info
         tell 1 2 log
         tell 1 2 activated
         state 2 => Incomplete
         up 1
         restart 1
         map 50 2 1
         run
         state 2 => Incomplete
         up 0
         restart 0
         recover
         map 60 2 1
         run
         state 2 => Active members 2 1
         get 2 a => one",
    );
}
