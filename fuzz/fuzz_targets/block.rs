//! Damaged or hostile devices: nothing panics, and what decodes has one encoding.

#![no_main]

use block::device::BLOCK;
use block::log::Record;
use block::object::{Onode, Shard, SharedExtents};
use block::tree::{PageRef, PageSpace, Root, Visitor, walk};
use block::{identify, superblock};
use bytes::Bytes;
use codec::{decode_all, encode_to_bytes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((kind, bytes)) = input.split_first() else { return };
    let bytes = Bytes::copy_from_slice(bytes);
    match kind % 7 {
        0 => {
            if let Ok(onode) = Onode::decode(&bytes) {
                assert_eq!(onode.encode(), bytes);
            }
        }
        1 => {
            if let Ok(shard) = Shard::decode(&bytes) {
                shard.check_invariants();
                assert_eq!(shard.encode(), bytes);
            }
        }
        2 => {
            if let Ok(shared) = SharedExtents::decode(&bytes) {
                shared.check_invariants();
                assert_eq!(shared.encode(), bytes);
            }
        }
        3 => {
            if let Ok(record) = decode_all::<Record>("record", &bytes) {
                assert_eq!(encode_to_bytes(&record), bytes);
            }
        }
        4 => {
            if let Ok(pages) = PageSpace::decode(&bytes) {
                pages.check_invariants();
            }
        }
        5 => {
            let _ = identify(&bytes);
            let copies = [Some(&bytes[..]), None, None, None];
            let _ = superblock::choose(&copies);
        }
        _ => walk_one_page(&bytes),
    }
});

/// A tree of one page, wherever that page refers to.
fn walk_one_page(bytes: &[u8]) {
    let mut page = bytes[..bytes.len().min(BLOCK)].to_vec();
    page.resize(BLOCK, 0);
    let crc = crc_fast::crc32_iscsi(&page);
    let page = Bytes::from(page);
    let height = 1 + bytes.first().copied().unwrap_or(0) % 3;
    let reference = PageRef { page: 7, crc };
    let root = Root {
        page: reference,
        height,
        height_below: 0,
        pairs: 0,
        bytes: 0,
        pages: 1,
        inner_pages: 0,
        longest: 0,
    };
    let visitor = Visitor {
        read: &mut |_, pages| Ok(page.slice(..BLOCK).repeat(pages.min(4) as usize).into()),
        pair: &mut |_, _| {},
        pages: &mut |_| {},
    };
    let _ = walk(Some(&root), visitor);
}
