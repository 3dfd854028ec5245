//! Mirrored images, by image id and by global id, which is the same in all clusters.

use super::status;
use crate::rbd::values::{MirrorImage, image_state};
use crate::{Method, ObjectContext, Result, methods, omap};
use bytes::Bytes;
use std::collections::BTreeMap;
use types::Errno;

pub(crate) const METHODS: &[Method] = methods! {
    "mirror_image_list": READ => list,
    "mirror_image_get": READ => get,
    "mirror_image_get_image_id": READ => image_of_global_id,
    "mirror_image_set": READ_WRITE => set,
    "mirror_image_remove": READ_WRITE => remove,
};

pub(super) const PREFIX: &str = "image_";
const GLOBAL_PREFIX: &str = "global_";

pub(super) fn key(image: &[u8]) -> Bytes {
    omap::key(PREFIX, image)
}

pub(super) fn global_key(global_id: &[u8]) -> Bytes {
    omap::key(GLOBAL_PREFIX, global_id)
}

/// Image ids with global ids.
fn list(
    object: &mut dyn ObjectContext,
    (after, max): (Bytes, u64),
) -> Result<BTreeMap<Bytes, Bytes>> {
    let listed: Vec<(Bytes, MirrorImage)> = omap::list(object, PREFIX, &after, max)?;
    Ok(listed.into_iter().map(|(id, image)| (id, image.global_id)).collect())
}

fn get(object: &mut dyn ObjectContext, image: Bytes) -> Result<MirrorImage> {
    omap::require(object, key(&image))
}

fn image_of_global_id(object: &mut dyn ObjectContext, global_id: Bytes) -> Result<Bytes> {
    omap::require(object, global_key(&global_id))
}

/// An image keeps its global id, and no two have the same.
fn set(object: &mut dyn ObjectContext, (id, image): (Bytes, MirrorImage)) -> Result<()> {
    match omap::get::<MirrorImage>(object, key(&id))? {
        Some(old) if old.global_id != image.global_id => return Err(Errno::INVAL.into()),
        Some(_) => {}
        None if omap::contains(object, global_key(&image.global_id))? => {
            return Err(Errno::EXIST.into());
        }
        // Another client has finished disabling it.
        None if image.state == image_state::DISABLING => return Err(Errno::NOENT.into()),
        None => {}
    }
    object.omap_set(BTreeMap::from([
        omap::pair(key(&id), &image),
        omap::pair(global_key(&image.global_id), &id),
    ]))
}

fn remove(object: &mut dyn ObjectContext, id: Bytes) -> Result<()> {
    let image = get(object, id.clone())?;
    if image.state != image_state::DISABLING {
        return Err(Errno::BUSY.into());
    }
    object.omap_remove(vec![key(&id), global_key(&image.global_id)])?;
    status::remove(object, image.global_id)
}
