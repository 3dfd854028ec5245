//! Times of creation, access and modification of an image, as clients report them.

use super::keys;
use crate::method::{Method, methods};
use crate::object::{ObjectContext, Result, require_existing};
use crate::omap;
use types::UTime;

pub(super) const METHODS: &[Method] = methods! {
    "get_create_timestamp": READ => created,
    "get_access_timestamp": READ => accessed,
    "get_modify_timestamp": READ => modified,
    "set_access_timestamp": READ_WRITE => set_accessed,
    "set_modify_timestamp": READ_WRITE => set_modified,
};

/// Older images have none.
fn timestamp(object: &mut dyn ObjectContext, key: &'static str) -> Result<UTime> {
    Ok(omap::get(object, key)?.unwrap_or_default())
}

fn set_to_now(object: &mut dyn ObjectContext, key: &'static str) -> Result<()> {
    require_existing(object)?;
    let now = object.now();
    omap::set(object, key, &now)
}

fn created(object: &mut dyn ObjectContext, (): ()) -> Result<UTime> {
    timestamp(object, keys::CREATED)
}

fn accessed(object: &mut dyn ObjectContext, (): ()) -> Result<UTime> {
    timestamp(object, keys::ACCESSED)
}

fn modified(object: &mut dyn ObjectContext, (): ()) -> Result<UTime> {
    timestamp(object, keys::MODIFIED)
}

fn set_accessed(object: &mut dyn ObjectContext, (): ()) -> Result<()> {
    set_to_now(object, keys::ACCESSED)
}

fn set_modified(object: &mut dyn ObjectContext, (): ()) -> Result<()> {
    set_to_now(object, keys::MODIFIED)
}
