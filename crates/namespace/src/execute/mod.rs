//! Operations on the tree: pure functions that return records.

mod attributes;
mod create;
mod images;
mod link;
mod operation;
mod remove;
mod rename;
#[cfg(test)]
mod tests;
mod values;

pub use operation::{Context, Done, Operation};
pub use values::{AttributeChange, Flush, FlushedFile, NewInode, SetAttributes};

use crate::Tree;
use types::Errno;

/// Executes an operation; changes nothing.
///
/// # Errors
///
/// Those of POSIX, as Ceph's servers give them.
pub fn execute(tree: &Tree, operation: &Operation, context: &Context) -> Result<Done, Errno> {
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
        Operation::Forget { ino } => remove::forget(tree, *ino),
    }
}
