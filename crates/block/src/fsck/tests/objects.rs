//! Objects, their data, and the blocks that hold it.

use super::builder::{Builder, COLLECTION, LARGE, LARGE_SIZE, ORIGIN, SHARED, SMALL};
use super::{assert_finds, kinds, run};
use crate::device::{BLOCK, Device, Extent};
use crate::fsck::{FindingKind, Repair};
use crate::keys;
use crate::object::{ExtentSegment, Onode, SharedExtents};
use crate::slices::Slices;
use bytes::Bytes;
use store::Collection;
use types::{PgId, PoolId};

#[test]
fn objects_belong_to_collections() {
    let mut builder = Builder::sound();
    builder.put_object(55, "lost", &Onode::new(8));
    builder.pairs.remove(&keys::object(7, &super::builder::name("removed")));
    builder.next_id = 56;
    let report = run(&builder.build());
    assert!(
        report.to_string().contains("lost:head: there is no collection with id 55"),
        "\n{report}"
    );
    let mut builder = Builder::sound();
    let other = Collection::replicated(PgId { pool: PoolId(1), seed: 4 });
    builder.put(keys::collection(other), Slices::Whole(COLLECTION).encode());
    assert_finds(&builder.build(), &[FindingKind::CollectionId], "two collections have id 1");
}

#[test]
fn ids_of_objects_are_their_own() {
    let mut builder = Builder::sound();
    builder.put_object(COLLECTION, "twin", &Onode::new(ORIGIN));
    assert_finds(&builder.build(), &[FindingKind::ObjectId], "several objects have this id");
    let mut builder = Builder::sound();
    builder.put_object(COLLECTION, "far", &Onode::new(u64::MAX));
    builder.next_id = u64::MAX;
    let report = run(&builder.build());
    assert!(kinds(&report).contains(&FindingKind::ObjectId), "\n{report}");
}

#[test]
fn small_objects_keep_their_segment_in_the_onode() {
    let mut builder = Builder::sound();
    let onode = Onode { id: 8, size: 4096, ..Onode::default() };
    builder.pairs.remove(&keys::object(7, &super::builder::name("removed")));
    builder.put_object(COLLECTION, "bare", &onode);
    let report = run(&builder.build());
    assert!(kinds(&report).contains(&FindingKind::SegmentNotInline), "\n{report}");
    let mut builder = Builder::sound();
    let segment = builder.segment(&[(0, 1)], 0);
    builder.put(keys::segment(SMALL, 0), segment.encode());
    let expected = [FindingKind::SegmentUnexpected, FindingKind::BlockLeaked];
    let report = assert_finds(&builder.build(), &expected, "besides the one in its onode");
    assert!(report.findings.iter().all(|finding| finding.is_repairable()));
    let mut builder = Builder::sound();
    builder.put(keys::segment(LARGE, 0), ExtentSegment::default().encode());
    let expected = [FindingKind::SegmentUnexpected, FindingKind::BlockLeaked];
    assert_finds(&builder.build(), &expected, "its extent segment 0 maps nothing");
}

#[test]
fn segments_and_omaps_belong_to_objects() {
    let mut builder = Builder::sound();
    let segment = builder.segment(&[(0, 1)], 0);
    builder.put(keys::segment(1, 0), segment.encode());
    let expected = [FindingKind::SegmentOrphan, FindingKind::BlockLeaked];
    assert_finds(&builder.build(), &expected, "object id 1: extent segment 0 of no object");
    let mut builder = Builder::sound();
    builder.put(keys::omap(1, b"k"), Bytes::new());
    builder.put(keys::omap_header(7), Bytes::from_static(b"h"));
    let report = assert_finds(&builder.build(), &[FindingKind::OmapOrphan], "pairs of no object");
    assert_eq!(report.counts[&FindingKind::OmapOrphan], 2);
}

#[test]
fn onodes_announce_their_omaps() {
    let mut builder = Builder::sound();
    builder.put(keys::omap(ORIGIN, b"k"), Bytes::new());
    let text = "origin:head of collection 1.3: it has omap pairs, and its onode denies that";
    assert_finds(&builder.build(), &[FindingKind::OmapUnannounced], text);
}

#[test]
fn nothing_is_mapped_behind_the_end() {
    let mut builder = Builder::sound();
    let onode = Onode { id: LARGE, size: LARGE_SIZE - (4 << 12), ..Onode::default() };
    builder.put_object(COLLECTION, "large", &onode);
    assert_finds(&builder.build(), &[FindingKind::BeyondSize], "block 74 is mapped");
    let mut builder = Builder::sound();
    let onode = Onode { size: 8192, ..builder.onode("small") };
    builder.put_object(COLLECTION, "small", &onode);
    assert_finds(&builder.build(), &[FindingKind::BeyondSize], "it has 8192 bytes");
}

#[test]
fn data_lies_within_the_space() {
    let mut builder = Builder::sound();
    let mut onode = Onode { size: 4096, ..Onode::new(8) };
    onode.inline.as_mut().unwrap().map(0, 1 << 40, &[1]);
    builder.put_object(7, "removed", &onode);
    let expected =
        [FindingKind::OutsideSpace, FindingKind::DataUnreadable, FindingKind::BlockLeaked];
    assert_finds(&builder.build(), &expected, "its block 0 lies at block 1099511627776");
    let mut builder = Builder::sound();
    let extents = [Extent::new(1 << 40, 2)];
    let record = SharedExtents::new(extents, 2).unwrap();
    builder.put(keys::shared(7), record.encode());
    assert_finds(&builder.build(), &[FindingKind::OutsideSpace], "shared id 7");
}

#[test]
fn data_does_not_lie_among_metadata() {
    let mut builder = Builder::sound();
    let mut onode = builder.onode("small");
    let place = builder.runs[0].end() - 1;
    onode.inline.as_mut().unwrap().map(0, place, &[1]);
    builder.put_object(COLLECTION, "small", &onode);
    let expected = [FindingKind::BlockInMetadata, FindingKind::BlockLeaked, FindingKind::Data];
    assert_finds(&builder.build(), &expected, "small:head of collection 1.3: its blocks from 0 on");
}

#[test]
fn all_claims_of_a_block_are_reported() {
    let mut builder = Builder::sound();
    let stolen = builder.stored_segment(0).get(7).unwrap();
    let mut onode = builder.onode("small");
    onode.inline.as_mut().unwrap().map(1, stolen.physical, &[stolen.crc]);
    builder.put_object(COLLECTION, "small", &onode);
    let text = format!("its blocks from 7 on: block {}, which another has", stolen.physical);
    let report = assert_finds(&builder.build(), &[FindingKind::BlockTwice], &text);
    let subjects: Vec<u64> =
        report.findings.iter().filter_map(|finding| Some(finding.subject.as_ref()?.id)).collect();
    assert_eq!(subjects, [SMALL, LARGE]);
    // Shared blocks are claimed by their record.
    let mut builder = Builder::sound();
    let shared = builder.onode("clone").inline.unwrap().get(0).unwrap();
    let mut onode = builder.onode("small");
    onode.inline.as_mut().unwrap().map(1, shared.physical, &[shared.crc]);
    builder.put_object(COLLECTION, "small", &onode);
    let text = format!("shared id {SHARED}: block {}, which another has", shared.physical);
    assert_finds(&builder.build(), &[FindingKind::BlockTwice], &text);
}

#[test]
fn references_to_shared_blocks_are_counted() {
    let mut builder = Builder::sound();
    let mut onode = builder.onode("clone");
    onode.inline.as_mut().unwrap().clear(1..2);
    builder.put_object(COLLECTION, "clone", &onode);
    let text = "shared id 6: 1 references to block ";
    let report = assert_finds(&builder.build(), &[FindingKind::SharedReferences], text);
    assert_eq!(report.findings[0].repair, Some(Repair::Recount));
    let mut builder = Builder::sound();
    builder.pairs.remove(&keys::shared(SHARED));
    let text = "shared id 6: 2 references to blocks ";
    assert_finds(&builder.build(), &[FindingKind::SharedReferences], text);
    let mut builder = Builder::sound();
    builder.put(keys::shared(7), SharedExtents::default().encode());
    assert_finds(&builder.build(), &[FindingKind::SharedReferences], "shared id 7 counts nothing");
}

#[test]
fn the_space_bitmap_equals_the_references() {
    let mut builder = Builder::sound();
    let last = builder.geometry.space.end() - 6;
    builder.space.take(Extent::new(last, 5)).unwrap();
    let text = format!("nothing refers to blocks {last}..{}", last + 5);
    let report = assert_finds(&builder.build(), &[FindingKind::BlockLeaked], &text);
    assert_eq!(report.findings[0].repair, Some(Repair::Free));
    let mut builder = Builder::sound();
    let place = builder.stored_segment(0).get(0).unwrap().physical;
    builder.space.release(Extent::new(place, 3)).unwrap();
    let text = format!("in use and marked as free: blocks {place}..{}", place + 3);
    let report = assert_finds(&builder.build(), &[FindingKind::BlockFree], &text);
    assert_eq!(report.findings[0].repair, Some(Repair::MarkUsed));
}

#[test]
fn data_has_its_checksums_wherever_it_is() {
    let builder = Builder::sound();
    let place = builder.stored_segment(1).get(6).unwrap().physical;
    let mut memory = builder.build();
    memory.flip(Device::Main, place);
    memory.flip(Device::Main, place + 1);
    let text = format!("8192 bytes at offset {} (blocks {place}..{})", 70 * BLOCK, place + 2);
    assert_finds(&memory, &[FindingKind::Data], &text);
    let mut memory = builder.build();
    memory.unreadable.insert((Device::Main, place));
    let text = format!("4096 bytes at offset {} (block {place})", 70 * BLOCK);
    assert_finds(&memory, &[FindingKind::DataUnreadable], &text);
    // The newest content is in the log and differs from the extent segment.
    let mut builder = Builder::sound();
    builder.overwrite(place, 77);
    assert_finds(&builder.build(), &[FindingKind::Data], &text);
}

#[test]
fn behind_its_end_an_object_has_zeros() {
    let mut builder = Builder::sound();
    let mut onode = builder.onode("small");
    onode.size -= 100;
    builder.put_object(COLLECTION, "small", &onode);
    assert_finds(&builder.build(), &[FindingKind::DataBehindEnd], "it has 9900 bytes");
}
