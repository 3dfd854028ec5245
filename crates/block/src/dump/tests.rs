//! Tests of the dump of a sound store, and that damage never causes a panic.

use super::{DumpError, ObjectFilter, log, objects, space, superblock, tree};
use crate::device::Device;
use crate::fsck::Image;
use crate::fsck::tests::builder::{Builder, Memory, collection};
use crate::fsck::tests::held::sound_with_held;
use std::fmt::Write;

type Dump = fn(&mut dyn Image, &mut dyn Write) -> Result<(), DumpError>;

fn list(image: &mut dyn Image, out: &mut dyn Write) -> Result<(), DumpError> {
    objects(image, &ObjectFilter::default(), out)
}

const ALL: [Dump; 5] = [superblock, log, tree, space, list];

fn text(memory: &Memory, dump: Dump) -> String {
    let mut text = String::new();
    dump(&mut memory.clone(), &mut text).unwrap();
    text
}

fn store() -> (Builder, Memory) {
    let mut builder = Builder::sound();
    let place = builder.stored_segment(0).get(0).unwrap().physical;
    builder.overwrite(place, 5);
    let memory = builder.build();
    (builder, memory)
}

#[track_caller]
fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no \"{part}\" in:\n{text}");
    }
}

#[test]
fn the_superblock_is_shown_with_all_copies() {
    let (_, mut memory) = store();
    memory.flip(Device::Main, 1);
    let text = text(&memory, superblock);
    assert_contains(&text, &["copy at block 0: version 2\n", "copy at block 2047: version 1\n"]);
    assert_contains(&text, &["copy at block 1: no copy of the superblock is intact\n"]);
    assert_contains(&text, &["owner                \"osd.3\"\n", "next id 9, 5 objects"]);
}

#[test]
fn the_log_is_shown_record_by_record() {
    let (builder, memory) = store();
    let place = builder.records[0].0.small[0].block;
    let text = text(&memory, log);
    assert_contains(&text, &["batch 1: positions 0..2, generation 1, 1 records, perhaps"]);
    assert_contains(&text, &[&format!("small data for block {place}: 0x"), "ends before batch 2"]);
}

#[test]
fn the_tree_is_shown_with_pages_and_pairs() {
    let (_, memory) = store();
    let text = text(&memory, tree);
    assert_contains(
        &text,
        &["pages on the main device\nblock ", "\n  bitmap chunk 0: 512 bytes\n"],
    );
    assert_contains(&text, &["\n  omap key \"other\" of object id 2: 9000 bytes\n"]);
}

#[test]
fn the_space_is_shown_as_runs() {
    let (builder, memory) = store();
    let text = text(&memory, space);
    let (total, free) = (builder.space.total(), builder.space.free());
    assert_contains(&text, &[&format!("{total} blocks, {} used, {free} free\n", total - free)]);
    let sum = |what: &str| -> u64 {
        let lines = text.lines().filter(|line| line.starts_with(what));
        let count = |line: &str| line[line.find('(')? + 1..line.len() - 1].parse::<u64>().ok();
        lines.map(|line| count(line).unwrap()).sum()
    };
    assert_eq!((sum("used "), sum("free ")), (total - free, free));
}

#[test]
fn objects_are_listed_and_shown_in_detail_by_name() {
    let (_, memory) = store();
    let listing = text(&memory, list);
    assert_eq!(listing.lines().count(), 5, "{listing}");
    assert_contains(&listing, &["small:head: id 2, 10000 bytes in 2 blocks, 1 attributes, omap\n"]);
    assert_contains(&listing, &["removed 1:"]);
    let details = |object: &str, of| {
        let filter = ObjectFilter { collection: of, object: Some(object.into()) };
        let mut text = String::new();
        objects(&mut memory.clone(), &filter, &mut text).unwrap();
        text
    };
    let text = details("small", Some(collection()));
    assert_contains(
        &text,
        &["attribute \"_\", 4 bytes: \"info\"\n", "extent segment 0, 2 blocks\n"],
    );
    assert_contains(
        &text,
        &["omap header, 6 bytes: \"header\"\n", "omap \"key\", 5 bytes: \"value\"\n"],
    );
    let text = details("clone", None);
    assert_contains(&text, &["offset 0: blocks ", "shared id 6: "]);
    let text = details("large", None);
    assert_contains(&text, &["extent segment 1, 9 blocks\n", &format!("offset {}: ", 69 << 12)]);
    assert_eq!(details("large", Some(store::Collection::default())), "");
}

#[test]
fn held_changes_are_listed_behind_the_objects() {
    let memory = sound_with_held();
    let all = text(&memory, list);
    assert_eq!(all.lines().count(), 8, "{all}");
    assert_contains(&all, &["\n1.3 held 4'7: id 9, 8192 bytes\n  write 1:"]);
    assert_contains(&all, &["small:head, offset 8192, 8192 bytes\n  touch 1:"]);
    let with = |object: &str| {
        let filter = ObjectFilter { collection: None, object: Some(object.into()) };
        let mut text = String::new();
        objects(&mut memory.clone(), &filter, &mut text).unwrap();
        text.contains("held")
    };
    assert!(with("other") && with("small") && !with("large"));
}

#[test]
fn damage_is_reported_without_panics() {
    let (builder, memory) = store();
    let run = builder.runs[0];
    for block in (run.start..run.start + 12).chain(0..6) {
        let mut damaged = memory.clone();
        damaged.flip(Device::Main, block);
        for dump in ALL {
            let _ = dump(&mut damaged, &mut String::new());
        }
    }
    let mut empty = Memory::default();
    for dump in ALL {
        let result = dump(&mut empty, &mut String::new());
        assert!(matches!(result, Err(DumpError::NoSuperblock(_))), "{result:?}");
    }
}
