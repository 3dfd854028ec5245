//! Sentences of checks, dumps and repairs about what cannot be read or does not decode. Users and their
//! scripts see them.

use super::builder::{Builder, MAIN_BLOCKS, Memory, SMALL, refusal};
use super::deep;
use crate::checksum::crc32c;
use crate::device::{BLOCK, Device, Extent, IoError};
use crate::dump::{self, DumpError, ObjectFilter};
use crate::fsck::{Image, ImageMut, Source, check, choose_superblock, repair, tree_root};
use crate::keys;
use crate::superblock::Superblock;
use bytes::Bytes;
use std::fmt::Write;

type Dump = fn(&mut dyn Image, &mut dyn Write) -> Result<(), DumpError>;

fn list(image: &mut dyn Image, out: &mut dyn Write) -> Result<(), DumpError> {
    dump::objects(image, &ObjectFilter::default(), out)
}

fn findings(memory: &Memory) -> Vec<String> {
    let report = check(&mut memory.clone(), &deep());
    report.findings.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn assert_finds(memory: &Memory, sentence: &str) {
    let found = findings(memory);
    assert!(found.iter().any(|finding| finding == sentence), "no \"{sentence}\" in {found:#?}");
}

#[track_caller]
fn assert_refused(memory: &Memory, dump: Dump, sentence: &str) {
    let result = dump(&mut memory.clone(), &mut String::new());
    assert_eq!(result.unwrap_err().to_string(), sentence);
}

fn root_page(memory: &Memory) -> u64 {
    let mut memory = memory.clone();
    let source = Source::new(&mut memory);
    let superblock = choose_superblock(&source).unwrap();
    tree_root(&superblock).unwrap().unwrap().page.page
}

#[test]
fn blocks_that_cannot_be_read() {
    let mut memory = Builder::sound().build();
    memory.unreadable.insert((Device::Main, 1));
    assert_finds(
        &memory,
        "superblock-copy: copy at block 1: medium error (repair: write it again)",
    );
    let mut text = String::new();
    dump::superblock(&mut memory, &mut text).unwrap();
    assert!(text.contains("copy at block 1: medium error\n"), "{text}");

    let mut memory = Builder::sound().build();
    let page = root_page(&memory);
    memory.unreadable.insert((Device::Main, page));
    assert_finds(
        &memory,
        "keys-lost: page 515 is damaged (not readable: medium error): all from \
         key \"\" to the end are lost",
    );
    assert_refused(&memory, list, "page 515 of the tree is damaged: not readable: medium error");
}

#[test]
fn blocks_behind_the_end() {
    let mut memory = Builder::sound().build();
    let source = Source::new(&mut memory);
    for (extent, sentence) in [
        (Extent::new(MAIN_BLOCKS - 1, 2), "blocks 2047..2049 is not within 2048 blocks"),
        (Extent::new(u64::MAX, 1), "block 18446744073709551615 is not within 2048 blocks"),
    ] {
        assert_eq!(source.read(Device::Main, extent).unwrap_err().to_string(), sentence);
    }
}

#[test]
fn bitmaps_of_pages_that_cannot_be_used() {
    let builder = Builder::sound();
    let with = |damage: fn(&mut Superblock)| builder.build_with(|_| {}, damage);
    assert_finds(
        &with(|block| block.metadata.bitmap.crc ^= 1),
        "page-bitmap: the bitmap of pages cannot be used: its checksum is \
         0x48674bc7 instead of 0x48674bc6 (repair: count again)",
    );
    assert_finds(
        &with(|block| block.metadata.bitmap.bytes = 5000),
        "page-bitmap: the bitmap of pages cannot be used: it has 5000 bytes in \
         4096 (repair: count again)",
    );
    let sound = builder.build();
    let prefix = |block: &mut Superblock| {
        let bitmap = &mut block.metadata.bitmap;
        bitmap.bytes = 1;
        bitmap.crc = crc32c(&sound.get(Device::Main, bitmap.extents[0].start)[..1]);
    };
    assert_finds(
        &builder.build_with(|_| {}, prefix),
        "page-bitmap: the bitmap of pages cannot be used: page space at byte 0: needs 8 bytes, 1 are left \
         (repair: count again)",
    );
    assert_finds(
        &with(|block| block.metadata.runs[0].count -= 1),
        "page-bitmap: the bitmap of pages cannot be used: it is of other runs \
         than the superblock names (repair: count again)",
    );
}

#[test]
fn superblocks_and_roots_that_cannot_be_used() {
    let mut memory = Memory::default();
    assert_refused(
        &memory,
        list,
        "there is no superblock to go by: geometry: the main device has 0 \
         blocks, at least 2048 are needed",
    );
    memory.sizes.insert(Device::Main, MAIN_BLOCKS);
    assert_refused(
        &memory,
        list,
        "there is no superblock to go by: no-superblock: the device holds no \
         store of Sepiola",
    );
    let no_root =
        Builder::sound().build_with(|_| {}, |block| block.tree_root = Bytes::from_static(b"root"));
    assert_finds(
        &no_root,
        "keys-lost: all of the tree: root page at byte 0: needs 8 bytes, 4 are left",
    );
    assert_refused(&no_root, dump::tree, "root page at byte 0: needs 8 bytes, 4 are left");
    assert_refused(&no_root, list, "root page at byte 0: needs 8 bytes, 4 are left");
}

#[test]
fn pairs_that_cannot_be_dumped() {
    let with = |key: Bytes, value: &'static [u8]| {
        let mut builder = Builder::sound();
        builder.put(key, Bytes::from_static(value));
        builder.build()
    };
    assert_refused(&with(Bytes::from_static(b"Ox"), b""), list, "key \"Ox\"");
    let chunk = |number: &'static [u8]| Bytes::from_static(number);
    assert_refused(
        &with(chunk(b"Bx"), b""),
        dump::space,
        "bitmap chunk at byte 1: needs 4 bytes, 1 are left",
    );
    assert_refused(
        &with(keys::bitmap(900), b"xy"),
        dump::space,
        "there is no chunk 900 of the bitmap, which has 1",
    );
    let collection = keys::collection(super::builder::collection());
    assert_refused(
        &with(collection, b""),
        list,
        "collection id at byte 0: needs 8 bytes, 0 are left",
    );
}

#[test]
fn values_that_do_not_fit_their_keys() {
    let with = |key: Bytes, value: &'static [u8]| {
        let mut builder = Builder::sound();
        builder.put(key, Bytes::from_static(value));
        builder.build()
    };
    assert_finds(
        &with(keys::segment(SMALL, 0), b""),
        "value: object 1:a0000000:::small:head of collection 1.3: extent \
         segment 0 of object id 2: extent segment version at byte 0: needs 1 \
         bytes, 0 are left",
    );
    assert_finds(
        &with(keys::bitmap(900), b"xy"),
        "value: bitmap chunk 900: there is no chunk 900 of the bitmap, which has 1",
    );
    let garbage = keys::garbage(crate::slices::Slice::whole(77));
    assert_finds(
        &with(garbage, b"xyz"),
        "value: removed collection id 77: it has a value of 3 bytes",
    );
}

/// Devices that refuse writes or flushes, and return one block too few.
struct Faulty {
    memory: Memory,
    is_short: bool,
    refuses_writes: bool,
}

impl Image for Faulty {
    fn read(&mut self, device: Device, block: u64, blocks: u32) -> Result<Bytes, IoError> {
        let bytes = self.memory.read(device, block, blocks)?;
        Ok(bytes.slice(..bytes.len() - if self.is_short { BLOCK } else { 0 }))
    }

    fn blocks(&self, device: Device) -> u64 {
        self.memory.blocks(device)
    }
}

impl ImageMut for Faulty {
    fn write(&mut self, _: Device, _: u64, _: Bytes) -> Result<(), IoError> {
        match self.refuses_writes {
            true => Err(refusal("medium error")),
            false => Ok(()),
        }
    }

    fn flush(&mut self, _: Device) -> Result<(), IoError> {
        Err(refusal("cache error"))
    }
}

#[test]
fn devices_that_refuse_a_repair() {
    let mut memory = Builder::sound().build();
    memory.flip(Device::Main, 1);
    let report = check(&mut memory, &deep());
    for (refuses_writes, sentence) in [
        (true, "the main device failed at block 1: medium error"),
        (false, "the main device failed: cache error"),
    ] {
        let mut image = Faulty { memory: memory.clone(), is_short: false, refuses_writes };
        assert_eq!(repair(&report, &mut image).unwrap_err().to_string(), sentence);
    }
}

#[test]
fn devices_that_return_too_little() {
    let memory = Builder::sound().build();
    let mut image = Faulty { memory, is_short: true, refuses_writes: false };
    let mut text = String::new();
    dump::superblock(&mut image, &mut text).unwrap_err();
    assert!(text.starts_with("copy at block 0: 0 bytes came instead of 1 blocks\n"), "{text}");
}
