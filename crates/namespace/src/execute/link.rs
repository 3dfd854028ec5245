//! Further names of an inode.

use super::images::touch;
use super::operation::{Context, Done};
use crate::walk::check_name;
use crate::{EntryImage, Ino, Record, Tree};
use bytes::Bytes;
use types::Errno;

/// Most names of an inode. One more is EMLINK in Ceph only by the width of the number; here EINVAL.
const LINKS_MAX: u32 = u32::MAX - 1;

pub(super) fn link(
    tree: &Tree,
    ino: Ino,
    directory: Ino,
    name: &Bytes,
    context: &Context,
) -> Result<Done, Errno> {
    check_name(name)?;
    tree.check_directory(directory)?;
    let mut inode = tree.get(ino).ok_or(Errno::NOENT)?.clone();
    if inode.is_directory() || inode.nlink >= LINKS_MAX {
        return Err(Errno::INVAL);
    }
    if tree.entry(directory, name).is_some() {
        return Err(Errno::EXIST);
    }
    let is_removed = tree.get(directory).is_none_or(|parent| parent.nlink == 0);
    if inode.nlink == 0 || is_removed {
        return Err(Errno::NOENT);
    }
    inode.touch(context.now);
    inode.nlink += 1;
    let mut records = vec![Record::Inode(Box::new(inode))];
    // With a second name the inode has a record of its own.
    for (directory, name) in tree.links(ino) {
        if tree.entry(*directory, name).is_some_and(|entry| entry.is_primary) {
            let image = EntryImage::Remote(ino);
            records.push(Record::dentry(*directory, name, image));
        }
    }
    let image = EntryImage::Remote(ino);
    records.push(Record::dentry(directory, name, image));
    records.push(touch(tree, directory, context.now));
    Ok(Done { records, target: Some(ino), ..Done::default() })
}
