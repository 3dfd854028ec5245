//! Snapshots of images, as the class `rbd` keeps them in the header.

use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result as Decoded, Writer};
use types::{SnapId, UTime};

/// Purpose of a snapshot (`SnapshotNamespace`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// A user took it.
    User,
    /// It belongs to a group snapshot.
    Group,
    /// It was removed while clones exist, and is kept for them. The string is its former name.
    Trash(String),
    /// It belongs to mirroring.
    Mirror,
    /// A namespace of a newer client.
    Unknown,
}

/// `SNAPSHOT_NAMESPACE_TYPE_*`
const USER: u32 = 0;
const GROUP: u32 = 1;
const TRASH: u32 = 2;
const MIRROR: u32 = 3;

/// The only namespace that this client writes.
pub(crate) struct UserNamespace;

impl Encode for UserNamespace {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| w.u32(USER));
    }
}

impl Decode for Purpose {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        r.versioned("snapshot namespace", 1, |r, _| {
            Ok(match r.u32("kind")? {
                USER => Purpose::User,
                GROUP => Purpose::Group,
                TRASH => {
                    let name: Bytes = r.value()?;
                    Purpose::Trash(String::from_utf8_lossy(&name).into_owned())
                }
                MIRROR => Purpose::Mirror,
                _ => Purpose::Unknown,
            })
        })
    }
}

/// Protection of a snapshot against removal (`RBD_PROTECTION_STATUS_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Protection(pub u8);

impl Protection {
    /// The snapshot can be removed.
    pub const UNPROTECTED: Protection = Protection(0);
    /// Protection is being removed: a search for clones is in progress.
    pub const UNPROTECTING: Protection = Protection(1);
    /// The snapshot cannot be removed.
    pub const PROTECTED: Protection = Protection(2);
}

/// A snapshot of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Id of the snapshot in the pool of the data.
    pub id: SnapId,
    /// Name of the snapshot; generated for one in the trash.
    pub name: String,
    /// Reason why the snapshot exists.
    pub purpose: Purpose,
    /// Size of the image in bytes at the snapshot.
    pub size: u64,
    /// Time of creation, by the clock of the OSD that executed it.
    pub created: UTime,
    /// Number of clones of format 2, which the header counts.
    pub children: u32,
    /// Protection against removal; clones of format 1 need it.
    pub protection: Protection,
    /// Bytes of the parent that it shows, if it has one.
    pub parent_overlap: Option<u64>,
}

/// `SnapshotInfo`: output of `snapshot_get`.
pub(crate) struct SnapshotInfo {
    /// Id of the snapshot.
    pub id: SnapId,
    /// Reason why the snapshot exists.
    pub purpose: Purpose,
    /// Name as stored; not checked to be UTF-8.
    pub name: Bytes,
    /// Size of the image in bytes at the snapshot.
    pub size: u64,
    /// Time of creation.
    pub created: UTime,
    /// Number of clones of format 2.
    pub children: u32,
}

impl Decode for SnapshotInfo {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        r.versioned("snapshot", 1, |r, _| {
            let (id, purpose, name) = r.value()?;
            Ok(SnapshotInfo {
                id,
                purpose,
                name,
                size: r.u64("size")?,
                created: r.value()?,
                children: r.u32("children")?,
            })
        })
    }
}

impl Snapshot {
    /// True unless the snapshot is unprotected; also while a search for clones is in progress.
    pub fn is_protected(&self) -> bool {
        self.protection != Protection::UNPROTECTED
    }

    /// Name of the snapshot, or its former name if it was removed.
    pub(crate) fn user_name(&self) -> &str {
        match &self.purpose {
            Purpose::Trash(name) => name,
            _ => &self.name,
        }
    }

    /// True if a removal was interrupted: the snapshot is in the trash and has no clones.
    pub(crate) fn is_left_over(&self) -> bool {
        self.children == 0 && matches!(self.purpose, Purpose::Trash(_))
    }
}
