//! The outcome of a write that not all members hold.

use super::copies::{store, store_all, told, world};
use crate::State;
use crate::tests::world::{World, object};
use types::OsdId;

const WRITTEN: &str = "started 10 knew 10 settled 10'5 | x:10'5 x:10'6<10'5";
const BEFORE: &str = "started 10 knew 10 settled 10'5 | x:10'5";

/// 2+1: an overwrite that some members hold, then the loss of none or one, then a restart of all others.
#[test]
fn the_write_hole_by_cases() {
    for holders in 0..8 {
        for lost in 0..4 {
            let mut world = world(2, 1, 0);
            let intervals = [(10, "0 1 2")];
            for osd in 0..3 {
                let text = if holders & 1 << osd != 0 { WRITTEN } else { BEFORE };
                store(&mut world, osd, &intervals, text);
            }
            let left: Vec<usize> = (0..3).filter(|osd| *osd != lost).collect();
            let up = |osd: usize| if osd == lost { "-".to_owned() } else { osd.to_string() };
            let up: Vec<String> = (0..3).map(up).collect();
            if lost < 3 {
                world.run_script(&format!("down {lost}"));
            }
            world.run_script(&format!("map 20 {}\n run", up.join(" ")));
            let is_kept = left.iter().all(|osd| holders & 1 << osd != 0);
            let case = format!("held by {holders:03b}, lost {lost}");
            for osd in left {
                let expected = if is_kept { "10'6 held 10'6" } else { "10'5" };
                let told = told(&world, osd);
                assert!(told == expected || is_kept && told == "10'6", "{case}: {told}");
            }
            let primary = world.primary();
            assert_eq!(world.node(primary).pg.state(), State::Active, "{case}");
        }
    }
}

/// 4+2, `min_size` 5, no disk lost: an activation that one member stored has an entry that others have
/// dropped since.
#[test]
fn an_entry_with_fewer_logs_than_data_shards_is_dropped() {
    let mut world = world(4, 2, 0);
    world.run_script("min 5");
    world.epoch = 15; // all have restarted since
    let history = [(10, "0 1 2 3 4 5"), (11, "0 1 2 3 4 -"), (12, "- 1 2 3 4 5")];
    let held = "started 10 knew 10 settled 10'5 | x:10'5 x:10'6<10'5";
    store(&mut world, 0, &history, &held.replace("started 10", "started 11"));
    store_all(&mut world, &[3, 4], &history, &held.replace("settled", "absent 11 settled"));
    store_all(&mut world, &[1, 5], &history, &BEFORE.replace("settled", "absent 11 settled"));
    world.run_script(
        "down 2
         lost 2
         map 20 0 1 - 3 4 5
         run",
    );
    assert_eq!(world.node(OsdId(0)).pg.state(), State::Active);
    for osd in [0, 1, 3, 4, 5] {
        assert_eq!(told(&world, osd), "10'5", "osd.{osd}");
    }
}

/// The same with one holder more, while none of them proves that the activation was not completed: the entry
/// may have been acknowledged.
#[test]
fn an_entry_with_as_many_logs_as_data_shards_is_kept() {
    let mut world = world(4, 2, 0);
    world.run_script("min 5");
    world.epoch = 15;
    let history = [(10, "0 1 2 3 4 5"), (11, "0 1 2 3 4 -"), (12, "- 1 2 3 4 5")];
    store(&mut world, 0, &history, &WRITTEN.replace("started 10", "started 11"));
    store_all(&mut world, &[1, 3, 4], &history, &WRITTEN.replace("settled", "absent 11 settled"));
    store(&mut world, 5, &history, BEFORE);
    world.run_script("down 2\n lost 2\n map 20 0 1 - 3 4 5\n run");
    for osd in [0, 1, 3, 4] {
        assert!(told(&world, osd).starts_with("10'6"), "osd.{osd}: {}", told(&world, osd));
    }
    assert_eq!(told(&world, 5), "10'6 missing x=10'6/10'5");
}

/// 4+2, `min_size` 5, no disk lost: osd.4 took part in the write, and has not stored it. Later it followed
/// the entry, without its data, in an activation that others prove not completed; without that proof, the
/// entry may have been acknowledged.
#[test]
fn a_log_that_followed_an_entry_without_its_data_does_not_count() {
    let history = [(10, "0 1 2 3 4 5"), (11, "0 1 2 3 4 -"), (13, "0 1 2 3 4 5")];
    for (started, expected) in [("started 10", "10'5"), ("started 13", "10'6 held 10'6")] {
        let mut world = world(4, 2, 0);
        world.run_script("min 5");
        world.epoch = 15; // all have restarted since
        store_all(&mut world, &[0, 1, 2], &history, &WRITTEN.replace("started 10", started));
        let followed = "started 13 knew 10 settled 10'5 | x:10'5 ~x:10'6<10'5 | x=10'6/10'5";
        store(&mut world, 4, &history, followed);
        world.run_script("down 3\n down 5\n map 20 0 1 2 - 4 -\n run");
        assert_eq!(world.node(OsdId(0)).pg.state(), State::Inactive, "{started}");
        for osd in [0, 1, 2] {
            assert_eq!(told(&world, osd), expected, "osd.{osd} {started}");
        }
        let unfound = if started == "started 10" { "" } else { "x" };
        world.run_script(&format!("unfound 0 => {unfound}"));
    }
}

/// The same with a write that makes a clone, which nothing tells of osd.4 but the item of its head: the log
/// does not end between the entries of the write, whose changes are held and dropped together.
#[test]
fn the_entries_of_a_write_are_kept_or_dropped_together() {
    let history = [(10, "0 1 2 3 4 5"), (11, "0 1 2 3 4 -"), (13, "0 1 2 3 4 5")];
    let write = "x@1:10'6 x:10'7<10'5";
    for (started, expected) in [("started 10", "10'5"), ("started 13", "10'7 held 10'7")] {
        let mut world = world(4, 2, 0);
        world.run_script("min 5");
        world.epoch = 15; // all have restarted since
        let written = format!("{started} knew 10 settled 10'5 | x:10'5 {write}");
        store_all(&mut world, &[0, 1, 2], &history, &written);
        let followed = write.replace("x", "~x");
        let items = "x@1=10'6/0'0 x=10'7/10'5";
        let followed = format!("started 13 knew 10 settled 10'5 | x:10'5 {followed} | {items}");
        store(&mut world, 4, &history, &followed);
        world.run_script("down 3\n down 5\n map 20 0 1 2 - 4 -\n run");
        for osd in [0, 1, 2] {
            assert_eq!(told(&world, osd), expected, "osd.{osd} {started}");
        }
        assert_eq!(told(&world, 4).starts_with("10'5"), started == "started 10");
        let unfound = if started == "started 10" { "" } else { "x x" };
        world.run_script(&format!("unfound 0 => {unfound}"));
    }
}

/// osd.4 missed x when it was removed and made again, holds both, and the client has its answers. Then osd.4
/// follows a later write of x, which was not acknowledged, in an activation that others prove not completed.
#[test]
fn a_write_that_a_copy_holds_below_an_entry_that_it_followed_counts() {
    let mut world = world(4, 2, 0);
    world.run_script("min 5");
    world.epoch = 35; // all have restarted since
    let before = [(20, "0 1 2 3 4 5")];
    let history = [(20, "0 1 2 3 4 5"), (30, "0 1 2 3 - 5")];
    let log = "x:10'5<9'4 -x:20'6<10'5 x:20'7";
    let newer = format!("started 20 knew 20 settled 10'5 | {log} x:20'8<20'7");
    store(&mut world, 5, &history, &newer);
    store_all(&mut world, &[0, 1, 2, 3], &history, &newer.replace("started 20", "started 30"));
    let missing = format!("started 20 knew 20 settled 10'5 | {log} | x=10'5/9'4");
    store(&mut world, 4, &before, &missing);
    world.run_script("down 5\n map 40 0 1 2 3 4 -");
    while world.nodes[0].pg.state() != State::Activating {
        assert!(world.step(true) || world.grant(), "it is activated");
    }
    world.drain();
    world.run_script("lose 0 1\n lose 0 2\n lose 0 3\n settle");
    assert!(told(&world, 4).starts_with("20'8 held 20'6 20'7 missing x=20'8"), "it has followed");
    world.run_script(
        "restart 4
         down 2
         lost 2
         down 3
         lost 3
         up 5
         restart 5
         map 50 0 1 - - 4 5
         run
         unfound 0 =>",
    );
    for osd in [0, 1, 4, 5] {
        assert_eq!(told(&world, osd), "20'7 held 20'6 20'7", "osd.{osd}");
    }
}

/// osd.4 has followed an entry of x without its data, and holds a later write of x, which others lack: the
/// activation in which it followed the entry keeps that, although too few have its data.
#[test]
fn an_entry_below_a_held_write_is_kept_by_the_activation_in_which_it_was_followed() {
    let history = [(10, "0 1 2 3 4 5"), (12, "0 1 2 3 4 -")];
    let mut world = world(4, 2, 0);
    world.run_script("min 5");
    world.epoch = 15; // all have restarted since
    let log = "started 12 knew 10 settled 10'5 | x:10'5 x:10'6<10'5";
    store_all(&mut world, &[1, 2], &history, log);
    store(&mut world, 0, &history, &format!("{log} x:12'7<10'6"));
    let followed = log.replace(" x:10'6", " ~x:10'6");
    store(&mut world, 4, &history, &format!("{followed} x:12'7<10'6 | x=10'6/10'5"));
    world.run_script("down 3\n down 5\n map 20 0 1 2 - 4 -\n run\n unfound 0 => x");
    for osd in [0, 1, 2] {
        assert_eq!(told(&world, osd), "10'6 held 10'6", "osd.{osd}");
    }
    assert_eq!(told(&world, 4), "10'6 missing x=10'6/10'5");
}

/// The same, if osd.4 was no member when the entry was written, and two disks are lost.
#[test]
fn the_log_of_a_member_that_came_later_does_not_count() {
    let history = [(10, "0 1 2 3 - 5"), (11, "0 1 2 3 4 -")];
    for object in ["x:10'5 x:10'6<10'5 | x=10'6/10'5", "y:10'5 x:10'6 | x=10'6/0'0"] {
        let (log, _) = object.split_once(" | ").unwrap();
        let mut world = world(4, 2, 0);
        world.run_script("min 5");
        world.epoch = 15;
        let copy = format!("started 10 knew 10 settled 10'5 | {log}");
        store_all(&mut world, &[0, 1, 2], &history, &copy);
        let followed = object.replace(" x:10'6", " ~x:10'6");
        store(&mut world, 4, &history, &format!("started 11 knew 10 settled 10'5 | {followed}"));
        world.run_script("down 3\n lost 3\n down 5\n lost 5\n map 20 0 1 2 - 4 -\n run");
        for osd in [0, 1, 2, 4] {
            assert_eq!(told(&world, osd), "10'5", "osd.{osd} {object}");
        }
    }
}

/// osd.2 cannot read its object any more. Its log still proves that the write may have been acknowledged.
#[test]
fn the_log_of_a_member_whose_object_is_damaged_counts() {
    let mut world = world(2, 1, 0);
    world.epoch = 15;
    let history = [(10, "0 1 2")];
    store_all(&mut world, &[0, 1], &history, WRITTEN);
    store(&mut world, 2, &history, &format!("{WRITTEN} | x=10'6/0'0"));
    world.run_script(
        "down 1\n map 20 0 - 2\n run\n states => Active Stray ReplicaActive\n head 0 => 10'6",
    );
}

/// 2+1: if the entry were kept, the loss of osd.0 before osd.1 is activated would leave one shard of it, and
/// one of the version before.
#[test]
fn an_activation_that_a_member_did_not_store_does_not_keep_an_entry_that_another_lacks() {
    for (absent, expected) in [("settled", "10'5"), ("absent 11 settled", "10'6")] {
        let mut world = world(2, 1, 0);
        world.epoch = 15; // all have restarted since
        let history = [(10, "0 1 2"), (11, "0 1 -")];
        store(&mut world, 0, &history, &WRITTEN.replace("started 10", "started 11"));
        store(&mut world, 1, &history, &WRITTEN.replace("settled", absent));
        store(&mut world, 2, &history, BEFORE);
        world.run_script("map 20 0 1 2\n run\n states => Active ReplicaActive ReplicaActive");
        for osd in 0..3 {
            let told = told(&world, osd);
            assert!(told.starts_with(expected), "osd.{osd}, {absent}: {told}");
        }
    }
}

/// osd.0 has this copy, from a backup of its disk, and the others the newer one. Two of them do not become
/// active without the third, and keep its newest entry.
fn a_backup_proves_nothing(history: &[(u32, &str)], backup: &str, newer: &str, head: &str) {
    let mut world = world(2, 1, 0);
    world.epoch = 35;
    store(&mut world, 0, history, backup);
    store_all(&mut world, &[1, 2], history, newer);
    world.run_script(&format!(
        "down 2
         map 40 0 1 -
         run
         states => Down Replica Stray
         blocked-by 0 => 2
         up 2
         restart 2
         map 50 0 1 2
         run
         states => Active ReplicaActive ReplicaActive
         head 0 => {head}"
    ));
}

#[test]
fn a_restored_copy_does_not_prove_that_an_interval_was_not_activated() {
    a_backup_proves_nothing(
        &[(5, "0 1 -"), (10, "0 1 2")],
        "started 5 knew 5 absent 10 settled 5'4 | x:5'4",
        "started 10 knew 5 settled 10'5 | x:5'4 x:10'5<5'4 x:10'6<10'5",
        "10'6",
    );
}

/// Intervals with the same members are kept as one. A copy that was restored from a backup was there in the
/// first of them only.
#[test]
fn a_restored_copy_proves_nothing_of_a_later_interval_with_the_same_members() {
    a_backup_proves_nothing(
        &[(4, "0 1 2"), (11, "0 1 -"), (21, "0 1 2")],
        "started 3 knew 3 absent 21 settled 3'4 | x:3'4",
        "started 21 knew 3 settled 21'5 | x:3'4 x:21'5<3'4 x:21'6<21'5",
        "21'6",
    );
}

#[test]
fn a_copy_knows_since_when_its_disk_is_older_than_its_osd() {
    let mut world = world(2, 1, 0);
    world.run_script("map 20 0 1 2\n run");
    let backup = world.nodes[0].store.clone();
    world.run_script(
        "down 0
         map 30 - 1 2
         run
         up 0
         restart 0
         map 40 0 1 2
         run
         states => Active ReplicaActive ReplicaActive",
    );
    let absent_since = |world: &World, osd: usize| {
        world.nodes[osd].pg.info().shard.expect("it is a shard").absent_since.0
    };
    assert_eq!(absent_since(&world, 0), 0, "it was not in the map while it was down");
    world.nodes[0].store = backup;
    world.run_script("restart 0");
    world.load(OsdId(0));
    world.run_script("map 50 0 1 2\n settle");
    assert_eq!((0..3).map(|osd| absent_since(&world, osd)).collect::<Vec<_>>(), [40, 0, 0]);
    world.run_script("restart 0");
    assert_eq!(absent_since(&world, 0), 40, "it is durable");
}

/// It is not in the prior set: an old copy of a position.
#[test]
fn a_stray_that_goes_down_while_its_log_is_compared_is_not_waited_for() {
    let mut world = world(2, 1, 1);
    world.epoch = 15;
    let history = [(10, "0 1 2"), (11, "0 1 -")];
    store(&mut world, 0, &history, &WRITTEN.replace("started 10", "started 11"));
    store(&mut world, 1, &history, &WRITTEN.replace("settled", "absent 11 settled"));
    store(&mut world, 2, &history, BEFORE);
    store(&mut world, 3, &[(5, "3 1 2")], "started 5 knew 5 settled 5'4 | x:5'4");
    world.run_script("map 20 0 1 2\n store 3\n pass 3 0");
    while world.nodes[0].pg.state() != State::GetLog {
        assert!(world.step(true), "the logs are compared");
    }
    assert!(world.nodes[0].pg.waiting_for().any(|osd| osd == OsdId(3)));
    world.run_script(
        "down 3
         map 21 0 1 2
         run
         states => Active ReplicaActive ReplicaActive Stray",
    );
}

/// A copy that ends before what others have settled has gone back in time: it counts as incomplete.
#[test]
fn a_copy_that_went_back_in_time_does_not_lower_the_head() {
    let mut world = world(2, 1, 0);
    let intervals = [(10, "0 1 2")];
    let settled = "started 10 knew 10 settled 10'6 | x:10'5 x:10'6<10'5";
    store_all(&mut world, &[0, 1], &intervals, settled);
    store(&mut world, 2, &intervals, BEFORE);
    world.run_script("map 20 0 1 2\n run\n states => Active ReplicaActive ReplicaActive");
    assert_eq!(told(&world, 0), "10'6");
    assert_eq!(told(&world, 2), "10'6 missing x=10'6/10'5");
}

/// A copy that knows of a later activation than its own cannot decide.
#[test]
fn a_group_without_a_copy_of_the_newest_activation_is_incomplete() {
    let mut world = world(2, 1, 0);
    let intervals = [(10, "0 1 2")];
    store_all(&mut world, &[0, 1, 2], &intervals, &BEFORE.replace("knew 10", "knew 11"));
    world.run_script("map 20 0 1 2\n run\n states => Incomplete Replica Replica");
}

#[test]
fn two_survivors_of_a_written_interval_are_enough_and_one_is_not() {
    let mut world = world(2, 1, 0);
    store_all(&mut world, &[0, 1, 2], &[(10, "0 1 2")], BEFORE);
    world.run_script(
        "down 1
         down 2
         map 20 0 - -
         run
         states => Down Stray Stray
         blocked-by 0 => 1 2
         up 2
         restart 2
         map 30 0 - 2
         run
         states => Active Stray ReplicaActive",
    );
}

#[test]
fn a_member_without_its_log_leaves_a_hole_and_is_backfilled() {
    let mut world = world(2, 1, 0);
    let behind = "started 10 knew 10 settled 10'5 tail 10'4 | x:10'5";
    store_all(&mut world, &[0, 2], &[(10, "0 1 2")], behind);
    world.run_script(
        "map 20 0 1 2
         run
         acting => 0 - 2
         states => Active ReplicaActive ReplicaActive
         clean => no",
    );
    assert_eq!(world.nodes[0].pg.backfill_targets().count(), 1);
}

/// All disks that are left have settled what the log has.
#[test]
fn a_group_below_min_size_is_backfilled_until_it_serves() {
    let mut world = world(4, 2, 2);
    let text = "started 10 knew 10 settled 10'7 tail 10'5 | x:10'6<10'4 y:10'7<10'5";
    world.run_script("min 5");
    store_all(&mut world, &[2, 3, 4, 5], &[(10, "0 1 2 3 4 5")], text);
    world.run_script(
        "down 0
         down 1
         map 20 6 7 2 3 4 5
         run
         state 2 => Inactive members 2(2) 3(3) 4(4) 5(5) 6(0) 7(1) filling 6(0) 7(1)
         recover
         run
         acting => 6 7 2 3 4 5
         clean => yes",
    );
    assert_eq!(world.node(OsdId(6)).pg.state(), State::Active);
}

/// osd.6 was reset, and has a part of its backfill: it settles nothing while the group does not serve.
#[test]
fn a_target_that_is_backfilled_in_part_makes_no_change_of_others_uncertain() {
    let mut world = world(4, 2, 2);
    let log = "x:10'6<10'4 y:10'7<10'5";
    let text = format!("started 10 knew 10 settled 10'7 tail 10'5 | {log}");
    world.run_script("min 6");
    store_all(&mut world, &[2, 3, 4, 5], &[(10, "0 1 2 3 4 5")], &text);
    let target = "started 10 knew 10 settled 10'5 tail 10'5 through x | ~x:10'6<10'4 ~y:10'7<10'5";
    store(&mut world, 6, &[(10, "0 1 2 3 4 5")], target);
    world.run_script("down 0\n down 1\n map 20 6 7 2 3 4 5\n run");
    assert_eq!(world.nodes[2].pg.state(), State::Inactive);
    assert_eq!(world.nodes[2].pg.committed().to_string(), "10'7");
}

/// The group cannot settle a change before it serves, and cannot serve before it is backfilled.
#[test]
fn a_group_below_min_size_is_backfilled_although_its_members_hold_changes() {
    for (log, is_here) in [
        ("x:10'6<10'4 y:10'7<10'5", true),
        ("x:10'6 y:10'7", true),
        ("y:10'6<10'4 -y:10'7<10'6", false),
        ("y:10'6<10'4 -y:10'7<10'6 y:10'8", true),
    ] {
        let mut world = world(4, 2, 2);
        let text = format!("started 10 knew 10 settled 10'6 tail 10'5 | {log}");
        world.run_script("min 5");
        store_all(&mut world, &[2, 3, 4, 5], &[(10, "0 1 2 3 4 5")], &text);
        world.run_script(
            "down 0
             down 1
             map 20 6 7 2 3 4 5
             run
             recover
             run",
        );
        assert!(world.nodes[6].pg.is_clean(), "{log}: {}", told(&world, 6));
        for osd in 2..8 {
            let is_stored = world.nodes[osd].value(&object("y")).is_some();
            assert_eq!(is_stored, is_here, "y of {log} on osd.{osd}");
            assert!(world.nodes[osd].pg.missing().is_empty());
        }
    }
}

/// osd.6 was a target of backfill when the removal was committed, and has settled it, unlike the others. Its
/// page comes to the object that it has removed, and that no member has any more: it does not miss that.
#[test]
fn a_target_that_has_settled_a_removal_does_not_miss_the_object() {
    let mut world = world(4, 2, 2);
    let log = "y:10'6<10'4 -y:10'7<10'6";
    world.run_script("min 5");
    let intervals = [(10, "0 1 2 3 4 5")];
    let text = format!("started 10 knew 10 settled 10'6 tail 10'5 | {log}");
    store_all(&mut world, &[2, 3, 4, 5], &intervals, &text);
    let target = format!("started 10 knew 10 settled 10'7 tail 10'5 through x | {log}");
    store(&mut world, 6, &intervals, &target);
    world.run_script("down 0\n down 1\n map 20 6 7 2 3 4 5\n run\n recover\n run");
    assert!(world.nodes[6].pg.is_clean(), "{}", told(&world, 6));
    assert_eq!(told(&world, 6), "10'7");
}

#[test]
fn a_stray_with_the_shard_of_a_position_acts_until_its_osd_is_backfilled() {
    let mut world = world(2, 1, 2);
    let of = [(10, "0 4 2")];
    let behind = "started 10 knew 10 settled 10'5 tail 10'4 | x:10'5";
    store_all(&mut world, &[0, 2, 4], &of, behind);
    world.run_script(
        "map 20 0 1 2
         run
         acting => 0 4 2
         clean => no",
    );
}

/// The log of a young group reaches back to its beginning, so that a new copy could follow it.
#[test]
fn a_stray_with_data_acts_until_a_new_copy_has_them_too() {
    let mut world = world(2, 1, 3);
    store_all(&mut world, &[0, 1, 2], &[(10, "0 1 2")], WRITTEN);
    world.run_script(
        "map 20 0 4 5
         run
         acting => 0 1 2
         missing 0 =>
         recover
         run
         acting => 0 4 5
         clean => yes",
    );
}

#[test]
fn a_group_with_a_hole_is_not_clean_and_keeps_its_strays() {
    let mut world = world(2, 1, 1);
    store_all(&mut world, &[0, 1, 2], &[(10, "0 1 2")], BEFORE);
    world.run_script(
        "down 0
         map 20 - 1 2
         run
         states => Stray Active ReplicaActive Stray
         clean => no
         up 0
         restart 0
         map 30 0 1 2
         run
         states => Active ReplicaActive ReplicaActive Stray
         clean => yes",
    );
}

/// CRUSH found no OSD in the place of one that is out and still has its shard.
#[test]
fn a_group_whose_hole_is_filled_by_the_former_member_is_clean() {
    let mut world = world(2, 1, 0);
    store_all(&mut world, &[0, 1, 2], &[(10, "0 1 2")], BEFORE);
    world.run_script(
        "map 20 0 1 -
         run
         acting => 0 1 2
         states => Active ReplicaActive ReplicaActive
         clean => yes",
    );
    assert!(!world.nodes[0].pg.may_merge(), "the other half may have its shard elsewhere");
}

/// The primary has its shard, and too few others have theirs.
#[test]
fn an_object_that_too_few_members_have_is_unfound_whichever_they_are() {
    for (missing, unfound) in [([1, 2], "x"), ([0, 1], "x"), ([2, 2], ""), ([0, 0], "")] {
        let mut world = world(2, 1, 0);
        for osd in 0..3 {
            let items = if missing.contains(&osd) { "| x=10'5/0'0" } else { "" };
            store(&mut world, osd, &[(10, "0 1 2")], &format!("{BEFORE} {items}"));
        }
        world.run_script("map 20 0 1 2\n run\n states => Active ReplicaActive ReplicaActive");
        let pg = &mut world.nodes[0].pg;
        let names: Vec<String> = pg.unfound().map(|object| object.to_string()).collect();
        assert_eq!(names.len(), unfound.len(), "{missing:?}: {names:?}");
        assert_eq!(pg.count_unfound(100), unfound.len() as u64, "{missing:?}");
        let object = crate::tests::world::object("x");
        assert_eq!(pg.is_unfound(&object), !unfound.is_empty(), "{missing:?}");
        assert_eq!(pg.has_unfound(), !unfound.is_empty(), "{missing:?}");
        assert_eq!(pg.is_lost(&object), !unfound.is_empty(), "all were probed");
        assert_eq!(pg.lost_version(&object).is_some(), !unfound.is_empty());
    }
}

/// All hold an entry that may be acknowledged. After a stall an interval with the same members begins, and
/// two of them leave before it is activated.
#[test]
fn an_interval_that_ends_in_a_stall_still_needs_its_survivors() {
    let mut world = world(2, 1, 0);
    store_all(&mut world, &[0, 1, 2], &[(10, "0 1 2")], WRITTEN);
    world.run_script("map 20 0 1 2\n until 0 Active");
    world.drain();
    world.messages.clear(); // nobody hears that the entry is committed
    world.node(OsdId(0)).pg.refuse_gap("a test");
    world.run_script(
        "map 25 0 1 2
         settle
         down 0
         down 2
         map 30 - 1 -
         run
         blocked-by 1 => 0 2
         states => WaitUpThru Down Replica",
    );
    assert_eq!(told(&world, 1), "10'6 held 10'6");
}

/// Three shards are known, two targets of backfill have theirs from before: the object is rebuilt, not lost.
#[test]
fn an_object_is_not_unfound_while_targets_of_backfill_may_have_it() {
    let mut world = world(4, 2, 0);
    world.run_script("min 4");
    world.epoch = 15;
    let history = [(10, "0 1 2 3 4 5")];
    let copy = "started 10 knew 10 settled 10'6 | y:10'5 x:10'6";
    store(&mut world, 0, &history, &format!("{copy} | x=10'6/0'0"));
    store_all(&mut world, &[3, 4, 5], &history, copy);
    store_all(&mut world, &[1, 2], &history, &copy.replace("settled", "through x settled"));
    world.run_script(
        "map 20 0 1 2 3 4 5
         run
         missing 0 => x
         unfound 0 =>
         recover
         map 30 0 1 2 3 4 5
         run
         missing 0 =>
         unfound 0 =>",
    );
}

/// osd.0 returns after a time whose maps are gone, in which osd.3 was in its place. Those that stayed know
/// that osd.4, which is down, was no member.
#[test]
fn a_copy_that_has_the_maps_of_a_gap_tells_its_members() {
    let away = [(5, "0 1 2"), (6, "gap"), (15, "0 1 2")];
    let stayed = [(5, "0 1 2"), (6, "3 1 2"), (15, "0 1 2")];
    for (others, state, blocked_by) in [(stayed, State::Active, ""), (away, State::Down, "4")] {
        let mut world = world(2, 1, 2);
        world.epoch = 15;
        store(&mut world, 0, &away, "started 5 knew 5 settled 5'4 | x:5'4");
        let newer = "started 6 knew 6 settled 6'5 | x:5'4 x:6'5<5'4";
        store_all(&mut world, &[1, 2, 3], &others, newer);
        world.run_script(&format!("down 4\n map 20 0 1 2\n run\n blocked-by 0 => {blocked_by}"));
        assert_eq!(world.nodes[0].pg.state(), state);
    }
}

/// As for [`a_log_that_followed_an_entry_without_its_data_does_not_count`], with a primary that was away for
/// longer than maps are kept: another copy tells which members may have committed the entry.
#[test]
fn a_primary_with_a_gap_takes_the_evidence_of_a_copy_that_has_the_maps() {
    let history = [(10, "0 1 2 3 4 5"), (11, "0 1 2 3 4 -"), (13, "0 1 2 3 4 5")];
    let away = [(10, "0 1 2 3 4 5"), (11, "gap"), (15, "0 1 2 3 4 5")];
    let mut world = world(4, 2, 0);
    world.run_script("min 5");
    world.epoch = 15; // all have restarted since
    store(&mut world, 0, &away, WRITTEN);
    store_all(&mut world, &[1, 2], &history, WRITTEN);
    let followed = "started 13 knew 10 settled 10'5 | x:10'5 ~x:10'6<10'5 | x=10'6/10'5";
    store(&mut world, 4, &history, followed);
    world.run_script("down 3\n down 5\n map 20 0 1 2 - 4 -\n run\n unfound 0 =>");
    for osd in [0, 1, 2, 4] {
        assert_eq!(told(&world, osd), "10'5", "osd.{osd}");
    }
}

/// A new copy was not there in a gap, and its own list of intervals may be empty: it tells nothing.
#[test]
fn a_copy_that_was_never_activated_does_not_tell_what_happened_in_a_gap() {
    let away = [(5, "0 1 2"), (6, "gap"), (15, "0 1 2")];
    // The second one was stopped while it was reset.
    for new in ["started 0", "started 5 through a"] {
        let mut world = world(2, 1, 2);
        world.epoch = 15;
        store_all(&mut world, &[0, 1], &away, "started 5 knew 5 settled 5'4 | x:5'4");
        store(&mut world, 2, &[(15, "0 1 2")], new);
        world.run_script("down 4\n map 20 0 1 2\n run\n blocked-by 0 => 4");
        assert_eq!(world.nodes[0].pg.state(), State::Down, "{new}");
    }
}

#[test]
fn a_member_that_has_the_maps_of_a_gap_keeps_them_when_it_is_activated() {
    let mut world = world(2, 1, 2);
    world.epoch = 15;
    let away = [(5, "0 1 2"), (6, "gap"), (15, "0 1 2")];
    store(&mut world, 0, &away, "started 5 knew 5 settled 5'4 | x:5'4");
    let stayed = [(5, "0 1 2"), (6, "3 1 2"), (15, "0 1 2")];
    let newer = "started 6 knew 6 settled 6'5 | x:5'4 x:6'5<5'4";
    store_all(&mut world, &[1, 2, 3], &stayed, newer);
    world.run_script("map 20 0 1 2\n run");
    assert_eq!(world.nodes[1].pg.state(), State::ReplicaActive);
    assert_eq!([0, 1, 2].map(|osd| world.nodes[osd].pg.has_gap()), [true, false, false]);
}

#[test]
fn what_a_member_tells_of_a_gap_names_the_osds_that_may_have_unfound_objects() {
    let mut world = world(2, 1, 2);
    world.epoch = 15;
    let away = [(5, "0 1 2"), (6, "gap"), (15, "0 1 2")];
    store(&mut world, 0, &away, "started 5 knew 5 settled 5'4 | x:5'4");
    let stayed = [(5, "0 1 2"), (6, "3 1 2"), (15, "0 1 2")];
    let newer = "started 6 knew 6 settled 6'5 | x:5'4 x:6'5<5'4";
    store_all(&mut world, &[1, 2, 3], &stayed, newer);
    world.run_script("map 20 0 1 2\n run");
    let holders = |world: &World| {
        let holders = world.nodes[0].pg.may_have_unfound().into_keys();
        holders.map(|osd| osd.0).collect::<Vec<_>>()
    };
    assert_eq!(holders(&world), [1, 2, 3]);
    world.run_script("recover\n run\n clean => yes");
    assert_eq!(holders(&world), [1, 2]);
}
