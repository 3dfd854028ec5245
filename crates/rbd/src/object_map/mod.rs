//! The object map of an image: two bits for each data object, in an object of its own, kept up by the
//! owner of the exclusive lock.
//!
//! An object that the map does not know exists nowhere, so it is neither read nor removed. Therefore
//! the map says that an object exists before it is written, and that it does not exist only after it was
//! removed; in between it is *pending*. A map that cannot be kept up is marked as invalid in the header, and
//! nobody relies on it until it is made anew.

pub(crate) mod calls;
mod examine;
mod snapshots;
mod states;

pub use examine::{MapFindings, Mismatch};
pub(crate) use examine::{check, rebuild};
pub(crate) use snapshots::{
    make_empty, mark_all_invalid, remove_all, rolled_back, rolling_back, snapshot_removed,
    snapshot_taken, update_snapshot,
};
pub use states::{ObjectMap, State};

use crate::calls::output;
use crate::header::Header;
use crate::lock::{self, Badge};
use crate::steps::{Steps, Stop, change};
use crate::{Error, Features};
use rados::{Operation, Place};
use std::ops::Range;
use types::{Errno, SnapId};
use wire::OsdOp;

/// `RBD_FLAG_OBJECT_MAP_INVALID`
const MAP_INVALID: u64 = 1 << 0;
/// `RBD_FLAG_FAST_DIFF_INVALID`
const DIFF_INVALID: u64 = 1 << 1;

impl Header {
    /// Of the image, or of the snapshot that this shows.
    pub(crate) fn map_place(&self) -> Place {
        match self.snap {
            SnapId::HEAD => self.spec.pool.object_map(&self.id),
            snap => self.spec.pool.snapshot_map(&self.id, snap),
        }
    }

    /// Whether there is a map that says the truth.
    pub fn has_map(&self) -> bool {
        self.features.contains(Features::OBJECT_MAP) && self.flags & MAP_INVALID == 0
    }
}

/// Changes the states of some objects, as the owner of the map.
pub(crate) fn update(
    header: &Header,
    objects: Range<u64>,
    new: State,
    old: Option<State>,
) -> Operation {
    owned(header, calls::update(objects, new, old))
}

fn owned(header: &Header, op: OsdOp) -> Operation {
    change(header.map_place(), vec![lock::assert_locked(&Badge::NONE), op])
}

/// Says in the header that nobody may rely on the map.
pub(crate) fn invalidate(header: &Header) -> Operation {
    change(header.place(), vec![calls::set_flags(invalid_flags(header), SnapId::HEAD)])
}

fn invalid_flags(header: &Header) -> u64 {
    match header.features.contains(Features::FAST_DIFF) {
        true => MAP_INVALID | DIFF_INVALID,
        false => MAP_INVALID,
    }
}

/// Takes the map over from whoever had the image's lock before, and reads it. `None` if there is none to
/// rely on, from now on at least.
pub(crate) fn open(steps: &mut Steps, header: &Header) -> Result<Option<ObjectMap>, Stop> {
    if !header.has_map() {
        return Ok(None);
    }
    let map = match lock::seize(steps, &header.map_place())? {
        Ok(()) => load(steps, header)?,
        Err(errno) => Err(errno),
    };
    match map {
        Ok(map) => Ok(Some(map)),
        Err(Errno::BLOCKLISTED) => Err(lock::blocklisted(header).into()),
        Err(errno) => {
            let image = &header.spec;
            tracing::warn!(%image, %errno, "the object map cannot be used and becomes invalid");
            mark_invalid(steps, header)?;
            Ok(None)
        }
    }
}

/// The map as it is, whoever owns it.
pub(crate) fn load(steps: &mut Steps, header: &Header) -> Result<Result<ObjectMap, Errno>, Stop> {
    load_from(steps, &header.map_place(), header.objects())
}

fn load_from(
    steps: &mut Steps,
    place: &Place,
    objects: u64,
) -> Result<Result<ObjectMap, Errno>, Stop> {
    let reply = steps.try_look(place, || vec![calls::load()])?;
    Ok(reply.and_then(|reply| {
        let map: ObjectMap = output(&reply, 0, "the object map").map_err(|_| Errno::INVAL)?;
        // One that is too long was left by a resize that was not finished.
        if map.len() >= objects { Ok(map) } else { Err(Errno::RANGE) }
    }))
}

fn mark_invalid(steps: &mut Steps, header: &Header) -> Result<(), Stop> {
    let ops = || invalidate(header).ops;
    steps.change("marking the object map as invalid", &header.place(), ops)
}

/// Lets others have the map. What does not work is the next owner's to deal with.
pub(crate) fn close(steps: &mut Steps, header: &Header) -> Result<(), Stop> {
    if header.features.contains(Features::OBJECT_MAP) {
        let _ = steps.try_change(&header.map_place(), || vec![lock::unlock(&Badge::NONE)])?;
    }
    Ok(())
}

/// A change of the map by a task that owns it. Without success there is no map any more.
fn keep(
    steps: &mut Steps,
    header: &Header,
    map: &mut Option<ObjectMap>,
    operation: impl FnOnce() -> Operation,
) -> Result<(), Stop> {
    if map.is_none() {
        return Ok(());
    }
    match steps.try_change(&header.map_place(), || operation().ops)? {
        Ok(_) => Ok(()),
        Err(Errno::BLOCKLISTED) => Err(lock::blocklisted(header).into()),
        Err(errno) if matches!(errno, Errno::NOSPC | Errno::DQUOT) => {
            Err(Error::cluster("keeping up the object map", errno).into())
        }
        Err(_) => {
            *map = None;
            mark_invalid(steps, header)
        }
    }
}

/// There are this many objects.
pub(crate) fn resize(
    steps: &mut Steps,
    header: &Header,
    map: &mut Option<ObjectMap>,
    objects: u64,
) -> Result<(), Stop> {
    keep(steps, header, map, || owned(header, calls::resize(objects)))
}

/// All of these objects change from one state to another.
pub(crate) fn update_all(
    steps: &mut Steps,
    header: &Header,
    map: &mut Option<ObjectMap>,
    objects: Range<u64>,
    new: State,
    old: Option<State>,
) -> Result<(), Stop> {
    match objects.is_empty() {
        true => Ok(()),
        false => keep(steps, header, map, || update(header, objects, new, old)),
    }
}
