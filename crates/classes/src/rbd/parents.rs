//! A clone's link to its parent. The older methods know neither namespaces nor clones whose
//! snapshots alone still need the parent.

use super::features::operation;
use super::values::{Parent, Snapshot};
use super::{features, keys, stored};
use crate::encoding::IfPresent;
use crate::method::{Method, methods};
use crate::object::{Failure, ObjectContext, Result, require_existing};
use crate::omap;
use bytes::Bytes;
use types::{Errno, ParentSpec, SnapId};

pub(super) const METHODS: &[Method] = methods! {
    "parent_get": READ => parent,
    "parent_overlap_get": READ => overlap,
    "parent_attach": READ_WRITE => attach_parent,
    "parent_detach": READ_WRITE => detach_parent,
    "get_parent": READ => old_parent,
    "set_parent": READ_WRITE => set_old_parent,
    "remove_parent": READ_WRITE => remove_old_parent,
};

/// Images without layering have no parents, which is no error.
fn has_layering(object: &mut dyn ObjectContext) -> Result<bool> {
    require_existing(object)?;
    match features::require(object, features::LAYERING) {
        Ok(_) => Ok(true),
        Err(Failure::Errno(Errno::NOEXEC)) => Ok(false),
        Err(failure) => Err(failure),
    }
}

fn parent(object: &mut dyn ObjectContext, (): ()) -> Result<ParentSpec> {
    if !has_layering(object)? {
        return Ok(ParentSpec::default());
    }
    if let Some(parent) = stored::parent(object)? {
        return Ok(parent.spec);
    }
    // Snapshots stored in the oldest format name the parent.
    let parents = stored::snapshots(object)?.into_iter().filter_map(|snapshot| snapshot.parent);
    Ok(parents.last().unwrap_or_default().spec)
}

fn overlap(object: &mut dyn ObjectContext, id: SnapId) -> Result<Option<u64>> {
    if !has_layering(object)? {
        return Ok(None);
    }
    match id {
        SnapId::HEAD => Ok(stored::parent(object)?.and_then(|parent| parent.overlap)),
        id => Ok(stored::snapshot(object, id)?.parent_overlap()),
    }
}

fn attach_parent(
    object: &mut dyn ObjectContext,
    (spec, overlap, IfPresent(again)): (ParentSpec, u64, IfPresent<bool>),
) -> Result<()> {
    attach(object, spec, overlap, again.unwrap_or(false))
}

/// `again`: an existing parent is replaced.
fn attach(
    object: &mut dyn ObjectContext,
    spec: ParentSpec,
    overlap: u64,
    again: bool,
) -> Result<()> {
    require_existing(object)?;
    features::require(object, features::LAYERING)?;
    if !spec.exists() || overlap == 0 {
        return Err(Errno::INVAL.into());
    }
    let old = stored::parent(object)?;
    if old.is_some_and(|old| old.overlap.is_some() || old.spec != spec) && !again {
        return Err(Errno::EXIST.into());
    }
    let size: u64 = omap::require(object, keys::SIZE)?;
    omap::set(object, keys::PARENT, &Parent { spec, overlap: Some(overlap.min(size)) })
}

fn detach_parent(object: &mut dyn ObjectContext, (): ()) -> Result<()> {
    let features = clone_features(object)?;
    let parent = stored::parent(object)?.ok_or(Errno::NOENT)?;
    detach(object, features, parent)
}

fn clone_features(object: &mut dyn ObjectContext) -> Result<u64> {
    require_existing(object)?;
    features::require(object, features::LAYERING)
}

/// Detaches snapshots as well if flattening copies data for them (deep-flatten); otherwise they keep the
/// parent.
fn detach(object: &mut dyn ObjectContext, features: u64, parent: Parent) -> Result<()> {
    if parent.overlap.is_none() {
        return Err(Errno::NOENT.into());
    }
    let mut clones = stored::snapshots(object)?;
    clones.retain(Snapshot::has_parent);
    if !clones.is_empty() && features & features::DEEP_FLATTEN == 0 {
        return omap::set(object, keys::PARENT, &Parent { overlap: None, ..parent });
    }
    for snapshot in clones {
        stored::set_snapshot(object, Snapshot { overlap: None, parent: None, ..snapshot })?;
    }
    omap::remove(object, keys::PARENT)?;
    features::set_operations(object, 0, operation::CLONE_CHILD)
}

fn old_parent(object: &mut dyn ObjectContext, id: SnapId) -> Result<(i64, Bytes, SnapId, u64)> {
    let parent = match has_layering(object)? {
        true => parent_of(object, id)?,
        false => Parent::default(),
    };
    let ParentSpec { pool, image, snapshot, .. } = parent.spec;
    Ok((pool, image, snapshot, parent.overlap.unwrap_or(0)))
}

fn parent_of(object: &mut dyn ObjectContext, id: SnapId) -> Result<Parent> {
    let head = stored::parent(object)?.unwrap_or_default();
    if !head.spec.namespace.is_empty() {
        return Err(Errno::XDEV.into());
    }
    if id == SnapId::HEAD {
        return Ok(head);
    }
    let snapshot: Option<Snapshot> = omap::get(object, keys::snapshot(id))?;
    match snapshot {
        Some(Snapshot { parent: Some(parent), .. }) => Ok(parent),
        Some(Snapshot { overlap: Some(_), .. }) if !head.spec.exists() => Err(Errno::INVAL.into()),
        Some(Snapshot { overlap: Some(overlap), .. }) => {
            Ok(Parent { overlap: Some(overlap), ..head })
        }
        _ => Ok(Parent::default()),
    }
}

fn set_old_parent(
    object: &mut dyn ObjectContext,
    (pool, image, snapshot, overlap): (i64, Bytes, SnapId, u64),
) -> Result<()> {
    attach(object, ParentSpec { pool, namespace: Bytes::new(), image, snapshot }, overlap, false)
}

fn remove_old_parent(object: &mut dyn ObjectContext, (): ()) -> Result<()> {
    let features = clone_features(object)?;
    let parent = stored::parent(object)?.ok_or(Errno::NOENT)?;
    if !parent.spec.namespace.is_empty() {
        return Err(Errno::XDEV.into());
    }
    detach(object, features, parent)
}
