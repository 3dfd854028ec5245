//! Objects: one line each, or all metadata of the objects with a given name. Held changes follow.

use super::error::DumpError;
use super::held::held;
use super::output::{Output, excerpt};
use super::scanner::Scanner;
use crate::device::{BLOCK, Extent};
use crate::fsck::{Image, Owners, Source};
use crate::keys::{self, Key};
use crate::object::{ExtentSegment, Onode, Piece, SEGMENT_BLOCKS};
use crate::slices::Slices;
use bytes::Bytes;
use std::fmt::Write;
use store::Collection;
use types::HObject;

/// Selects objects to show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectFilter {
    /// Shows only objects of this collection.
    pub collection: Option<Collection>,
    /// Shows all metadata of the objects with this name: the bare name, or the full name as
    /// listings print it.
    pub object: Option<String>,
}

impl ObjectFilter {
    fn accepts(&self, collection: Option<Collection>, object: &HObject) -> bool {
        let is_named =
            |name: &String| object.name == name.as_bytes() || object.to_string() == *name;
        (self.collection.is_none() || self.collection == collection)
            && self.object.as_ref().is_none_or(is_named)
    }
}

/// Writes onode, extents, attributes, omap and shared extents of the objects that the filter
/// accepts, in key order.
pub fn objects(
    image: &mut dyn Image,
    filter: &ObjectFilter,
    out: &mut dyn Write,
) -> Result<(), DumpError> {
    let source = Source::new(image);
    let mut scanner = Scanner::open(&source)?;
    let output = Output::new(out);
    let mut matching = Vec::new();
    let mut owners = Owners::default();
    scanner.each(keys::collections_range(), |key, value| {
        let name = keys::read_collection(key)?;
        for slice in Slices::decode(value)?.iter() {
            owners.insert(slice, Some(name));
        }
        Ok(())
    })?;
    scanner.each(keys::prefix_range(b"O"), |key, value| {
        let (collection, object) = match Key::read(key) {
            Ok(Key::Object { collection, object }) => (collection, object),
            _ => return Err(DumpError::Key { key: key.clone() }),
        };
        let name = owners.get(collection, object.reversed_hash()).flatten();
        if !filter.accepts(name, &object) {
            return Ok(());
        }
        let onode = Onode::decode(value);
        describe(name, &object, &onode, &output);
        // Few objects share one name; the lines of a listing are not kept in memory.
        if let (Some(_), Ok(onode)) = (&filter.object, onode) {
            matching.push((object, onode));
        }
        Ok(())
    })?;
    for (object, onode) in matching {
        output.line(format_args!("details of {object}:"));
        describe_details(&mut scanner, &onode, &output)?;
    }
    held(&mut scanner, &owners, |at, object| filter.accepts(at, object), &output)?;
    Ok(output.finish()?)
}

fn describe(
    collection: Option<Collection>,
    object: &HObject,
    onode: &codec::Result<Onode>,
    output: &Output<'_>,
) {
    let collection = collection.map_or_else(|| "removed".into(), |name| name.to_string());
    let object = object.to_string();
    let object = object.escape_debug();
    let onode = match onode {
        Ok(onode) => onode,
        Err(error) => return output.line(format_args!("{collection} {object}: {error}")),
    };
    let data = match &onode.inline {
        Some(segment) => format!("{} blocks", segment.mapped_blocks()),
        None => "extent segments".into(),
    };
    let omap = if onode.has_omap { ", omap" } else { "" };
    output.line(format_args!(
        "{collection} {object}: id {}, {} bytes in {data}, {} attributes{omap}",
        onode.id,
        onode.size,
        onode.attrs.len()
    ));
}

fn describe_details(
    scanner: &mut Scanner<'_, '_>,
    onode: &Onode,
    output: &Output<'_>,
) -> Result<(), DumpError> {
    for (name, value) in &onode.attrs {
        let (name, length) = (excerpt(name), value.len());
        output.line(format_args!("  attribute {name}, {length} bytes: {}", excerpt(value)));
    }
    if let Some(segment) = &onode.inline {
        describe_segment(0, segment, output);
    }
    scanner.each(keys::segment_range(onode.id, 0), |key, value| {
        let (_, index) = keys::read_segment(key)?;
        let segment = ExtentSegment::decode(value)?;
        describe_segment(index, &segment, output);
        Ok(())
    })?;
    let header = keys::omap_header(onode.id);
    scanner.each(header.clone()..keys::prefix_end(&header), |_, value| {
        output.line(format_args!("  omap header, {} bytes: {}", value.len(), excerpt(value)));
        Ok(())
    })?;
    scanner.each(keys::omap_range(onode.id), |key, value| {
        let (_, name): (u64, Bytes) = keys::read_omap(key)?;
        let (name, length) = (excerpt(&name), value.len());
        output.line(format_args!("  omap {name}, {length} bytes: {}", excerpt(value)));
        Ok(())
    })
}

fn describe_segment(index: u32, segment: &ExtentSegment, output: &Output<'_>) {
    let base = u64::from(index) * SEGMENT_BLOCKS;
    output.line(format_args!("  extent segment {index}, {} blocks", segment.mapped_blocks()));
    for piece in segment.pieces(0..segment.end()) {
        let Piece::Mapped { start, physical, shared, crcs } = piece else { continue };
        let offset = (base + start) * BLOCK as u64;
        let extent = Extent::new(physical, crcs.len() as u64);
        let shared = if shared == 0 { String::new() } else { format!(", shared id {shared}") };
        let crcs: Vec<String> = crcs.iter().map(|crc| format!("{crc:08x}")).collect();
        output.line(format_args!("    offset {offset}: {extent}{shared}: {}", crcs.join(" ")));
    }
}
