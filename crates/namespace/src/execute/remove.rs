//! Removal of names.

use super::images::{lose_link, touch};
use super::operation::{Context, Done};
use crate::walk::check_name;
use crate::{EntryImage, Ino, Record, Tree, snapshots};
use bytes::Bytes;
use types::Errno;

pub(super) fn unlink(
    tree: &Tree,
    directory: Ino,
    name: &Bytes,
    context: &Context,
) -> Result<Done, Errno> {
    let ino = named(tree, directory, name)?;
    if tree.get(ino).is_some_and(|inode| inode.is_directory()) {
        return Err(Errno::ISDIR);
    }
    Ok(remove(tree, directory, name, ino, context))
}

pub(super) fn remove_directory(
    tree: &Tree,
    directory: Ino,
    name: &Bytes,
    context: &Context,
) -> Result<Done, Errno> {
    let ino = named(tree, directory, name)?;
    tree.check_directory(ino)?;
    if !tree.has_no_entries(ino) || snapshots::has_own(tree, ino) {
        return Err(Errno::NOTEMPTY);
    }
    Ok(remove(tree, directory, name, ino, context))
}

pub(super) fn forget(tree: &Tree, ino: Ino) -> Result<Done, Errno> {
    let inode = tree.get(ino).ok_or(Errno::NOENT)?;
    if inode.nlink != 0 {
        return Err(Errno::BUSY);
    }
    Ok(Done { records: vec![Record::Gone(ino)], ..Done::default() })
}

/// The inode of an entry.
pub(super) fn named(tree: &Tree, directory: Ino, name: &Bytes) -> Result<Ino, Errno> {
    check_name(name)?;
    tree.check_directory(directory)?;
    Ok(tree.entry(directory, name).ok_or(Errno::NOENT)?.ino)
}

fn remove(tree: &Tree, directory: Ino, name: &Bytes, ino: Ino, context: &Context) -> Done {
    let link = (directory, name.clone());
    let (lost, is_orphan) = lose_link(tree, ino, &link, context.now);
    let absent = Record::dentry(directory, name, EntryImage::Absent);
    let mut records = vec![absent];
    records.extend(lost);
    records.push(touch(tree, directory, context.now));
    Done { records, target: Some(ino), orphan: is_orphan.then_some(ino), ..Done::default() }
}
