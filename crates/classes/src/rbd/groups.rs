//! Groups of images: in the group's header its images and snapshots, in the image's header its
//! group.

use super::features::{self, operation};
use super::keys;
use super::values::{GroupImage, GroupImageStatus, GroupSnapshot, GroupSpec};
use crate::method::{Method, methods};
use crate::object::{ObjectContext, Result};
use crate::omap;
use bytes::Bytes;
use std::collections::BTreeMap;
use types::Errno;

pub(super) const METHODS: &[Method] = methods! {
    "group_image_set": READ_WRITE => set_image,
    "group_image_remove": READ_WRITE => remove_image,
    "group_image_list": READ => images,
    "image_group_add": READ_WRITE => join,
    "image_group_remove": READ_WRITE => leave,
    "image_group_get": READ => group_of_image,
    "group_snap_set": READ_WRITE => set_snapshot,
    "group_snap_remove": READ_WRITE => remove_snapshot,
    "group_snap_get_by_id": READ => snapshot,
    "group_snap_list": READ => snapshots,
    "group_snap_list_order": READ => order,
};

const SNAPSHOT_PREFIX: &str = "snapshot_";
const ORDER_PREFIX: &str = "snap_order_";
/// Order of the newest snapshot.
const ORDER_MAX: &str = "snap_max_order";

fn image_key(image: &GroupImage) -> Bytes {
    omap::key(GroupImage::KEY_PREFIX, &image.key_tail())
}

fn set_image(object: &mut dyn ObjectContext, status: GroupImageStatus) -> Result<()> {
    omap::set(object, image_key(&status.image), &status.state)
}

fn remove_image(object: &mut dyn ObjectContext, image: GroupImage) -> Result<()> {
    omap::remove(object, image_key(&image))
}

fn images(
    object: &mut dyn ObjectContext,
    (after, max): (GroupImage, u64),
) -> Result<Vec<GroupImageStatus>> {
    let listed: Vec<(Bytes, u8)> =
        omap::list(object, GroupImage::KEY_PREFIX, &after.key_tail(), max)?;
    let status = |(tail, state): (Bytes, u8)| {
        let image = GroupImage::from_key_tail(&tail).ok_or(Errno::IO)?;
        Ok(GroupImageStatus { image, state })
    };
    listed.into_iter().map(status).collect()
}

/// An image is in one group at most.
fn join(object: &mut dyn ObjectContext, group: GroupSpec) -> Result<()> {
    match omap::get::<GroupSpec>(object, keys::GROUP)? {
        Some(old) if old == group => return Ok(()),
        Some(_) => return Err(Errno::EXIST.into()),
        None => {}
    }
    features::set_operations(object, operation::GROUP, operation::GROUP)?;
    omap::set(object, keys::GROUP, &group)
}

fn leave(object: &mut dyn ObjectContext, group: GroupSpec) -> Result<()> {
    if omap::require::<GroupSpec>(object, keys::GROUP)? != group {
        return Err(Errno::BADF.into());
    }
    omap::remove(object, keys::GROUP)?;
    features::set_operations(object, 0, operation::GROUP)
}

fn group_of_image(object: &mut dyn ObjectContext, (): ()) -> Result<GroupSpec> {
    Ok(omap::get(object, keys::GROUP)?.unwrap_or_default())
}

/// A new snapshot gets the next order; later calls update it.
fn set_snapshot(object: &mut dyn ObjectContext, snapshot: GroupSnapshot) -> Result<()> {
    if snapshot.name.is_empty() || snapshot.id.is_empty() {
        return Err(Errno::INVAL.into());
    }
    let others: Vec<(Bytes, GroupSnapshot)> = omap::list_all(object, SNAPSHOT_PREFIX)?;
    let same_name = |other: &GroupSnapshot| other.name == snapshot.name && other.id != snapshot.id;
    if others.iter().any(|(_, other)| same_name(other)) {
        return Err(Errno::EXIST.into());
    }
    let key = omap::key(SNAPSHOT_PREFIX, &snapshot.id);
    if snapshot.state == GroupSnapshot::INCOMPLETE {
        let order_key = omap::key(ORDER_PREFIX, &snapshot.id);
        if omap::contains(object, key.clone())? || omap::contains(object, order_key.clone())? {
            return Err(Errno::EXIST.into());
        }
        let number = omap::get::<u64>(object, ORDER_MAX)?.unwrap_or(0).wrapping_add(1);
        omap::set(object, ORDER_MAX, &number)?;
        omap::set(object, order_key, &number)?;
    }
    omap::set(object, key, &snapshot)
}

fn remove_snapshot(object: &mut dyn ObjectContext, id: Bytes) -> Result<()> {
    object.omap_remove(vec![omap::key(SNAPSHOT_PREFIX, &id), omap::key(ORDER_PREFIX, &id)])
}

fn snapshot(object: &mut dyn ObjectContext, id: Bytes) -> Result<GroupSnapshot> {
    omap::require(object, omap::key(SNAPSHOT_PREFIX, &id))
}

fn snapshots(
    object: &mut dyn ObjectContext,
    (after, max): (GroupSnapshot, u64),
) -> Result<Vec<GroupSnapshot>> {
    let listed = omap::list(object, SNAPSHOT_PREFIX, &after.id, max)?;
    Ok(listed.into_iter().map(|(_, snapshot)| snapshot).collect())
}

fn order(
    object: &mut dyn ObjectContext,
    (after, max): (Bytes, u64),
) -> Result<BTreeMap<Bytes, u64>> {
    Ok(omap::list(object, ORDER_PREFIX, &after, max)?.into_iter().collect())
}
