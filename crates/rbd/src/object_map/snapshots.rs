//! Maps of snapshots: what was written before each, so that differences are found without reading data.

use super::{
    MAP_INVALID, ObjectMap, State, calls, close, invalid_flags, keep, load_from, open, owned,
    update_all,
};
use crate::Features;
use crate::calls::{get_flags, output};
use crate::header::Header;
use crate::steps::{Steps, Stop, change};
use rados::{Operation, Place};
use types::SnapId;
use wire::OsdOp;

/// More than the largest map.
const LENGTH_MAX: u64 = 1 << 27;

fn place(header: &Header, snap: SnapId) -> Place {
    match snap {
        SnapId::HEAD => header.map_place(),
        snap => header.spec.pool.snapshot_map(&header.id, snap),
    }
}

pub(super) fn mark_invalid(steps: &mut Steps, header: &Header, snap: SnapId) -> Result<(), Stop> {
    let ops = || vec![calls::set_flags(invalid_flags(header), snap)];
    steps.change("marking an object map as invalid", &header.place(), ops)
}

/// The newest snapshot, which the header lists already, gets the image's map; the image's says from then on
/// what was written since.
pub(crate) fn snapshot_taken(steps: &mut Steps, header: &Header, snap: SnapId) -> Result<(), Stop> {
    if !header.has_map() {
        return Ok(());
    }
    let mut map = open(steps, header)?;
    if map.is_none() || !copy(steps, header, SnapId::HEAD, snap)? {
        mark_invalid(steps, header, snap)?;
    }
    if header.features.contains(Features::FAST_DIFF) {
        keep(steps, header, &mut map, || owned(header, calls::add_snapshot()))?;
    }
    close(steps, header)
}

/// An object comes to be in a snapshot, since a clone copies what its parent shows below all of its
/// snapshots. To all but the oldest one it has not changed since the one before.
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
    change(place(header, snap), vec![calls::update(object..object + 1, state, None)])
}

/// Whether that worked.
fn copy(steps: &mut Steps, header: &Header, from: SnapId, to: SnapId) -> Result<bool, Stop> {
    let read = || vec![OsdOp::read(0, LENGTH_MAX)];
    let Ok(reply) = steps.try_look(&place(header, from), read)? else { return Ok(false) };
    let data = reply.ops.into_iter().next().map(|op| op.output).unwrap_or_default();
    let written = steps.try_change(&place(header, to), || vec![OsdOp::write_full(data)])?;
    Ok(written.is_ok())
}

/// A snapshot goes, and its map with it. What was written before it counts as written before the next.
pub(crate) fn snapshot_removed(
    steps: &mut Steps,
    header: &Header,
    snap: SnapId,
) -> Result<(), Stop> {
    if !header.features.contains(Features::OBJECT_MAP) {
        return Ok(());
    }
    if header.features.contains(Features::FAST_DIFF) {
        hand_down(steps, header, snap)?;
    }
    // What is not there is gone already, and what stays is found by nobody.
    steps.try_change(&place(header, snap), || vec![OsdOp::remove()]).map(|_| ())
}

/// `None` if nobody may rely on it.
fn load_snapshot(
    steps: &mut Steps,
    header: &Header,
    snap: SnapId,
) -> Result<Option<ObjectMap>, Stop> {
    let what = "reading the flags of a snapshot";
    let reply = steps.look(what, &header.place(), || vec![get_flags(snap)])?;
    let flags: u64 = output(&reply, 0, "the flags of a snapshot")?;
    match flags & MAP_INVALID {
        0 => Ok(load_from(steps, &place(header, snap), 0)?.ok()),
        _ => Ok(None),
    }
}

fn hand_down(steps: &mut Steps, header: &Header, snap: SnapId) -> Result<(), Stop> {
    let newer = header.snap_context.snaps.iter().filter(|other| **other > snap);
    let heir = newer.min().copied();
    let Some(removed) = load_snapshot(steps, header, snap)? else {
        return mark_invalid(steps, header, heir.unwrap_or(SnapId::HEAD));
    };
    match heir {
        Some(heir) => {
            let ops = || vec![calls::remove_snapshot(&removed)];
            match steps.try_change(&place(header, heir), ops)? {
                Ok(_) => Ok(()),
                Err(_) => mark_invalid(steps, header, heir),
            }
        }
        None => {
            let mut map = open(steps, header)?;
            keep(steps, header, &mut map, || owned(header, calls::remove_snapshot(&removed)))?;
            close(steps, header)
        }
    }
}

/// Nobody relies on the maps of the image and of its snapshots.
pub(crate) fn mark_all_invalid(steps: &mut Steps, header: &Header) -> Result<(), Stop> {
    for snap in header.snap_context.snaps.iter().copied().chain([SnapId::HEAD]) {
        mark_invalid(steps, header, snap)?;
    }
    Ok(())
}

/// Maps that say nothing, of an image that gets the feature.
pub(crate) fn make_empty(steps: &mut Steps, header: &Header) -> Result<(), Stop> {
    mark_all_invalid(steps, header)?;
    let ops = || vec![calls::resize(header.objects())];
    // One that an earlier try has left is as good.
    steps.try_change(&header.map_place(), ops).map(|_| ())
}

/// Of an image that has lost the feature.
pub(crate) fn remove_all(steps: &mut Steps, header: &Header) -> Result<(), Stop> {
    for snap in header.snap_context.snaps.iter().copied().chain([SnapId::HEAD]) {
        let _ = steps.try_change(&place(header, snap), || vec![OsdOp::remove()])?;
        let ops = || vec![calls::clear_flags(snap)];
        steps.change("clearing flags", &header.place(), ops)?;
    }
    Ok(())
}

/// Before an image becomes what it was: any object may come to exist.
pub(crate) fn rolling_back(steps: &mut Steps, header: &Header) -> Result<(), Stop> {
    let mut map = open(steps, header)?;
    update_all(steps, header, &mut map, 0..header.objects(), State::Exists, None)
}

/// Afterwards: what exists is known again.
pub(crate) fn rolled_back(steps: &mut Steps, header: &Header, snap: SnapId) -> Result<(), Stop> {
    if !header.has_map() {
        return Ok(());
    }
    let map = load_snapshot(steps, header, snap)?;
    if let Some(map) = map.filter(|map| map.len() >= header.objects()) {
        // What differs from the newest snapshot is not known.
        let map = map.without_clean();
        let mut owner = Some(map.clone());
        keep(steps, header, &mut owner, || owned(header, calls::save(&map)))?;
    }
    close(steps, header)
}
