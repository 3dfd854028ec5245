//! Snapshots of images, as the class `rbd` keeps them in the header.

use crate::header::Header;
use crate::names::text;
use crate::steps::{Steps, Stop};
use crate::{Error, calls};
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result as Decoded, Writer};
use rados::OperationReply;
use types::{Errno, SnapId, UTime};
use wire::OsdOp;

/// Snapshots that are asked for with one operation.
const PAGE: usize = 64;
/// How often all are read again because one of them was removed meanwhile.
const READS_MAX: usize = 16;

/// Why there is a snapshot (`SnapshotNamespace`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// Somebody took it.
    User,
    /// It belongs to a snapshot of a group of images.
    Group,
    /// It was removed and is kept for its clones; the name that it had.
    Trash(String),
    Mirror,
    /// A newer client's.
    Unknown,
}

/// `SNAPSHOT_NAMESPACE_TYPE_*`
const USER: u32 = 0;
const GROUP: u32 = 1;
const TRASH: u32 = 2;
const MIRROR: u32 = 3;

/// Snapshots that users take are all that is written here.
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

/// Whether a snapshot may be removed (`RBD_PROTECTION_STATUS_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Protection(pub u8);

impl Protection {
    pub const UNPROTECTED: Protection = Protection(0);
    /// Somebody looks for clones.
    pub const UNPROTECTING: Protection = Protection(1);
    pub const PROTECTED: Protection = Protection(2);
}

/// A snapshot of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub id: SnapId,
    pub name: String,
    pub purpose: Purpose,
    /// Of the image, in bytes.
    pub size: u64,
    pub created: UTime,
    /// Clones that the header knows of: those of the second format.
    pub children: u32,
    pub protection: Protection,
    /// How much of the parent it shows, in bytes, if it has one.
    pub parent_overlap: Option<u64>,
}

/// `SnapshotInfo`, what one call tells of a snapshot.
struct SnapshotInfo {
    id: SnapId,
    purpose: Purpose,
    name: Bytes,
    size: u64,
    created: UTime,
    children: u32,
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
    pub fn is_protected(&self) -> bool {
        self.protection != Protection::UNPROTECTED
    }

    /// What it is called, or was before it was removed.
    pub(crate) fn user_name(&self) -> &str {
        match &self.purpose {
            Purpose::Trash(name) => name,
            _ => &self.name,
        }
    }

    /// Removed, and kept for no clone: an interrupted removal left it.
    pub(crate) fn is_left_over(&self) -> bool {
        self.children == 0 && matches!(self.purpose, Purpose::Trash(_))
    }

    fn ops(id: SnapId) -> [OsdOp; 3] {
        [calls::get_snapshot(id), calls::get_protection(id), calls::get_parent_overlap(id)]
    }

    fn from_outputs(reply: &OperationReply, at: usize) -> Result<Self, Error> {
        let info: SnapshotInfo = calls::output(reply, at, "a snapshot")?;
        Ok(Snapshot {
            id: info.id,
            name: text(info.name, "a snapshot's name")?,
            purpose: info.purpose,
            size: info.size,
            created: info.created,
            children: info.children,
            protection: Protection(calls::output(reply, at + 1, "the protection")?),
            parent_overlap: calls::output(reply, at + 2, "the overlap")?,
        })
    }
}

/// What a snapshot is called, or was before it was removed.
pub(crate) fn name(reply: &OperationReply) -> Result<String, Error> {
    let info: SnapshotInfo = calls::output(reply, 0, "a snapshot")?;
    match info.purpose {
        Purpose::Trash(name) => Ok(name),
        _ => text(info.name, "a snapshot's name"),
    }
}

/// All snapshots of an image, the oldest first.
pub(crate) fn read_all(steps: &mut Steps, header: &Header) -> Result<Vec<Snapshot>, Stop> {
    let mut ids = header.snap_context.snaps.clone();
    for _ in 0..READS_MAX {
        match read_pages(steps, header, &ids)? {
            Ok(snapshots) => return Ok(snapshots),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(failure(header, errno).into()),
        }
        let ops = || vec![calls::get_snap_context()];
        let reply = steps.look("reading the snapshots", &header.place(), ops)?;
        let (_, newer): (u64, Vec<SnapId>) = calls::output(&reply, 0, "the snapshots")?;
        ids = newer;
    }
    Err(failure(header, Errno::AGAIN).into())
}

fn failure(header: &Header, errno: Errno) -> Error {
    Error::cluster(format!("reading the snapshots of {}", header.spec), errno)
}

fn read_pages(
    steps: &mut Steps,
    header: &Header,
    ids: &[SnapId],
) -> Result<Result<Vec<Snapshot>, Errno>, Stop> {
    let mut snapshots = Vec::with_capacity(ids.len());
    for page in ids.chunks(PAGE) {
        let ops = || page.iter().flat_map(|id| Snapshot::ops(*id)).collect();
        let reply = match steps.try_look(&header.place(), ops)? {
            Ok(reply) => reply,
            Err(errno) => return Ok(Err(errno)),
        };
        for number in 0..page.len() {
            snapshots.push(Snapshot::from_outputs(&reply, 3 * number)?);
        }
    }
    snapshots.reverse();
    Ok(Ok(snapshots))
}

/// What is said of one snapshot by now; `None` if it is gone.
pub(crate) fn read_one(
    steps: &mut Steps,
    header: &Header,
    id: SnapId,
) -> Result<Option<Snapshot>, Stop> {
    match steps.try_look(&header.place(), || Snapshot::ops(id).into())? {
        Ok(reply) => Ok(Some(Snapshot::from_outputs(&reply, 0)?)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(failure(header, errno).into()),
    }
}

/// The snapshot that users call so.
pub(crate) fn find(steps: &mut Steps, header: &Header, name: &str) -> Result<Snapshot, Stop> {
    let mut all = read_all(steps, header)?.into_iter();
    let found = all.find(|snapshot| snapshot.purpose == Purpose::User && snapshot.name == name);
    found.ok_or_else(|| {
        Error::cluster(format!("there is no snapshot {}@{name}", header.spec), Errno::NOENT).into()
    })
}
