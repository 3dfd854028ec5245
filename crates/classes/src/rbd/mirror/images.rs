//! Mirrored images, by image id and by global id, which is the same in all clusters.

use super::{keys, status};
use crate::method::{Method, methods};
use crate::object::{ObjectContext, Result};
use crate::omap;
use crate::rbd::values::{MirrorImage, image_state};
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

/// Image ids with global ids.
fn list(
    object: &mut dyn ObjectContext,
    (after, max): (Bytes, u64),
) -> Result<BTreeMap<Bytes, Bytes>> {
    let listed: Vec<(Bytes, MirrorImage)> = omap::list(object, keys::IMAGE_PREFIX, &after, max)?;
    Ok(listed.into_iter().map(|(id, image)| (id, image.global_id)).collect())
}

fn get(object: &mut dyn ObjectContext, image: Bytes) -> Result<MirrorImage> {
    omap::require(object, keys::image(&image))
}

fn image_of_global_id(object: &mut dyn ObjectContext, global_id: Bytes) -> Result<Bytes> {
    omap::require(object, keys::global_id(&global_id))
}

/// An image keeps its global id, and no two have the same.
fn set(object: &mut dyn ObjectContext, (id, image): (Bytes, MirrorImage)) -> Result<()> {
    match omap::get::<MirrorImage>(object, keys::image(&id))? {
        Some(old) if old.global_id != image.global_id => return Err(Errno::INVAL.into()),
        Some(_) => {}
        None if omap::contains(object, keys::global_id(&image.global_id))? => {
            return Err(Errno::EXIST.into());
        }
        // Another client has finished disabling it.
        None if image.state == image_state::DISABLING => return Err(Errno::NOENT.into()),
        None => {}
    }
    object.omap_set(BTreeMap::from([
        omap::pair(keys::image(&id), &image),
        omap::pair(keys::global_id(&image.global_id), &id),
    ]))
}

fn remove(object: &mut dyn ObjectContext, id: Bytes) -> Result<()> {
    let image = get(object, id.clone())?;
    if image.state != image_state::DISABLING {
        return Err(Errno::BUSY.into());
    }
    object.omap_remove(vec![keys::image(&id), keys::global_id(&image.global_id)])?;
    status::remove(object, image.global_id)
}
