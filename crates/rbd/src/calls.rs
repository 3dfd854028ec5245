//! Calls of the class `rbd`, and their outputs.

use crate::Error;
use crate::snapshot::{Protection, UserNamespace};
use bytes::Bytes;
use codec::{Decode, Encode, Reader};
use rados::OperationReply;
use std::collections::BTreeMap;
use types::{ChildSpec, ParentSpec, SnapId, UTime};
use wire::OsdOp;

pub(crate) fn call(method: &str, input: &impl Encode) -> OsdOp {
    OsdOp::call("rbd", method, &codec::encode_to_bytes(input))
}

/// The output of one operation of a reply.
pub(crate) fn output<T: Decode>(
    reply: &OperationReply,
    index: usize,
    what: &'static str,
) -> Result<T, Error> {
    let output = reply.ops.get(index).map(|op| op.output.clone()).unwrap_or_default();
    codec::decode_all(what, &output).map_err(|error| Error::Damaged { what, error })
}

pub(crate) fn get_id() -> OsdOp {
    call("get_id", &())
}

pub(crate) fn set_id(id: &str) -> OsdOp {
    call("set_id", &id)
}

/// `BTreeMap<name, id>`
pub(crate) fn directory_list(after: &str, max: u64) -> OsdOp {
    call("dir_list", &(after, max))
}

pub(crate) fn directory_add(name: &str, id: &str) -> OsdOp {
    call("dir_add_image", &(name, id))
}

pub(crate) fn directory_remove(name: &str, id: &str) -> OsdOp {
    call("dir_remove_image", &(name, id))
}

pub(crate) fn directory_rename(old: &str, new: &str, id: &str) -> OsdOp {
    call("dir_rename_image", &(old, new, id))
}

pub(crate) fn create(size: u64, order: u8, features: u64, prefix: &str, data_pool: i64) -> OsdOp {
    call("create", &(size, order, features, prefix, data_pool))
}

/// Order and size.
pub(crate) fn get_size(snap: SnapId) -> OsdOp {
    call("get_size", &snap)
}

pub(crate) fn set_size(size: u64) -> OsdOp {
    call("set_size", &size)
}

/// All features, and those that the image cannot be used without.
pub(crate) fn get_features(read_only: bool) -> OsdOp {
    call("get_features", &(SnapId::HEAD, read_only))
}

pub(crate) fn set_features(new: u64, mask: u64) -> OsdOp {
    call("set_features", &(new, mask))
}

pub(crate) fn get_flags(snap: SnapId) -> OsdOp {
    call("get_flags", &snap)
}

pub(crate) fn get_object_prefix() -> OsdOp {
    call("get_object_prefix", &())
}

/// The result is -1 if data lies in the pool of the header.
pub(crate) fn get_data_pool() -> OsdOp {
    call("get_data_pool", &())
}

pub(crate) fn get_snap_context() -> OsdOp {
    call("get_snapcontext", &())
}

pub(crate) fn get_stripe_unit_count() -> OsdOp {
    call("get_stripe_unit_count", &())
}

pub(crate) fn set_stripe_unit_count(unit: u64, count: u64) -> OsdOp {
    call("set_stripe_unit_count", &(unit, count))
}

pub(crate) fn get_created() -> OsdOp {
    call("get_create_timestamp", &())
}

pub(crate) fn get_parent() -> OsdOp {
    call("parent_get", &())
}

/// `Option<u64>`, in bytes.
pub(crate) fn get_parent_overlap(snap: SnapId) -> OsdOp {
    call("parent_overlap_get", &snap)
}

pub(crate) fn get_snapshot(id: SnapId) -> OsdOp {
    call("snapshot_get", &id)
}

pub(crate) fn get_protection(id: SnapId) -> OsdOp {
    call("get_protection_status", &id)
}

pub(crate) fn set_protection(id: SnapId, protection: Protection) -> OsdOp {
    call("set_protection_status", &(id, protection.0))
}

/// Fails with ESTALE if a newer snapshot id was registered meanwhile.
pub(crate) fn add_snapshot(name: &str, id: SnapId) -> OsdOp {
    call("snapshot_add", &(name, id, UserNamespace))
}

pub(crate) fn rename_snapshot(id: SnapId, name: &str) -> OsdOp {
    call("snapshot_rename", &(id, name))
}

pub(crate) fn remove_snapshot(id: SnapId) -> OsdOp {
    call("snapshot_remove", &id)
}

/// Moves the snapshot to the trash namespace, so that it cannot be cloned any more.
pub(crate) fn trash_snapshot(id: SnapId) -> OsdOp {
    call("snapshot_trash_add", &id)
}

/// A snapshot as `rbd_children` names it: pool, image, snapshot.
pub(crate) type OldParent<'a> = (i64, &'a str, SnapId);

/// `BTreeSet<id>`; ENOENT if there are none.
pub(crate) fn get_old_children(parent: OldParent<'_>) -> OsdOp {
    call("get_children", &parent)
}

pub(crate) fn add_old_child(parent: OldParent<'_>, child: &str) -> OsdOp {
    call("add_child", &(parent, child))
}

pub(crate) fn remove_old_child(parent: OldParent<'_>, child: &str) -> OsdOp {
    call("remove_child", &(parent, child))
}

/// Fails with EEXIST if the image has another parent.
pub(crate) fn attach_parent(parent: &ParentSpec, overlap: u64) -> OsdOp {
    call("parent_attach", &(parent.clone(), overlap, false))
}

pub(crate) fn detach_parent() -> OsdOp {
    call("parent_detach", &())
}

/// Fails with ENOENT if the snapshot is in the trash.
pub(crate) fn attach_child(snap: SnapId, child: &ChildSpec) -> OsdOp {
    call("child_attach", &(snap, child.clone()))
}

pub(crate) fn detach_child(snap: SnapId, child: &ChildSpec) -> OsdOp {
    call("child_detach", &(snap, child.clone()))
}

/// `BTreeSet<ChildSpec>`; ENOENT if there are none.
pub(crate) fn list_children(snap: SnapId) -> OsdOp {
    call("children_list", &snap)
}

/// `RBD_OPERATION_FEATURE_CLONE_CHILD`
pub(crate) const CLONE_CHILD: u64 = 1 << 1;

pub(crate) fn get_operation_features() -> OsdOp {
    call("op_features_get", &())
}

pub(crate) fn set_operation_features(features: u64) -> OsdOp {
    call("op_features_set", &(features, features))
}

/// Fails with ENOENT if no image has the id.
pub(crate) fn directory_name(id: &str) -> OsdOp {
    call("dir_get_name", &id)
}

pub(crate) fn trash_get(id: &str) -> OsdOp {
    call("trash_get", &id)
}

pub(crate) fn trash_remove(id: &str) -> OsdOp {
    call("trash_remove", &id)
}

/// Fails with ESTALE if the entry is in neither of the states.
pub(crate) fn trash_set_state(id: &str, new: TrashState, old: TrashState) -> OsdOp {
    call("trash_state_set", &(id, new.0, old.0))
}

/// `TRASH_IMAGE_STATE_*`: an image in any other state is being moved into the trash or restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TrashState(pub u8);

impl TrashState {
    /// `TRASH_IMAGE_STATE_NORMAL`: the image can be restored or removed.
    pub const NORMAL: TrashState = TrashState(0);
    /// `TRASH_IMAGE_STATE_REMOVING`: the image can only be removed.
    pub const REMOVING: TrashState = TrashState(2);
}

/// `Vec<name>`
pub(crate) fn list_namespaces(after: &str, max: u64) -> OsdOp {
    call("namespace_list", &(after, max))
}

/// `BTreeMap<id, TrashEntry>`
pub(crate) fn trash_list(after: &str, max: u64) -> OsdOp {
    call("trash_list", &(after, max))
}

/// The fields of a trash entry that decide whether the image may be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TrashEntry {
    /// Reason for the entry (`TRASH_IMAGE_SOURCE_*`).
    pub source: u8,
    /// Name that the image had before it was moved to the trash.
    pub name: String,
    /// End of the deferment: before it the image is not removed.
    pub deferred_until: UTime,
    /// State that decides which commands the entry admits.
    pub state: TrashState,
}

impl TrashEntry {
    const MIGRATION: u8 = 2;

    /// True if a user moved the image to the trash and its deferment has ended.
    pub fn is_expired(&self, now: UTime) -> bool {
        const USER: u8 = 0;
        self.source == USER && self.deferred_until <= now
    }

    /// True if the entry belongs to an image that is being migrated.
    pub fn is_migrating(&self) -> bool {
        self.source == Self::MIGRATION
    }

    /// The entry of an image that is being migrated.
    pub fn moving(name: &str) -> Self {
        let (deferred_until, state) = (UTime::ZERO, TrashState::NORMAL);
        TrashEntry { source: Self::MIGRATION, name: name.to_owned(), deferred_until, state }
    }
}

impl Decode for TrashEntry {
    fn decode(r: &mut Reader<'_>) -> codec::Result<Self> {
        r.versioned("trash image", 2, |r, version| {
            let (source, name, _deleted, deferred_until): (u8, String, UTime, UTime) = r.value()?;
            let state = if version >= 2 { r.u8("state")? } else { TrashState::NORMAL.0 };
            Ok(TrashEntry { source, name, deferred_until, state: TrashState(state) })
        })
    }
}

/// `BTreeMap<key, value>`: one page of the image's metadata.
pub(crate) fn list_metadata(after: &[u8], max: u64) -> OsdOp {
    call("metadata_list", &(Bytes::copy_from_slice(after), max))
}

pub(crate) fn set_metadata(pairs: &BTreeMap<Bytes, Bytes>) -> OsdOp {
    call("metadata_set", pairs)
}

/// Fails with ERANGE if the object's snapshot sequence has reached this snapshot.
pub(crate) fn assert_newer_snapshots(seq: SnapId) -> OsdOp {
    const GREATER: u8 = 0;
    call("assert_snapc_seq", &(seq, GREATER))
}

/// Fails with EINVAL if the image is not being migrated.
pub(crate) fn get_migration() -> OsdOp {
    call("migration_get", &())
}

pub(crate) fn set_migration_state(state: MigrationState) -> OsdOp {
    call("migration_set_state", &(state.0, ""))
}

pub(crate) fn remove_migration() -> OsdOp {
    call("migration_remove", &())
}

/// Progress of a migration (`MIGRATION_STATE_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MigrationState(pub u8);

impl MigrationState {
    /// `MIGRATION_STATE_PREPARED`: the target exists and shows the source.
    pub const PREPARED: MigrationState = MigrationState(2);
    /// `MIGRATION_STATE_EXECUTING`: objects are being copied to the target.
    pub const EXECUTING: MigrationState = MigrationState(3);
    /// `MIGRATION_STATE_EXECUTED`: the target has all data of the source.
    pub const EXECUTED: MigrationState = MigrationState(4);
    /// `MIGRATION_STATE_ABORTING`: the target is being removed.
    pub const ABORTING: MigrationState = MigrationState(5);
}
