//! Calls of the class `rbd` that maintain object maps.

use super::states::{ObjectMap, State};
use crate::calls::call;
use codec::{Encode, Writer};
use std::ops::Range;
use types::SnapId;
use wire::OsdOp;

/// `RBD_FLAG_OBJECT_MAP_INVALID`
pub(super) const MAP_INVALID: u64 = 1 << 0;
/// `RBD_FLAG_FAST_DIFF_INVALID`
pub(super) const DIFF_INVALID: u64 = 1 << 1;

/// Sets flags of the image or of a snapshot (`RBD_FLAG_*`).
pub(super) fn set_flags(flags: u64, snap: SnapId) -> OsdOp {
    call("set_flags", &(flags, flags, snap))
}

/// Clears flags of the object map (`RBD_FLAG_*`).
pub(super) fn clear_flags(snap: SnapId) -> OsdOp {
    call("set_flags", &(0u64, MAP_INVALID | DIFF_INVALID, snap))
}

/// Reads the map, without checksums.
pub(crate) fn load() -> OsdOp {
    call("object_map_load", &())
}

struct Saved<'a>(&'a ObjectMap);

impl Encode for Saved<'_> {
    fn encode(&self, w: &mut Writer) {
        self.0.encode_unchecked(w);
    }
}

pub(super) fn save(map: &ObjectMap) -> OsdOp {
    call("object_map_save", &Saved(map))
}

/// New objects get the state nonexistent. Objects that are cut off must be nonexistent already.
pub(crate) fn resize(objects: u64) -> OsdOp {
    call("object_map_resize", &(objects, State::Nonexistent as u8))
}

/// Changes the state of objects that are in the state `old`, or of all.
pub(crate) fn update(objects: Range<u64>, new: State, old: Option<State>) -> OsdOp {
    let old = old.map(|state| state as u8);
    call("object_map_update", &(objects.start, objects.end, new as u8, old))
}

/// Marks existing objects as clean: not written since the newest snapshot.
pub(super) fn add_snapshot() -> OsdOp {
    call("object_map_snap_add", &())
}

/// Merges the map of a removed snapshot: objects written before it count as written after the snapshot before
/// it.
pub(super) fn remove_snapshot(removed: &ObjectMap) -> OsdOp {
    call("object_map_snap_remove", &Saved(removed))
}
