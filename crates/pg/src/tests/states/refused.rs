//! Refused: the store refused a transaction, and the completions of all others are awaited.

use super::World;

#[test]
fn a_replica_without_room_halts_the_group_until_it_has_some() {
    World::new(3).run_script(
        "map 20 0 1 2
         run
         write a one
         run
         commits 2 full
         write a two
         write b three
         run
         confirmed => 1
         states => Stalled ReplicaActive Stalled
         map 40 0 1 2
         run
         state 0 => Active members 0 1 2
         states => Active ReplicaActive ReplicaActive
         get 2 a => two
         equal 0 1 2",
    );
}

/// OSD 1 has two writes in its store, which refuses the first one.
fn refused() -> World {
    let mut world = World::new(2);
    world.run_script(
        "size 2
         map 20 0 1
         run
         commits 1 full ok
         write a one
         write b two
         store 0
         pass 0 1
         pass 0 1
         sent 1 =>",
    );
    world.step(true);
    world.drain();
    world.run_script("state 1 => Refused\n sent 1 => Stalled to 0");
    world
}

#[test]
fn the_last_completion_lets_the_copy_be_read_again() {
    refused().run_script(
        "tell 0 1 query
         tell 0 1 replicate
         state 1 => Refused asked 0
         head 1 => 21'2
         store 1
         state 1 => Stalled
         head 1 => 0'0
         pass 1 0
         state 0 => Stalled
         map 30 0 1
         run
         state 0 => Active members 0 1
         equal 0 1",
    );
}

#[test]
fn a_split_stops_the_copy_once_it_is_read() {
    refused().run_script(
        "divide 30 0 1
         state 1 => Refused stops
         store 1
         state 1 => Replica
         run
         state 0 => Active members 0 1
         state 1 => ReplicaActive
         equal 0 1",
    );
}

/// Others acknowledge a write in an interval that begins while the copy is refused.
#[test]
fn an_interval_that_a_refused_copy_did_not_store_is_known_after_a_restart() {
    for before_restart in ["", "store 1\n settle", "run"] {
        let mut world = World::new(3);
        world.run_script(
            "size 2
             min 1
             map 10 0 1
             run
             write a one
             run
             commits 1 full ok
             write b two
             write c three
             store 0
             pass 0 1
             pass 0 1",
        );
        world.step(true);
        world.drain();
        world.run_script("state 1 => Refused\n map 13 0 2");
        world.run_script(before_restart);
        world.run_script(
            "restart 1
             down 1
             map 20 0 2
             run
             write a new
             run
             get 2 a => new
             down 0
             down 2
             up 1
             map 30 1
             run
             state 1 => Down blocked 0 2",
        );
    }
}
