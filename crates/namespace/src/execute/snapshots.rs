//! Snapshots: taken, removed, renamed, and completed by what clients had not written back.

use super::attributes::apply_flush;
use super::images::{image_record, own_image};
use super::operation::{Context, Done};
use super::values::Flush;
use crate::old_versions::OldKey;
use crate::snapshot::{SnapNumbers, Snapshot};
use crate::walk::check_name;
use crate::{Ino, Inode, Realm, Record, Tree, snapshots};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Bound;
use types::{Errno, SnapId};

/// Most snapshots of one directory, as in Ceph. One more is EMLINK.
const SNAPSHOTS_OF_ONE_MAX: usize = 100;
/// Most snapshots of a file system: clients take no more in a message. One more is EMLINK.
const SNAPSHOTS_MAX: usize = 4096;
/// Longest name of a snapshot: directories below show it with a prefix and a number.
const NAME_MAX_BYTES: usize = 240;

/// Most bytes of names and values of a snapshot's metadata. More is EINVAL.
const METADATA_MAX_BYTES: usize = 4096;

/// Most bytes of old versions that a flush changes, as the records of one operation go into one frame of the
/// journal. A client that is behind by more snapshots has its change in the first of them, and in the inode.
const FLUSHED_MAX_BYTES: usize = 256 << 10;

/// Checks a name of a snapshot that an operation creates. Names that begin with `_` are those of directories
/// above.
fn check_snapshot_name(name: &Bytes) -> Result<(), Errno> {
    check_name(name)?;
    if name.starts_with(b"_") {
        return Err(Errno::INVAL);
    }
    if name.len() > NAME_MAX_BYTES { Err(Errno::NAMETOOLONG) } else { Ok(()) }
}

fn directory(tree: &Tree, ino: Ino) -> Result<(Inode, Realm), Errno> {
    tree.check_directory(ino)?;
    let inode = tree.get(ino).filter(|inode| inode.nlink > 0).ok_or(Errno::NOENT)?.clone();
    let realm = inode.policy.realm.clone().unwrap_or_else(|| snapshots::new_realm(tree, ino));
    Ok((inode, realm))
}

fn find(realm: &Realm, name: &Bytes) -> Option<SnapId> {
    realm.snaps.iter().find(|(_, snapshot)| snapshot.name == *name).map(|(snap, _)| *snap)
}

/// The records of a directory whose snapshots have changed.
fn changed(
    tree: &Tree,
    inode: Inode,
    realm: Realm,
    numbers: SnapNumbers,
    context: &Context,
) -> Done {
    let mut inode = inode;
    let (last_modified, change_attr) =
        (realm.last_modified.max(context.now), realm.change_attr + 1);
    inode.policy.realm = Some(Realm { last_modified, change_attr, ..realm });
    inode.touch(context.now);
    let target = Some(inode.ino);
    let records = vec![Record::Snapshots(numbers), image_record(tree, inode)];
    Done { records, target, ..Done::default() }
}

pub(super) fn take(
    tree: &Tree,
    ino: Ino,
    name: &Bytes,
    metadata: &BTreeMap<String, String>,
    context: &Context,
) -> Result<Done, Errno> {
    check_snapshot_name(name)?;
    let bytes = metadata.iter().map(|(name, value)| name.len() + value.len());
    if bytes.sum::<usize>() > METADATA_MAX_BYTES {
        return Err(Errno::INVAL);
    }
    let (inode, mut realm) = directory(tree, ino)?;
    if find(&realm, name).is_some() {
        return Err(Errno::EXIST);
    }
    if realm.snaps.len() >= SNAPSHOTS_OF_ONE_MAX || tree.existing_snaps().len() >= SNAPSHOTS_MAX {
        return Err(Errno::MLINK);
    }
    let last = snapshots::next(tree);
    let snapshot = Snapshot { name: name.clone(), taken: context.now, metadata: metadata.clone() };
    realm.snaps.insert(last, snapshot);
    realm.seq = last;
    let numbers = SnapNumbers { last, ..tree.snap_numbers().clone() };
    let done = changed(tree, inode, realm, numbers, context);
    Ok(Done { snapshot: Some(last), ..done })
}

pub(super) fn remove(
    tree: &Tree,
    ino: Ino,
    name: &Bytes,
    context: &Context,
) -> Result<Done, Errno> {
    check_snapshot_name(name)?;
    let (inode, mut realm) = directory(tree, ino)?;
    let snap = find(&realm, name).ok_or(Errno::NOENT)?;
    realm.snaps.remove(&snap);
    // Clients must take the shorter list as news.
    realm.seq = snapshots::next(tree);
    let mut numbers = SnapNumbers { last: realm.seq, ..tree.snap_numbers().clone() };
    numbers.removed.insert(snap);
    let done = changed(tree, inode, realm, numbers, context);
    Ok(Done { snapshot: Some(snap), ..done })
}

pub(super) fn rename(
    tree: &Tree,
    ino: Ino,
    from: &Bytes,
    to: &Bytes,
    context: &Context,
) -> Result<Done, Errno> {
    check_snapshot_name(from)?;
    check_snapshot_name(to)?;
    let (inode, mut realm) = directory(tree, ino)?;
    let snap = find(&realm, from).ok_or(Errno::NOENT)?;
    if find(&realm, to).is_some() {
        return Err(Errno::EXIST);
    }
    realm.snaps.get_mut(&snap).expect("it was found").name = to.clone();
    let numbers = tree.snap_numbers().clone();
    let done = changed(tree, inode, realm, numbers, context);
    Ok(Done { snapshot: Some(snap), ..done })
}

/// OSDs know that data of a snapshot is to be removed.
pub(super) fn confirm(tree: &Tree, snap: SnapId) -> Done {
    let mut numbers = tree.snap_numbers().clone();
    match numbers.removed.remove(&snap) {
        true => Done { records: vec![Record::Snapshots(numbers)], ..Done::default() },
        false => Done::default(),
    }
}

/// Forgets what no snapshot shows any more.
pub(super) fn trim(tree: &Tree, keys: &[(SnapId, OldKey)]) -> Done {
    let is_shown = |last, after| snapshots::is_shown(tree, after, last);
    let record = |(last, key): &(SnapId, OldKey)| match key {
        OldKey::Entry(directory, key) => {
            let entry = tree.old_versions().entry_row(*directory, key, *last)?;
            let (directory, name, last) = (*directory, key.name.clone(), *last);
            let gone = Record::OldEntry { directory, name, last, entry: None };
            (!is_shown(last, entry.after)).then_some(gone)
        }
        OldKey::Inode(ino) => {
            let inode = tree.old_versions().inode_row(*ino, *last)?;
            let gone = Record::OldInode { ino: *ino, last: *last, inode: None };
            (!is_shown(*last, inode.policy.after)).then_some(gone)
        }
    };
    Done { records: keys.iter().filter_map(record).collect(), ..Done::default() }
}

/// Splits a version of an inode: up to `follows` it is shown as it is, behind that it changes. Returns the
/// snapshot behind which the later part is shown.
fn split(tree: &Tree, old: &Inode, follows: SnapId, records: &mut Vec<Record>) -> SnapId {
    let range = (Bound::Excluded(old.policy.after), Bound::Included(follows.max(old.policy.after)));
    let before = tree.existing_snaps().range(range).next_back();
    let Some((last, _)) = before else { return old.policy.after };
    let inode = Some(Box::new(old.as_old_version()));
    records.push(Record::OldInode { ino: old.ino, last: *last, inode });
    *last
}

/// Most bytes of a version in a record, without its extended attributes and encryption.
const VERSION_BYTES: usize = 1024;

fn version_bytes(inode: &Inode) -> usize {
    let xattrs = inode.xattrs.values.iter().map(|(name, value)| name.len() + value.len());
    let encryption = inode.encryption.auth.len() + inode.encryption.file.len();
    VERSION_BYTES + inode.symlink.len() + encryption + xattrs.sum::<usize>()
}

/// Attributes that a client has changed before it knew of the snapshots behind `follows`. Those of a snapshot
/// are not those of the inode now.
pub(super) fn flush(
    tree: &Tree,
    ino: Ino,
    follows: SnapId,
    flush: &Flush,
    is_of_snapshot: bool,
) -> Result<Done, Errno> {
    // Clients may send any number.
    let follows = follows.min(snapshots::last(tree));
    let mut records = Vec::new();
    let behind = SnapId(follows.0.saturating_add(1));
    // Those that no snapshot shows any more are left alone, as the snapshot of the flush may be gone, too.
    let is_shown = |(last, old): &(SnapId, &Inode)| {
        snapshots::is_shown(tree, follows.max(old.policy.after), *last)
    };
    let versions = tree.old_versions().versions_from(ino, behind).filter(is_shown);
    let versions = versions.take(if is_of_snapshot { 1 } else { usize::MAX });
    let mut bytes = 0;
    for (last, old) in versions {
        bytes += 2 * version_bytes(old);
        if bytes > FLUSHED_MAX_BYTES && !records.is_empty() {
            break;
        }
        let after = split(tree, old, follows, &mut records);
        let mut inode = with_after(old.clone(), after);
        apply_flush(&mut inode, flush);
        records.push(Record::OldInode { ino, last, inode: Some(Box::new(inode)) });
    }
    let is_kept = !records.is_empty();
    match tree.get(ino) {
        Some(old) if !is_of_snapshot => {
            let after = split(tree, old, follows, &mut records);
            let mut inode = with_after(old.clone(), after);
            apply_flush(&mut inode, flush);
            records.push(own_image(tree, inode));
        }
        Some(old) if !is_kept => {
            let is_shown = |newest: SnapId| newest > follows.max(old.policy.after);
            if snapshots::newest(tree, ino).is_some_and(is_shown) {
                let last = snapshots::last(tree);
                let after = split(tree, old, follows, &mut records);
                let mut version = with_after(old.as_old_version(), after);
                apply_flush(&mut version, flush);
                records.push(Record::OldInode { ino, last, inode: Some(Box::new(version)) });
                records.push(own_image(tree, with_after(old.clone(), last)));
            }
        }
        None if !is_kept => return Err(Errno::NOENT),
        _ => {}
    }
    Ok(Done { records, target: Some(ino), ..Done::default() })
}

fn with_after(mut inode: Inode, after: SnapId) -> Inode {
    inode.policy.after = after;
    inode
}
