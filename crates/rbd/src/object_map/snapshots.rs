//! Object maps of snapshots. They record which objects were written before each, so that differences are
//! found without reading data.

use super::calls::{self, MAP_INVALID};
use super::owner::{apply_or_invalidate, close, invalid_flags, load_from, open, owned, update_all};
use super::states::{ObjectMap, State};
use crate::calls::{get_flags, output};
use crate::header::Header;
use crate::steps::NamedSteps;
use crate::{Error, Features};
use rados::{Operation, Place, Steps};
use types::SnapId;
use wire::OsdOp;

/// Bound in bytes for reading a map; above the largest map possible.
const LENGTH_MAX: u64 = 1 << 27;

fn place(header: &Header, snap: SnapId) -> Place {
    match snap {
        SnapId::HEAD => header.map_place(),
        snap => header.spec.pool.snapshot_map(&header.id, snap),
    }
}

pub(super) async fn mark_invalid(
    steps: &Steps,
    header: &Header,
    snap: SnapId,
) -> Result<(), Error> {
    let ops = vec![calls::set_flags(invalid_flags(header), snap)];
    steps.write_step("marking an object map as invalid", &header.place(), ops).await
}

/// Gives the newest snapshot, which the header already lists, a copy of the image's map; then marks the
/// image's existing objects clean.
pub(crate) async fn snapshot_taken(
    steps: &Steps,
    header: &Header,
    snap: SnapId,
) -> Result<(), Error> {
    if !header.has_map() {
        return Ok(());
    }
    let mut map = open(steps, header).await?;
    if map.is_none() || !copy(steps, header, SnapId::HEAD, snap).await? {
        mark_invalid(steps, header, snap).await?;
    }
    if header.features.contains(Features::FAST_DIFF) {
        apply_or_invalidate(steps, header, &mut map, || owned(header, calls::add_snapshot()))
            .await?;
    }
    close(steps, header).await
}

/// Records that a copy-up has created an object below all snapshots of a clone. In all but the oldest
/// snapshot it is clean.
pub(crate) fn update_snapshot(
    header: &Header,
    snap: SnapId,
    object: u64,
    is_oldest: bool,
) -> Operation {
    let state = match is_oldest || !header.features.contains(Features::FAST_DIFF) {
        true => State::Exists,
        false => State::Clean,
    };
    Operation::write(place(header, snap), vec![calls::update(object..object + 1, state, None)])
}

/// Copies a map; true on success.
async fn copy(steps: &Steps, header: &Header, from: SnapId, to: SnapId) -> Result<bool, Error> {
    let read = vec![OsdOp::read(0, LENGTH_MAX)];
    let Ok(reply) = steps.read(&place(header, from), read).await else { return Ok(false) };
    let data = reply.ops.into_iter().next().map(|op| op.output).unwrap_or_default();
    let written = steps.write(&place(header, to), vec![OsdOp::write_full(data)]).await;
    Ok(written.is_ok())
}

/// Removes a snapshot's map. Objects written before it count as written before the next snapshot.
pub(crate) async fn snapshot_removed(
    steps: &Steps,
    header: &Header,
    snap: SnapId,
) -> Result<(), Error> {
    if !header.features.contains(Features::OBJECT_MAP) {
        return Ok(());
    }
    if header.features.contains(Features::FAST_DIFF) {
        merge_into_next(steps, header, snap).await?;
    }
    // A missing map is as good as removed, and one that stays is never looked up.
    let _ = steps.write(&place(header, snap), vec![OsdOp::remove()]).await;
    Ok(())
}

/// `None` if the map is invalid.
async fn load_snapshot(
    steps: &Steps,
    header: &Header,
    snap: SnapId,
) -> Result<Option<ObjectMap>, Error> {
    let what = "reading the flags of a snapshot";
    let reply = steps.read_step(what, &header.place(), vec![get_flags(snap)]).await?;
    let flags: u64 = output(&reply, 0, "the flags of a snapshot")?;
    match flags & MAP_INVALID {
        0 => Ok(load_from(steps, &place(header, snap), 0).await.ok()),
        _ => Ok(None),
    }
}

async fn merge_into_next(steps: &Steps, header: &Header, snap: SnapId) -> Result<(), Error> {
    let newer = header.snap_context.snaps.iter().filter(|other| **other > snap);
    let heir = newer.min().copied();
    let Some(removed) = load_snapshot(steps, header, snap).await? else {
        return mark_invalid(steps, header, heir.unwrap_or(SnapId::HEAD)).await;
    };
    match heir {
        Some(heir) => {
            let ops = vec![calls::remove_snapshot(&removed)];
            match steps.write(&place(header, heir), ops).await {
                Ok(_) => Ok(()),
                Err(_) => mark_invalid(steps, header, heir).await,
            }
        }
        None => {
            let mut map = open(steps, header).await?;
            apply_or_invalidate(steps, header, &mut map, || {
                owned(header, calls::remove_snapshot(&removed))
            })
            .await?;
            close(steps, header).await
        }
    }
}

/// Marks the maps of the image and of all its snapshots invalid.
pub(crate) async fn mark_all_invalid(steps: &Steps, header: &Header) -> Result<(), Error> {
    for snap in header.snap_context.snaps.iter().copied().chain([SnapId::HEAD]) {
        mark_invalid(steps, header, snap).await?;
    }
    Ok(())
}

/// Creates empty maps for an image that gets the feature.
pub(crate) async fn make_empty(steps: &Steps, header: &Header) -> Result<(), Error> {
    mark_all_invalid(steps, header).await?;
    let ops = vec![calls::resize(header.objects())];
    // A map left by an interrupted attempt will do.
    let _ = steps.write(&header.map_place(), ops).await;
    Ok(())
}

/// Removes the maps of an image that has lost the feature.
pub(crate) async fn remove_all(steps: &Steps, header: &Header) -> Result<(), Error> {
    for snap in header.snap_context.snaps.iter().copied().chain([SnapId::HEAD]) {
        let _ = steps.write(&place(header, snap), vec![OsdOp::remove()]).await;
        let ops = vec![calls::clear_flags(snap)];
        steps.write_step("clearing flags", &header.place(), ops).await?;
    }
    Ok(())
}

/// Called before a rollback, in which any object may come to exist.
pub(crate) async fn rolling_back(steps: &Steps, header: &Header) -> Result<(), Error> {
    let mut map = open(steps, header).await?;
    update_all(steps, header, &mut map, 0..header.objects(), State::Exists, None).await
}

/// Called after a rollback, when the existing objects are known again.
pub(crate) async fn rolled_back(steps: &Steps, header: &Header, snap: SnapId) -> Result<(), Error> {
    if !header.has_map() {
        return Ok(());
    }
    let map = load_snapshot(steps, header, snap).await?;
    if let Some(map) = map.filter(|map| map.len() >= header.objects()) {
        // The difference from the newest snapshot is not known.
        let map = map.without_clean();
        let mut owner = Some(map.clone());
        apply_or_invalidate(steps, header, &mut owner, || owned(header, calls::save(&map))).await?;
    }
    close(steps, header).await
}
