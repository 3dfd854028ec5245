//! Snapshots and parent as stored in an image's header.

use super::keys;
use super::values::{Parent, Snapshot};
use crate::object::{ObjectContext, Result};
use crate::omap;
use bytes::Bytes;
use types::{Errno, SnapId};

/// Stands for the absence of a limit, as in librbd.
pub(super) const NO_LIMIT: u64 = u64::MAX;

/// ENOENT if there is none.
pub(super) fn snapshot(object: &mut dyn ObjectContext, id: SnapId) -> Result<Snapshot> {
    omap::require(object, keys::snapshot(id))
}

/// Excludes `HEAD`, for methods that work on snapshots only.
pub(super) fn real_snapshot(object: &mut dyn ObjectContext, id: SnapId) -> Result<Snapshot> {
    match id {
        SnapId::HEAD => Err(Errno::INVAL.into()),
        id => snapshot(object, id),
    }
}

/// All snapshots, the oldest first.
pub(super) fn snapshots(object: &mut dyn ObjectContext) -> Result<Vec<Snapshot>> {
    let listed: Vec<(Bytes, Snapshot)> = omap::list_all(object, keys::SNAPSHOT_PREFIX)?;
    Ok(listed.into_iter().map(|(_, snapshot)| snapshot).collect())
}

/// Stores a snapshot in the current format; a parent in it moves to the header.
pub(super) fn set_snapshot(object: &mut dyn ObjectContext, mut new: Snapshot) -> Result<()> {
    if let Some(Parent { spec, overlap }) = new.parent.take() {
        new.overlap = new.overlap.or(overlap);
        if !parent(object)?.is_some_and(|parent| parent.spec.exists()) {
            omap::set(object, keys::PARENT, &Parent { spec, overlap: None })?;
        }
    }
    omap::set(object, keys::snapshot(new.id), &new)
}

pub(super) fn parent(object: &mut dyn ObjectContext) -> Result<Option<Parent>> {
    omap::get(object, keys::PARENT)
}

/// Snapshots that an image may have; [`NO_LIMIT`] if no limit is set.
pub(super) fn snapshot_limit(object: &mut dyn ObjectContext, (): ()) -> Result<u64> {
    Ok(omap::get(object, keys::SNAPSHOT_LIMIT)?.unwrap_or(NO_LIMIT))
}
