//! Tests that a repaired store is sound.

use super::builder::{Builder, COLLECTION, LARGE, MAIN_BLOCKS, Memory, SHARED, SMALL};
use super::{deep, kinds, leak_pages, run};
use crate::device::{Device, Extent};
use crate::fsck::{CheckOptions, FindingKind, RepairError, check, repair, repair_ops};
use crate::keys;
use crate::log::Record;
use crate::superblock::Features;
use bytes::Bytes;
use proptest::prelude::*;

/// Makes the offline writes; a further check must find nothing else.
#[track_caller]
fn assert_repaired(mut memory: Memory, options: &CheckOptions) {
    let report = check(&mut memory, options);
    assert!(!report.is_clean());
    repair(&report, &mut memory).unwrap();
    let after = check(&mut memory, &deep());
    assert!(after.is_clean(), "\n{report}after the repair:\n{after}");
}

#[test]
fn copies_of_the_superblock_and_the_label_are_written_again() {
    let slots = [0, 1, MAIN_BLOCKS - 2, MAIN_BLOCKS - 1];
    for pair in [[0, 1], [0, 3], [1, 2], [2, 3]] {
        let mut memory = Builder::sound_on(true).build();
        pair.iter().for_each(|index| memory.flip(Device::Main, slots[*index]));
        memory.flip(Device::Fast, 0);
        assert_repaired(memory, &deep());
    }
}

#[test]
fn an_outdated_superblock_becomes_the_newest_if_that_is_accepted() {
    for parity in [0, 1] {
        let mut memory = Builder::sound().build();
        memory.flip(Device::Main, parity);
        memory.flip(Device::Main, MAIN_BLOCKS - 2 + parity);
        let report = run(&memory);
        repair(&report, &mut memory).unwrap();
        assert!(kinds(&run(&memory)).contains(&FindingKind::SuperblockOutdated));
        let options = CheckOptions { accept_outdated: true, ..deep() };
        assert_repaired(memory, &options);
    }
}

#[test]
fn the_bitmap_of_pages_and_counters_are_written_anew() {
    for has_fast in [false, true] {
        let builder = Builder::sound_on(has_fast);
        assert_repaired(builder.build_with(leak_pages, |_| {}), &deep());
        let first = Extent::new(builder.runs[0].start, 1);
        assert_repaired(
            builder.build_with(|pages| pages.free_later(first).unwrap(), |_| {}),
            &deep(),
        );
        let damage = |superblock: &mut crate::superblock::Superblock| {
            superblock.metadata.bitmap.crc ^= 1;
            superblock.counters.objects += 1;
            superblock.counters.omap_bytes = 0;
        };
        assert_repaired(builder.build_with(|_| {}, damage), &deep());
    }
}

#[test]
fn unrepairable_findings_are_left_alone() {
    let mut memory = Memory::default();
    memory.sizes.insert(Device::Main, MAIN_BLOCKS);
    let report = run(&memory);
    assert_eq!(repair(&report, &mut memory), Err(RepairError::NoSuperblock));
    let features = Features { read_only: 1, ..Features::default() };
    let mut memory = Builder::sound().build_with(|_| {}, |block| block.features = features);
    let report = run(&memory);
    assert!(matches!(repair(&report, &mut memory), Err(RepairError::NotWritable(_))));
}

/// Commits the repairs like the engine.
fn commit_repairs(builder: &mut Builder, report: &crate::fsck::Report) {
    let repairs = repair_ops(report);
    let counters = repairs.counters.unwrap_or(builder.record().counters);
    let mut record = Record { counters, ops: repairs.ops, ..Record::default() };
    record.taken.extend(repairs.taken);
    record.freed.extend(repairs.freed);
    builder.records.push((record, Vec::new()));
}

/// Causes damage that the engine can repair.
fn damage(builder: &mut Builder, kind: u8) {
    match kind {
        0 => builder.space.take(Extent::new(builder.geometry.space.end() - 7, 5)).unwrap(),
        1 => {
            let place = builder.stored_segment(1).get(6).unwrap().physical;
            builder.space.release(Extent::new(place, 2)).unwrap();
        }
        2 => {
            let segment = builder.segment(&[(3, 2)], 0);
            builder.put(keys::segment(1, 5), segment.encode());
            builder.put(keys::segment(SMALL, 1), segment.encode());
        }
        3 => {
            builder.put(keys::omap(1, b"a"), Bytes::from_static(b"x"));
            builder.put(keys::omap_header(1), Bytes::from_static(b"y"));
        }
        4 => {
            let mut onode = builder.onode("clone");
            onode.inline.as_mut().unwrap().clear(1..2);
            builder.put_object(COLLECTION, "clone", &onode);
        }
        5 => {
            let mut onode = builder.onode("clone");
            onode.inline.as_mut().unwrap().clear(1..4);
            builder.put_object(COLLECTION, "clone", &onode);
            let mut onode = builder.onode("origin");
            onode.inline.as_mut().unwrap().clear(2..3);
            builder.put_object(COLLECTION, "origin", &onode);
        }
        6 => drop(builder.pairs.remove(&keys::shared(SHARED))),
        7 => builder.next_id = 3,
        _ => drop(builder.pairs.remove(&keys::segment(LARGE, 0))),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn committed_repairs_leave_a_sound_store(
        kinds in prop::collection::btree_set(0u8..9, 1..5)
    ) {
        let mut builder = Builder::sound();
        kinds.iter().for_each(|kind| damage(&mut builder, *kind));
        let report = run(&builder.build());
        prop_assert!(!report.is_clean());
        prop_assert!(report.findings.iter().all(|finding| finding.is_repairable()), "\n{}", report);
        commit_repairs(&mut builder, &report);
        let after = run(&builder.build());
        prop_assert!(after.is_clean(), "\n{}after the repair:\n{}", report, after);
    }
}
