//! Snapshots of an image. The monitor allocates their ids; the class records them.

use super::features::operation;
use super::values::{MirrorNamespace, Namespace, NamespaceKind, Snapshot, SnapshotInfo};
use super::{features, keys, old_format, stored};
use crate::encoding::IfPresent;
use crate::method::{Method, methods};
use crate::object::{Failure, ObjectContext, Result, require_existing, unique_id};
use crate::omap;
use bytes::Bytes;
use types::{Errno, SnapId, UTime};

pub(super) const METHODS: &[Method] = methods! {
    "get_snapcontext": READ => snapshot_context,
    "snapshot_get": READ => get,
    "get_snapshot_name": READ => name,
    "get_snapshot_timestamp": READ => timestamp,
    "snapshot_add": READ_WRITE => add,
    "snapshot_rename": READ_WRITE => rename,
    "snapshot_remove": READ_WRITE => remove,
    "snapshot_trash_add": READ_WRITE => move_to_trash,
    "get_protection_status": READ => protection,
    "set_protection_status": READ_WRITE => set_protection,
    "snapshot_get_limit": READ => stored::snapshot_limit,
    "snapshot_set_limit": READ_WRITE => set_limit,
    "mirror_image_snapshot_unlink_peer": READ_WRITE => unlink_mirror_peer,
    "mirror_image_snapshot_set_copy_progress": READ_WRITE => set_copy_progress,
};

/// `CEPH_MAXSNAP`: what is above has other meanings.
const ID_MAX: SnapId = SnapId(u64::MAX - 2);
const UNPROTECTED: u8 = 0;
/// The first number that is no protection status.
const PROTECTION_END: u8 = 3;

/// Sequence and ids, the newest first, as writes carry them.
fn snapshot_context(object: &mut dyn ObjectContext, (): ()) -> Result<(u64, Vec<SnapId>)> {
    let snapshots = stored::snapshots(object)?;
    let sequence = omap::require(object, keys::SNAPSHOT_SEQUENCE)?;
    Ok((sequence, snapshots.iter().rev().map(|snapshot| snapshot.id).collect()))
}

fn get(object: &mut dyn ObjectContext, id: SnapId) -> Result<SnapshotInfo> {
    stored::real_snapshot(object, id).map(SnapshotInfo)
}

fn name(object: &mut dyn ObjectContext, id: SnapId) -> Result<Bytes> {
    Ok(stored::real_snapshot(object, id)?.name)
}

fn timestamp(object: &mut dyn ObjectContext, id: SnapId) -> Result<UTime> {
    Ok(stored::real_snapshot(object, id)?.timestamp)
}

fn add(
    object: &mut dyn ObjectContext,
    (name, id, IfPresent(namespace)): (Bytes, SnapId, IfPresent<Namespace>),
) -> Result<()> {
    let namespace = namespace.unwrap_or_default();
    if namespace == Namespace::Unknown || id > ID_MAX {
        return Err(Errno::INVAL.into());
    }
    let sequence: SnapId = omap::require(object, keys::SNAPSHOT_SEQUENCE)?;
    if id < sequence {
        return Err(Errno::STALE.into()); // another client's snapshot came first
    }
    let snapshot = Snapshot {
        id,
        name,
        image_size: omap::require(object, keys::SIZE)?,
        protection: UNPROTECTED,
        flags: omap::get(object, keys::FLAGS)?.unwrap_or(0),
        namespace,
        timestamp: object.now(),
        children: 0,
        overlap: stored::parent(object)?.and_then(|parent| parent.overlap),
        parent: None,
    };
    check_addition(object, &snapshot)?;
    if snapshot.namespace.kind() == NamespaceKind::TRASH {
        mark_trash(object)?;
    }
    omap::set(object, keys::SNAPSHOT_SEQUENCE, &id)?;
    stored::set_snapshot(object, snapshot)
}

fn check_addition(object: &mut dyn ObjectContext, new: &Snapshot) -> Result<()> {
    let limit = stored::snapshot_limit(object, ())?;
    for (older, number) in stored::snapshots(object)?.iter().zip(1..) {
        if number >= limit {
            return Err(Errno::DQUOT.into());
        }
        let same_name = older.name == new.name && older.namespace.is_same_as(&new.namespace);
        if same_name || older.id == new.id {
            return Err(Errno::EXIST.into());
        }
    }
    Ok(())
}

fn mark_trash(object: &mut dyn ObjectContext) -> Result<()> {
    features::set_operations(object, operation::SNAPSHOT_TRASH, operation::SNAPSHOT_TRASH)
}

/// Only users' snapshots can be renamed.
fn rename(object: &mut dyn ObjectContext, (id, name): (SnapId, Bytes)) -> Result<()> {
    let mut users = stored::snapshots(object)?.into_iter();
    if users.any(|other| other.namespace == Namespace::User && other.name == name) {
        return Err(Errno::EXIST.into());
    }
    let snapshot = stored::snapshot(object, id)?;
    if snapshot.namespace != Namespace::User {
        return Err(Errno::INVAL.into());
    }
    stored::set_snapshot(object, Snapshot { name, ..snapshot })
}

fn remove(object: &mut dyn ObjectContext, id: SnapId) -> Result<()> {
    let snapshot = stored::snapshot(object, id)?;
    if snapshot.protection != UNPROTECTED || snapshot.children > 0 {
        return Err(Errno::BUSY.into());
    }
    let mut others = stored::snapshots(object)?;
    others.retain(|other| other.id != id);
    let clones = others.iter().any(Snapshot::has_parent);
    let trash = others.iter().any(|other| other.namespace.kind() == NamespaceKind::TRASH);
    let parent = stored::parent(object)?.filter(|parent| parent.spec.exists());
    let head_is_clone = parent.as_ref().is_some_and(|parent| parent.overlap.is_some());

    omap::remove(object, keys::snapshot(id))?;
    if parent.is_some() && !head_is_clone && !clones {
        omap::remove(object, keys::PARENT)?;
    }
    let unused =
        [(!clones && !head_is_clone, operation::CLONE_CHILD), (!trash, operation::SNAPSHOT_TRASH)];
    let unused = unused.iter().filter(|(unused, _)| *unused).map(|(_, bit)| bit).sum();
    if unused == 0 { Ok(()) } else { features::set_operations(object, 0, unused) }
}

/// A snapshot with clones gives up its name.
fn move_to_trash(object: &mut dyn ObjectContext, id: SnapId) -> Result<()> {
    let snapshot = stored::snapshot(object, id)?;
    if snapshot.protection != UNPROTECTED {
        return Err(Errno::BUSY.into());
    }
    let kind = snapshot.namespace.kind();
    if kind == NamespaceKind::TRASH {
        return Err(Errno::EXIST.into());
    }
    mark_trash(object)?;
    let namespace = Namespace::Trash { name: snapshot.name.clone(), kind };
    let name = unique_id(object).to_string().into();
    stored::set_snapshot(object, Snapshot { name, namespace, ..snapshot })
}

fn protection(object: &mut dyn ObjectContext, id: SnapId) -> Result<u8> {
    require_existing(object)?;
    match stored::real_snapshot(object, id)?.protection {
        status if status < PROTECTION_END => Ok(status),
        _ => Err(Errno::IO.into()),
    }
}

fn set_protection(object: &mut dyn ObjectContext, (id, protection): (SnapId, u8)) -> Result<()> {
    require_existing(object)?;
    features::require(object, features::LAYERING)?;
    if id == SnapId::HEAD || protection >= PROTECTION_END {
        return Err(Errno::INVAL.into());
    }
    let snapshot = stored::snapshot(object, id)?;
    stored::set_snapshot(object, Snapshot { protection, ..snapshot })
}

fn set_limit(object: &mut dyn ObjectContext, limit: u64) -> Result<()> {
    if limit == stored::NO_LIMIT {
        return omap::remove(object, keys::SNAPSHOT_LIMIT);
    }
    let count = match old_format::snapshot_count(object) {
        Err(Failure::Errno(Errno::INVAL)) => stored::snapshots(object)?.len() as u64,
        outcome => outcome?,
    };
    if limit < count {
        return Err(Errno::RANGE.into());
    }
    omap::set(object, keys::SNAPSHOT_LIMIT, &limit)
}

/// Changes the state of mirroring in a snapshot of the mirror namespace; EINVAL for others.
fn change_mirror(
    object: &mut dyn ObjectContext,
    id: SnapId,
    change: impl FnOnce(&mut MirrorNamespace) -> Result<()>,
) -> Result<()> {
    let mut snapshot = stored::snapshot(object, id)?;
    let Namespace::Mirror(mirror) = &mut snapshot.namespace else {
        return Err(Errno::INVAL.into());
    };
    change(mirror)?;
    stored::set_snapshot(object, snapshot)
}

fn unlink_mirror_peer(object: &mut dyn ObjectContext, (id, peer): (SnapId, Bytes)) -> Result<()> {
    change_mirror(object, id, |mirror| {
        if mirror.peers.remove(&peer) { Ok(()) } else { Err(Errno::NOENT.into()) }
    })
}

fn set_copy_progress(
    object: &mut dyn ObjectContext,
    (id, complete, last_copied): (SnapId, bool, u64),
) -> Result<()> {
    change_mirror(object, id, |mirror| {
        mirror.complete = complete;
        if mirror.is_non_primary() {
            mirror.last_copied_object = last_copied;
        }
        Ok(())
    })
}
