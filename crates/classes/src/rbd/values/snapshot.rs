//! Snapshots of an image, with their namespaces.

use super::Parent;
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use std::collections::{BTreeMap, BTreeSet};
use types::{SnapId, UTime};

/// `SnapshotNamespaceType`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NamespaceKind(pub u32);

impl NamespaceKind {
    /// `SNAPSHOT_NAMESPACE_TYPE_USER`
    pub const USER: NamespaceKind = NamespaceKind(0);
    /// `SNAPSHOT_NAMESPACE_TYPE_GROUP`
    pub const GROUP: NamespaceKind = NamespaceKind(1);
    /// `SNAPSHOT_NAMESPACE_TYPE_TRASH`
    pub const TRASH: NamespaceKind = NamespaceKind(2);
    /// `SNAPSHOT_NAMESPACE_TYPE_MIRROR`
    pub const MIRROR: NamespaceKind = NamespaceKind(3);
    /// Not stored: a kind that this class does not know.
    pub const UNKNOWN: NamespaceKind = NamespaceKind(u32::MAX);
}

/// `MirrorSnapshotNamespace`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MirrorNamespace {
    /// `MIRROR_SNAPSHOT_STATE_*`
    pub state: u8,
    /// True if the copy is complete.
    pub complete: bool,
    /// Mirroring ids of the peers that still need the snapshot.
    pub peers: BTreeSet<Bytes>,
    /// Mirroring id of the primary site, if the image is a copy.
    pub primary: Bytes,
    /// The primary's snapshot that this one is a copy of.
    pub primary_snapshot: SnapId,
    /// Number of objects copied so far.
    pub last_copied_object: u64,
    /// Snapshot ids of the primary with those of this image.
    pub sequences: BTreeMap<u64, u64>,
}

impl MirrorNamespace {
    /// `MIRROR_SNAPSHOT_STATE_NON_PRIMARY` and `…_NON_PRIMARY_DEMOTED`
    pub fn is_non_primary(&self) -> bool {
        matches!(self.state, 2 | 3)
    }
}

impl Encode for MirrorNamespace {
    fn encode(&self, w: &mut Writer) {
        w.u8(self.state);
        w.bool(self.complete);
        w.value(&self.peers);
        w.value(&self.primary);
        w.value(&self.primary_snapshot);
        w.u64(self.last_copied_object);
        w.value(&self.sequences);
    }
}

impl Decode for MirrorNamespace {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(MirrorNamespace {
            state: r.u8("mirror snapshot state")?,
            complete: r.bool("complete")?,
            peers: r.value()?,
            primary: r.value()?,
            primary_snapshot: r.value()?,
            last_copied_object: r.u64("last copied object")?,
            sequences: r.value()?,
        })
    }
}

/// `SnapshotNamespace`: the purpose of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Namespace {
    #[default]
    User,
    Group {
        pool: i64,
        group: Bytes,
        snapshot: Bytes,
    },
    Trash {
        name: Bytes,
        kind: NamespaceKind,
    },
    Mirror(MirrorNamespace),
    /// A namespace of a newer client.
    Unknown,
}

impl Namespace {
    /// Kind of the namespace.
    pub fn kind(&self) -> NamespaceKind {
        match self {
            Namespace::User => NamespaceKind::USER,
            Namespace::Group { .. } => NamespaceKind::GROUP,
            Namespace::Trash { .. } => NamespaceKind::TRASH,
            Namespace::Mirror(_) => NamespaceKind::MIRROR,
            Namespace::Unknown => NamespaceKind::UNKNOWN,
        }
    }

    /// True if two snapshots may not have the same name. Names in the trash namespace are generated.
    pub fn is_same_as(&self, other: &Namespace) -> bool {
        self == other || self.kind() == NamespaceKind::TRASH && other.kind() == NamespaceKind::TRASH
    }
}

impl Encode for Namespace {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.u32(self.kind().0);
            match self {
                Namespace::User | Namespace::Unknown => {}
                Namespace::Group { pool, group, snapshot } => {
                    w.i64(*pool);
                    w.value(group);
                    w.value(snapshot);
                }
                Namespace::Trash { name, kind } => {
                    w.value(name);
                    w.u32(kind.0);
                }
                Namespace::Mirror(mirror) => w.value(mirror),
            }
        });
    }
}

impl Decode for Namespace {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("snapshot namespace", 1, |r, _| {
            Ok(match NamespaceKind(r.u32("kind")?) {
                NamespaceKind::USER => Namespace::User,
                NamespaceKind::GROUP => {
                    let (pool, group, snapshot) = r.value()?;
                    Namespace::Group { pool, group, snapshot }
                }
                NamespaceKind::TRASH => {
                    let name = r.value()?;
                    Namespace::Trash { name, kind: NamespaceKind(r.u32("original kind")?) }
                }
                NamespaceKind::MIRROR => Namespace::Mirror(r.value()?),
                _ => Namespace::Unknown,
            })
        })
    }
}

/// `cls_rbd_snap`: a snapshot as it is stored in the image's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// Id of the snapshot.
    pub id: SnapId,
    /// Name of the snapshot.
    pub name: Bytes,
    /// Size of the image in bytes at the snapshot.
    pub image_size: u64,
    /// `RBD_PROTECTION_STATUS_*`
    pub protection: u8,
    /// `RBD_FLAG_*`
    pub flags: u64,
    /// Purpose of the snapshot.
    pub namespace: Namespace,
    /// Time of creation.
    pub timestamp: UTime,
    /// Number of clones of format 2.
    pub children: u32,
    /// Bytes of the parent that it shows, if that differs from the image's overlap.
    pub overlap: Option<u64>,
    /// Snapshots written before version 8 name the parent themselves; for later ones the header does. Not
    /// stored again.
    pub parent: Option<Parent>,
}

/// The version that left the parent to the header.
const WITHOUT_PARENT: u8 = 8;

impl Snapshot {
    /// Bytes of the parent that the snapshot shows.
    pub fn parent_overlap(&self) -> Option<u64> {
        self.overlap.or(self.parent.as_ref().and_then(|parent| parent.overlap))
    }

    /// True if the snapshot shows a parent.
    pub fn has_parent(&self) -> bool {
        self.overlap.is_some() || self.parent.is_some()
    }
}

impl Encode for Snapshot {
    fn encode(&self, w: &mut Writer) {
        w.versioned(WITHOUT_PARENT, WITHOUT_PARENT, |w| {
            w.value(&self.id);
            w.value(&self.name);
            w.u64(self.image_size);
            w.u8(self.protection);
            w.u64(self.flags);
            w.value(&self.namespace);
            w.value(&self.timestamp);
            w.u32(self.children);
            w.value(&self.overlap);
        });
    }
}

impl Decode for Snapshot {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        // Later fields depend on the compat version, which `versioned` checks.
        let mut header = *r;
        let (_, compat) = (header.u8("version")?, header.u8("compat")?);
        r.versioned("snapshot", WITHOUT_PARENT, |r, version| {
            let (id, name, image_size) = r.value()?;
            let mut parent = None;
            if compat < WITHOUT_PARENT {
                r.skip("unused features", 8)?;
                if version >= 2 {
                    parent = Some(r.value::<Parent>()?).filter(|parent| parent.spec.exists());
                }
            }
            Ok(Snapshot {
                id,
                name,
                image_size,
                protection: if version >= 3 { r.u8("protection")? } else { 0 },
                flags: if version >= 4 { r.u64("flags")? } else { 0 },
                namespace: if version >= 5 { r.value()? } else { Namespace::User },
                timestamp: if version >= 6 { r.value()? } else { UTime::ZERO },
                children: if version >= 7 { r.u32("children")? } else { 0 },
                overlap: if version >= 8 { r.value()? } else { None },
                parent,
            })
        })
    }
}

/// `SnapshotInfo`: a snapshot as clients see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SnapshotInfo(pub Snapshot);

impl Encode for SnapshotInfo {
    fn encode(&self, w: &mut Writer) {
        let SnapshotInfo(snapshot) = self;
        w.versioned(1, 1, |w| {
            w.value(&snapshot.id);
            w.value(&snapshot.namespace);
            w.value(&snapshot.name);
            w.u64(snapshot.image_size);
            w.value(&snapshot.timestamp);
            w.u32(snapshot.children);
        });
    }
}
