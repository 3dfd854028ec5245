//! Replica: a member that waits for its primary to activate it.

use super::World;

#[test]
fn it_answers_the_query_when_its_store_has_completed_everything() {
    World::new(3).run_script(
        "map 20 0 1 2
         run
         write a one
         run
         map 30 1 0 2
         state 0 => Replica asked 1
         store 0
         state 0 => Replica
         tell 1 0 replicate
         state 0 => Replica
         head 0 => 21'1
         run
         state 0 => ReplicaActive",
    );
}
