//! Clones of a snapshot: in the header of the parent and, for older clients, in the object `rbd_children` of
//! the clones' pool.

use super::features::operation;
use super::values::{NamespaceKind, Snapshot};
use super::{features, keys, stored};
use crate::method::{Method, methods};
use crate::object::{ObjectContext, Result};
use crate::omap;
use bytes::Bytes;
use std::collections::BTreeSet;
use types::{ChildSpec, Errno, SnapId};

pub(super) const METHODS: &[Method] = methods! {
    "child_attach": READ_WRITE => attach,
    "child_detach": READ_WRITE => detach,
    "children_list": READ => list,
    "add_child": READ_WRITE => add,
    "remove_child": READ_WRITE => remove,
    "get_children": READ => children,
};

fn attach(object: &mut dyn ObjectContext, (id, child): (SnapId, ChildSpec)) -> Result<()> {
    let snapshot = stored::snapshot(object, id)?;
    if snapshot.namespace.kind() == NamespaceKind::TRASH {
        return Err(Errno::NOENT.into());
    }
    let mut clones: BTreeSet<ChildSpec> =
        omap::get(object, keys::children(id))?.unwrap_or_default();
    if !clones.insert(child) {
        return Err(Errno::EXIST.into());
    }
    omap::set(object, keys::children(id), &clones)?;
    let children = snapshot.children.saturating_add(1);
    stored::set_snapshot(object, Snapshot { children, ..snapshot })?;
    features::set_operations(object, operation::CLONE_PARENT, operation::CLONE_PARENT)
}

fn detach(object: &mut dyn ObjectContext, (id, child): (SnapId, ChildSpec)) -> Result<()> {
    let snapshot = stored::snapshot(object, id)?;
    let mut clones: BTreeSet<ChildSpec> =
        omap::get(object, keys::children(id))?.unwrap_or_default();
    if snapshot.children as usize != clones.len() {
        return Err(Errno::INVAL.into());
    }
    if !clones.remove(&child) {
        return Err(Errno::NOENT.into());
    }
    let children = clones.len() as u32;
    match children {
        0 => omap::remove(object, keys::children(id))?,
        _ => omap::set(object, keys::children(id), &clones)?,
    }
    stored::set_snapshot(object, Snapshot { children, ..snapshot })?;
    let mut others = stored::snapshots(object)?.into_iter().filter(|other| other.id != id);
    if children > 0 || others.any(|other| other.children > 0) {
        return Ok(());
    }
    features::set_operations(object, 0, operation::CLONE_PARENT)
}

fn list(object: &mut dyn ObjectContext, id: SnapId) -> Result<BTreeSet<ChildSpec>> {
    stored::snapshot(object, id)?;
    omap::require(object, keys::children(id))
}

/// A snapshot as `rbd_children` names it: pool, image, snapshot.
type OldParent = (u64, Bytes, SnapId);

fn old_key(parent: &OldParent) -> Bytes {
    codec::encode_to_bytes(parent)
}

fn add(object: &mut dyn ObjectContext, (parent, child): (OldParent, Bytes)) -> Result<()> {
    let key = old_key(&parent);
    let mut children: BTreeSet<Bytes> = omap::get(object, key.clone())?.unwrap_or_default();
    if !children.insert(child) {
        return Err(Errno::EXIST.into());
    }
    omap::set(object, key, &children)
}

fn remove(object: &mut dyn ObjectContext, (parent, child): (OldParent, Bytes)) -> Result<()> {
    let key = old_key(&parent);
    let mut children: BTreeSet<Bytes> = omap::require(object, key.clone())?;
    if !children.remove(&child) {
        return Err(Errno::NOENT.into());
    }
    if children.is_empty() {
        return omap::remove(object, key);
    }
    omap::set(object, key, &children)
}

fn children(object: &mut dyn ObjectContext, parent: OldParent) -> Result<BTreeSet<Bytes>> {
    omap::require(object, old_key(&parent))
}
