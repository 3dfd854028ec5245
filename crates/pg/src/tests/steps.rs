//! A copy that follows another log in many steps, with a store that refuses a commit between any two.

use super::World;
use super::world::object;
use crate::info::INTERVALS_KEY;
use store::Change;
use types::OsdId;

/// Names so long that a few hundred entries need several steps.
fn name(number: usize) -> String {
    format!("{number}{}", "x".repeat(200))
}

/// OSD 0 has many divergent entries, and the others continued without it: objects were created, changed and
/// removed on either side, and on both.
fn parted() -> World {
    let mut world = World::new(3);
    world.run_script("min 1\n map 20 0 1 2\n run");
    for number in 0..200 {
        world.write(&name(number), Some("old"));
    }
    world.run();
    for number in 0..400 {
        match number % 3 {
            0 => world.write(&name(number / 2), None),
            _ => world.write(&name(number), Some("never")),
        }
    }
    world.run_script("down 0\n map 30 1 2\n run");
    for number in 0..400 {
        match number % 4 {
            0 => world.write(&name(number / 4), None),
            _ => world.write(&name(number + number % 5 * 50), Some("new")),
        }
    }
    world.run();
    world
}

/// Brings all copies to OSD 1's content, with OSD 0's store refusing a commit after `taken` ones. True if
/// OSD 0 made no more commits than that.
fn interrupted(taken: usize, is_primary: bool, restarts: bool) -> bool {
    let mut world = parted();
    let fates = "ok ".repeat(taken);
    let up = if is_primary { "0 1 2" } else { "1 0 2" };
    world.run_script(&format!("up 0\n commits 0 {fates}full\n hold\n map 40 {up}\n run"));
    let is_over = world.nodes[0].has_fates();
    let fates = "commits 0 ok";
    match restarts {
        true => world.run_script(&format!("{fates}\n restart 0\n recover\n map 60 {up}\n run")),
        false => world.run_script(&format!("{fates}\n recover\n map 60 {up}\n run")),
    }
    let missing = world.nodes.iter().map(|node| node.pg.missing().len());
    assert_eq!(missing.collect::<Vec<_>>(), [0, 0, 0], "{taken} {up} {restarts}");
    world.assert_equal(&[OsdId(0), OsdId(1), OsdId(2)]);
    world.run_script("clean => yes");
    for number in 0..600 {
        let stored = [0, 1].map(|osd| world.nodes[osd].value(&object(&name(number))));
        assert_eq!(stored[0], stored[1], "{number} after {taken} {up} {restarts}");
    }
    is_over
}

#[test]
fn a_copy_whose_store_stops_between_two_steps_becomes_what_the_others_are() {
    for (is_primary, restarts) in [(false, true), (false, false), (true, true), (true, false)] {
        let steps = (0..).find(|taken| interrupted(*taken, is_primary, restarts)).unwrap();
        assert!(steps > 8, "{steps} steps are few");
    }
}

/// A copy without its past intervals would tell a primary that no others matter.
#[test]
fn a_new_copy_has_its_past_intervals_from_its_first_step_on() {
    let mut pg = World::new(1).nodes.remove(0).pg;
    let transaction = pg.core.transaction(0);
    let mut changes = transaction.changes.iter().map(|(_, change)| change);
    assert!(matches!(changes.next(), Some(Change::CreateCollection)));
    let Some(Change::OmapSet { pairs, .. }) = changes.next() else { panic!("{transaction:?}") };
    assert!(pairs.contains_key(&INTERVALS_KEY));
    assert!(pg.core.transaction(0).changes.is_empty());
}
