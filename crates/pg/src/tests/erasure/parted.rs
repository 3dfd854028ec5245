//! Copies that have settled what the log of their group does not have: their OSDs were declared lost, and
//! return.

use super::copies::{store, store_all, told, world};
use crate::State;
use crate::tests::world::object;

/// An OSD was declared lost, and the others dropped what they could not keep without it. It returns, and has
/// settled that: it is backfilled, at any position, whether or not the others have written since.
#[test]
fn a_lost_osd_that_has_settled_what_the_others_dropped_is_backfilled() {
    let lost = "started 10 knew 10 settled 10'8 | x:10'5 x:10'6<10'5 x:10'7<10'6 y:10'8";
    let idle = "started 20 knew 20 settled 10'6 | x:10'5 x:10'6<10'5";
    let written = "started 20 knew 20 settled 20'7 | x:10'5 x:10'6<10'5 x:20'7<10'6";
    for (others, head) in [(idle, "10'6"), (written, "20'7")] {
        for (osd, since) in [(0, "- 1 2"), (1, "0 - 2"), (2, "0 1 -")] {
            let mut world = world(2, 1, 0);
            world.epoch = 25;
            store(&mut world, osd, &[(10, "0 1 2")], lost);
            for other in (0..3).filter(|other| *other != osd) {
                store(&mut world, other, &[(10, "0 1 2"), (20, since)], others);
            }
            world.run_script("map 30 0 1 2\n run");
            let is_served = world.nodes.iter().any(|node| node.pg.state() == State::Active);
            assert!(is_served, "osd.{osd} {others}");
            world.run_script("recover\n run\n acting => 0 1 2\n clean => yes");
            for osd in 0..3 {
                assert_eq!(told(&world, osd), head, "osd.{osd}");
                assert_eq!(world.nodes[osd].value(&object("y")), None);
            }
        }
    }
}

/// As before, but the last write of the others is not settled when it returns: they settle no version that
/// their log does not have.
#[test]
fn others_do_not_settle_what_only_a_lost_osd_has() {
    let lost = "started 10 knew 10 settled 10'8 | x:10'5 x:10'6<10'5 x:10'7<10'6 y:10'8";
    let written = "started 20 knew 20 settled 10'6 | x:10'5 x:10'6<10'5 x:20'7<10'6";
    for (osd, since) in [(0, "- 1 2"), (1, "0 - 2"), (2, "0 1 -")] {
        let mut world = world(2, 1, 0);
        world.epoch = 25;
        store(&mut world, osd, &[(10, "0 1 2")], lost);
        for other in (0..3).filter(|other| *other != osd) {
            store(&mut world, other, &[(10, "0 1 2"), (20, since)], written);
        }
        world.run_script("min 3\n map 30 0 1 2\n run\n min 2\n map 40 0 1 2\n run");
        world.run_script("recover\n run\n acting => 0 1 2\n clean => yes");
        for osd in 0..3 {
            assert_eq!(told(&world, osd), "20'7", "osd.{osd}");
        }
    }
}

/// Temporary primaries need not have the log that is followed: with it they judge which copies have parted
/// from it, one or several.
#[test]
fn a_primary_that_was_away_tells_who_has_parted_from_the_log_it_will_follow() {
    let lost = "started 10 knew 10 settled 10'8 | x:10'5 x:10'6<10'5 x:10'7<10'6 y:10'8";
    let away = "started 10 knew 10 settled 10'6 | x:10'5 x:10'6<10'5";
    let written = "started 20 knew 20 settled 20'7 | x:10'5 x:10'6<10'5 x:20'7<10'6";
    for (first, second) in [(lost, away), (away, lost), (lost, lost)] {
        let mut world = world(2, 2, 0);
        world.run_script("min 2");
        world.epoch = 25;
        store(&mut world, 0, &[(10, "0 1 2 3")], first);
        store(&mut world, 1, &[(10, "0 1 2 3")], second);
        store_all(&mut world, &[2, 3], &[(10, "0 1 2 3"), (20, "- - 2 3")], written);
        world.run_script("map 30 0 1 2 3\n run\n recover\n run\n acting => 0 1 2 3\n clean => yes");
        for osd in 0..4 {
            assert_eq!(told(&world, osd), "20'7", "osd.{osd}: {first}, {second}");
        }
    }
}
