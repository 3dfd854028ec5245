//! Inactive: the group recovers, but its members are too few to accept writes.

use super::World;

#[test]
fn it_serves_again_with_enough_members() {
    World::new(3).run_script(
        "map 20 0 1 2
         run
         down 1
         down 2
         map 30 0
         run
         state 0 => Inactive members 0
         up 1
         restart 1
         map 40 0 1
         run
         state 0 => Active members 0 1",
    );
}
