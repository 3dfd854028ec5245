//! Pages of the metadata tree as of the checkpoint, in depth-first order, each with its pairs.

use super::error::DumpError;
use super::output::Output;
use super::scanner::find_superblock;
use crate::device::Extent;
use crate::fsck::{Image, Source, describe_key, tree_root};
use crate::tree::{Visitor, walk};
use std::fmt::Write;

/// Writes the pages of the tree in depth-first order, each with its pairs; damaged pages as such.
pub fn tree(image: &mut dyn Image, out: &mut dyn Write) -> Result<(), DumpError> {
    let source = Source::new(image);
    let superblock = find_superblock(&source)?;
    let root = tree_root(&superblock)?;
    let output = Output::new(out);
    let device = superblock.metadata.device;
    output.line(format_args!("pages on the {device} device"));
    let visitor = Visitor {
        read: &mut |page, pages| source.read(device, Extent::new(page, pages.into())),
        pair: &mut |key, value| {
            output.line(format_args!("  {}: {} bytes", describe_key(key), value.len()));
        },
        pages: &mut |extent| output.line(format_args!("{extent}")),
    };
    for finding in walk(root.as_ref(), visitor) {
        output.line(format_args!("damaged: {finding}"));
    }
    Ok(output.finish()?)
}
