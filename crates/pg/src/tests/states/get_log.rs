//! GetLog: another member has the authoritative log, and the primary waits for it.

use super::World;

/// OSD 0 missed a write, is the primary again, and has all infos.
fn world() -> World {
    let mut world = World::new(3);
    world.run_script(
        "map 20 0 1 2
         run
         write a one
         run
         down 0
         map 30 1 2
         run
         write a two
         run
         up 0
         restart 0
         map 40 0 1 2
         store 0
         store 1
         store 2
         pass 0 1
         pass 1 0
         pass 1 0
         pass 0 2
         pass 2 0
         pass 2 0
         state 0 => GetLog from 1 members 0 1 2
         sent 0 => LogRequest to 1",
    );
    world
}

#[test]
fn the_log_of_the_authority_is_followed() {
    world().run_script(
        "head 0 => 21'1
         pass 0 1
         pass 1 0
         head 0 => 31'2
         missing 0 => a
         state 0 => WaitUpThru members 0 1 2
         run
         get 0 a => two
         equal 0 1 2",
    );
}

#[test]
fn messages_besides_that_log_do_not_move_it() {
    world().run_script(
        "tell 2 0 log
         tell 2 0 info
         tell 1 0 activated
         state 0 => GetLog from 1 members 0 1 2
         head 0 => 21'1
         tell 2 0 full
         state 0 => GetLog from 1 members 0 1 2 short 2
         tell 1 0 stalled
         state 0 => Stalled",
    );
}

#[test]
fn a_map_without_the_authority_begins_anew() {
    world().run_script("down 1\n map 50 0 2\n state 0 => GetInfo waits 2");
}
