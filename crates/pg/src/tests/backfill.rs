//! Members whose logs do not overlap the primary's.

use super::World;
use crate::LOG_ENTRIES_MAX;

/// One of three hundred names.
fn name_of(number: usize) -> String {
    format!("object{}", number % 300)
}

#[test]
fn an_empty_disk_is_filled() {
    World::new(3).run_script(
        "map 20 0 1 2
         run
         write a one
         write b two
         run
         wipe 0
         map 30 0 1 2
         run
         states => Active ReplicaActive ReplicaActive
         get 0 a => one
         equal 0 1 2",
    );
}

#[test]
fn copies_whose_logs_do_not_overlap_are_compared() {
    let mut world = World::new(3);
    world.run_script(
        "map 20 0 1 2
         run
         write same one
         write gone two
         run
         down 2
         map 30 0 1
         run
         remove gone",
    );
    world.outgrow_log(name_of, 2 * LOG_ENTRIES_MAX);
    world.run_script(
        "up 2
         restart 2
         map 40 0 1 2
         run
         get 2 gone => absent
         get 2 same => one
         equal 0 1 2
         restart 1
         map 50 0 1 2
         run
         states => Active ReplicaActive ReplicaActive
         equal 0 1 2",
    );
    assert!(world.nodes[1].pg.log().len() <= LOG_ENTRIES_MAX);
}

/// OSD 0 lacks an object that only OSD 1 has when OSD 1 goes down, and continues without it for longer than
/// its log reaches back.
fn with_one_that_alone_has_an_object(returns_as_member: bool) -> World {
    let mut world = World::new(3);
    world.run_script(
        "size 2
         min 1
         map 20 0 1
         run
         write a old
         run
         down 0
         map 30 1
         run
         write a new
         run
         hold
         up 0
         restart 0
         map 40 0 1
         run
         missing 0 => a
         down 1
         map 50 0
         run
         unfound 0 => a",
    );
    for number in 0..2 * LOG_ENTRIES_MAX {
        world.write(&format!("object{number}"), Some("other"));
        if number % 100 == 0 {
            world.run();
        }
    }
    let members = if returns_as_member { "0 1" } else { "0 2" };
    world.run_script(&format!(
        "run
         recover
         lost-object a => no
         up 1
         restart 1
         map 60 {members}
         run"
    ));
    world
}

#[test]
fn what_only_one_has_whom_the_log_does_not_reach_any_more_is_fetched_before_it_is_backfilled() {
    with_one_that_alone_has_an_object(true).run_script(
        "clean => yes
         get 0 a => new
         get 1 a => new
         equal 0 1",
    );
}

#[test]
fn what_only_a_stray_has_whom_the_log_does_not_reach_any_more_is_fetched_from_it() {
    with_one_that_alone_has_an_object(false).run_script(
        "clean => yes
         get 0 a => new
         get 2 a => new
         equal 0 2",
    );
}

#[test]
fn what_a_copy_that_is_to_be_filled_in_has_in_an_older_version_is_not_taken() {
    let mut world = World::new(3);
    world.run_script(
        "size 3
         min 1
         map 20 0 1 2
         run
         write a old
         run
         down 0
         down 2
         map 30 1
         run
         write a new
         run
         hold
         up 0
         restart 0
         map 40 0 1
         run
         down 1
         map 50 0
         run
         unfound 0 => a",
    );
    for number in 0..2 * LOG_ENTRIES_MAX {
        world.write(&format!("object{number}"), Some("other"));
        if number % 100 == 0 {
            world.run();
        }
    }
    world.run_script(
        "run
         recover
         up 2
         restart 2
         map 60 0 2
         run
         unfound 0 => a
         lost-object a => no
         up 1
         restart 1
         map 70 0 1 2
         run
         clean => yes
         get 0 a => new
         equal 0 1 2",
    );
}

#[test]
fn a_former_member_is_dismissed_once_the_group_is_whole() {
    World::new(4).run_script(
        "map 20 0 1 2
         run
         write a one
         run
         map 30 0 1 3
         run
         states => Active ReplicaActive Stray ReplicaActive
         get 3 a => one
         get 2 a => absent
         equal 0 1 3",
    );
}

/// A group of two with more writes than its log has entries; the other OSDs are empty.
fn with_long_history() -> World {
    let mut world = World::new(4);
    world.run_script("min 1\n size 2\n map 20 0 1\n run");
    world.outgrow_log(name_of, 2 * LOG_ENTRIES_MAX);
    world
}

#[test]
fn data_moves_to_where_it_belongs_while_clients_write() {
    let mut world = with_long_history();
    world.run_script(
        "hold
         map 30 2 3
         run
         states => Active ReplicaActive ReplicaActive ReplicaActive
         acting => 0 1
         clean => no
         write object7 changed
         write new one
         remove object8
         settle
         confirmed => 2203
         recover
         write object9 changed
         run
         acting => 2 3
         clean => yes
         states => Stray Stray Active ReplicaActive
         equal 2 3
         get 3 object7 => changed
         get 3 object8 => absent
         get 3 object9 => changed
         get 2 new => one
         get 0 new => absent",
    );
}

#[test]
fn who_is_filled_in_goes_on_where_it_was_interrupted() {
    let mut world = with_half_filled_target();
    let through = filled(&world).unwrap();
    world.run_script("hold\n restart 2\n map 60 2 1\n run\n write object1 changed\n settle");
    assert!(filled(&world).unwrap() >= through);
    world.run_script("recover\n run\n acting => 2 1\n equal 1 2\n clean => yes");
}

/// Backfills OSD 2 until it has a part of the objects.
fn with_half_filled_target() -> World {
    let mut world = with_long_history();
    world.run_script("map 30 2 1\n hold\n run\n recover\n acting => 0 1");
    while filled(&world).is_none_or(|through| through == types::HObject::default()) {
        assert!(world.step(true));
    }
    world
}

/// The progress of OSD 2's backfill; `None` if it is complete.
fn filled(world: &World) -> Option<types::HObject> {
    let info = world.nodes[2].pg.info();
    (!info.is_complete()).then(|| info.last_backfill.clone())
}

#[test]
fn a_place_for_being_filled_in_ends_with_its_interval() {
    let mut world = with_half_filled_target();
    world.run_script(
        "restart 1
         map 60 2 1
         run
         acting => 2 1
         equal 1 2
         clean => yes",
    );
}

#[test]
fn a_target_without_room_leaves_the_others_serving() {
    let mut world = with_long_history();
    world.run_script(
        "refuse 2
         map 30 0 2
         run
         acting => 0 1
         clean => no
         write a one
         run
         confirmed => 2201
         allow 2
         retry 0
         run
         acting => 0 2
         clean => yes
         equal 0 2",
    );
}
