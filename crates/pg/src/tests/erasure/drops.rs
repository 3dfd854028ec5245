//! The effect of following another log on held changes and missing objects.

use super::copies::{store, store_all, told, world};
use crate::tests::world::{World, object};
use types::OsdId;

const BEFORE: &str = "started 10 knew 10 settled 10'5 | x:10'5";
const INTERVALS: [(u32, &str); 1] = [(10, "0 1 2")];

/// Two members without an entry, and the third with `text`; all meet.
fn outcome(text: &str) -> String {
    let mut world = world(2, 1, 0);
    store_all(&mut world, &[0, 1], &INTERVALS, BEFORE);
    store(&mut world, 2, &INTERVALS, text);
    world.run_script("map 20 0 1 2\n run\n states => Active ReplicaActive ReplicaActive");
    restarted(&mut world)
}

/// The state of osd.2, which its store has, too.
fn restarted(world: &mut World) -> String {
    let before = told(world, 2);
    world.restart(OsdId(2), false);
    assert_eq!(told(world, 2), before, "it is durable");
    before
}

#[test]
fn entries_beyond_the_head_are_dropped_with_their_changes() {
    for (text, expected) in [
        ("started 10 knew 10 settled 10'5 | x:10'5 x:10'6<10'5 y:10'7", "10'5"),
        ("started 10 knew 10 settled 10'5 | x:10'5 -x:10'6<10'5 x:10'7", "10'5"),
        // A held change that replaced or removed a missing object: it is missing again.
        (
            "started 10 knew 10 settled 10'5 | x:10'5 -x:10'6<10'5 | x=10'5/9'1",
            "10'5 missing x=10'5/9'1",
        ),
        (
            "started 10 knew 10 settled 10'5 | x:10'5 x:10'6<10'5 | x=10'5/9'1",
            "10'5 missing x=10'5/9'1",
        ),
        (
            "started 10 knew 10 settled 10'5 | x:10'5 -x:10'6<10'5 x:10'7 | x=10'5/9'1",
            "10'5 missing x=10'5/9'1",
        ),
        // Entries that it had only followed: the version before is needed, or here.
        (
            "started 10 knew 10 settled 10'5 | x:10'5 ~x:10'6<10'5 | x=10'6/9'1",
            "10'5 missing x=10'5/9'1",
        ),
        ("started 10 knew 10 settled 10'5 | x:10'5 ~x:10'6<10'5 | x=10'6/10'5", "10'5"),
        ("started 10 knew 10 settled 10'5 | x:10'5 ~y:10'6 | y=10'6/0'0", "10'5"),
        (
            "started 10 knew 10 settled 10'5 | x:10'5 x:10'6<10'5 ~x:10'7<10'6 | x=10'7/9'1",
            "10'5 missing x=10'5/9'1",
        ),
        // A removal that was followed is held, and with it an object is made again.
        (
            "started 10 knew 10 settled 10'5 | x:10'5 -x:10'6<10'5 ~x:10'7 | x=10'7/9'1",
            "10'5 missing x=10'5/9'1",
        ),
        (
            "started 10 knew 10 settled 10'5 | x:10'5 -x:10'6<10'5 ~x:10'7 | x=10'7/0'0",
            "10'5 missing x=10'5/0'0",
        ),
        ("started 10 knew 10 settled 10'5 | x:10'5 -x:10'6<10'5 ~x:10'7 | x=10'7/10'6", "10'5"),
    ] {
        assert_eq!(outcome(text), expected, "{text}");
    }
}

/// It missed the newest entries of an object whose older change it holds.
#[test]
fn changes_up_to_the_head_stay_when_later_ones_make_their_object_missing() {
    let mut world = world(2, 1, 0);
    let newer = "started 11 knew 11 settled 10'5 | x:10'5 x:10'6<10'5 x:11'7<10'6";
    let history = [(10, "0 1 2"), (11, "0 1 -")];
    store_all(&mut world, &[0, 1], &history, newer);
    let older = "started 10 knew 10 settled 10'5 | x:10'5 x:10'6<10'5";
    store(&mut world, 2, &INTERVALS, older);
    world.run_script("map 20 0 1 2\n until 2 ReplicaActive\n deliver");
    let told = told(&world, 2);
    assert_eq!(told, "11'7 held 10'6 missing x=11'7/10'6");
}

/// A removal that the other has settled is applied; one that may still be dropped is held.
#[test]
fn a_removal_that_is_followed_can_be_dropped_until_it_is_certain() {
    for (settled, expected, is_here) in [("10'5", "11'7 held 11'7", true), ("11'7", "11'7", false)]
    {
        let mut world = world(2, 1, 0);
        let newer = format!("started 11 knew 11 settled {settled} | x:10'5 y:10'6 -x:11'7<10'5");
        let history = [(10, "0 1 2"), (11, "0 1 -")];
        store_all(&mut world, &[0, 1], &history, &newer);
        let older = "started 10 knew 10 settled 10'6 | x:10'5 y:10'6";
        store(&mut world, 2, &INTERVALS, older);
        world.run_script("map 20 0 1 2\n until 2 ReplicaActive\n deliver");
        assert_eq!(told(&world, 2), expected);
        assert_eq!(world.nodes[2].value(&object("x")).is_some(), is_here);
    }
}

/// Very many could not be held.
#[test]
fn removals_that_are_certain_are_applied_by_all_although_the_primary_was_away() {
    let mut world = world(4, 2, 0);
    let newer = "started 11 knew 11 settled 11'7 | x:10'5 y:10'6 -x:11'7<10'5";
    let history = [(10, "0 1 2 3 4 5"), (11, "- - 2 3 4 5")];
    store_all(&mut world, &[2, 3, 4, 5], &history, newer);
    let older = "started 10 knew 10 settled 10'6 | x:10'5 y:10'6";
    store_all(&mut world, &[0, 1], &[(10, "0 1 2 3 4 5")], older);
    world.run_script("map 20 0 1 2 3 4 5\n until 1 ReplicaActive\n deliver");
    assert_eq!(told(&world, 1), "11'7");
    assert_eq!(world.nodes[1].value(&object("x")), None);
    assert_eq!(world.nodes[0].pg.info().settled().to_string(), "11'7");
}

/// The primary was backfilled while the group did not serve: it does not know what is certain, but others
/// do.
#[test]
fn more_removals_than_can_be_held_are_applied_if_any_member_has_settled_them() {
    let mut world = world(2, 1, 0);
    let log = |mark: &str| {
        let removal = |number: usize| format!("{mark}-x{number}:10'{}<10'4", number + 6);
        (0..store::HELD_MAX + 10).map(removal).collect::<Vec<_>>().join(" ")
    };
    let head = store::HELD_MAX + 15;
    let history = [(10, "0 1 2")];
    let settled = format!("started 10 knew 10 settled 10'{head} tail 10'5 | {}", log(""));
    store(&mut world, 2, &history, &settled);
    store(
        &mut world,
        0,
        &history,
        &format!("started 10 knew 10 settled 10'5 tail 10'5 | {}", log("~")),
    );
    store(&mut world, 1, &[(9, "0 1 2")], "started 9 knew 9 settled 10'5 tail 10'5");
    world.run_script("map 20 0 1 2\n run\n states => Active ReplicaActive ReplicaActive");
    assert_eq!(told(&world, 1), format!("10'{head}"));
}

/// 2+2: two copies were reset and backfilled while the group did not serve, and those that had settled the
/// removals are gone. A copy that was away must follow them.
#[test]
fn a_copy_that_is_reset_knows_what_the_others_have_settled() {
    let mut world = world(2, 2, 1);
    let removal = |number: usize| format!("-x{number}:10'{}<10'4", number + 6);
    let log = (0..store::HELD_MAX + 10).map(removal).collect::<Vec<_>>().join(" ");
    let head = store::HELD_MAX + 15;
    world.run_script("min 3");
    let history = [(9, "4 1 2 3"), (10, "0 1 2 3")];
    let settled = format!("started 10 knew 10 settled 10'{head} tail 10'5 | {log}");
    store_all(&mut world, &[0, 1], &history, &settled);
    let behind = "started 9 knew 9 settled 10'4 tail 10'4";
    store_all(&mut world, &[2, 3], &history, behind);
    store(&mut world, 4, &[(9, "4 1 2 3")], "started 9 knew 9 settled 10'5 tail 10'5");
    world.run_script(
        "refuse 2
         refuse 3
         map 20 0 1 2 3
         run
         states => Inactive ReplicaActive ReplicaActive ReplicaActive Stray
         allow 2
         allow 3
         recover
         retry 0
         settle
         down 0
         lost 0
         down 1
         lost 1
         map 30 4 - 2 3
         run
         states => Inactive ReplicaActive ReplicaActive ReplicaActive Active",
    );
    assert_eq!(told(&world, 4), format!("10'{head}"));
}

#[test]
fn a_copy_that_is_reset_drops_all_that_it_holds() {
    let mut world = world(2, 1, 0);
    let newer = "started 11 knew 11 settled 11'9 tail 11'8 | x:11'9<11'8";
    let history = [(10, "0 1 2"), (11, "0 1 -")];
    store_all(&mut world, &[0, 1], &history, newer);
    store(&mut world, 2, &INTERVALS, "started 10 knew 10 settled 10'5 | x:10'5 x:10'6<10'5");
    world.run_script("map 20 0 1 2\n until 2 ReplicaActive\n deliver");
    assert_eq!(told(&world, 2), "11'9");
    let info = world.nodes[2].pg.info();
    assert!(!info.is_complete() && info.settled() >= info.log_tail);
    assert_eq!(info.shard.unwrap().shard, world.nodes[2].pg.whoami().shard, "its own");
}

/// A shard misses an object while its removal is held, and restarts before and after it is dropped or
/// settled.
#[test]
fn a_missing_object_whose_removal_is_held_is_missing_again_only_if_that_is_dropped() {
    for (is_dropped, expected) in [(true, "10'5 missing x=10'5/9'1"), (false, "21'6")] {
        let mut world = world(2, 1, 0);
        let before = "started 10 knew 10 settled 10'5 | x:10'5";
        store_all(&mut world, &[0, 1], &INTERVALS, before);
        store(&mut world, 2, &INTERVALS, &format!("{before} | x=10'5/9'1"));
        world.run_script("map 20 0 1 2\n run\n states => Active ReplicaActive ReplicaActive");
        world.run_script("missing 2 => x\n remove x");
        if is_dropped {
            world.run_script("lose 0 1");
        }
        world.run_script("deliver");
        assert_eq!(told(&world, 2), "21'6 held 21'6", "it is not missing any more");
        assert_eq!(restarted(&mut world), "21'6 held 21'6");
        world.run_script("map 30 0 1 2\n run\n states => Active ReplicaActive ReplicaActive");
        assert_eq!(restarted(&mut world), expected);
        world.run_script("recover\n map 40 0 1 2\n run\n missing 2 =>");
        assert_eq!(world.nodes[2].value(&object("x")).is_some(), is_dropped);
        assert_eq!(world.nodes[2].pg.missing().stored_len(), 0);
    }
}
