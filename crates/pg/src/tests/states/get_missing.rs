//! GetMissing: members whose heads the log does not have are asked for their logs.

use super::World;
use crate::LOG_ENTRIES_MAX;

/// OSD 0 alone has a write, and comes back when the others have continued without it.
fn parted(outgrows_log: bool) -> World {
    let mut world = World::new(3);
    world.run_script("map 20 0 1 2\n run\n write a one\n run");
    if outgrows_log {
        world.outgrow_log(|_| "b".to_owned(), LOG_ENTRIES_MAX + 1);
    }
    world.run_script(
        "write a lost
         store 0
         down 0
         map 30 1 2
         run
         write c kept
         run
         up 0
         restart 0
         map 40 1 0 2
         store 0
         store 1
         store 2
         pass 1 0
         pass 0 1
         pass 0 1
         pass 1 2
         pass 2 1
         pass 2 1
         state 1 => GetMissing waits 0 members 1 0 2
         sent 1 => LogRequest to 0",
    );
    world
}

#[test]
fn the_last_log_ends_it() {
    parted(false).run_script(
        "pass 1 0
         pass 0 1
         state 1 => WaitUpThru members 1 0 2
         run
         get 0 a => one
         equal 0 1 2",
    );
}

#[test]
fn messages_besides_the_logs_do_not_move_it() {
    parted(false).run_script(
        "tell 2 1 log
         tell 0 1 info
         tell 0 1 activated
         state 1 => GetMissing waits 0 members 1 0 2
         tell 0 1 full
         state 1 => GetMissing waits 0 members 1 0 2 short 0
         tell 0 1 stalled
         state 1 => Stalled",
    );
}

#[test]
fn a_member_that_cannot_follow_is_to_be_backfilled() {
    parted(true).run_script("tell 0 1 log\n state 1 => WaitActingChange wants 1 2");
}

#[test]
fn a_map_without_a_member_that_is_waited_for_begins_anew() {
    parted(false).run_script("down 0\n map 50 1 2\n state 1 => GetInfo waits 2");
}
