//! Stored and exchanged values of class `rbd`, in Ceph's versioned encodings.

mod group;
mod mirror;
mod mirror_status;
mod parent;
mod snapshot;
mod trash;

pub(super) use group::{GroupImage, GroupImageStatus, GroupSnapshot, GroupSpec};
pub(super) use mirror::{
    MirrorImage, MirrorImageMap, MirrorPeer, image_state, mode, peer_direction,
};
pub(super) use mirror_status::{Instance, SiteStatus, Statuses, StoredStatus, status_state};
pub(super) use parent::Parent;
pub(super) use snapshot::{MirrorNamespace, Namespace, NamespaceKind, Snapshot, SnapshotInfo};
pub(super) use trash::TrashSpec;
