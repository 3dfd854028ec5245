//! Keys of an image header's omap.

use bytes::Bytes;
use types::SnapId;

pub(super) const SIZE: &str = "size";
pub(super) const ORDER: &str = "order";
pub(super) const FEATURES: &str = "features";
pub(super) const OPERATION_FEATURES: &str = "op_features";
pub(super) const FLAGS: &str = "flags";
pub(super) const OBJECT_PREFIX: &str = "object_prefix";
pub(super) const DATA_POOL: &str = "data_pool_id";
pub(super) const STRIPE_UNIT: &str = "stripe_unit";
pub(super) const STRIPE_COUNT: &str = "stripe_count";
pub(super) const CREATED: &str = "create_timestamp";
pub(super) const ACCESSED: &str = "access_timestamp";
pub(super) const MODIFIED: &str = "modify_timestamp";
pub(super) const SNAPSHOT_SEQUENCE: &str = "snap_seq";
pub(super) const SNAPSHOT_LIMIT: &str = "snap_limit";
pub(super) const PARENT: &str = "parent";
pub(super) const MIGRATION: &str = "migration";
pub(super) const GROUP: &str = "rbd_group_ref";
pub(super) const METADATA_PREFIX: &str = "metadata_";
pub(super) const SNAPSHOT_PREFIX: &str = "snapshot_";
const CHILDREN_PREFIX: &str = "snap_children_";

pub(super) fn snapshot(id: SnapId) -> Bytes {
    crate::omap::number_key(SNAPSHOT_PREFIX, id.0)
}

/// The clones of a snapshot.
pub(super) fn children(id: SnapId) -> Bytes {
    crate::omap::number_key(CHILDREN_PREFIX, id.0)
}
