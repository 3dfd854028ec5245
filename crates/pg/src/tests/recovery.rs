//! Members that were down, and divergent writes.

use super::World;

#[test]
fn a_member_that_was_away_is_brought_up_to_date_from_the_log() {
    World::new(3).run_script(
        "map 20 0 1 2
         run
         write a one
         write b two
         run
         down 2
         map 30 0 1
         run
         write a changed
         remove b
         write c new
         run
         confirmed => 5
         up 2
         restart 2
         map 40 0 1 2
         run
         states => Active ReplicaActive ReplicaActive
         get 2 a => changed
         get 2 b => absent
         get 2 c => new
         equal 0 1 2",
    );
}

#[test]
fn a_restarted_primary_learns_from_the_others_what_it_missed() {
    World::new(3).run_script(
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
         run
         states => Active ReplicaActive ReplicaActive
         get 0 a => two
         equal 0 1 2",
    );
}

#[test]
fn a_write_that_only_the_old_primary_has_gives_way_to_confirmed_ones() {
    World::new(3).run_script(
        "map 20 0 1 2
         run
         write a one
         run
         write a lost
         down 0
         map 30 1 2
         run
         write b kept
         run
         confirmed => 2
         up 0
         restart 0
         map 40 0 1 2
         run
         get 0 a => one
         equal 0 1 2
         states => Active ReplicaActive ReplicaActive",
    );
}

#[test]
fn a_member_that_lacks_objects_is_active_and_waits_for_the_one_who_has_them() {
    World::new(3).run_script(
        "min 1
         map 20 0 1 2
         run
         write a one
         run
         down 2
         map 30 0 1
         run
         write a two
         write b three
         run
         hold
         up 2
         restart 2
         map 40 0 1 2
         run
         states => Active ReplicaActive ReplicaActive
         missing 2 => a b
         blocked a => yes
         blocked c => no
         write c four
         run
         get 2 c => four
         down 0
         down 1
         restart 2
         map 50 2
         run
         states => Active ReplicaActive Active
         missing 2 => a b
         blocked a => yes
         write d five
         recover
         run
         get 2 d => five
         missing 2 => a b
         up 1
         restart 1
         map 60 2
         run
         missing 2 =>
         get 2 b => three
         up 0
         restart 0
         map 70 0 1 2
         run
         equal 0 1 2
         clean => yes",
    );
}

#[test]
fn whoever_comes_back_while_members_agree_is_asked_for_what_is_missing() {
    World::pair(4).run_script(
        "map 30 2 3
         until 2 WaitUpThru
         restart 0
         restart 1
         map 40 2 3
         run
         states => Stray Stray Active ReplicaActive
         missing 2 =>
         clean => yes
         get 3 a => one",
    );
}

/// The last member was down while two objects changed; recovery is held.
fn lacking() -> World {
    let mut world = World::new(3);
    world.run_script(
        "map 20 0 1 2
         run
         write a one
         write b one
         run
         down 2
         map 30 0 1
         run
         write a two
         write b two
         run
         hold
         up 2
         restart 2
         map 40 0 1 2
         run
         missing 2 => a b",
    );
    world
}

#[test]
fn a_deletion_waits_for_no_recovery() {
    lacking().run_script(
        "remove a
         run
         missing 2 => b
         get 2 a => absent
         recover
         run
         equal 0 1 2
         clean => yes",
    );
}

#[test]
fn a_group_is_clean_when_the_last_missing_object_is_removed() {
    lacking().run_script(
        "remove a
         run
         clean => no
         remove b
         run
         clean => yes
         equal 0 1 2",
    );
}

#[test]
fn what_is_missing_survives_a_restart() {
    lacking().run_script(
        "restart 2
         missing 2 => a b
         map 50 0 1 2
         run
         missing 2 => a b
         recover
         run
         get 2 a => two
         equal 0 1 2",
    );
}

#[test]
fn who_gave_the_last_missing_object_may_be_gone_before_it_is_stored() {
    World::new(2).run_script(
        "size 1
         min 1
         map 10 0
         run
         write a one
         run
         hold
         map 20 1
         run
         missing 1 => a
         recover
         deliver
         down 0
         map 30 1
         run
         get 1 a => one
         clean => yes",
    );
}

#[test]
fn what_can_be_recovered_does_not_wait_for_what_nobody_has() {
    let mut world = World::new(3);
    world.run_script("min 1\n map 20 0 1 2\n run\n write a one\n run");
    world.run_script("down 1\n down 2\n map 30 0\n run");
    (0..100).for_each(|number| world.write(&format!("only{number:02}"), Some("there")));
    world.run_script(
        "run
         hold
         up 1
         restart 1
         up 2
         restart 2
         map 40 0 1 2
         run
         down 0
         down 2
         map 50 1
         run
         write z five
         run
         up 2
         restart 2
         map 60 1 2
         run
         get 2 z => absent
         recover
         run
         get 2 z => five
         blocked z => no
         blocked only00 => yes
         up 0
         restart 0
         map 70 0 1 2
         run
         equal 0 1 2
         clean => yes",
    );
}
