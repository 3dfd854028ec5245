//! A store that has not what it was told to have: a clone, and what the index of clones has of one.

use super::{Body, World};
use crate::cluster;
use crate::process::Disk;
use pg::snaps::{SNAPSET_ATTR, SnapSet, index_pairs};
use pg::{is_meta_object, meta_object};
use std::collections::BTreeMap;
use store::mem::MemStore;
use store::{Change, Collection, Request, RequestKind, Transaction};
use types::{HObject, PgId};

impl World {
    /// The first OSD that has clones loses one, if there are other copies, and all that its index has
    /// of an object. Nothing else goes on. Whether anything was found to be lost.
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
            self.has_omitted = true;
            let keys = index_pairs(&head, &set).into_keys().collect();
            let mut changes = vec![Change::OmapRemove { object: meta_object(pg), keys }];
            if self.scenario.size > 1 {
                changes.push(Change::Remove { object: head.at(set.clones[0].id) });
            }
            let changes = changes.into_iter().map(|change| (Collection(pg), change)).collect();
            let kind = RequestKind::Commit(Transaction { changes });
            // Nobody waits for the answer.
            let request = Request { token: u64::MAX, kind };
            self.with_store(node, |store, now| {
                store.submit(now, request);
                store.end_turn(now);
            });
            self.touch(node);
            return Ok(true);
        }
        Ok(false)
    }
}

/// An object that has clones.
fn family(store: &MemStore, pg: PgId) -> Option<(HObject, SnapSet)> {
    let mut objects: BTreeMap<_, _> = store.objects(Collection(pg)).collect();
    objects.retain(|name, _| !is_meta_object(name));
    objects.into_iter().find_map(|(name, object)| {
        let set: SnapSet = codec::decode_all("snapset", object.attrs.get(&SNAPSET_ATTR)?).ok()?;
        (!set.clones.is_empty()).then(|| (name.clone(), set))
    })
}
