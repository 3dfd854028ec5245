//! Each object has exactly the clones of its snapshot set, as the set describes them; each is in the index;
//! and removed snapshots leave no clones.

use super::stores::Stores;
use crate::groups::{all_groups, copies};
use crate::names::POOL;
use crate::world::World;
use pg::snaps::{SNAPSET_ATTR, SnapClone, SnapSet, index_key};
use pg::{INFO_ATTR, ObjectInfo, is_meta_object, meta_object};
use std::collections::BTreeSet;
use store::Collection;
use store::mem::{MemObject, MemStore};
use types::{HObject, ShardId, SnapId};

/// True once all confirmed removals are complete.
pub fn are_purged(world: &World) -> bool {
    world.newest_map().is_some_and(|map| map.removed_snaps_queue.is_empty())
}

/// Checks the clones of every object, and their index.
pub fn check(world: &World, stores: &Stores) -> Result<(), String> {
    let map = world.newest_map().expect("all is healed");
    let is_removed = |snap: SnapId| world.records.snapshots.is_removed(snap);
    let pool = map.pool_id(POOL);
    for pg in all_groups(map).into_iter().filter(|pg| Some(pg.pool) == pool) {
        for (osd, copy) in copies(map, pg) {
            let is_damaged = |name: &HObject| stores.is_damaged(osd, name);
            check_copy(stores.of(osd), copy, is_removed, is_damaged)
                .map_err(|why| format!("{pg} on osd.{osd}: {why}"))?;
        }
    }
    Ok(())
}

fn check_copy(
    store: &MemStore,
    collection: Collection,
    is_removed: impl Fn(SnapId) -> bool,
    is_damaged: impl Fn(&HObject) -> bool,
) -> Result<(), String> {
    let index = store.object(collection, &meta_object(collection.0.pg)).map(|meta| &meta.omap);
    let is_shard = collection.0.shard != ShardId::NONE;
    let mut named: BTreeSet<HObject> = BTreeSet::new();
    for (head, object) in store.objects(collection).filter(|(name, _)| name.snap == SnapId::HEAD) {
        if is_meta_object(head) {
            continue;
        }
        let set = object.attrs.get(&SNAPSET_ATTR);
        let set = set.map(|set| codec::decode_all::<SnapSet>("snapset", set));
        let set = set.transpose().map_err(|error| format!("{head}: {error}"))?.unwrap_or_default();
        if info(object)?.is_whiteout && set.clones.is_empty() {
            return Err(format!("{head} is a whiteout without clones"));
        }
        for clone in &set.clones {
            let name = head.at(clone.id);
            // Another checker compares the lengths of shards.
            check_clone(clone, store.object(collection, &name), is_shard || is_damaged(&name))
                .map_err(|why| format!("{name} of {set:?}: {why}"))?;
            if let Some(snap) = clone.snaps.iter().find(|snap| is_removed(**snap)) {
                return Err(format!("{name} is kept for {snap:?}, which was removed"));
            }
            let is_indexed = |snap: &SnapId| {
                index.is_some_and(|index| index.contains_key(&index_key(*snap, &name)))
            };
            if !clone.snaps.iter().all(is_indexed) {
                return Err(format!("{name} is not in the index"));
            }
            named.insert(name);
        }
    }
    let mut clones = store.objects(collection).map(|(name, _)| name).filter(|name| name.is_clone());
    match clones.find(|clone| !named.contains(clone)) {
        Some(clone) => Err(format!("{clone} belongs to no object")),
        None => Ok(()),
    }
}

pub(super) fn info(object: &MemObject) -> Result<ObjectInfo, String> {
    let info = object.attrs.get(&INFO_ATTR).ok_or("it has no info")?;
    codec::decode_all("info", info).map_err(|error| error.to_string())
}

/// The data of a damaged clone is unknown.
fn check_clone(
    clone: &SnapClone,
    object: Option<&MemObject>,
    is_damaged: bool,
) -> Result<(), String> {
    let object = object.ok_or("it is not there")?;
    let info = info(object)?;
    if !is_damaged && object.data.size() != clone.size || info.size != clone.size {
        return Err(format!("its size is {} or {}", object.data.size(), info.size));
    }
    if info.version != clone.version {
        return Err(format!("its version is {}", info.version));
    }
    match clone.overlap.iter().last() {
        Some((at, length)) if at + length > clone.size => Err("it shares what it has not".into()),
        _ => Ok(()),
    }
}
