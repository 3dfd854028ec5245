//! Creation of files, directories, symbolic links and special files.

use super::attributes::fits;
use super::images::touch;
use super::operation::{Context, Done};
use super::values::NewInode;
use crate::inode::{Owner, Truncation, Xattrs};
use crate::walk::check_name;
use crate::{EntryImage, Ino, Inode, Kind, Record, Tree};
use bytes::Bytes;
use types::Errno;

/// A directory with this bit gives its group to what is created in it.
const SET_GROUP_ID: u32 = 0o2000;
/// Longest target of a symbolic link in bytes. A longer one is ENAMETOOLONG.
const SYMLINK_MAX_BYTES: usize = 4096;

pub(super) fn create(
    tree: &Tree,
    directory: Ino,
    name: &Bytes,
    new: &NewInode,
    context: &Context,
) -> Result<Done, Errno> {
    check_name(name)?;
    tree.check_directory(directory)?;
    if tree.entry(directory, name).is_some() {
        return Err(Errno::EXIST);
    }
    if tree.get(new.ino).is_some() {
        return Err(Errno::EXIST);
    }
    let parent = tree.get(directory).expect("the directory was checked");
    if parent.nlink == 0 {
        return Err(Errno::NOENT);
    }
    if new.symlink.len() > SYMLINK_MAX_BYTES {
        return Err(Errno::NAMETOOLONG);
    }
    if !fits(&new.xattrs) {
        return Err(Errno::NOSPC);
    }
    if !new.encryption.fits() {
        return Err(Errno::INVAL);
    }
    let inode = new_inode(tree, parent, new, context);
    let image = EntryImage::Primary(Box::new(inode));
    let dentry = Record::dentry(directory, name, image);
    let records = vec![dentry, touch(tree, directory, context.now)];
    Ok(Done { records, target: Some(new.ino), ..Done::default() })
}

fn new_inode(tree: &Tree, parent: &Inode, new: &NewInode, context: &Context) -> Inode {
    let kind = Kind::of(new.mode);
    let gives_group = parent.mode & SET_GROUP_ID != 0;
    let inherited = if gives_group && kind == Kind::Directory { SET_GROUP_ID } else { 0 };
    let layout = || new.layout.clone().or_else(|| tree.layout_of(parent.ino).cloned());
    let is_file = kind == Kind::File;
    Inode {
        ino: new.ino,
        version: 1,
        mode: new.mode | inherited,
        owner: Owner {
            uid: context.uid,
            gid: if gives_group { parent.owner.gid } else { context.gid },
        },
        nlink: 1,
        rdev: new.rdev,
        size: if kind == Kind::Symlink { new.symlink.len() as u64 } else { 0 },
        truncation: Truncation { size: u64::MAX, seq: 1, ..Truncation::default() },
        btime: context.now,
        ctime: context.now,
        mtime: context.now,
        atime: context.now,
        xattrs: Xattrs { version: 1, values: new.xattrs.clone() },
        layout: is_file.then(|| layout().unwrap_or_else(|| new.default_layout.clone())),
        symlink: new.symlink.clone(),
        write_ranges: new.writer.into_iter().filter(|_| is_file).collect(),
        encryption: new.encryption.clone(),
        ..Inode::default()
    }
}
