//! Changes of attributes, by requests and by clients that hold them.

use super::images::image_record;
use super::operation::{Context, Done};
use super::values::{AttributeChange, Flush, FlushedFile, SetAttributes};
use crate::inode::{Encryption, Owner, Truncation, Xattrs};
use crate::{Ino, Inode, Kind, Tree, snapshots};
use bytes::Bytes;
use std::collections::BTreeMap;
use types::{Errno, UTime};
use wire::{FileLayout, QuotaInfo};

/// Bits of the mode that `chmod` changes.
const PERMISSIONS: u32 = 0o7777;
const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;
/// The rights to execute.
const EXECUTE: u32 = 0o111;
/// Most bytes of names and values of extended attributes. More is ENOSPC, as of local file systems; a flush
/// of more leaves them as they are.
const XATTRS_MAX_BYTES: usize = 64 << 10;

pub(super) fn change(
    tree: &Tree,
    ino: Ino,
    change: &AttributeChange,
    context: &Context,
) -> Result<Done, Errno> {
    let old = tree.get(ino).ok_or(Errno::NOENT)?;
    let mut inode = old.clone();
    match change {
        AttributeChange::Set(set) => set_attributes(&mut inode, set, context)?,
        AttributeChange::Flush(flush) => apply_flush(&mut inode, flush),
        AttributeChange::WriteRange { client, range } => match range {
            Some(range) => drop(inode.write_ranges.insert(*client, *range)),
            None => end_range(&mut inode, *client),
        },
        AttributeChange::EndCut { seq } => {
            if inode.truncation.seq == *seq {
                inode.truncation.cut_until = 0;
            }
        }
        AttributeChange::Layout(layout) => set_layout(&mut inode, layout.as_ref(), context)?,
        AttributeChange::Pins(pins) if inode.is_directory() => {
            inode.policy.pins = *pins;
            inode.touch(context.now);
        }
        AttributeChange::Pins(_) => return Err(Errno::INVAL),
        AttributeChange::SetXattr { name, value, must_create, must_replace } => {
            let exists = inode.xattrs.values.contains_key(name);
            if *must_create && exists {
                return Err(Errno::EXIST);
            }
            if *must_replace && !exists {
                return Err(Errno::NODATA);
            }
            inode.xattrs.values.insert(name.clone(), value.clone());
            changed_xattrs(&mut inode, context)?;
        }
        AttributeChange::RemoveXattr { name } => {
            inode.xattrs.values.remove(name).ok_or(Errno::NODATA)?;
            changed_xattrs(&mut inode, context)?;
        }
        AttributeChange::SetQuota(quota) => set_quota(tree, &mut inode, quota, context)?,
    }
    let records = if inode == *old { Vec::new() } else { vec![image_record(tree, inode)] };
    Ok(Done { records, target: Some(ino), ..Done::default() })
}

/// A client writes no more. It may have made objects behind the size, if what it has written back did not
/// count: they go with the file.
fn end_range(inode: &mut Inode, client: u64) {
    let Some(range) = inode.write_ranges.remove(&client) else { return };
    let objects = |bytes| inode.layout.as_ref().map_or(0, |layout| layout.objects_below(bytes));
    // The first object is looked for in any case.
    let known = inode.size.max(inode.truncation.data_end).max(1);
    if objects(range.end) > objects(known) {
        inode.truncation.data_end = range.end;
    }
}

fn set_quota(
    tree: &Tree,
    inode: &mut Inode,
    quota: &QuotaInfo,
    context: &Context,
) -> Result<(), Errno> {
    if !inode.is_directory() {
        return Err(Errno::INVAL);
    }
    if inode.policy.quota != *quota {
        inode.policy.quota = quota.clone();
        let ino = inode.ino;
        inode.policy.realm.get_or_insert_with(|| snapshots::new_realm(tree, ino));
        inode.touch(context.now);
    }
    Ok(())
}

pub(super) fn fits(xattrs: &BTreeMap<Bytes, Bytes>) -> bool {
    let bytes: usize = xattrs.iter().map(|(name, value)| name.len() + value.len()).sum();
    bytes <= XATTRS_MAX_BYTES
}

fn changed_xattrs(inode: &mut Inode, context: &Context) -> Result<(), Errno> {
    if !fits(&inode.xattrs.values) {
        return Err(Errno::NOSPC);
    }
    inode.xattrs.version = inode.xattrs.version.saturating_add(1);
    inode.touch(context.now);
    Ok(())
}

/// Data that is there, or that may be on its way from before a truncation, would be lost. Encrypting clients
/// compute places of blocks.
fn set_layout(
    inode: &mut Inode,
    layout: Option<&FileLayout>,
    context: &Context,
) -> Result<(), Errno> {
    let is_fitting = match inode.kind() {
        Kind::File => layout.is_some(),
        Kind::Directory => true,
        Kind::Symlink | Kind::Special => false,
    };
    if !is_fitting || !inode.encryption.auth.is_empty() {
        return Err(Errno::INVAL);
    }
    let Truncation { seq, data_end, .. } = inode.truncation;
    if inode.is_file() && (inode.size > 0 || seq > 1 || data_end > 0) {
        return Err(Errno::NOTEMPTY);
    }
    inode.layout = layout.cloned();
    inode.touch(context.now);
    Ok(())
}

fn set_attributes(inode: &mut Inode, set: &SetAttributes, context: &Context) -> Result<(), Errno> {
    if let Some(size) = set.size {
        set_size(inode, size, context)?;
    }
    match set.mode {
        Some(mode) => inode.mode = inode.mode & !PERMISSIONS | mode & PERMISSIONS,
        None if inode.is_file() => inode.mode &= !set_ids_that_go(inode.mode, set),
        None => {}
    }
    inode.owner.uid = set.uid.unwrap_or(inode.owner.uid);
    inode.owner.gid = set.gid.unwrap_or(inode.owner.gid);
    if set.mtime.is_some() || set.atime.is_some() {
        inode.mtime = set.mtime.unwrap_or(inode.mtime);
        inode.atime = set.atime.unwrap_or(inode.atime);
        inode.time_warp_seq = inode.time_warp_seq.saturating_add(1);
    }
    inode.btime = set.btime.unwrap_or(inode.btime);
    let encryption = &inode.encryption;
    let encryption = Encryption {
        auth: set.fscrypt_auth.clone().unwrap_or_else(|| encryption.auth.clone()),
        file: set.fscrypt_file.clone().unwrap_or_else(|| encryption.file.clone()),
    };
    if !encryption.fits() {
        return Err(Errno::INVAL);
    }
    inode.encryption = encryption;
    inode.touch(context.now);
    Ok(())
}

/// A file that another user gets, or writes, does not go on to be executed as its old owner.
fn set_ids_that_go(mode: u32, set: &SetAttributes) -> u32 {
    let changes_hands = set.uid.is_some() || set.gid.is_some() || set.kill_set_ids;
    if changes_hands && mode & EXECUTE != 0 {
        return SET_USER_ID | SET_GROUP_ID;
    }
    let bit = |goes: bool, bit: u32| if goes { bit } else { 0 };
    bit(set.kill_set_user_id, SET_USER_ID) | bit(set.kill_set_group_id, SET_GROUP_ID)
}

fn set_size(inode: &mut Inode, size: u64, context: &Context) -> Result<(), Errno> {
    match inode.kind() {
        Kind::File => {}
        Kind::Directory => return Err(Errno::ISDIR),
        Kind::Symlink | Kind::Special => return Err(Errno::INVAL),
    }
    if size < inode.size {
        let Truncation { seq, data_end, cut_until, .. } = inode.truncation;
        let ranges = inode.write_ranges.values().map(|range| range.end);
        let written = ranges.fold(inode.size, u64::max);
        inode.truncation = Truncation {
            size,
            seq: seq + 1,
            data_end: data_end.max(written),
            cut_until: cut_until.max(written),
        };
    }
    inode.size = size;
    inode.mtime = context.now;
    Ok(())
}

pub(super) fn apply_flush(inode: &mut Inode, flush: &Flush) {
    if let Some((mode, uid, gid)) = flush.auth {
        inode.mode = inode.mode & !PERMISSIONS | mode & PERMISSIONS;
        inode.owner = Owner { uid, gid };
    }
    // Clients keep the bound themselves, and send what is beyond it as a request.
    if let Some((version, xattrs)) = &flush.xattrs
        && fits(xattrs)
        && *version > inode.xattrs.version
    {
        inode.xattrs = Xattrs { version: *version, values: xattrs.clone() };
    }
    // The length of an encrypted file follows the size.
    let is_newest =
        flush.file.as_ref().is_none_or(|file| knows_size(inode, file) && file.size >= inode.size);
    if let Some(file) = &flush.file {
        flush_file(inode, file);
    }
    let Encryption { auth, file } = &flush.encryption;
    let file = if is_newest { file } else { &inode.encryption.file };
    let old = &inode.encryption;
    let or = |new: &Bytes, old: &Bytes| if new.is_empty() { old.clone() } else { new.clone() };
    let encryption = Encryption { auth: or(auth, &old.auth), file: or(file, &old.file) };
    if encryption.fits() {
        inode.encryption = encryption;
    }
    if flush.btime != UTime::ZERO && flush.auth.is_some() {
        inode.btime = flush.btime;
    }
    inode.version += 1;
    inode.ctime = inode.ctime.max(flush.ctime);
    inode.change_attr = inode.change_attr.max(flush.change_attr);
}

/// Whether a flush is of a client that knows the last truncation.
fn knows_size(inode: &Inode, file: &FlushedFile) -> bool {
    [0, inode.truncation.seq].contains(&file.truncate_seq)
}

fn flush_file(inode: &mut Inode, file: &FlushedFile) {
    // Only a truncation makes a file shorter, and that is a request.
    if inode.is_file() && knows_size(inode, file) {
        inode.size = inode.size.max(file.size);
    }
    if file.is_exclusive && file.time_warp_seq >= inode.time_warp_seq {
        inode.time_warp_seq = file.time_warp_seq;
        (inode.mtime, inode.atime) = (file.mtime, file.atime);
    } else {
        inode.mtime = inode.mtime.max(file.mtime);
        inode.atime = inode.atime.max(file.atime);
    }
}
