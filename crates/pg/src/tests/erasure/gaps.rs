//! Times without maps: the copies that may have taken part in them.

use super::copies::{store_all, told, world};
use crate::State;
use crate::message::Body;
use crate::tests::world::{World, object, shard};
use types::{EVersion, Epoch, OsdId};

/// The members of the present interval were away in the gap, in which osd.3 and osd.4 served with their own
/// shards; now these are no members.
const AWAY: [(u32, &str); 3] = [(5, "0 1 2"), (6, "gap"), (15, "0 1 2")];
const STAYED: [(u32, &str); 3] = [(5, "0 1 2"), (6, "3 4 -"), (15, "0 1 2")];

fn after_gap() -> World {
    let mut world = world(2, 1, 2);
    world.epoch = 15; // all have restarted since
    store_all(&mut world, &[0, 1, 2], &AWAY, "started 5 knew 5 settled 5'4 | x:5'4");
    let newer = "started 6 knew 6 settled 6'5 | x:5'4 x:6'5<5'4";
    store_all(&mut world, &[3, 4], &STAYED, newer);
    world
}

/// Strays report themselves, but that may take long.
#[test]
fn copies_that_took_part_in_a_gap_are_asked_before_a_log_is_chosen() {
    let mut world = after_gap();
    world.run_script("map 20 0 1 2");
    let (strays, mut is_asked) = ([OsdId(3), OsdId(4)], [false; 2]);
    loop {
        world.drain();
        for (_, to, message) in &world.messages {
            let is_query = Body::decode(message).unwrap().1 == Body::Query;
            if let Some(at) = strays.iter().position(|stray| stray == to) {
                is_asked[at] |= is_query;
            }
        }
        let is_late = |from: &OsdId| {
            strays.iter().position(|stray| stray == from).is_some_and(|at| !is_asked[at])
        };
        world.messages.retain(|(from, _, _)| !is_late(from));
        if !world.step(true) && !world.grant() {
            break;
        }
    }
    assert!(is_asked[0], "it is up");
    let primary = world.primary();
    assert_eq!(world.node(primary).pg.state(), State::Active);
    assert!(told(&world, primary.0 as usize).starts_with("6'5"));
}

/// osd.3 and osd.4, which were declared lost, return.
fn return_of_the_lost(stage: &str) -> World {
    let mut world = after_gap();
    world.run_script(&format!(
        "down 3
         down 4
         lost 3
         lost 4
         map 20 0 1 2
         until 0 {stage}
         up 3
         up 4
         restart 3
         restart 4
         map 30 0 1 2"
    ));
    world
}

#[test]
fn a_copy_of_a_later_activation_that_turns_up_before_the_group_is_activated_is_followed() {
    let mut world = return_of_the_lost("WaitUpThru");
    world.run_script("run");
    let primary = world.primary();
    let pg = &world.node(primary).pg;
    assert_eq!((primary, pg.state()), (OsdId(0), State::Active));
    for member in [1, 2] {
        // It was compared with the former log before.
        let misses = pg.view().known.is_missing_on(shard(member), &object("x"));
        assert!(misses, "member {member} has an older version");
    }
    assert!(told(&world, primary.0 as usize).starts_with("6'5"));
}

/// The writes since cannot be undone, but an administrator can look at the copy.
#[test]
fn a_copy_of_a_later_activation_that_turns_up_too_late_is_not_removed() {
    let mut world = return_of_the_lost("Active");
    world.run_script("run\n recover\n map 40 0 1 2\n run\n clean => yes");
    for osd in [3, 4] {
        assert_eq!(world.nodes[osd].pg.info().last_update, EVersion::new(6, 5), "osd.{osd}");
    }
}

/// osd.0 has an old disk, and does not get the maps in which it acted while it was down.
#[test]
fn a_copy_proves_nothing_of_the_maps_that_it_did_not_get() {
    let mut world = world(2, 1, 0);
    world.run_script("map 20 0 1 2\n run");
    let backup = world.nodes[0].store.clone();
    world.run_script("down 0\n map 30 - 1 2\n run\n up 0\n restart 0\n map 40 0 1 2\n run");
    world.nodes[0].store = backup;
    world.run_script("restart 0");
    world.load(OsdId(0));
    world.forget_maps(21..=49);
    world.run_script("gap 50 0 1 2\n settle");
    let absent_since =
        |osd: usize| world.nodes[osd].pg.info().shard.expect("it is a shard").absent_since;
    assert_eq!([0, 1, 2].map(absent_since), [Epoch(21), Epoch(0), Epoch(0)]);
}

/// osd.0 acted in the map of epoch 30, and does not in the newest one; it gets both while it loads its copy.
#[test]
fn an_absence_is_judged_by_the_members_of_its_time() {
    let mut world = world(2, 1, 1);
    world.run_script("map 20 0 1 2\n run");
    world.is_lazy = true;
    world.crash(OsdId(0), false);
    world.run_script("down 0\n map 30 0 1 2\n up 0\n map 40 3 1 2");
    world.load(OsdId(0));
    let shard = world.nodes[0].pg.info().shard.expect("it is a shard");
    assert_eq!(shard.absent_since, Epoch(30));
}
