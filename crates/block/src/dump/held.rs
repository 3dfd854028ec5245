//! Held changes: one line each, and one for each of their changes.

use super::error::DumpError;
use super::output::Output;
use super::scanner::Scanner;
use crate::fsck::Owners;
use crate::keys;
use crate::object::{HeldFields, Onode};
use bytes::Bytes;
use store::{Change, Collection};
use types::HObject;

/// Shows the held changes of which the filter accepts an object.
pub fn held(
    scanner: &mut Scanner<'_, '_>,
    owners: &Owners,
    accepts: impl Fn(Option<Collection>, &HObject) -> bool,
    output: &Output<'_>,
) -> Result<(), DumpError> {
    scanner.each(keys::prefix_range(&[keys::HELD]), |key, value| {
        let (collection, held, id) = keys::read_held(key)?;
        let collection = owners.get(collection, held.reversed_hash()).flatten();
        let onode = Onode::decode(value)?;
        let list = onode.attrs.get(&Bytes::new()).cloned().unwrap_or_default();
        let fields = HeldFields::decode(&list)?;
        let mut objects = fields.changes.iter().filter_map(Change::object);
        if objects.any(|object| accepts(collection, object)) {
            let collection = collection.map_or_else(|| "removed".into(), |name| name.to_string());
            let (version, size) = (held.version, onode.size);
            output.line(format_args!("{collection} held {version}: id {id}, {size} bytes"));
            describe(&fields, output);
        }
        Ok(())
    })
}

fn describe(fields: &HeldFields, output: &Output<'_>) {
    for (change, written) in fields.with_lengths() {
        let Some(object) = change.object() else { continue };
        let object = object.to_string();
        let object = object.escape_debug();
        match change {
            Change::Write { offset, .. } => {
                output.line(format_args!("  write {object}, offset {offset}, {written} bytes"));
            }
            Change::Zero { offset, length, .. } => {
                output.line(format_args!("  zero {object}, offset {offset}, {length} bytes"));
            }
            Change::Truncate { size, .. } => {
                output.line(format_args!("  truncate {object} to {size} bytes"));
            }
            Change::SetAttrs { attrs, .. } => {
                output.line(format_args!("  set {} attributes of {object}", attrs.len()));
            }
            change => output.line(format_args!("  {} {object}", verb(change))),
        }
    }
}

fn verb(change: &Change) -> &'static str {
    match change {
        Change::Touch { .. } => "touch",
        Change::Remove { .. } => "remove",
        Change::RemoveAttr { .. } => "remove an attribute of",
        Change::OmapClear { .. } => "clear the omap of",
        Change::Clone { .. } => "clone to",
        _ => "change",
    }
}
