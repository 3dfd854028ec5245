//! After-images of what operations change.

use crate::{EntryImage, Ino, Inode, Record, Tree};
use bytes::Bytes;
use types::UTime;

/// The record of a directory whose entries change.
pub(super) fn touch(tree: &Tree, directory: Ino, now: UTime) -> Record {
    let mut inode = tree.get(directory).expect("the directory was checked").clone();
    inode.touch(now);
    Record::Touch {
        directory,
        version: inode.version,
        mtime: inode.mtime.max(now),
        ctime: inode.ctime,
        change_attr: inode.change_attr,
    }
}

/// The record of an inode whose attributes change, at its place.
pub(super) fn image_record(tree: &Tree, inode: Inode) -> Record {
    let ino = inode.ino;
    match tree.home(ino) {
        Some((directory, name)) if tree.entry(*directory, name).is_some_and(|e| e.is_primary) => {
            let image = EntryImage::Primary(Box::new(inode));
            Record::Dentry { directory: *directory, name: name.clone(), image }
        }
        None if ino != Ino::ROOT => Record::Orphan(Box::new(inode)),
        _ => Record::Inode(Box::new(inode)),
    }
}

/// Records of an inode that loses the name `lost`; whether it becomes an orphan.
pub(super) fn lose_link(tree: &Tree, ino: Ino, lost: &(Ino, Bytes), now: UTime) -> (Record, bool) {
    let mut inode = tree.get(ino).expect("an entry has an inode").clone();
    inode.touch(now);
    inode.nlink -= 1;
    if inode.nlink == 0 {
        return (Record::Orphan(Box::new(inode)), true);
    }
    let mut left = tree.links(ino).iter().filter(|link| *link != lost);
    debug_assert!(left.next().is_some(), "an inode with links left has names left");
    (Record::Inode(Box::new(inode)), false)
}
