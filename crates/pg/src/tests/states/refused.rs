//! Refused: the store refused a transaction, and the completions of all others are awaited.

use super::World;

#[test]
fn the_copy_is_read_again_and_waits_for_another_interval() {
    World::new(3).run_script(
        "map 20 0 1 2
         run
         commits 1 full ok
         write a one
         run
         state 1 => Stalled
         state 0 => Stalled
         map 30 0 1 2
         run
         state 0 => Active members 0 1 2
         equal 0 1 2",
    );
}
