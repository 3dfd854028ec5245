//! Reads the snapshots of an image from its header.

use crate::header::Header;
use crate::names::text;
use crate::snapshot::{Protection, Purpose, Snapshot, SnapshotInfo};
use crate::steps::NamedSteps;
use crate::{Error, calls};
use rados::{OperationReply, Steps};
use types::{Errno, SnapId};
use wire::OsdOp;

/// Snapshots that are read with one operation.
const PAGE: usize = 64;
/// Attempts to read all snapshots while others remove some.
const READS_MAX: usize = 16;

fn ops(id: SnapId) -> [OsdOp; 3] {
    [calls::get_snapshot(id), calls::get_protection(id), calls::get_parent_overlap(id)]
}

fn from_outputs(reply: &OperationReply, at: usize) -> Result<Snapshot, Error> {
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
        let ops = page.iter().flat_map(|id| ops(*id)).collect();
        let reply = match steps.read(&header.place(), ops).await {
            Ok(reply) => reply,
            Err(errno) => return Ok(Err(errno)),
        };
        for number in 0..page.len() {
            snapshots.push(from_outputs(&reply, 3 * number)?);
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
    match steps.read(&header.place(), ops(id).into()).await {
        Ok(reply) => Ok(Some(from_outputs(&reply, 0)?)),
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
