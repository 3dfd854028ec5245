//! SplitMerge: the copy is stopped until its store has split or merged it.

use super::World;

#[test]
fn queries_are_kept_and_all_else_is_dropped_until_it_takes_part_again() {
    World::new(3).run_script(
        "map 20 0 1 2
         run
         divide 30 0 1 2
         state 1 => SplitMerge held 0
         tell 0 1 query
         tell 0 1 replicate
         tell 0 1 activated
         state 1 => SplitMerge held 1
         head 1 => 0'0
         run
         state 0 => Active members 0 1 2
         state 1 => ReplicaActive",
    );
}
