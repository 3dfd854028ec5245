//! The object `rbd_trash`: images that are to be removed, by id.

use super::directory::{ID_PREFIX, is_valid_id};
use super::values::TrashSpec;
use crate::encoding::Raw;
use crate::method::{Method, methods};
use crate::object::{ObjectContext, Result};
use crate::omap;
use bytes::Bytes;
use std::collections::BTreeMap;
use types::Errno;

pub(super) const METHODS: &[Method] = methods! {
    "trash_add": READ_WRITE => add,
    "trash_remove": READ_WRITE => remove,
    "trash_list": READ => list,
    "trash_get": READ => get,
    "trash_state_set": READ_WRITE => set_state,
};

fn key(id: &[u8]) -> Bytes {
    omap::key(ID_PREFIX, id)
}

fn add(object: &mut dyn ObjectContext, (id, image): (Bytes, TrashSpec)) -> Result<()> {
    object.create(false)?;
    if !is_valid_id(&id) {
        return Err(Errno::INVAL.into());
    }
    if omap::contains(object, key(&id))? {
        return Err(Errno::EXIST.into());
    }
    omap::set(object, key(&id), &image)
}

fn remove(object: &mut dyn ObjectContext, id: Bytes) -> Result<()> {
    if !omap::contains(object, key(&id))? {
        return Err(Errno::NOENT.into());
    }
    omap::remove(object, key(&id))
}

fn list(
    object: &mut dyn ObjectContext,
    (after, max): (Bytes, u64),
) -> Result<BTreeMap<Bytes, TrashSpec>> {
    Ok(omap::list(object, ID_PREFIX, &after, max)?.into_iter().collect())
}

fn get(object: &mut dyn ObjectContext, id: Bytes) -> Result<Raw> {
    omap::require(object, key(&id))
}

/// ESTALE if the image is in neither of the two states.
fn set_state(object: &mut dyn ObjectContext, (id, new, old): (Bytes, u8, u8)) -> Result<()> {
    let image: TrashSpec = omap::require(object, key(&id))?;
    match image.state {
        state if state == old => omap::set(object, key(&id), &TrashSpec { state: new, ..image }),
        state if state == new => Ok(()),
        _ => Err(Errno::STALE.into()),
    }
}
