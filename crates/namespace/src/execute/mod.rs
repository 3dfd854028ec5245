//! Operations on the tree: pure functions that return records.

mod attributes;
mod create;
mod images;
mod link;
mod operation;
mod remove;
mod rename;
mod snapshots;
#[cfg(test)]
mod tests;
mod values;

pub(crate) use images::own_image;
pub use operation::{Context, Done, Operation};
pub use values::{AttributeChange, Flush, FlushedFile, NewInode, SetAttributes};

use crate::Tree;
use crate::preserve::preserve;
use types::Errno;

/// Executes an operation; changes nothing.
///
/// # Errors
///
/// Those of POSIX, as Ceph's servers give them.
pub fn execute(tree: &Tree, operation: &Operation, context: &Context) -> Result<Done, Errno> {
    let done = change(tree, operation, context)?;
    Ok(match operation {
        // They say themselves what snapshots show.
        Operation::FlushBehind { .. } | Operation::TrimOldVersions { .. } => done,
        _ => Done { records: preserve(tree, done.records), ..done },
    })
}

fn change(tree: &Tree, operation: &Operation, context: &Context) -> Result<Done, Errno> {
    match operation {
        Operation::Create { directory, name, new } => {
            create::create(tree, *directory, name, new, context)
        }
        Operation::Link { ino, directory, name } => {
            link::link(tree, *ino, *directory, name, context)
        }
        Operation::Unlink { directory, name } => remove::unlink(tree, *directory, name, context),
        Operation::RemoveDirectory { directory, name } => {
            remove::remove_directory(tree, *directory, name, context)
        }
        Operation::Rename { from, to } => rename::rename(tree, from, to, context),
        Operation::Change { ino, change } => attributes::change(tree, *ino, change, context),
        Operation::TakeSnapshot { directory, name, metadata } => {
            snapshots::take(tree, *directory, name, metadata, context)
        }
        Operation::RemoveSnapshot { directory, name } => {
            snapshots::remove(tree, *directory, name, context)
        }
        Operation::RenameSnapshot { directory, from, to } => {
            snapshots::rename(tree, *directory, from, to, context)
        }
        Operation::FlushBehind { ino, follows, flush, is_of_snapshot } => {
            snapshots::flush(tree, *ino, *follows, flush, *is_of_snapshot)
        }
        Operation::ConfirmRemoved { snap } => Ok(snapshots::confirm(tree, *snap)),
        Operation::TrimOldVersions { keys } => Ok(snapshots::trim(tree, keys)),
        Operation::Forget { ino } => remove::forget(tree, *ino),
    }
}
