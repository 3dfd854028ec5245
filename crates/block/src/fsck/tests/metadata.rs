//! Pages of the tree, their bitmap, keys and values.

use super::builder::{Builder, COLLECTION, LARGE, Memory, SMALL, name};
use super::{assert_finds, kinds, leak_pages, run};
use crate::device::{Device, Extent};
use crate::fsck::{FindingKind, Source, choose_superblock, tree_root};
use crate::keys;
use crate::object::Onode;
use crate::slices::Slice;
use crate::superblock::Superblock;
use crate::tree::{Root, Visitor, walk};
use bytes::Bytes;
use codec::encode_to_bytes;

/// Pages of the tree; leaves with the first byte of their first key.
fn pages(memory: &Memory) -> Vec<(Extent, Option<u8>)> {
    let mut copy = memory.clone();
    let source = Source::new(&mut copy);
    let superblock = choose_superblock(&source).unwrap();
    let root = tree_root(&superblock).unwrap();
    let found = std::cell::RefCell::new(Vec::new());
    let visitor = Visitor {
        read: &mut |page, pages| {
            source.read(superblock.metadata.device, Extent::new(page, pages.into()))
        },
        pair: &mut |key, _| {
            let mut found = found.borrow_mut();
            let last: &mut (Extent, Option<u8>) = found.last_mut().unwrap();
            last.1 = last.1.or(Some(key[0]));
        },
        pages: &mut |extent| found.borrow_mut().push((extent, None)),
    };
    assert_eq!(walk(root.as_ref(), visitor), []);
    found.into_inner()
}

/// A store with enough objects for several leaves.
fn many_objects() -> Builder {
    let mut builder = Builder::sound();
    for id in 100..400 {
        let object = types::HObject { hash: id as u32, ..name("many") };
        let onode = Onode { has_omap: true, ..Onode::new(id) };
        builder.put(keys::object(COLLECTION, &object), onode.encode());
        builder.put(keys::omap(id, b"key"), Bytes::from_static(b"value"));
    }
    builder.next_id = 1000;
    builder
}

#[test]
fn a_damaged_page_reports_lost_keys_and_their_objects() {
    let memory = many_objects().build();
    let pages = pages(&memory);
    let (omap_page, _) = pages.iter().rfind(|(_, first)| *first == Some(b'M')).unwrap();
    let mut damaged = memory.clone();
    damaged.flip(Device::Main, omap_page.start);
    let report = run(&damaged);
    assert!(report.counts[&FindingKind::KeysLost] > 1, "\n{report}");
    let text = report.to_string();
    assert!(text.contains("all from omap key"), "{text}");
    assert!(text.contains("of collection 1.3: parts of its omap may be lost"), "{text}");
    assert!(report.findings.iter().all(|finding| !finding.is_repairable()), "\n{text}");
}

#[test]
fn nothing_is_removed_or_freed_while_its_owner_may_be_lost() {
    let mut memory = many_objects().build();
    let pages = pages(&memory);
    for (page, _) in pages.iter().filter(|(_, first)| *first == Some(b'O')) {
        memory.flip(Device::Main, page.start);
    }
    let report = run(&memory);
    let found = kinds(&report);
    assert!(found.contains(&FindingKind::KeysLost), "\n{report}");
    assert!(found.contains(&FindingKind::OmapOrphan), "\n{report}");
    let repairs = crate::fsck::repair_ops(&report);
    assert!(repairs.ops.is_empty() && repairs.freed.is_empty(), "{repairs:?}");
}

#[test]
fn a_lost_value_is_named() {
    let mut memory = Builder::sound().build();
    let (page, _) = pages(&memory).into_iter().find(|(extent, _)| extent.count > 1).unwrap();
    memory.flip(Device::Main, page.start);
    let report = run(&memory);
    assert!(kinds(&report).contains(&FindingKind::ValueLost), "\n{report}");
    let text = report.to_string();
    assert!(text.contains(&format!("omap key \"other\" of object id {SMALL} is lost")), "{text}");
}

fn with_root(builder: &Builder, change: impl FnOnce(&mut Root)) -> Memory {
    builder.build_with(
        |_| {},
        |superblock: &mut Superblock| {
            let mut root = tree_root(superblock).unwrap().unwrap();
            change(&mut root);
            superblock.tree_root = encode_to_bytes(&root);
        },
    )
}

#[test]
fn the_sums_of_the_root_are_checked() {
    let memory = with_root(&Builder::sound(), |root| root.pairs += 1);
    assert_finds(&memory, &[FindingKind::TreeSums], "pairs where its root says");
}

#[test]
fn a_root_that_is_none_loses_everything() {
    let memory = Builder::sound().build_with(
        |_| {},
        |superblock| {
            superblock.tree_root = Bytes::from_static(b"?");
        },
    );
    let report = run(&memory);
    assert!(report.to_string().contains("all of the tree"), "\n{report}");
}

#[test]
fn the_bitmap_of_pages_has_exactly_the_pages_in_use() {
    let builder = Builder::sound();
    let memory = builder.build_with(leak_pages, |_| {});
    assert_finds(&memory, &[FindingKind::PageLeaked], "marked and not in use: blocks");
    let run = builder.runs[0];
    let memory =
        builder.build_with(|pages| pages.free_later(Extent::new(run.start, 1)).unwrap(), |_| {});
    assert_finds(
        &memory,
        &[FindingKind::PageFree],
        &format!("marked as free: block {}", run.start),
    );
    let memory = builder.build_with(|_| {}, |superblock| superblock.metadata.bitmap.crc ^= 1);
    assert_finds(&memory, &[FindingKind::PageBitmap], "its checksum is");
    let memory = builder.build_with(|_| {}, |superblock| superblock.metadata.bitmap.bytes += 9000);
    assert_finds(&memory, &[FindingKind::PageBitmap], "bytes in 4096");
}

/// The superblock does not name the runs.
#[test]
fn many_runs_of_pages_are_found_in_their_bitmap() {
    let mut builder = Builder::sound();
    let behind = builder.geometry.space.end() - 600;
    for run in (0..300).map(|run| Extent::new(behind + 2 * run, 1)) {
        builder.space.take(run).unwrap();
        builder.runs.push(run);
    }
    let memory = builder.build();
    assert!(run(&memory).is_clean(), "\n{}", run(&memory));
    // The pages of the tree are known all the same; other runs are lost.
    let memory = builder.build_with(|_| {}, |superblock| superblock.metadata.bitmap.crc ^= 1);
    let report = run(&memory);
    let found = kinds(&report);
    assert!(found.contains(&FindingKind::PageBitmap), "\n{report}");
    assert!(found.contains(&FindingKind::BlockLeaked), "\n{report}");
    assert!(!found.contains(&FindingKind::MetadataRuns), "\n{report}");
}

#[test]
fn pages_must_lie_in_the_runs() {
    let builder = Builder::sound();
    let memory = builder.build_with(
        |_| {},
        |superblock| {
            let run = superblock.metadata.runs[0];
            superblock.metadata.runs = vec![Extent::new(run.start + 1, run.count - 1)];
        },
    );
    let report = run(&memory);
    let found = kinds(&report);
    assert!(found.contains(&FindingKind::PageOutside), "\n{report}");
    // The bitmap has other runs, too, and the page is in use.
    assert!(found.contains(&FindingKind::PageBitmap), "\n{report}");
    assert!(!found.contains(&FindingKind::BlockLeaked), "\n{report}");
}

/// Points an inner page's second child to the first one's page.
#[test]
fn a_page_with_two_references_is_reported() {
    let builder = many_objects();
    let memory = builder.build();
    let pages = pages(&memory);
    let root = pages[0].0.start;
    let mut raw = memory.get(Device::Main, root).to_vec();
    let leaves: Vec<u64> = pages
        .iter()
        .filter(|(extent, first)| extent.count == 1 && first.is_some())
        .map(|(extent, _)| extent.start)
        .collect();
    let (first, second) = (reference(&memory, leaves[0]), reference(&memory, leaves[1]));
    let at = raw.windows(second.len()).position(|part| part == second).unwrap();
    raw[at..at + first.len()].copy_from_slice(&first);
    let crc = crate::checksum::crc32c(&raw);
    let mut memory = with_root(&builder, |root| root.page.crc = crc);
    memory.set(Device::Main, root, &raw.into());
    let report = run(&memory);
    let found = kinds(&report);
    assert!(found.contains(&FindingKind::PageTwice), "\n{report}");
    assert!(found.contains(&FindingKind::KeyMisplaced), "\n{report}");
}

/// The reference to a page of the tree.
fn reference(memory: &Memory, page: u64) -> Vec<u8> {
    let crc = crate::checksum::crc32c(&memory.get(Device::Main, page));
    [page.to_le_bytes().as_slice(), &crc.to_le_bytes()].concat()
}

#[test]
fn invalid_keys_are_reported() {
    let mut builder = Builder::sound();
    builder.put(Bytes::from_static(b"X\x01"), Bytes::new());
    assert_finds(&builder.build(), &[FindingKind::Key], "key \"X\\x01\"");
}

#[test]
fn undecodable_values_are_reported_with_their_keys() {
    let bad = Bytes::from_static(&[9, 9]);
    for (key, text) in [
        (keys::object(COLLECTION, &name("small")), "small:head in collection id 1"),
        (keys::segment(LARGE, 1), "large:head of collection 1.3: extent segment 1 of object id 3"),
        (keys::shared(6), "shared id 6"),
        (keys::collection(super::builder::collection()), "collection 1.3"),
        (keys::garbage(Slice::whole(7)), "removed collection id 7"),
    ] {
        let mut builder = Builder::sound();
        builder.put(key, bad.clone());
        let report = run(&builder.build());
        assert!(kinds(&report).contains(&FindingKind::Value), "\n{report}");
        assert!(report.to_string().contains(text), "{text}:\n{report}");
    }
}

#[test]
fn chunks_of_the_bitmap_must_be_of_the_space() {
    let mut builder = Builder::sound();
    builder.put(keys::bitmap(9), vec![0; 512].into());
    assert_finds(&builder.build(), &[FindingKind::Value], "bitmap chunk 9");
}

#[test]
fn counters_of_the_superblock_are_checked() {
    let mut builder = Builder::sound();
    builder.objects_off = 3;
    assert_finds(&builder.build(), &[FindingKind::Counter], "8 objects are counted, there are 5");
    let mut builder = Builder::sound();
    builder.omap_off = 5;
    assert_finds(&builder.build(), &[FindingKind::Counter], "bytes of omaps");
    let mut builder = Builder::sound();
    builder.next_id = 8;
    assert_finds(&builder.build(), &[FindingKind::Counter], "the next id is 8, and 8 is in use");
}

#[test]
fn flipped_blocks_are_found_without_panics() {
    let memory = many_objects().build();
    for (page, _) in pages(&memory) {
        let mut damaged = memory.clone();
        damaged.flip(Device::Main, page.start);
        assert!(!run(&damaged).is_clean(), "page {}", page.start);
    }
}
