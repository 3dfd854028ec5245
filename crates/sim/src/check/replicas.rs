//! All members of a placement group hold identical objects.
//!
//! Compares the durable state of a quiescent cluster. Another checker covers the object that holds a
//! group's log.

use super::stores::Stores;
use crate::groups::all_groups;
use crate::world::World;
use pg::is_meta_object;
use store::Collection;
use store::mem::MemObject;
use types::{HObject, OsdId, PgId};

/// Checks that all copies of every group are equal.
pub fn check(world: &World, stores: &Stores) -> Result<(), String> {
    let map = world.newest_map().expect("all is healed");
    let is_whole = |pg: &PgId| map.pool(pg.pool).is_some_and(maps::Pool::is_replicated);
    for pg in all_groups(map).into_iter().filter(is_whole) {
        let acting = map.pg_to_osds(pg).acting;
        if acting.len() < world.scenario.cluster.size.into() {
            return Err(format!("{pg} has only {acting:?} although all OSDs run"));
        }
        let (first, others) = acting.split_first().expect("there are members");
        for other in others {
            check_pair(stores, pg, *first, *other)?;
        }
    }
    Ok(())
}

fn check_pair(stores: &Stores, pg: PgId, a: OsdId, b: OsdId) -> Result<(), String> {
    let objects = |osd| -> Vec<(&HObject, &MemObject)> {
        let store = stores.of(osd).objects(Collection::replicated(pg));
        store.filter(|(name, _)| !is_meta_object(name)).collect()
    };
    let (of_a, of_b) = (objects(a), objects(b));
    let names = |of: &[(&HObject, &MemObject)]| -> Vec<HObject> {
        of.iter().map(|(name, _)| (*name).clone()).collect()
    };
    if names(&of_a) != names(&of_b) {
        let (a_names, b_names) = (names(&of_a), names(&of_b));
        return Err(format!("{pg}: osd.{a} has {a_names:?}, osd.{b} has {b_names:?}"));
    }
    for ((name, in_a), (_, in_b)) in of_a.iter().zip(&of_b) {
        let is_damaged = stores.is_damaged(a, name) || stores.is_damaged(b, name);
        if !is_equal(in_a, in_b, is_damaged) {
            return Err(format!("{pg}: {name} is {in_a:?} on osd.{a} and {in_b:?} on osd.{b}"));
        }
    }
    Ok(())
}

/// The division into extents and the storage of zeros may differ. The data of a damaged object is unknown.
fn is_equal(a: &MemObject, b: &MemObject, is_damaged: bool) -> bool {
    let data = |object: &MemObject| object.data.read(0, object.data.size()).data;
    let same_pairs = a.attrs == b.attrs && a.omap == b.omap && a.omap_header == b.omap_header;
    same_pairs && (is_damaged || a.data.size() == b.data.size() && data(a) == data(b))
}
