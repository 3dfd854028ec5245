//! Stores that lose data silently: a clone, or index entries of one.

use crate::groups::copies;
use crate::names::POOL;
use crate::node::NodeId;
use crate::world::World;
use bytes::Bytes;
use engine::Storage;
use pg::snaps::{SNAPSET_ATTR, SnapSet, index_pairs};
use pg::{Pg, is_meta_object, meta_object};
use std::collections::{BTreeMap, BTreeSet};
use store::mem::MemStore;
use store::{Change, Collection, Request, RequestKind, Transaction};
use types::{HObject, OsdId};

/// A running OSD loses the index entries of an object's clones, during other faults.
pub(super) fn unindex(world: &mut World) {
    let mut nodes = world.cast.osds.clone();
    let first = world.injection.prng().below(nodes.len() as u64) as usize;
    nodes.rotate_left(first);
    for node in nodes {
        let Some((id, copy, keys)) = find_indexed(world, node) else { continue };
        let pg = copy.0;
        world.line(format_args!("osd.{id} loses what its index has of clones in {pg}"));
        let keys = keys.into_iter().collect();
        let change = Change::OmapRemove { object: meta_object(pg.pg), keys };
        return lose(world, node, vec![(copy, change)]);
    }
}

fn find_indexed(world: &World, node: NodeId) -> Option<(OsdId, Collection, BTreeSet<Bytes>)> {
    let osd = world.nodes.osd(node)?;
    let durable = osd.disk().durable(world.clock(node)).ok()?;
    let mut copies = osd.groups().map(Pg::collection);
    copies.find_map(|copy| Some((osd.id(), copy, indexed_for_good(&durable.store, copy)?)))
}

/// A store loses data without its OSD's knowledge. No daemon waits for the completion.
fn lose(world: &mut World, node: NodeId, changes: Vec<(Collection, Change)>) {
    world.disks.note_omitted();
    let kind = RequestKind::Commit(Transaction { changes });
    let request = Request { token: u64::MAX, kind };
    world.with_store(node, |store, now| {
        store.submit(now, request);
        store.end_turn(now);
    });
    world.touch(node);
}

/// The first OSD with clones loses one, if there are other copies, and all index entries of an object.
/// Called in a quiescent cluster. Returns true if any loss happened.
pub fn omit(world: &mut World) -> Result<bool, String> {
    for node in world.cast.osds.clone() {
        let clock = world.clock(node);
        let Some(osd) = world.nodes.osd(node) else { continue };
        let (id, durable) = (osd.id(), osd.disk().durable(clock)?);
        let Some(map) = world.newest_map() else { continue };
        let Some(pool) = map.pool_id(POOL) else { continue };
        let copies = map.pgs(pool).flat_map(|pg| copies(map, pg));
        let found = copies.filter(|(osd, _)| *osd == id).find_map(|(_, copy)| {
            let (head, set) = family(&durable.store, copy)?;
            Some((copy, head, set))
        });
        let Some((copy, head, set)) = found else { continue };
        world.line(format_args!("osd.{id} loses clones of {head}"));
        let keys = index_pairs(&head, &set).into_keys().collect();
        let mut changes = vec![Change::OmapRemove { object: meta_object(copy.0.pg), keys }];
        if world.scenario.cluster.size > 1 {
            changes.push(Change::Remove { object: head.at(set.clones[0].id) });
        }
        let changes = changes.into_iter().map(|change| (copy, change));
        lose(world, node, changes.collect());
        return Ok(true);
    }
    Ok(false)
}

/// Index entries of clones that no removal of a snapshot needs.
fn indexed_for_good(store: &MemStore, copy: Collection) -> Option<BTreeSet<Bytes>> {
    let (head, mut set) = family(store, copy)?;
    let mut keys = BTreeSet::new();
    for clone in &mut set.clones {
        // The other snapshots may be removed; see `Snapshots`.
        clone.snaps.retain(|snap| snap.0.is_multiple_of(2));
    }
    keys.extend(index_pairs(&head, &set).into_keys());
    (!keys.is_empty()).then_some(keys)
}

/// An object that has clones.
fn family(store: &MemStore, copy: Collection) -> Option<(HObject, SnapSet)> {
    let mut objects: BTreeMap<_, _> = store.objects(copy).collect();
    objects.retain(|name, _| !is_meta_object(name));
    objects.into_iter().find_map(|(name, object)| {
        let set: SnapSet = codec::decode_all("snapset", object.attrs.get(&SNAPSET_ATTR)?).ok()?;
        (!set.clones.is_empty()).then(|| (name.clone(), set))
    })
}
