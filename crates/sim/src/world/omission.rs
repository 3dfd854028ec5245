//! Stores that lose data silently: a clone, or index entries of one.

use super::{Body, World};
use crate::cluster;
use crate::network::NodeId;
use crate::process::Disk;
use bytes::Bytes;
use engine::Storage;
use osd::Osd;
use pg::snaps::{SNAPSET_ATTR, SnapSet, index_pairs};
use pg::{Pg, is_meta_object, meta_object};
use std::collections::{BTreeMap, BTreeSet};
use store::mem::MemStore;
use store::{Change, Collection, Request, RequestKind, Transaction};
use types::{HObject, OsdId, PgId};

impl World {
    /// A running OSD loses the index entries of an object's clones, during other faults.
    pub(super) fn unindex(&mut self) {
        let mut nodes = self.cast.osds.clone();
        let first = self.fault_prng.below(nodes.len() as u64) as usize;
        nodes.rotate_left(first);
        for node in nodes {
            let Some((id, pg, keys)) = self.find_indexed(node) else { continue };
            self.line(format_args!("osd.{id} loses what its index has of clones in {pg}"));
            let keys = keys.into_iter().collect();
            let change = Change::OmapRemove { object: meta_object(pg), keys };
            return self.lose(node, vec![(Collection::replicated(pg), change)]);
        }
    }

    fn find_indexed(&self, node: NodeId) -> Option<(OsdId, PgId, BTreeSet<Bytes>)> {
        let Body::Osd(osd) = &self.nodes[node].body else { return None };
        let durable = osd.hosted.disk.durable(self.clock(node)).ok()?;
        let mut groups = osd.hosted.daemon.iter().flat_map(Osd::groups).map(Pg::id);
        groups.find_map(|pg| Some((osd.config.id, pg, indexed_for_good(&durable.store, pg)?)))
    }

    /// A store loses data without its OSD's knowledge. No daemon waits for the completion.
    fn lose(&mut self, node: NodeId, changes: Vec<(Collection, Change)>) {
        self.has_omitted = true;
        let kind = RequestKind::Commit(Transaction { changes });
        let request = Request { token: u64::MAX, kind };
        self.with_store(node, |store, now| {
            store.submit(now, request);
            store.end_turn(now);
        });
        self.touch(node);
    }

    /// The first OSD with clones loses one, if there are other copies, and all index entries of an object.
    /// Called in a quiescent cluster. Returns true if any loss happened.
    pub fn omit(&mut self) -> Result<bool, String> {
        for node in self.cast.osds.clone() {
            let clock = self.clock(node);
            let Body::Osd(osd) = &self.nodes[node].body else { continue };
            let (id, durable) = (osd.config.id, osd.hosted.disk.durable(clock)?);
            let Some(map) = self.newest_map() else { continue };
            let Some(pool) = map.pool_id(cluster::POOL) else { continue };
            let is_member = |pg: &PgId| map.pg_to_osds(*pg).acting.contains(&id);
            let found = map.pgs(pool).filter(is_member).find_map(|pg| {
                let (head, set) = family(&durable.store, pg)?;
                Some((pg, head, set))
            });
            let Some((pg, head, set)) = found else { continue };
            self.line(format_args!("osd.{id} loses clones of {head}"));
            let keys = index_pairs(&head, &set).into_keys().collect();
            let mut changes = vec![Change::OmapRemove { object: meta_object(pg), keys }];
            if self.scenario.size > 1 {
                changes.push(Change::Remove { object: head.at(set.clones[0].id) });
            }
            let changes = changes.into_iter().map(|change| (Collection::replicated(pg), change));
            self.lose(node, changes.collect());
            return Ok(true);
        }
        Ok(false)
    }
}

/// Index entries of clones that no removal of a snapshot needs.
fn indexed_for_good(store: &MemStore, pg: PgId) -> Option<BTreeSet<Bytes>> {
    let (head, mut set) = family(store, pg)?;
    let mut keys = BTreeSet::new();
    for clone in &mut set.clones {
        // The other snapshots may be removed; see `Snapshots`.
        clone.snaps.retain(|snap| snap.0.is_multiple_of(2));
    }
    keys.extend(index_pairs(&head, &set).into_keys());
    (!keys.is_empty()).then_some(keys)
}

/// An object that has clones.
fn family(store: &MemStore, pg: PgId) -> Option<(HObject, SnapSet)> {
    let mut objects: BTreeMap<_, _> = store.objects(Collection::replicated(pg)).collect();
    objects.retain(|name, _| !is_meta_object(name));
    objects.into_iter().find_map(|(name, object)| {
        let set: SnapSet = codec::decode_all("snapset", object.attrs.get(&SNAPSET_ATTR)?).ok()?;
        (!set.clones.is_empty()).then(|| (name.clone(), set))
    })
}
