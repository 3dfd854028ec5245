//! Active: the primary serves requests.

use super::World;

#[test]
fn a_write_is_in_flight_until_every_member_has_stored_it() {
    World::new(3).run_script(
        "map 20 0 1 2
         run
         write a one
         state 0 => Active writes 1 members 0 1 2
         store 0
         confirmed => 0
         pass 0 1
         store 1
         pass 1 0
         confirmed => 0
         pass 0 2
         store 2
         pass 2 0
         confirmed => 1
         state 0 => Active members 0 1 2",
    );
}

#[test]
fn an_interval_that_ends_takes_the_writes_in_flight_with_it() {
    World::new(3).run_script(
        "map 20 0 1 2
         run
         write a one
         down 2
         map 30 0 1
         state 0 => GetInfo waits 1
         confirmed => 0",
    );
}

#[test]
fn a_refusal_of_a_member_aborts_the_interval() {
    World::new(3).run_script(
        "map 20 0 1 2\n run\n write a one\n tell 1 0 stalled\n state 0 => Stalled\n confirmed => 0",
    );
}

#[test]
fn a_log_that_a_member_sends_again_changes_nothing() {
    World::new(3).run_script(
        "map 20 0 1 2
         run
         write a one
         run
         clean => yes
         tell 1 0 log
         blocked a => no
         clean => yes
         corrupt 1 a => yes
         run
         clean => yes
         equal 0 1 2",
    );
}
