//! Held changes: their lists, their data, and the collections to which they belong.

use super::builder::{Builder, COLLECTION, Memory, ORIGIN, name};
use super::{assert_finds, kinds, run};
use crate::checksum::crc32c;
use crate::device::{BLOCK, Device};
use crate::fsck::FindingKind;
use crate::keys;
use crate::object::{HeldFields, Onode};
use bytes::Bytes;
use store::{Change, HeldChange};
use types::{EVersion, HObject};

/// Id of the held data, behind those of the sound store.
const HELD: u64 = 9;

fn named(version: u64) -> HeldChange {
    HeldChange { version: EVersion::new(4, version), hash: 5 }
}

fn write(object: HObject, blocks: usize) -> Change {
    Change::Write { object, offset: 8192, data: vec![0; blocks * BLOCK].into() }
}

/// Held changes of two blocks of data with an onode that a test changes.
fn put(builder: &mut Builder, changes: &[Change], with_onode: impl FnOnce(&mut Onode)) {
    let mut onode = Onode { size: 2 * BLOCK as u64, ..Onode::new(HELD) };
    onode.inline = Some(Box::new(builder.segment(&[(0, 2)], 0)));
    onode.attrs.insert(Bytes::new(), HeldFields::of(changes).encode());
    with_onode(&mut onode);
    let key = Bytes::copy_from_slice(&keys::held(COLLECTION, named(7), HELD));
    builder.put(key, onode.encode());
    builder.next_id = HELD + 1;
}

fn usual() -> Vec<Change> {
    vec![write(name("small"), 2), Change::Touch { object: name("other") }]
}

fn build(builder: &Builder) -> Memory {
    builder.build_with(|_| {}, |superblock| superblock.features.set_shards())
}

/// A sound store with a held change.
pub fn sound_with_held() -> Memory {
    let mut builder = Builder::sound();
    put(&mut builder, &usual(), |_| {});
    build(&builder)
}

#[test]
fn held_changes_are_counted_and_their_blocks_are_in_use() {
    let mut builder = Builder::sound();
    let before = run(&build(&builder)).used_blocks;
    put(&mut builder, &usual(), |_| {});
    let report = run(&build(&builder));
    assert!(report.is_clean(), "\n{report}");
    assert_eq!((report.contents.held, report.contents.objects), (1, 5));
    assert_eq!(report.used_blocks, before + 2);
    let text = "the superblock lacks the feature of shards";
    assert_finds(&builder.build(), &[FindingKind::Feature], text);
}

#[test]
fn held_changes_belong_to_collections() {
    let mut builder = Builder::sound();
    put(&mut builder, &usual(), |_| {});
    let key = Bytes::copy_from_slice(&keys::held(COLLECTION, named(7), HELD));
    let value = builder.pairs.remove(&key).unwrap();
    builder.put(Bytes::copy_from_slice(&keys::held(55, named(7), HELD)), value);
    builder.next_id = 56;
    let text = "there is no collection with id 55";
    assert_finds(&build(&builder), &[FindingKind::NoCollection], text);
}

#[test]
fn lists_of_held_changes_agree_with_name_and_data() {
    let finds = |changes: &[Change], with_onode: fn(&mut Onode), text: &str| {
        let mut builder = Builder::sound();
        put(&mut builder, changes, with_onode);
        assert_finds(&build(&builder), &[FindingKind::Held], text);
    };
    finds(&[write(name("small"), 1)], |_| {}, "its writes have 4096 bytes, its data has 8192");
    let far = HObject { hash: 6, ..name("small") };
    finds(
        &[write(far, 2)],
        |_| {},
        "held change 4'7 of collection 1.3: its objects have hash 00000006",
    );
    finds(&usual(), |onode| onode.has_omap = true, "it has an omap");
    let second = |onode: &mut Onode| drop(onode.attrs.insert("b".into(), Bytes::new()));
    finds(&usual(), second, "it has 2 attributes instead of one");
    let wrong = |changes: &[Change], with_onode: fn(&mut Onode), text: &str| {
        let mut builder = Builder::sound();
        put(&mut builder, changes, with_onode);
        let report = run(&build(&builder));
        assert!(report.to_string().contains(text), "\n{report}");
        assert!(kinds(&report).contains(&FindingKind::Value), "\n{report}");
    };
    wrong(&usual(), |onode| onode.attrs.clear(), "there are none");
    let omap = Change::OmapSet { object: name("small"), pairs: Default::default() };
    wrong(&[omap], |_| {}, "omaps cannot be held");
    let cut = |onode: &mut Onode| {
        onode.attrs.insert(Bytes::new(), Bytes::from_static(&[9]));
    };
    wrong(&usual(), cut, "blocks of a held write");
}

/// Settling refuses both as damage.
#[test]
fn held_data_is_neither_shared_nor_has_it_holes() {
    let share = |onode: &mut Onode| drop(onode.inline.as_mut().unwrap().share(1));
    let punch = |onode: &mut Onode| drop(onode.inline.as_mut().unwrap().clear(0..1));
    let wrong: [(fn(&mut Onode), &str); 2] =
        [(share, "its data is shared"), (punch, "its data has 1 of 2 blocks")];
    for (with_onode, text) in wrong {
        let mut builder = Builder::sound();
        put(&mut builder, &usual(), with_onode);
        let report = run(&build(&builder));
        assert!(report.to_string().contains(text), "\n{report}");
        assert!(kinds(&report).contains(&FindingKind::Held), "\n{report}");
    }
}

#[test]
fn ids_and_names_of_held_changes_are_their_own() {
    let mut builder = Builder::sound();
    put(&mut builder, &usual(), |_| {});
    let empty = HeldFields::of(&usual()[1..]).encode();
    let mut second = Onode::new(HELD + 1);
    second.attrs.insert(Bytes::new(), empty);
    let key = |version, id| Bytes::copy_from_slice(&keys::held(COLLECTION, named(version), id));
    builder.next_id = HELD + 3;
    let mut twice = builder.clone();
    twice.put(key(7, HELD + 1), second.encode());
    assert_finds(&build(&twice), &[FindingKind::Held], "it is there twice");
    let mut other = builder.clone();
    other.put(key(8, HELD + 2), second.encode());
    assert_finds(&build(&other), &[FindingKind::Held], "its data has id 10, its key 11");
    second.id = ORIGIN;
    builder.put(key(8, ORIGIN), second.encode());
    assert_finds(&build(&builder), &[FindingKind::ObjectId], "several objects have this id");
}

#[test]
fn held_data_has_blocks_of_its_own_and_checksums() {
    let mut builder = Builder::sound();
    put(&mut builder, &usual(), |_| {});
    let (block, content) = builder.data.last().cloned().unwrap();
    let mut memory = build(&builder);
    memory.flip(Device::Main, block);
    let text = "held change 4'7 of collection 1.3: 4096 bytes at offset 4096";
    assert_finds(&memory, &[FindingKind::Data], text);
    let mut onode = Onode { size: BLOCK as u64, ..Onode::new(HELD + 1) };
    onode.inline.as_mut().unwrap().map(0, block, &[crc32c(&content)]);
    builder.put_object(COLLECTION, "thief", &onode);
    builder.next_id = HELD + 2;
    let report = assert_finds(&build(&builder), &[FindingKind::BlockTwice], "held change 4'7");
    assert_eq!(report.findings.len(), 2, "\n{report}");
}
