//! WaitActingChange: the monitor is asked for another acting set.

use super::World;
use crate::LOG_ENTRIES_MAX;

/// OSD 0 is the primary with an empty disk, and the log of OSD 1 does not reach back to the beginning.
fn world() -> World {
    let mut world = World::pair(3);
    world.outgrow_log(|_| "b".to_owned(), LOG_ENTRIES_MAX + 1);
    world.run_script(
        "hold
         wipe 0
         map 30 0 1
         settle
         state 0 => WaitActingChange wants 1",
    );
    world
}

#[test]
fn the_other_member_serves_until_the_primary_is_backfilled() {
    world().run_script(
        "run
         acting => 1
         state 0 => ReplicaActive reserved 1
         state 1 => Active members 1 0 filling 0
         recover
         run
         acting => 0 1
         state 0 => Active members 0 1
         equal 0 1",
    );
}

#[test]
fn messages_do_not_move_it() {
    world().run_script(
        "tell 1 0 log
         tell 1 0 activated
         tell 1 0 full
         tell 1 0 info
         tell 2 0 info
         state 0 => WaitActingChange wants 1
         tell 1 0 stalled
         state 0 => Stalled",
    );
}

#[test]
fn a_map_with_other_members_begins_anew() {
    world().run_script("map 40 0 2\n state 0 => GetInfo waits 1 2");
}
