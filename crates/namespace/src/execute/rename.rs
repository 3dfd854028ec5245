//! Renames, within a directory and between directories.

use super::images::{leave_realm, lose_link, touch};
use super::operation::{Context, Done};
use super::remove::named;
use crate::walk::check_name;
use crate::{EntryImage, Ino, Record, Tree, realms, snapshots};
use bytes::Bytes;
use types::Errno;

pub(super) fn rename(
    tree: &Tree,
    from: &(Ino, Bytes),
    to: &(Ino, Bytes),
    context: &Context,
) -> Result<Done, Errno> {
    let ino = named(tree, from.0, &from.1)?;
    check_name(&to.1)?;
    tree.check_directory(to.0)?;
    if tree.get(to.0).is_none_or(|directory| directory.nlink == 0) {
        return Err(Errno::NOENT);
    }
    let replaced = tree.entry(to.0, &to.1).map(|entry| entry.ino);
    if replaced == Some(ino) {
        // Two names of one inode, or the same name: POSIX demands that nothing happens.
        return Ok(Done { target: Some(ino), ..Done::default() });
    }
    check_kinds(tree, ino, to.0, replaced)?;

    let mut done = Done { target: Some(ino), ..Done::default() };
    let absent = |link: &(Ino, Bytes)| Record::dentry(link.0, &link.1, EntryImage::Absent);
    if let Some(replaced) = replaced {
        let (lost, is_orphan) = lose_link(tree, replaced, to, context.now);
        done.records.push(absent(to));
        done.records.extend(lost);
        done.orphan = is_orphan.then_some(replaced);
    }
    done.records.push(absent(from));
    done.records.extend(moved(tree, ino, from, to, context));
    done.records.push(touch(tree, to.0, context.now));
    if from.0 != to.0 {
        done.records.push(touch(tree, from.0, context.now));
    }
    Ok(done)
}

/// Errors of an inode that takes the place of another one.
fn check_kinds(tree: &Tree, ino: Ino, to: Ino, replaced: Option<Ino>) -> Result<(), Errno> {
    let is_directory = |ino| tree.get(ino).is_some_and(|inode| inode.is_directory());
    if is_directory(ino) && tree.is_within(to, ino) {
        return Err(Errno::INVAL);
    }
    let Some(replaced) = replaced else { return Ok(()) };
    match (is_directory(ino), is_directory(replaced)) {
        (true, false) => Err(Errno::NOTDIR),
        (false, true) => Err(Errno::ISDIR),
        (true, true) if !tree.has_no_entries(replaced) || snapshots::has_own(tree, replaced) => {
            Err(Errno::NOTEMPTY)
        }
        _ => Ok(()),
    }
}

/// The records of the inode and of its new name.
fn moved(
    tree: &Tree,
    ino: Ino,
    from: &(Ino, Bytes),
    to: &(Ino, Bytes),
    context: &Context,
) -> Vec<Record> {
    let mut inode = tree.get(ino).expect("an entry has an inode").clone();
    inode.touch(context.now);
    let is_primary = tree.entry(from.0, &from.1).is_some_and(|entry| entry.is_primary);
    let dentry = |image| Record::dentry(to.0, &to.1, image);
    if !is_primary {
        return vec![Record::Inode(Box::new(inode)), dentry(EntryImage::Remote(ino))];
    }
    let numbers = leave_realm(
        tree,
        &mut inode,
        realms::realm_of(tree, from.0),
        Some(realms::realm_of(tree, to.0)),
    );
    let moved = dentry(EntryImage::Primary(Box::new(inode)));
    numbers.into_iter().chain([moved]).collect()
}
