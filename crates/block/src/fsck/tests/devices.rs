//! Superblocks, label, and the log.

use super::builder::{Builder, MAIN_BLOCKS, STORE, collection, name};
use super::{assert_finds, deep, kinds, run};
use crate::device::{Device, Extent};
use crate::fsck::{CheckOptions, FindingKind, Source, check, read_copy};
use crate::keys;
use crate::log::LargeWrite;
use crate::object::Onode;
use crate::superblock::{FastLabel, Superblock};
use crate::table::Op;
use types::Uuid;

#[test]
fn a_bad_copy_of_the_superblock_is_named() {
    for slot in [0, 1, MAIN_BLOCKS - 2, MAIN_BLOCKS - 1] {
        let mut memory = Builder::sound().build();
        memory.flip(Device::Main, slot);
        let text = format!("copy at block {slot}");
        assert_finds(&memory, &[FindingKind::SuperblockCopy], &text);
        let mut memory = Builder::sound().build();
        memory.unreadable.insert((Device::Main, slot));
        assert_finds(&memory, &[FindingKind::SuperblockCopy], "medium error");
    }
}

#[test]
fn copies_of_other_versions_and_in_other_places_are_named() {
    let mut memory = Builder::sound().build();
    let copy = |memory: &super::Memory, block| {
        let mut memory = memory.clone();
        read_copy(&Source::new(&mut memory), block).unwrap()
    };
    let newest = copy(&memory, 0);
    let older = Superblock { sequence: 0, ..newest.clone() };
    memory.set(Device::Main, MAIN_BLOCKS - 2, &older.encode());
    // A crash hit after one copy of the newest version was written.
    assert!(run(&memory).is_clean());
    let other = Superblock { generation: 77, ..newest.clone() };
    memory.set(Device::Main, MAIN_BLOCKS - 2, &other.encode());
    assert_finds(&memory, &[FindingKind::SuperblockCopy], "differs from another copy");
    memory.set(Device::Main, MAIN_BLOCKS - 2, &newest.encode());
    memory.set(Device::Main, 1, &newest.encode());
    assert_finds(&memory, &[FindingKind::SuperblockCopy], "version 2 instead of 1");
    let foreign = Superblock { store: Uuid([1; 16]), ..newest };
    let mut memory = Builder::sound().build();
    memory.set(Device::Main, MAIN_BLOCKS - 1, &foreign.encode());
    assert_finds(&memory, &[FindingKind::SuperblockCopy], "belongs to store");
}

#[test]
fn a_possibly_outdated_superblock_is_reported_and_checked() {
    let mut memory = Builder::sound().build();
    memory.flip(Device::Main, 0);
    memory.flip(Device::Main, MAIN_BLOCKS - 2);
    let report = run(&memory);
    assert!(kinds(&report).contains(&FindingKind::SuperblockOutdated), "\n{report}");
    assert_eq!(report.contents.objects, 5);
}

#[test]
fn far_copies_of_a_device_that_has_grown_are_found() {
    let mut memory = Builder::sound().build();
    memory.sizes.insert(Device::Main, MAIN_BLOCKS + 500);
    assert!(run(&memory).is_clean());
}

#[test]
fn devices_without_a_store_or_too_small_are_reported() {
    let mut memory = Builder::sound().build();
    memory.sizes.insert(Device::Main, 100);
    assert_finds(&memory, &[FindingKind::Geometry], "the main device has 100 blocks");
    memory.sizes.insert(Device::Main, MAIN_BLOCKS - 10);
    assert_finds(&memory, &[FindingKind::Geometry], "at least 2048 are needed");
    let mut memory = super::Memory::default();
    memory.sizes.insert(Device::Main, MAIN_BLOCKS);
    assert_finds(&memory, &[FindingKind::NoSuperblock], "holds no store");
    let mut memory = Builder::sound_on(true).build();
    memory.sizes.remove(&Device::Fast);
    assert_finds(&memory, &[FindingKind::Geometry], "the fast device has 0 blocks");
}

#[test]
fn the_label_of_the_fast_device_must_be_its_own() {
    let mut memory = Builder::sound_on(true).build();
    memory.flip(Device::Fast, 0);
    let report = assert_finds(&memory, &[FindingKind::FastLabel], "label of the fast device");
    assert!(report.findings[0].is_repairable());
    let label = FastLabel { store: STORE, blocks: 5 };
    memory.set(Device::Fast, 0, &label.encode());
    assert_finds(&memory, &[FindingKind::FastLabel], "of a device of 5 blocks");
    let label = FastLabel { store: Uuid([1; 16]), ..label };
    memory.set(Device::Fast, 0, &label.encode());
    let report = assert_finds(&memory, &[FindingKind::FastLabel], "belongs to store");
    assert!(!report.findings[0].is_repairable());
}

#[test]
fn runs_of_the_metadata_must_lie_in_the_space_once() {
    let builder = Builder::sound();
    let memory = builder.build_with(
        |_| {},
        |superblock| {
            superblock.metadata.runs.push(Extent::new(1, 4));
        },
    );
    let report = run(&memory);
    assert!(kinds(&report).contains(&FindingKind::MetadataRuns), "\n{report}");
    assert!(crate::fsck::repair_ops(&report).freed.is_empty(), "\n{report}");
    let memory = builder.build_with(
        |_| {},
        |superblock| {
            let run = superblock.metadata.runs[0];
            superblock.metadata.runs.push(Extent::new(run.start + 1, 2));
        },
    );
    let report = run(&memory);
    assert!(report.to_string().contains("metadata runs overlap: "), "\n{report}");
}

#[test]
fn the_log_counts_up_to_where_it_is_torn() {
    let mut builder = Builder::sound();
    let place = builder.onode("small").inline.unwrap().get(0).unwrap().physical;
    builder.overwrite(place, 1);
    let crc = builder.overwrite(place, 2);
    let mut onode = builder.onode("small");
    onode.inline.as_mut().unwrap().set_crc(0, crc);
    let key = keys::object(super::builder::COLLECTION, &name("small"));
    builder.records[1].0.ops.push(Op::Put { key: key.into(), value: onode.encode() });
    builder.records.remove(0);
    let memory = builder.build();
    let report = run(&memory);
    assert!(report.is_clean(), "\n{report}");
    assert_eq!(report.log.unwrap().batches, 1);
    // Torn: the batch does not count, and the block has its old content.
    let mut memory = memory;
    memory.flip(Device::Main, builder.geometry.log.start);
    let report = run(&memory);
    assert!(report.is_clean() && report.log.unwrap().batches == 0);
}

#[test]
fn batches_whose_large_data_is_missing_do_not_count() {
    let mut builder = Builder::sound();
    let mut record = builder.record();
    let extent = Extent::new(builder.geometry.space.end() - 4, 4);
    record.taken.push(extent);
    record.large.push(LargeWrite { start: extent.start, crcs: vec![1; 4] });
    builder.records.push((record, Vec::new()));
    let report = run(&builder.build());
    assert!(report.is_clean(), "\n{report}");
    let log = report.log.unwrap();
    assert_eq!((log.batches, log.left_out), (0, 1));
    assert!(log.to_string().contains("1 left out: batch 1 lacks its large data"), "{log}");
}

#[test]
fn batches_that_were_durable_and_are_not_there_are_damage() {
    let mut builder = Builder::sound();
    for _ in 0..3 {
        builder.records.push((builder.record(), Vec::new()));
    }
    let mut memory = builder.build();
    let start = builder.geometry.log.start;
    memory.flip(Device::Main, start);
    assert_finds(&memory, &[FindingKind::Log], "batches up to 1 are durable");
    memory.unreadable.insert((Device::Main, start));
    assert_finds(&memory, &[FindingKind::Log], "cannot be read");
}

#[test]
fn invalid_records_are_reported() {
    let mut builder = Builder::sound();
    let mut record = builder.record();
    record.ops.push(Op::Delete { key: keys::bitmap(0).into() });
    builder.records.push((record, Vec::new()));
    let report = run(&builder.build());
    assert!(report.to_string().contains("changes the bitmap of the space"), "\n{report}");
    let mut builder = Builder::sound();
    let mut record = builder.record();
    record.freed.push(Extent::new(3, 2));
    builder.records.push((record, Vec::new()));
    assert_finds(&builder.build(), &[FindingKind::LogRecord], "frees blocks 3..5 outside");
}

#[test]
fn changes_of_the_log_are_checked() {
    let mut builder = Builder::sound();
    let mut record = builder.record();
    record.counters.objects += 1;
    record.counters.next_id += 1;
    let onode = Onode::new(builder.next_id);
    let key = keys::object(super::builder::COLLECTION, &name("new"));
    record.ops.push(Op::Put { key: key.into(), value: onode.encode() });
    builder.records.push((record.clone(), Vec::new()));
    assert!(run(&builder.build()).is_clean());
    record.ops = vec![Op::Delete { key: keys::collection(collection()).into() }];
    record.counters.objects -= 1;
    builder.records = vec![(record, Vec::new())];
    let report = assert_finds(&builder.build(), &[FindingKind::NoCollection], "no collection");
    assert_eq!(report.counts[&FindingKind::NoCollection], 4);
}

#[test]
fn an_outdated_superblock_is_accepted_on_request() {
    let mut memory = Builder::sound().build();
    memory.flip(Device::Main, 1);
    memory.flip(Device::Main, MAIN_BLOCKS - 1);
    let options = CheckOptions { accept_outdated: true, ..deep() };
    let report = check(&mut memory, &options);
    assert!(report.findings.iter().all(|finding| finding.is_repairable()), "\n{report}");
}
