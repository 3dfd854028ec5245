//! After-images of what operations change.

use crate::{EntryImage, Ino, Inode, Record, SnapNumbers, Tree, realms, snapshots};
use bytes::Bytes;
use types::{SnapId, UTime};

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
            Record::dentry(*directory, name, image)
        }
        None if ino != Ino::ROOT => Record::Orphan(Box::new(inode)),
        _ => Record::Inode(Box::new(inode)),
    }
}

/// The record of an inode, whose name stays as old as it is.
pub(crate) fn own_image(tree: &Tree, inode: Inode) -> Record {
    let mut record = image_record(tree, inode);
    if let Record::Dentry { directory, name, after, .. } = &mut record {
        *after = tree.entry(*directory, name).map_or(SnapId(0), |entry| entry.after);
    }
    record
}

/// Records of an inode that loses the name `lost`; whether it becomes an orphan.
pub(super) fn lose_link(
    tree: &Tree,
    ino: Ino,
    lost: &(Ino, Bytes),
    now: UTime,
) -> (Vec<Record>, bool) {
    let mut inode = tree.get(ino).expect("an entry has an inode").clone();
    inode.touch(now);
    inode.nlink -= 1;
    if inode.nlink == 0 {
        let above =
            if realms::is_shared(tree, ino) { Ino::SHARED } else { realms::realm_of(tree, lost.0) };
        let numbers = leave_realm(tree, &mut inode, above, None);
        return (numbers.into_iter().chain([Record::Orphan(Box::new(inode))]).collect(), true);
    }
    let mut left = tree.links(ino).iter().filter(|link| *link != lost);
    debug_assert!(left.next().is_some(), "an inode with links left has names left");
    (vec![Record::Inode(Box::new(inode))], false)
}

/// An inode goes from below one realm to below another one, or loses its last name. What writes it must go on
/// to respect the snapshots that show it, so it becomes a realm that remembers them.
pub(super) fn leave_realm(
    tree: &Tree,
    inode: &mut Inode,
    from: Ino,
    to: Option<Ino>,
) -> Option<Record> {
    if to == Some(from) || to.is_none() && !inode.is_file() {
        return None;
    }
    let since = inode.policy.realm.as_ref().map_or(SnapId(0), |realm| realm.parent_since);
    let mut snaps = snapshots::of_realm(tree, from);
    snaps.retain(|snap| *snap >= since);
    if snaps.is_empty() && (inode.policy.realm.is_none() || tree.existing_snaps().is_empty()) {
        return None;
    }
    let seq = snapshots::next_seq(tree, inode.policy.realm.as_ref());
    let ino = inode.ino;
    let realm = inode.policy.realm.get_or_insert_with(|| snapshots::new_realm(tree, ino));
    realm.prior.retain(|snap| tree.existing_snaps().contains_key(snap));
    realm.prior.extend(snaps);
    realm.seq = seq;
    realm.parent_since = SnapId(snapshots::last(tree).0 + 1);
    let numbers = SnapNumbers { last: seq, ..tree.snap_numbers().clone() };
    (seq > snapshots::last(tree)).then_some(Record::Snapshots(numbers))
}
