//! Header of an image: size, features, flags, data pool.

use super::values::{Parent, Snapshot};
use super::{features, keys, stored};
use crate::encoding::IfPresent;
use crate::method::{Method, methods};
use crate::object::{ObjectContext, Result, require_existing};
use crate::omap;
use bytes::Bytes;
use types::{Errno, SnapId};

pub(super) const METHODS: &[Method] = methods! {
    "create": READ_WRITE => create,
    "get_size": READ => size,
    "set_size": READ_WRITE => set_size,
    "get_features": READ => get_features,
    "set_features": READ_WRITE => set_features,
    "get_all_features": READ => all_features,
    "get_flags": READ => flags,
    "set_flags": READ_WRITE => set_flags,
    "op_features_get": READ => operation_features,
    "op_features_set": READ_WRITE => set_operation_features,
    "get_object_prefix": READ => object_prefix,
    "get_data_pool": READ => data_pool,
    "get_stripe_unit_count": READ => striping,
    "set_stripe_unit_count": READ_WRITE => set_striping,
};

const NO_POOL: i64 = -1;

type Creation = (u64, u8, u64, Bytes, IfPresent<i64>);

fn create(object: &mut dyn ObjectContext, input: Creation) -> Result<()> {
    let (size, order, wanted, prefix, IfPresent(data_pool)) = input;
    if wanted & !features::ALL != 0 {
        return Err(Errno::NOSYS.into());
    }
    let data_pool = data_pool.filter(|pool| *pool != NO_POOL);
    let separate = wanted & features::DATA_POOL != 0;
    if prefix.is_empty() || separate != data_pool.is_some() || wanted & features::OPERATIONS != 0 {
        return Err(Errno::INVAL.into());
    }
    if omap::contains(object, keys::OBJECT_PREFIX)? {
        return Err(Errno::EXIST.into());
    }
    let now = object.now();
    let pairs = [
        omap::pair(keys::SIZE, &size),
        omap::pair(keys::ORDER, &order),
        omap::pair(keys::FEATURES, &wanted),
        omap::pair(keys::OBJECT_PREFIX, &prefix),
        omap::pair(keys::SNAPSHOT_SEQUENCE, &0u64),
        omap::pair(keys::CREATED, &now),
        omap::pair(keys::ACCESSED, &now),
        omap::pair(keys::MODIFIED, &now),
    ];
    let data_pool = data_pool.map(|pool| omap::pair(keys::DATA_POOL, &pool));
    object.omap_set(pairs.into_iter().chain(data_pool).collect())
}

/// The order of the objects, and the size of the image.
fn size(object: &mut dyn ObjectContext, snapshot: SnapId) -> Result<(u8, u64)> {
    let order = omap::require(object, keys::ORDER)?;
    let size = match snapshot {
        SnapId::HEAD => omap::require(object, keys::SIZE)?,
        id => stored::snapshot(object, id)?.image_size,
    };
    Ok((order, size))
}

/// A shrink reduces the overlap with the parent.
fn set_size(object: &mut dyn ObjectContext, size: u64) -> Result<()> {
    let old: u64 = omap::require(object, keys::SIZE)?;
    omap::set(object, keys::SIZE, &size)?;
    if size >= old {
        return Ok(());
    }
    match stored::parent(object)? {
        Some(Parent { spec, overlap: Some(overlap) }) if spec.exists() && overlap > size => {
            omap::set(object, keys::PARENT, &Parent { spec, overlap: Some(size) })
        }
        _ => Ok(()),
    }
}

/// The features, and the incompatible ones. The snapshot argument is ignored.
fn get_features(
    object: &mut dyn ObjectContext,
    (_, IfPresent(read_only)): (SnapId, IfPresent<bool>),
) -> Result<(u64, u64)> {
    let stored: u64 = omap::require(object, keys::FEATURES)?;
    let needed = match read_only {
        Some(true) => features::INCOMPATIBLE,
        _ => features::WRITE_INCOMPATIBLE,
    };
    Ok((stored, stored & needed))
}

fn set_features(object: &mut dyn ObjectContext, (new, mask): (u64, u64)) -> Result<()> {
    let old: u64 = omap::get(object, keys::FEATURES)?.unwrap_or(0);
    // Newer clients may clear features that are unknown here.
    let known = mask & features::ALL;
    let (enabled, disabled) = (new & known, !new & known);
    let may_be_disabled = features::MUTABLE | features::DISABLE_ONLY;
    let refused = mask & features::INTERNAL != 0
        || enabled & !features::MUTABLE != 0
        || disabled & !may_be_disabled != 0;
    if refused {
        return Err(Errno::INVAL.into());
    }
    omap::set(object, keys::FEATURES, &features::merge(old, new, known))
}

fn all_features(_: &mut dyn ObjectContext, (): ()) -> Result<u64> {
    Ok(features::ALL)
}

fn flags(object: &mut dyn ObjectContext, snapshot: SnapId) -> Result<u64> {
    match snapshot {
        SnapId::HEAD => Ok(omap::get(object, keys::FLAGS)?.unwrap_or(0)),
        id => Ok(stored::snapshot(object, id)?.flags),
    }
}

fn set_flags(
    object: &mut dyn ObjectContext,
    (new, mask, IfPresent(snapshot)): (u64, u64, IfPresent<SnapId>),
) -> Result<()> {
    match snapshot {
        None | Some(SnapId::HEAD) => {
            let old = omap::get(object, keys::FLAGS)?.unwrap_or(0);
            omap::set(object, keys::FLAGS, &features::merge(old, new, mask))
        }
        Some(id) => {
            let old = stored::snapshot(object, id)?;
            let flags = features::merge(old.flags, new, mask);
            stored::set_snapshot(object, Snapshot { flags, ..old })
        }
    }
}

fn operation_features(object: &mut dyn ObjectContext, (): ()) -> Result<u64> {
    Ok(omap::get(object, keys::OPERATION_FEATURES)?.unwrap_or(0))
}

fn set_operation_features(object: &mut dyn ObjectContext, (new, mask): (u64, u64)) -> Result<()> {
    if mask & !features::operation::ALL != 0 {
        return Err(Errno::INVAL.into());
    }
    features::set_operations(object, new, mask)
}

fn object_prefix(object: &mut dyn ObjectContext, (): ()) -> Result<Bytes> {
    omap::require(object, keys::OBJECT_PREFIX)
}

fn data_pool(object: &mut dyn ObjectContext, (): ()) -> Result<i64> {
    Ok(omap::get(object, keys::DATA_POOL)?.unwrap_or(NO_POOL))
}

/// Object size for an order; an error if the order is invalid.
fn object_size(order: u8) -> Result<u64> {
    1u64.checked_shl(order.into()).ok_or(Errno::INVAL.into())
}

/// Stripe unit and count.
fn striping(object: &mut dyn ObjectContext, (): ()) -> Result<(u64, u64)> {
    require_existing(object)?;
    features::require(object, features::STRIPING)?;
    let unit = match omap::get(object, keys::STRIPE_UNIT)? {
        Some(unit) => unit,
        None => object_size(omap::get(object, keys::ORDER)?.ok_or(Errno::IO)?)?,
    };
    Ok((unit, omap::get(object, keys::STRIPE_COUNT)?.unwrap_or(1)))
}

fn set_striping(object: &mut dyn ObjectContext, (unit, count): (u64, u64)) -> Result<()> {
    if unit == 0 || count == 0 {
        return Err(Errno::INVAL.into());
    }
    require_existing(object)?;
    features::require(object, features::STRIPING)?;
    let order = omap::require(object, keys::ORDER)?;
    if !object_size(order)?.is_multiple_of(unit) {
        return Err(Errno::INVAL.into());
    }
    omap::set(object, keys::STRIPE_UNIT, &unit)?;
    omap::set(object, keys::STRIPE_COUNT, &count)
}
