//! Features of images (`RBD_FEATURE_*`) and of operations on them (`RBD_OPERATION_FEATURE_*`).

use super::keys;
use crate::object::{ObjectContext, Result};
use crate::omap;
use std::collections::BTreeMap;
use types::Errno;

pub(super) const LAYERING: u64 = 1 << 0;
pub(super) const STRIPING: u64 = 1 << 1;
const EXCLUSIVE_LOCK: u64 = 1 << 2;
const OBJECT_MAP: u64 = 1 << 3;
const FAST_DIFF: u64 = 1 << 4;
pub(super) const DEEP_FLATTEN: u64 = 1 << 5;
const JOURNALING: u64 = 1 << 6;
pub(super) const DATA_POOL: u64 = 1 << 7;
pub(super) const OPERATIONS: u64 = 1 << 8;
pub(super) const MIGRATING: u64 = 1 << 9;
const NON_PRIMARY: u64 = 1 << 10;
const DIRTY_CACHE: u64 = 1 << 11;

pub(super) const ALL: u64 = (1 << 12) - 1;
/// Clients without these features cannot read the image.
pub(super) const INCOMPATIBLE: u64 = LAYERING | STRIPING | DATA_POOL | DIRTY_CACHE;
/// Clients without these features cannot write the image.
pub(super) const WRITE_INCOMPATIBLE: u64 = ALL;
/// Can be enabled and disabled later.
pub(super) const MUTABLE: u64 =
    EXCLUSIVE_LOCK | OBJECT_MAP | FAST_DIFF | JOURNALING | NON_PRIMARY | DIRTY_CACHE;
/// Can only be disabled later.
pub(super) const DISABLE_ONLY: u64 = DEEP_FLATTEN;
/// Maintained by the class itself.
pub(super) const INTERNAL: u64 = OPERATIONS | MIGRATING;

pub(super) mod operation {
    /// The image has clones of format 2.
    pub const CLONE_PARENT: u64 = 1 << 0;
    /// The image is a clone of format 2.
    pub const CLONE_CHILD: u64 = 1 << 1;
    /// The image is in a group.
    pub const GROUP: u64 = 1 << 2;
    /// The image has snapshots in the trash.
    pub const SNAPSHOT_TRASH: u64 = 1 << 3;

    /// All that this class knows.
    pub const ALL: u64 = (1 << 4) - 1;
}

/// `old` with those bits of `new` that are in `mask`.
pub(super) fn merge(old: u64, new: u64, mask: u64) -> u64 {
    old & !mask | new & mask
}

/// ENOEXEC if the image lacks one of the features.
pub(super) fn require(object: &mut dyn ObjectContext, needed: u64) -> Result<u64> {
    match omap::get::<u64>(object, keys::FEATURES)? {
        Some(features) if features & needed == needed => Ok(features),
        _ => Err(Errno::NOEXEC.into()),
    }
}

/// Sets the operation features in `mask`; the image has the feature `OPERATIONS` while there are
/// any. Call it at most once in a method: it does not see what it wrote.
pub(super) fn set_operations(object: &mut dyn ObjectContext, new: u64, mask: u64) -> Result<()> {
    let features: u64 = omap::require(object, keys::FEATURES)?;
    let old: u64 = omap::get(object, keys::OPERATION_FEATURES)?.unwrap_or(0);
    let operations = merge(old, new, mask);
    if operations == old {
        return Ok(());
    }
    let mut pairs = BTreeMap::new();
    if operations == 0 {
        omap::remove(object, keys::OPERATION_FEATURES)?;
    } else {
        pairs.extend([omap::pair(keys::OPERATION_FEATURES, &operations)]);
    }
    let marked = merge(features, if operations == 0 { 0 } else { OPERATIONS }, OPERATIONS);
    if marked != features {
        pairs.extend([omap::pair(keys::FEATURES, &marked)]);
    }
    if pairs.is_empty() { Ok(()) } else { object.omap_set(pairs) }
}
