//! GetInfo: the primary has queried the prior set, and waits for the infos.

use super::World;

#[test]
fn a_new_interval_begins_with_queries_and_ends_with_the_last_answer() {
    World::new(3).run_script(
        "map 20 0 1 2
         state 0 => GetInfo waits 1 2
         sent 0 => Query to 1, Query to 2
         pass 0 1
         pass 1 0
         state 0 => GetInfo waits 2
         pass 0 2
         pass 2 0
         state 0 => WaitUpThru members 0 1 2",
    );
}

#[test]
fn logs_activations_and_room_mean_nothing_to_it() {
    World::new(3).run_script(
        "map 20 0 1 2
         tell 1 0 log
         tell 1 0 activated
         tell 1 0 full
         state 0 => GetInfo waits 1 2",
    );
}

#[test]
fn a_member_that_refuses_a_transaction_aborts_it() {
    World::new(3).run_script("map 20 0 1 2\n tell 1 0 stalled\n state 0 => Stalled");
}

#[test]
fn a_map_without_an_osd_that_is_waited_for_begins_anew() {
    World::new(3).run_script(
        "map 20 0 1 2
         down 2
         map 30 0 1
         state 0 => GetInfo waits 1",
    );
}
