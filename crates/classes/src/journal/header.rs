//! Layout of a journal, and the sets of data objects in use.

use crate::method::{Method, methods};
use crate::object::{ObjectContext, Result};
use crate::omap;
use types::Errno;

pub(super) const METHODS: &[Method] = methods! {
    "create": READ_WRITE => create,
    "get_order": READ => order,
    "get_splay_width": READ => splay_width,
    "get_pool_id": READ => pool,
    "get_minimum_set": READ => minimum_set,
    "set_minimum_set": READ_WRITE => set_minimum_set,
    "get_active_set": READ => active_set,
    "set_active_set": READ_WRITE => set_active_set,
};

const ORDER: &str = "order";
const SPLAY_WIDTH: &str = "splay_width";
const POOL: &str = "pool_id";
const MINIMUM_SET: &str = "minimum_set";
const ACTIVE_SET: &str = "active_set";
pub(super) const NEXT_TAG: &str = "next_tag_tid";
pub(super) const NEXT_TAG_CLASS: &str = "next_tag_class";

fn create(object: &mut dyn ObjectContext, (order, splay_width, pool): (u8, u8, i64)) -> Result<()> {
    if omap::contains(object, ORDER)? {
        return Err(Errno::EXIST.into());
    }
    let pairs =
        [omap::pair(ORDER, &order), omap::pair(SPLAY_WIDTH, &splay_width), omap::pair(POOL, &pool)];
    let counters = [ACTIVE_SET, MINIMUM_SET, NEXT_TAG, NEXT_TAG_CLASS];
    let counters = counters.map(|key| omap::pair(key, &0u64));
    object.omap_set(pairs.into_iter().chain(counters).collect())
}

pub(super) fn order(object: &mut dyn ObjectContext, (): ()) -> Result<u8> {
    omap::require(object, ORDER)
}

/// Number of data objects over which entries are spread.
pub(super) fn splay_width(object: &mut dyn ObjectContext, (): ()) -> Result<u8> {
    omap::require(object, SPLAY_WIDTH)
}

fn pool(object: &mut dyn ObjectContext, (): ()) -> Result<i64> {
    omap::require(object, POOL)
}

fn minimum_set(object: &mut dyn ObjectContext, (): ()) -> Result<u64> {
    omap::require(object, MINIMUM_SET)
}

fn active_set(object: &mut dyn ObjectContext, (): ()) -> Result<u64> {
    omap::require(object, ACTIVE_SET)
}

/// Set numbers only grow; ESTALE for one that was passed.
fn advance(object: &mut dyn ObjectContext, key: &'static str, old: u64, new: u64) -> Result<()> {
    match new {
        _ if new == old => Ok(()),
        _ if new < old => Err(Errno::STALE.into()),
        _ => omap::set(object, key, &new),
    }
}

fn set_minimum_set(object: &mut dyn ObjectContext, new: u64) -> Result<()> {
    if new > active_set(object, ())? {
        return Err(Errno::INVAL.into());
    }
    let old = minimum_set(object, ())?;
    advance(object, MINIMUM_SET, old, new)
}

fn set_active_set(object: &mut dyn ObjectContext, new: u64) -> Result<()> {
    if new < minimum_set(object, ())? {
        return Err(Errno::INVAL.into());
    }
    let old = active_set(object, ())?;
    advance(object, ACTIVE_SET, old, new)
}
