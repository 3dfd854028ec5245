//! Snapshots of images, as the class `rbd` keeps them in the header.

use crate::header::Header;
use crate::names::text;
use crate::steps::NamedSteps;
use crate::{Error, calls};
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result as Decoded, Writer};
use rados::{OperationReply, Steps};
use types::{Errno, SnapId, UTime};
use wire::OsdOp;

/// Snapshots that are read with one operation.
const PAGE: usize = 64;
/// Attempts to read all snapshots while others remove some.
const READS_MAX: usize = 16;

/// Purpose of a snapshot (`SnapshotNamespace`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// A user took it.
    User,
    /// It belongs to a group snapshot.
    Group,
    /// It was removed while clones exist, and is kept for them. The string is its former name.
    Trash(String),
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
    pub const UNPROTECTED: Protection = Protection(0);
    /// Protection is being removed: a search for clones is in progress.
    pub const UNPROTECTING: Protection = Protection(1);
    pub const PROTECTED: Protection = Protection(2);
}

/// A snapshot of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub id: SnapId,
    pub name: String,
    pub purpose: Purpose,
    /// Size of the image in bytes at the snapshot.
    pub size: u64,
    pub created: UTime,
    /// Number of clones of format 2, which the header counts.
    pub children: u32,
    pub protection: Protection,
    /// Bytes of the parent that it shows, if it has one.
    pub parent_overlap: Option<u64>,
}

/// `SnapshotInfo`: output of `snapshot_get`.
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

/// Name of a snapshot, or its former name if it was removed.
pub(crate) fn name(reply: &OperationReply) -> Result<String, Error> {
    let info: SnapshotInfo = calls::output(reply, 0, "a snapshot")?;
    match info.purpose {
        Purpose::Trash(name) => Ok(name),
        _ => text(info.name, "a snapshot's name"),
    }
}

/// Reads all snapshots of an image, the oldest first.
pub(crate) async fn read_all(steps: &Steps, header: &Header) -> Result<Vec<Snapshot>, Error> {
    let mut ids = header.snap_context.snaps.clone();
    for _ in 0..READS_MAX {
        match read_pages(steps, header, &ids).await? {
            Ok(snapshots) => return Ok(snapshots),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(failure(header, errno)),
        }
        let ops = vec![calls::get_snap_context()];
        let reply = steps.read_step("reading the snapshots", &header.place(), ops).await?;
        let (_, newer): (u64, Vec<SnapId>) = calls::output(&reply, 0, "the snapshots")?;
        ids = newer;
    }
    Err(failure(header, Errno::AGAIN))
}

fn failure(header: &Header, errno: Errno) -> Error {
    Error::cluster(format!("reading the snapshots of {}", header.spec), errno)
}

async fn read_pages(
    steps: &Steps,
    header: &Header,
    ids: &[SnapId],
) -> Result<Result<Vec<Snapshot>, Errno>, Error> {
    let mut snapshots = Vec::with_capacity(ids.len());
    for page in ids.chunks(PAGE) {
        let ops = page.iter().flat_map(|id| Snapshot::ops(*id)).collect();
        let reply = match steps.read(&header.place(), ops).await {
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

/// Reads one snapshot; `None` if it does not exist any more.
pub(crate) async fn read_one(
    steps: &Steps,
    header: &Header,
    id: SnapId,
) -> Result<Option<Snapshot>, Error> {
    match steps.read(&header.place(), Snapshot::ops(id).into()).await {
        Ok(reply) => Ok(Some(Snapshot::from_outputs(&reply, 0)?)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(failure(header, errno)),
    }
}

/// Finds a user's snapshot by name.
pub(crate) async fn find(steps: &Steps, header: &Header, name: &str) -> Result<Snapshot, Error> {
    let mut all = read_all(steps, header).await?.into_iter();
    let found = all.find(|snapshot| snapshot.purpose == Purpose::User && snapshot.name == name);
    found.ok_or_else(|| {
        Error::cluster(format!("there is no snapshot {}@{name}", header.spec), Errno::NOENT)
    })
}
