//! Metadata of an image: settings, and arbitrary pairs of users.

use super::keys::METADATA_PREFIX;
use crate::encoding::Raw;
use crate::method::{Method, methods};
use crate::object::{ObjectContext, Result};
use crate::omap;
use bytes::Bytes;
use std::collections::BTreeMap;

pub(super) const METHODS: &[Method] = methods! {
    "metadata_list": READ => list,
    "metadata_get": READ => get,
    "metadata_set": READ_WRITE => set,
    "metadata_remove": READ_WRITE => remove,
};

/// Page size for clients that request no number.
const ENTRIES_DEFAULT: u64 = 64;

fn list(
    object: &mut dyn ObjectContext,
    (after, max): (Bytes, u64),
) -> Result<BTreeMap<Bytes, Bytes>> {
    let max = if max == 0 { ENTRIES_DEFAULT } else { max };
    let listed = omap::list::<Raw>(object, METADATA_PREFIX, &after, max)?;
    Ok(listed.into_iter().map(|(name, Raw(value))| (name, value)).collect())
}

fn get(object: &mut dyn ObjectContext, name: Bytes) -> Result<Bytes> {
    let Raw(value) = omap::require(object, omap::key(METADATA_PREFIX, &name))?;
    Ok(value)
}

fn set(object: &mut dyn ObjectContext, pairs: BTreeMap<Bytes, Bytes>) -> Result<()> {
    let keyed = |(name, value): (Bytes, Bytes)| (omap::key(METADATA_PREFIX, &name), value);
    object.omap_set(pairs.into_iter().map(keyed).collect())
}

fn remove(object: &mut dyn ObjectContext, name: Bytes) -> Result<()> {
    omap::remove(object, omap::key(METADATA_PREFIX, &name))
}
