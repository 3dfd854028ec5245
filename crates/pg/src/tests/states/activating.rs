//! Activating: the primary waits until all participants have stored that they follow its log.

use super::World;

#[test]
fn the_last_participant_that_has_stored_its_activation_makes_it_active() {
    World::new(3).run_script(
        "map 20 0 1 2
         until 0 Activating
         state 0 => Activating waits 0 1 2 members 0 1 2
         tell 1 0 activated
         state 0 => Activating waits 0 2 members 0 1 2
         tell 1 0 activated
         state 0 => Activating waits 0 2 members 0 1 2
         tell 2 0 activated
         store 0
         state 0 => Active members 0 1 2",
    );
}

#[test]
fn a_member_that_is_nearly_full_is_remembered() {
    World::new(3).run_script(
        "map 20 0 1 2
         until 0 Activating
         tell 1 0 full
         state 0 => Activating waits 0 1 2 members 0 1 2 short 1
         tell 1 0 space
         state 0 => Activating waits 0 1 2 members 0 1 2",
    );
}

#[test]
fn another_map_ends_it() {
    World::new(3).run_script(
        "map 20 0 1 2
         until 0 Activating
         map 30 1 0 2
         state 0 => Replica asked 1
         state 1 => GetInfo waits 0 2",
    );
}
