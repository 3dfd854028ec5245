//! Stray: the copy of an OSD that is no member, or no longer one.

use super::World;

#[test]
fn a_stray_answers_and_is_removed_once_the_group_is_clean() {
    World::new(4).run_script(
        "map 20 0 1 2
         run
         write a one
         run
         map 30 0 1 3
         state 2 => Stray asked 0
         run
         state 2 => Stray
         get 2 a => absent",
    );
}

#[test]
fn a_write_means_nothing_to_it() {
    World::new(3)
        .run_script("map 20 0 1\n run\n tell 0 2 replicate\n state 2 => Stray\n head 2 => 0'0");
}
