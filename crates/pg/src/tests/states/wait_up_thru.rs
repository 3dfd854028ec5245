//! WaitUpThru: the members agree, and the map must name this interval before writes may be accepted.

use super::World;

#[test]
fn the_map_with_the_up_thru_activates_the_group() {
    World::new(3).run_script(
        "map 20 0 1 2
         settle
         state 0 => WaitUpThru members 0 1 2
         run
         state 0 => Active members 0 1 2",
    );
}

#[test]
fn messages_do_not_move_it() {
    World::new(3).run_script(
        "map 20 0 1 2
         settle
         tell 1 0 info
         tell 1 0 log
         tell 1 0 activated
         state 0 => WaitUpThru members 0 1 2
         tell 1 0 stalled
         state 0 => Stalled",
    );
}

#[test]
fn too_few_members_do_not_wait() {
    World::new(3).run_script("map 20 0\n settle\n state 0 => Inactive members 0");
}
