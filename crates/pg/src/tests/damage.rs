//! Copies that turn out to be bad, and are repaired from others.

use super::World;
use crate::LOG_ENTRIES_MAX;

fn after(script: &str) {
    World::trio().run_script(script);
}

#[test]
fn a_bad_copy_of_a_member_is_replaced_by_the_primary() {
    after(
        "damage 2 a
         corrupt 2 a => yes
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
         corrupt 0 b => yes
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
         corrupt 0 a => yes
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
         corrupt 0 a => yes
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
         corrupt 2 a => yes
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
         corrupt 1 a => yes
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
        "corrupt 2 a => yes
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
         corrupt 2 a => yes
         remove a
         run
         recover
         run
         get 2 a => absent
         equal 0 1 2
         clean => yes",
    );
}

fn outgrow_log(world: &mut World) {
    world.outgrow_log(|_| "b".to_owned(), LOG_ENTRIES_MAX + 1);
}

#[test]
fn a_new_member_gets_what_its_primary_cannot_read_from_another() {
    let mut world = World::new(3);
    world.run_script("map 20 0 1\n run\n write a one\n run");
    outgrow_log(&mut world);
    world.run_script(
        "damage-meta 0 a
         map 30 0 1 2
         run
         unfound 0 =>
         blocked a => no
         missing 0 =>
         missing 2 =>
         clean => yes
         get 0 a => one
         get 1 a => one
         get 2 a => one
         equal 0 1 2",
    );
}

/// The copy that remains may not be the newest one. So it is neither used nor removed.
#[test]
fn a_copy_is_not_removed_because_another_cannot_be_read() {
    let mut world = World::pair(2);
    world.run_script(
        "get 1 a => one
         down 1
         map 25 0
         run",
    );
    outgrow_log(&mut world);
    world.run_script(
        "damage-meta 0 a
         up 1
         map 30 0 1
         run
         clean => no
         get 1 a => one
         mend-meta 0 a
         map 40 1 0
         run
         clean => yes
         get 0 a => one
         get 1 a => one
         equal 0 1",
    );
}

#[test]
fn a_read_that_fails_once_while_a_member_is_filled_in_does_no_harm() {
    for (osd, kind) in [(0, "meta"), (1, "meta"), (0, "read"), (0, "list"), (1, "list")] {
        let mut world = World::pair(3);
        world.run_script("down 1\n map 25 0 2\n run");
        outgrow_log(&mut world);
        world.run_script("up 1\n hold\n map 30 0 1\n until 0 Active");
        world.run_script(&format!(
            "map 40 0 1
             fail {osd} {kind}
             recover
             run
             retry 0
             run
             clean => yes
             acting => 0 1
             get 1 a => one
             equal 0 1",
        ));
        assert!(!world.nodes[osd].has_place && !world.nodes[osd].is_failing(), "{osd} {kind}");
    }
}

/// A read that failed once on every copy succeeds on any of them when it is tried again.
#[test]
fn a_copy_is_not_given_up_because_one_read_of_it_failed() {
    for kind in ["meta", "read"] {
        let mut world = World::new(2);
        world.run_script("size 2\n map 20 0 1\n run\n write a one\n run\n clean => yes");
        world.run_script("corrupt 0 a => yes");
        world.run_script(&format!(
            "fail 1 {kind}
             run
             unfound 0 =>
             clean => yes
             get 0 a => one
             equal 0 1",
        ));
        assert!(!world.nodes[1].is_failing(), "{kind}");
    }
}

#[test]
fn an_object_that_is_owed_is_not_taken_for_removed_because_the_store_lost_it() {
    let mut world = World::trio();
    world.lose(types::OsdId(0), "a");
    world.run_script(
        "corrupt 2 a => yes
         run
         get 0 a => one
         get 2 a => one
         equal 0 1 2
         clean => yes",
    );
}

#[test]
fn what_no_copy_can_be_read_of_is_lost_and_a_write_makes_it_good_again() {
    for (change, value) in [("write a new", "new"), ("remove a", "absent")] {
        after(&format!(
            "damage 0 a
             damage 1 a
             damage 2 a
             corrupt 0 a => yes
             lost-object a => no
             run
             unfound 0 => a
             lost-object a => yes
             lost-object b => no
             {change}
             run
             unfound 0 =>
             missing 0 =>
             get 0 a => {value}
             get 1 a => {value}
             get 2 a => {value}
             clean => yes
             equal 0 1 2
             restart 0
             map 30 0 1 2
             run
             get 0 a => {value}
             equal 0 1 2",
        ));
    }
}

#[test]
fn what_a_former_member_that_is_down_may_have_is_not_lost() {
    for end in ["up 2\n map 40 0 1 2\n run\n get 0 a => one\n clean => yes\n equal 0 1 2", "lost 2"]
    {
        after(&format!(
            "down 2
             map 30 0 1
             run
             damage 0 a
             damage 1 a
             corrupt 0 a => yes
             run
             unfound 0 => a
             lost-object a => no
             {end}",
        ));
    }
}

#[test]
fn what_was_given_up_with_its_osd_is_lost() {
    after(
        "down 2
         map 30 0 1
         run
         damage 0 a
         damage 1 a
         corrupt 0 a => yes
         run
         lost-object a => no
         lost 2
         map 40 0 1
         run
         lost-object a => yes
         write a new
         run
         get 0 a => new
         get 1 a => new
         equal 0 1",
    );
}

#[test]
fn an_only_copy_that_cannot_be_read_waits_for_the_one_that_is_away() {
    World::pair(2).run_script(
        "down 1
         map 30 0
         run
         damage 0 a
         unreadable a => yes
         blocked a => yes
         unfound 0 => a
         missing 0 =>
         up 1
         map 40 0 1
         run
         corrupt 0 a => yes
         run
         get 0 a => one
         blocked a => no
         clean => yes
         equal 0 1",
    );
}

#[test]
fn copies_that_could_not_be_read_are_read_once_more_when_asked() {
    after(
        "damage 0 a
         damage 1 a
         damage 2 a
         corrupt 0 a => yes
         run
         lost-object a => yes
         again
         run
         lost-object a => yes
         mend 1 a
         again
         run
         lost-object a => no
         get 0 a => one
         clean => yes
         equal 0 1 2",
    );
}

#[test]
fn an_object_that_cannot_be_given_to_a_new_member_is_lost_until_it_is_written() {
    World::pair(2).run_script(
        "down 1
         map 30 0
         run
         write a two
         run
         damage 0 a
         up 1
         map 40 0 1
         run
         older a => yes
         unfound 0 => a
         lost-object a => yes
         blocked a => yes
         write a three
         run
         get 0 a => three
         get 1 a => three
         clean => yes
         equal 0 1",
    );
}

/// A client waits for more objects than one step of the search examines, all unfound; recoverable objects
/// follow behind them.
#[test]
fn unfound_objects_do_not_keep_others_from_being_recovered() {
    let mut world = World::trio();
    let names: Vec<String> =
        (0..crate::serving::EXAMINED_MAX + 6).map(|n| format!("n{n}")).collect();
    for name in &names {
        world.run_script(&format!("write {name} one\n run"));
    }
    world.run_script("down 2\n map 30 0 1\n run");
    for name in &names {
        world.run_script(&format!("damage 0 {name}\n damage 1 {name}\n damage 2 {name}"));
        world.run_script(&format!("corrupt 0 {name} => yes\n run"));
    }
    let unfound = |world: &mut World| world.node(types::OsdId(0)).pg.unfound().count();
    assert_eq!(unfound(&mut world), names.len());
    // Counted in parts, all are known after a round.
    let pg = &mut world.node(types::OsdId(0)).pg;
    let counted: Vec<u64> = [30, 30, 30, 30].map(|looks| pg.count_unfound(looks)).into();
    assert_eq!(counted, [30, 60, 70, 70]);
    assert!(pg.has_unfound());
    world.run_script(
        "write b later
         run
         up 2
         map 40 0 1 2
         run
         missing 2 =>
         get 2 b => later",
    );
    assert_eq!(unfound(&mut world), names.len());
}
