//! Copies that turn out to be bad, and are made good from others.

use super::World;

const BEGIN: &str = "map 20 0 1 2
     run
     write a one
     write b two
     run
     clean => yes";

fn after(script: &str) {
    let mut world = World::new(3);
    world.run_script(BEGIN);
    world.run_script(script);
}

#[test]
fn a_bad_copy_of_a_member_is_replaced_by_the_primary() {
    after(
        "damage 2 a
         distrust 2 a => yes
         clean => no
         run
         missing 2 =>
         get 2 a => one
         clean => yes
         write a three
         run
         equal 0 1 2
         damage 0 b
         damage 1 b
         distrust 0 b => yes
         run
         get 0 b => two
         get 1 b => two
         equal 0 1 2",
    );
}

#[test]
fn the_primary_replaces_its_own_copy_from_a_member() {
    after(
        "damage 0 a
         distrust 0 a => yes
         blocked a => yes
         blocked b => no
         run
         blocked a => no
         get 0 a => one
         equal 0 1 2
         clean => yes",
    );
}

#[test]
fn the_only_copy_is_not_given_up_because_it_could_not_be_read() {
    World::new(2).run_script(
        "size 2
         min 1
         map 20 0
         run
         write a one
         run
         damage 0 a
         map 30 1 0
         run
         missing 1 => a
         missing 0 =>
         mend 0 a
         restart 0
         map 40 1 0
         run
         clean => yes
         get 1 a => one
         equal 0 1",
    );
}

#[test]
fn a_member_that_cannot_read_what_it_is_asked_for_is_repaired_too() {
    after(
        "damage 0 a
         damage 1 a
         distrust 0 a => yes
         run
         get 0 a => one
         get 1 a => one
         missing 1 =>
         equal 0 1 2
         clean => yes",
    );
}

#[test]
fn a_primary_that_cannot_read_what_it_gives_fetches_it_from_elsewhere() {
    after(
        "damage 0 a
         distrust 2 a => yes
         run
         get 0 a => one
         get 2 a => one
         equal 0 1 2
         clean => yes",
    );
}

#[test]
fn without_a_good_copy_nothing_is_given_up() {
    after(
        "damage 0 a
         distrust 1 a => yes
         damage 2 a
         run
         clean => no
         write b more
         run
         confirmed => 3",
    );
}

#[test]
fn a_repair_goes_on_after_its_primary() {
    after(
        "distrust 2 a => yes
         deliver
         damage 2 a
         down 0
         map 30 1 2
         run
         missing 2 =>
         get 2 a => one
         equal 1 2",
    );
}

#[test]
fn a_deletion_makes_a_repair_needless() {
    after(
        "hold
         distrust 2 a => yes
         remove a
         run
         recover
         run
         get 2 a => absent
         equal 0 1 2
         clean => yes",
    );
}
