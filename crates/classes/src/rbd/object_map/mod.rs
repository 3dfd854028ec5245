//! The objects `rbd_object_map.<image>`: existence of an image's objects, two bits for each.

mod bits;
mod stored;
mod update;

use crate::method::{Method, methods};
use crate::object::{Failure, ObjectContext, Result};
use bits::{ObjectMap, Unchecked};
use stored::{read, state, write};
use types::Errno;

pub(super) const METHODS: &[Method] = methods! {
    "object_map_update": READ_WRITE => update::update,
    "object_map_load": READ => load,
    "object_map_save": READ_WRITE => save,
    "object_map_resize": READ_WRITE => resize,
    "object_map_snap_add": READ_WRITE => add_snapshot,
    "object_map_snap_remove": READ_WRITE => remove_snapshot,
};

/// Objects in a map at most (`MAX_OBJECT_MAP_OBJECT_COUNT`).
const OBJECTS_MAX: u64 = 256_000_000;

/// The client gets it without checksums, which would protect nothing on the way.
fn load(object: &mut dyn ObjectContext, (): ()) -> Result<Unchecked> {
    read(object).map(Unchecked)
}

fn save(object: &mut dyn ObjectContext, map: ObjectMap) -> Result<()> {
    write(object, &map)
}

/// Objects that are cut off must be in the state that new ones would get.
fn resize(object: &mut dyn ObjectContext, (count, default): (u64, u8)) -> Result<()> {
    if count > OBJECTS_MAX {
        return Err(Errno::INVAL.into());
    }
    let mut map = match read(object) {
        Err(Failure::Errno(Errno::NOENT)) => ObjectMap::default(),
        outcome => outcome?,
    };
    let old = map.len();
    if (count..old).any(|number| map.get(number) != default) {
        return Err(Errno::STALE.into());
    }
    map.resize(count);
    map.fill(old..count, default);
    write(object, &map)
}

/// Existing objects become clean at the new snapshot.
fn add_snapshot(object: &mut dyn ObjectContext, (): ()) -> Result<()> {
    let mut map = read(object)?;
    let changed =
        map.replace(|_, old| if old == state::EXISTS { state::EXISTS_CLEAN } else { old });
    if changed { write(object, &map) } else { Ok(()) }
}

/// Objects changed between the removed snapshot and its predecessor count as changed since the predecessor.
fn remove_snapshot(object: &mut dyn ObjectContext, removed: ObjectMap) -> Result<()> {
    let mut map = read(object)?;
    let changed = map.replace(|number, old| {
        let changed_before = number >= removed.len() || removed.get(number) == state::EXISTS;
        if old == state::EXISTS_CLEAN && changed_before { state::EXISTS } else { old }
    });
    if changed { write(object, &map) } else { Ok(()) }
}
