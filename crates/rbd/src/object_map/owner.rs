//! The map of the image itself, as the owner of the exclusive lock keeps it.

use super::calls::{self, DIFF_INVALID, MAP_INVALID};
use super::states::{ObjectMap, State};
use crate::calls::output;
use crate::header::Header;
use crate::lock::{self, LockIdentity};
use crate::steps::NamedSteps;
use crate::{Error, Features};
use rados::{Operation, Place, Steps};
use std::ops::Range;
use types::{Errno, SnapId};
use wire::OsdOp;

impl Header {
    /// Location of the map of the image, or of the snapshot that this header shows.
    pub(crate) fn map_place(&self) -> Place {
        match self.snap {
            SnapId::HEAD => self.spec.pool.object_map(&self.id),
            snap => self.spec.pool.snapshot_map(&self.id, snap),
        }
    }

    /// True if the image has an object map and it is valid.
    pub fn has_map(&self) -> bool {
        self.features.contains(Features::OBJECT_MAP) && self.flags & MAP_INVALID == 0
    }
}

/// Updates the state of a range of objects, as owner of the map.
pub(crate) fn update(
    header: &Header,
    objects: Range<u64>,
    new: State,
    old: Option<State>,
) -> Operation {
    owned(header, calls::update(objects, new, old))
}

pub(super) fn owned(header: &Header, op: OsdOp) -> Operation {
    Operation::write(header.map_place(), vec![lock::assert_locked(&LockIdentity::NONE), op])
}

/// Marks the map invalid in the header.
pub(crate) fn invalidate(header: &Header) -> Operation {
    Operation::write(header.place(), vec![calls::set_flags(invalid_flags(header), SnapId::HEAD)])
}

pub(super) fn invalid_flags(header: &Header) -> u64 {
    match header.features.contains(Features::FAST_DIFF) {
        true => MAP_INVALID | DIFF_INVALID,
        false => MAP_INVALID,
    }
}

/// Takes the map over from the previous owner of the image's lock, and reads it. `None` if there is no valid
/// map, or if it had to be marked invalid.
pub(crate) async fn open(steps: &Steps, header: &Header) -> Result<Option<ObjectMap>, Error> {
    if !header.has_map() {
        return Ok(None);
    }
    let map = match lock::take_over(steps, &header.map_place()).await? {
        Ok(()) => load(steps, header).await,
        Err(errno) => Err(errno),
    };
    match map {
        Ok(map) => Ok(Some(map)),
        Err(Errno::BLOCKLISTED) => Err(lock::blocklisted(header)),
        Err(errno) => {
            let image = &header.spec;
            tracing::warn!(%image, %errno, "the object map cannot be used and is marked invalid");
            mark_invalid(steps, header).await?;
            Ok(None)
        }
    }
}

/// Reads the map without owning it.
pub(crate) async fn load(steps: &Steps, header: &Header) -> Result<ObjectMap, Errno> {
    load_from(steps, &header.map_place(), header.objects()).await
}

pub(super) async fn load_from(
    steps: &Steps,
    place: &Place,
    objects: u64,
) -> Result<ObjectMap, Errno> {
    let reply = steps.read(place, vec![calls::load()]).await?;
    let map: ObjectMap = output(&reply, 0, "the object map").map_err(|_| Errno::INVAL)?;
    // A resize that was interrupted leaves a map that is too long.
    if map.len() >= objects { Ok(map) } else { Err(Errno::RANGE) }
}

async fn mark_invalid(steps: &Steps, header: &Header) -> Result<(), Error> {
    let ops = invalidate(header).ops;
    steps.write_step("marking the object map as invalid", &header.place(), ops).await
}

/// Releases the map. A failure is left to the next owner.
pub(crate) async fn close(steps: &Steps, header: &Header) -> Result<(), Error> {
    if header.features.contains(Features::OBJECT_MAP) {
        let _ = steps.write(&header.map_place(), vec![lock::unlock(&LockIdentity::NONE)]).await;
    }
    Ok(())
}

/// Applies a change by a task that owns the map; marks the map invalid if the change fails.
pub(super) async fn apply_or_invalidate(
    steps: &Steps,
    header: &Header,
    map: &mut Option<ObjectMap>,
    operation: impl FnOnce() -> Operation,
) -> Result<(), Error> {
    if map.is_none() {
        return Ok(());
    }
    match steps.write(&header.map_place(), operation().ops).await {
        Ok(_) => Ok(()),
        Err(Errno::BLOCKLISTED) => Err(lock::blocklisted(header)),
        Err(errno) if matches!(errno, Errno::NOSPC | Errno::DQUOT) => {
            Err(Error::cluster("updating the object map", errno))
        }
        Err(_) => {
            *map = None;
            mark_invalid(steps, header).await
        }
    }
}

/// Sets the number of objects.
pub(crate) async fn resize(
    steps: &Steps,
    header: &Header,
    map: &mut Option<ObjectMap>,
    objects: u64,
) -> Result<(), Error> {
    apply_or_invalidate(steps, header, map, || owned(header, calls::resize(objects))).await
}

/// Changes all objects that are in one state to another.
pub(crate) async fn update_all(
    steps: &Steps,
    header: &Header,
    map: &mut Option<ObjectMap>,
    objects: Range<u64>,
    new: State,
    old: Option<State>,
) -> Result<(), Error> {
    match objects.is_empty() {
        true => Ok(()),
        false => {
            apply_or_invalidate(steps, header, map, || update(header, objects, new, old)).await
        }
    }
}
