//! All copies of the superblock, and the fields of the newest valid one.

use super::error::DumpError;
use super::output::Output;
use super::scanner::find_superblock;
use crate::device::{Device, Extent};
use crate::fsck::{Image, Source, read_copy};
use crate::log::{Counters, LogPoint};
use crate::superblock::{MAIN_BLOCKS_MIN, Superblock, all_slots};
use std::fmt::Write;

/// Writes the version of each of the four copies or the reason why it is unusable, then all fields
/// of the superblock that counts. Fails if none does.
pub fn superblock(image: &mut dyn Image, out: &mut dyn Write) -> Result<(), DumpError> {
    let source = Source::new(image);
    let output = Output::new(out);
    for slot in all_slots(source.blocks(Device::Main).max(MAIN_BLOCKS_MIN)) {
        match read_copy(&source, slot) {
            Ok(copy) => {
                output.line(format_args!("copy at block {slot}: version {}", copy.sequence))
            }
            Err(fault) => output.line(format_args!("copy at block {slot}: {fault}")),
        }
    }
    let superblock = find_superblock(&source);
    if let Ok(superblock) = &superblock {
        describe(superblock, &output);
    }
    output.finish()?;
    superblock.map(|_| ())
}

fn describe(superblock: &Superblock, output: &Output<'_>) {
    let Superblock { features, geometry, metadata, counters, .. } = superblock;
    let line = |name: &str, text: String| output.line(format_args!("{name:<20} {text}"));
    line("store", superblock.store.to_string());
    line("version", superblock.sequence.to_string());
    line("generation", superblock.generation.to_string());
    line("owner", format!("\"{}\"", superblock.owner.escape_ascii()));
    line(
        "features",
        format!(
            "compatible {:#x}, read-only {:#x}, incompatible {:#x}",
            features.compatible, features.read_only, features.incompatible
        ),
    );
    line("main device", format!("{} blocks", geometry.main_blocks));
    line("fast device", format!("{} blocks", geometry.fast_blocks));
    let log_device = geometry.log_device;
    line("log", format!("{} of the {log_device} device", geometry.log));
    line("space", geometry.space.to_string());
    line("fast space", geometry.fast_space.to_string());
    line("replay from", point(&superblock.log));
    line("resumed at", point(&superblock.resumed));
    line("counters", self::counters(counters));
    line("metadata device", metadata.device.to_string());
    line(
        "metadata runs",
        match superblock.features.has_scattered_metadata() {
            true => "many, which the page bitmap names".into(),
            false => extents(&metadata.runs),
        },
    );
    let bitmap = &metadata.bitmap;
    let places = extents(&bitmap.extents);
    line("page bitmap", format!("{} bytes at {places}, crc {:#010x}", bitmap.bytes, bitmap.crc));
    line(
        "tree root",
        match crate::fsck::tree_root(superblock) {
            Ok(None) => "none".into(),
            Ok(Some(root)) => format!(
                "page {}, height {}, {} pairs with {} bytes in {} pages",
                root.page.page, root.height, root.pairs, root.bytes, root.pages
            ),
            Err(error) => error.to_string(),
        },
    );
}

pub(super) fn point(point: &LogPoint) -> String {
    let LogPoint { position, seq, previous } = point;
    format!("batch {seq} at position {position} behind {previous:#010x}")
}

pub(super) fn counters(counters: &Counters) -> String {
    let Counters { next_id, objects, data_bytes, omap_bytes } = counters;
    format!(
        "next id {next_id}, {objects} objects, {data_bytes} bytes of data, {omap_bytes} bytes of omaps"
    )
}

/// A list of extents as text.
pub(super) fn extents(extents: &[Extent]) -> String {
    if extents.is_empty() {
        return "none".into();
    }
    let texts: Vec<String> = extents.iter().map(Extent::to_string).collect();
    texts.join(", ")
}
