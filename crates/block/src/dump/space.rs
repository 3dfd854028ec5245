//! Runs of used and free blocks of the space, as of the end of the log.

use super::error::DumpError;
use super::output::Output;
use super::scanner::Scanner;
use super::superblock::extents;
use crate::device::Extent;
use crate::fsck::{Image, Source};
use crate::keys;
use crate::space::{BlockMap, CHUNK_BLOCKS};
use std::fmt::Write;

/// Writes the runs of the metadata space, then all runs of used and of free blocks of the space for
/// data.
pub fn space(image: &mut dyn Image, out: &mut dyn Write) -> Result<(), DumpError> {
    let source = Source::new(image);
    let mut scanner = Scanner::open(&source)?;
    let output = Output::new(out);
    let metadata = scanner.superblock.metadata.clone();
    let device = metadata.device;
    output.line(format_args!("metadata on the {device} device: {}", extents(&metadata.runs)));
    let mut map = BlockMap::new(scanner.superblock.geometry.space);
    scanner.each(keys::bitmap_range(), |key, value| {
        Ok(map.load_chunk(keys::read_bitmap(key)?, value)?)
    })?;
    scanner.journal.replay_space(&mut map);
    let (total, free) = (map.total(), map.free());
    output.line(format_args!("{total} blocks, {} used, {free} free", total - free));
    for (extent, is_used) in runs(&map) {
        let what = if is_used { "used" } else { "free" };
        output.line(format_args!("{what} {extent} ({})", extent.count));
    }
    Ok(output.finish()?)
}

/// Maximal runs of used or free blocks.
fn runs(map: &BlockMap) -> impl Iterator<Item = (Extent, bool)> + '_ {
    let space = map.extent();
    let mut blocks = bits(map).zip(space.start..space.end()).peekable();
    std::iter::from_fn(move || {
        let (is_used, start) = blocks.next()?;
        let mut extent = Extent::new(start, 1);
        while blocks.next_if(|(bit, _)| *bit == is_used).is_some() {
            extent.count += 1;
        }
        Some((extent, is_used))
    })
}

/// One bit per block, set if used.
fn bits(map: &BlockMap) -> impl Iterator<Item = bool> + '_ {
    let chunks = (0..map.chunk_count()).map(|chunk| map.chunk(chunk));
    let of_chunk = |bytes: [u8; CHUNK_BLOCKS as usize / 8]| {
        bytes.into_iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1))
    };
    chunks.flat_map(of_chunk)
}
