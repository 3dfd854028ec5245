//! Stores without space that refuse writes.

use super::World;

#[test]
fn a_write_that_the_primary_has_no_room_for_is_fetched_from_the_others() {
    World::new(3).run_script(
        "map 20 0 1 2
         run
         write a one
         run
         commits 0 full ok
         write a two
         write b three
         run
         confirmed => 1
         states => Stalled ReplicaActive ReplicaActive
         map 30 0 1 2
         run
         states => Active ReplicaActive ReplicaActive
         get 0 a => two
         get 0 b => three
         equal 0 1 2
         write a four
         run
         confirmed => 1",
    );
}

#[test]
fn a_write_that_nobody_has_room_for_never_happened() {
    World::new(3).run_script(
        "map 20 0 1 2
         run
         write a one
         run
         confirmed => 1
         commits 0 full
         commits 1 full
         commits 2 full
         write a two
         run
         map 30 0 1 2
         run
         confirmed => 0
         states => Active ReplicaActive ReplicaActive
         get 0 a => one
         equal 0 1 2",
    );
}

#[test]
fn what_was_written_behind_a_refused_write_never_happened_either() {
    World::new(2).run_script(
        "min 1
         map 20 0 1
         run
         write a one
         run
         commits 0 full ok
         write a two
         write b three
         run
         down 1
         restart 0
         map 30 0
         run
         states => Active ReplicaActive
         get 0 b => absent
         up 1
         map 40 0 1
         run
         states => Active ReplicaActive
         get 0 a => one
         get 1 b => absent
         equal 0 1",
    );
}

#[test]
fn the_only_copy_is_as_it_was_before_the_write_that_it_refused() {
    World::new(1).run_script(
        "size 1
         min 1
         map 20 0
         run
         write a one
         write b one
         run
         confirmed => 2
         commits 0 full
         write a two
         write b two
         run
         states => Stalled
         map 30 0
         run
         states => Active
         missing 0 =>
         get 0 a => one
         get 0 b => one
         confirmed => 0
         write b three
         run
         confirmed => 1",
    );
}

#[test]
fn one_that_is_being_filled_in_and_refuses_a_write_halts_the_group_too() {
    World::pair(3).run_script(
        "hold
         map 30 0 1 2
         run
         confirmed => 1
         states => Active ReplicaActive ReplicaActive
         commits 2 full
         write a two
         run
         states => Stalled ReplicaActive Stalled
         map 40 0 1 2
         recover
         run
         clean => yes
         equal 0 1 2",
    );
}

#[test]
fn a_primary_without_room_for_what_it_misses_waits_before_it_asks_again() {
    World::new(3).run_script(
        "map 20 0 1 2
         run
         write a one
         run
         down 0
         map 30 1 2
         run
         write a two
         write b two
         write c two
         run
         hold
         up 0
         restart 0
         map 40 0 1 2
         run
         missing 0 => a b c
         commits 0 full
         recover
         run
         missing 0 => a c
         retry 0
         run
         get 0 a => two
         clean => yes
         equal 0 1 2",
    );
}

#[test]
fn members_that_are_nearly_full_say_so_and_take_it_back() {
    let mut world = World::new(2);
    let full = |world: &mut World, is_full: bool| {
        world.nodes[1].pg.set_has_space(!is_full);
        world.drain();
        world.run();
        world.nodes[0].pg.has_space()
    };
    assert!(full(&mut world, true));
    world.run_script("map 20 0 1\n run");
    assert!(!world.nodes[0].pg.has_space(), "it is told on activation");
    assert!(full(&mut world, false));
    assert!(!full(&mut world, true));
    world.run_script("map 30 1 0\n run\n states => ReplicaActive Active");
    assert!(world.nodes[0].pg.has_space() && !world.nodes[1].pg.has_space());
}

/// More objects than one bookkeeping transaction can name, and more than any transaction can.
#[test]
fn a_full_member_that_missed_much_comes_back() {
    for (missed, is_removed) in [(50, true), (900, true), (900, false)] {
        let mut world = World::new(3);
        world.run_script("map 20 0 1 2\n run");
        let name = |number: usize| format!("object{number}-{}", "x".repeat(200));
        for number in 0..missed {
            world.write(&name(number), Some("x"));
        }
        world.run_script("run\n down 2\n map 30 0 1\n run");
        for number in 0..missed {
            world.write(&name(number), Some("y").filter(|_| !is_removed));
        }
        world.run_script("run\n up 2\n fill 2");
        world.node(types::OsdId(2)).largest = 0;
        world.run_script(
            "map 40 0 1 2
             run
             states => Active ReplicaActive ReplicaActive",
        );
        if is_removed {
            world.run_script("clean => yes\n equal 0 1 2");
        }
        let largest = world.node(types::OsdId(2)).largest;
        assert!(largest <= store::BOOKKEEPING_BYTES_MAX, "{missed}: {largest}");
    }
}

/// The refusal arrives after later transactions were submitted.
#[test]
fn a_piece_that_found_no_room_takes_nothing_with_it_that_was_written_since() {
    let mut world = World::new(2);
    world.run_script("size 2\n min 1\n map 20 0 1\n run\n down 1\n map 30 0\n run");
    world.write("a", Some(&"old".repeat(1 << 19)));
    world.run_script(
        "run
         hold
         up 1
         map 40 0 1
         run
         missing 1 => a
         commits 1 full ok ok
         recover
         deliver
         remove a
         write a new
         deliver
         run
         get 0 a => new
         get 1 a => new
         missing 1 =>
         equal 0 1
         clean => yes",
    );
}
