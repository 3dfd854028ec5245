//! The daemons that mirror a pool, and the images assigned to each.

use crate::encoding::Raw;
use crate::method::{Method, methods};
use crate::object::{ObjectContext, Result};
use crate::omap;
use crate::rbd::values::MirrorImageMap;
use bytes::Bytes;
use std::collections::BTreeMap;

pub(crate) const METHODS: &[Method] = methods! {
    "mirror_instances_list": READ => list,
    "mirror_instances_add": READ_WRITE => add,
    "mirror_instances_remove": READ_WRITE => remove,
    "mirror_image_map_list": READ => mapped,
    "mirror_image_map_update": WRITE => map,
    "mirror_image_map_remove": WRITE => unmap,
};

const INSTANCE_PREFIX: &str = "instance_";
const MAP_PREFIX: &str = "image_map_";

fn list(object: &mut dyn ObjectContext, (): ()) -> Result<Vec<Bytes>> {
    let listed = omap::list_all::<Raw>(object, INSTANCE_PREFIX)?;
    Ok(listed.into_iter().map(|(id, _)| id).collect())
}

fn add(object: &mut dyn ObjectContext, id: Bytes) -> Result<()> {
    omap::set(object, omap::key(INSTANCE_PREFIX, &id), &())
}

fn remove(object: &mut dyn ObjectContext, id: Bytes) -> Result<()> {
    omap::remove(object, omap::key(INSTANCE_PREFIX, &id))
}

fn mapped(
    object: &mut dyn ObjectContext,
    (after, max): (Bytes, u64),
) -> Result<BTreeMap<Bytes, MirrorImageMap>> {
    Ok(omap::list(object, MAP_PREFIX, &after, max)?.into_iter().collect())
}

fn map(object: &mut dyn ObjectContext, (global_id, map): (Bytes, MirrorImageMap)) -> Result<()> {
    omap::set(object, omap::key(MAP_PREFIX, &global_id), &map)
}

fn unmap(object: &mut dyn ObjectContext, global_id: Bytes) -> Result<()> {
    omap::discard(object, omap::key(MAP_PREFIX, &global_id))
}
