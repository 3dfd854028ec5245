//! Tests that damage on the device is detected.

use super::world::{Keys, World, change_randomly, key};
use crate::table::Table;
use crate::tree::{Apply, ApplyError, Fault, Finding, PageFlaw, Step, Visitor, walk};
use bytes::Bytes;
use std::ops::Bound;
use stdx::Prng;

fn filled(prng: &mut Prng) -> World {
    let mut world = World::new(4);
    for keys in [Keys::Random, Keys::Long, Keys::Similar] {
        world.checkpoint(&change_randomly(prng, keys, 120), prng);
    }
    world
}

fn findings(world: &World) -> Vec<Finding> {
    let visitor = Visitor {
        read: &mut |page, count| world.read_device(page, count),
        pair: &mut |_, _| (),
        pages: &mut |_| (),
    };
    walk(world.tree.root().as_ref(), visitor)
}

#[test]
fn a_flipped_bit_in_any_page_is_found_and_costs_only_what_is_below() {
    let mut prng = Prng::new(1);
    let mut world = filled(&mut prng);
    let pages: Vec<u64> = world.device.keys().copied().collect();
    for page in pages {
        let good = world.device[&page].clone();
        let mut bad = good.to_vec();
        bad[prng.below(good.len() as u64) as usize] ^= 1 << prng.below(8);
        world.device.insert(page, bad.into());
        world.reopen();
        let findings = findings(&world);
        assert_eq!(findings.len(), 1, "page {page}: {findings:?}");
        for (key, value) in world.model.clone().into_iter().step_by(41) {
            let lost = match &findings[0] {
                Finding::Lost { first, end, .. } => {
                    *first <= key && end.as_ref().is_none_or(|end| key < *end)
                }
                Finding::ValueLost { key: lost, .. } => *lost == key,
                other => panic!("{other:?}"),
            };
            match world.run(|tree| tree.get(&key)) {
                Ok(found) => {
                    assert!(found.as_deref() == Some(&value[..]) && !lost, "{}", findings[0]);
                }
                Err(Fault::Damaged { .. }) => assert!(lost, "{}", findings[0]),
                Err(Fault::Missing(_)) => unreachable!(),
            }
        }
        world.device.insert(page, good);
    }
}

#[test]
fn every_byte_of_a_page_is_covered() {
    let mut prng = Prng::new(2);
    let mut world = World::new(4);
    world.checkpoint(&change_randomly(&mut prng, Keys::Random, 5), &mut prng);
    let root = world.tree.root().unwrap().page.page;
    let good = world.device[&root].clone();
    for byte in 0..good.len() {
        let mut bad = good.to_vec();
        bad[byte] ^= 0x10;
        world.device.insert(root, bad.into());
        assert!(!findings(&world).is_empty(), "byte {byte}");
    }
}

#[test]
fn a_page_in_the_place_of_another_is_found() {
    let mut prng = Prng::new(3);
    let mut world = filled(&mut prng);
    world.reopen();
    let root = world.tree.root().unwrap().page.page;
    let other = *world.device.keys().find(|page| **page != root).unwrap();
    let stale = world.device[&other].clone();
    world.device.insert(root, stale);
    let fault = world.run(|tree| tree.scan(Bound::Unbounded, b"z", 1, 1));
    let flaw = match fault {
        Err(Fault::Damaged { page, flaw }) if page == root => flaw,
        other => panic!("{other:?}"),
    };
    assert!(matches!(flaw, PageFlaw::Checksum { .. }), "{flaw}");
}

#[test]
fn a_failed_read_fails_what_needs_it_until_it_is_forgotten() {
    let mut prng = Prng::new(4);
    let mut world = filled(&mut prng);
    let root = world.tree.root().unwrap().page.page;
    let good = world.device.remove(&root).unwrap();
    world.reopen();
    let fault = world.run(|tree| tree.get(b"O"));
    assert!(matches!(fault, Err(Fault::Damaged { page, .. }) if page == root), "{fault:?}");
    let mut apply = Apply::new(world.tree.root(), 9);
    let mut table = Table::default();
    table.points.insert(key(1).into(), Some(Bytes::new()));
    let error = apply.step(&mut world.tree, &table, &mut world.space, 9);
    assert!(matches!(error, Err(ApplyError::Damaged { page, .. }) if page == root), "{error:?}");
    world.device.insert(root, good);
    world.tree.forget_failures();
    assert!(world.run(|tree| tree.get(b"O")).is_ok());
}

#[test]
fn a_page_that_is_being_read_is_not_read_twice_and_late_bytes_are_ignored() {
    let mut prng = Prng::new(5);
    let mut world = filled(&mut prng);
    world.reopen();
    let mut asked = |expected: bool| match world.tree.get(b"O") {
        Err(Fault::Missing(reads)) => {
            assert_eq!(reads[0].is_in_flight, expected);
            reads[0]
        }
        other => panic!("{other:?}"),
    };
    let read = asked(false);
    asked(true);
    let bytes = world.read_device(read.page, read.pages).unwrap();
    world.tree.supply(read.page, bytes).unwrap();
    // No operation waits for it any more.
    world.tree.supply(read.page, Bytes::from_static(b"noise")).unwrap();
}

#[test]
fn without_space_the_old_tree_stays() {
    let mut prng = Prng::new(6);
    let mut world = filled(&mut prng);
    let used = world.space.used_pages();
    let mut full = crate::tree::PageSpace::default();
    full.add_run(crate::device::Extent::new(1 << 40, 3));
    let table = change_randomly(&mut prng, Keys::Random, 300);
    let mut apply = Apply::new(world.tree.root(), 9);
    let error = loop {
        match apply.step(&mut world.tree, &table, &mut full, 64) {
            Ok(Step::Need(reads)) => world.supply(&reads),
            Ok(step) => assert_eq!(step, Step::Progress),
            Err(error) => break error,
        }
    };
    assert_eq!(error, ApplyError::NoSpace);
    full.abandon();
    assert_eq!((full.used_pages(), world.space.used_pages()), (0, used));
    world.check();
}
