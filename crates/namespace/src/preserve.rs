//! Copy on write: what snapshots show stays when an operation changes it.

use crate::execute::own_image;
use crate::{EntryImage, Ino, Inode, OldEntry, Policy, Record, Tree, snapshots};
use bytes::Bytes;
use types::SnapId;

/// The records of an operation, with those that keep what it changes for snapshots.
pub(crate) fn preserve(tree: &Tree, records: Vec<Record>) -> Vec<Record> {
    if snapshots::last(tree) == SnapId(0) {
        return records;
    }
    let (mut kept, mut changed) = (Vec::new(), Vec::with_capacity(records.len()));
    for record in records {
        changed.push(match record {
            Record::Dentry { directory, name, image, .. } => {
                let after = keep_entry(tree, directory, &name, &image, &mut kept);
                let image = match image {
                    EntryImage::Primary(inode) => {
                        EntryImage::Primary(Box::new(keep_inode(tree, *inode, &mut kept)))
                    }
                    other => other,
                };
                Record::Dentry { directory, name, image, after }
            }
            Record::Inode(inode) => Record::Inode(Box::new(keep_inode(tree, *inode, &mut kept))),
            Record::Orphan(inode) => Record::Orphan(Box::new(keep_inode(tree, *inode, &mut kept))),
            Record::Touch { directory, .. } => touched(tree, directory, record, &mut kept),
            other => other,
        });
    }
    kept.extend(changed);
    kept
}

/// Returns the snapshot behind which the new meaning of a name is shown.
fn keep_entry(
    tree: &Tree,
    directory: Ino,
    name: &Bytes,
    image: &EntryImage,
    kept: &mut Vec<Record>,
) -> SnapId {
    let Some(old) = tree.entry(directory, name) else { return snapshots::last(tree) };
    if image.ino() == Some(old.ino) {
        return old.after;
    }
    if snapshots::newest(tree, directory).is_some_and(|newest| newest > old.after) {
        let last = snapshots::last(tree);
        let entry = Some(OldEntry { after: old.after, ino: old.ino });
        kept.push(Record::OldEntry { directory, name: name.clone(), last, entry });
    }
    snapshots::last(tree)
}

/// Returns the new state of an inode, with the snapshot behind which it is shown.
fn keep_inode(tree: &Tree, new: Inode, kept: &mut Vec<Record>) -> Inode {
    if let Some(old) = tree.get(new.ino)
        && snapshots::newest(tree, new.ino).is_some_and(|newest| newest > old.policy.after)
    {
        let last = snapshots::last(tree);
        let inode = Some(Box::new(old.as_old_version()));
        kept.push(Record::OldInode { ino: new.ino, last, inode });
    }
    Inode { policy: Policy { after: snapshots::last(tree), ..new.policy.clone() }, ..new }
}

/// A directory whose old times must be kept needs a record with more than the new ones.
fn touched(tree: &Tree, ino: Ino, touch: Record, kept: &mut Vec<Record>) -> Record {
    let Some(old) = tree.get(ino) else { return touch };
    let needs_copy = snapshots::newest(tree, ino).is_some_and(|newest| newest > old.policy.after);
    let Record::Touch { version, mtime, ctime, change_attr, .. } = touch else { return touch };
    if !needs_copy {
        return touch;
    }
    let new = Inode { version, mtime, ctime, change_attr, ..old.clone() };
    own_image(tree, keep_inode(tree, new, kept))
}
