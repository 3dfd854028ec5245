//! Durable content of each OSD, for other checkers, and consistency of the stores.

use crate::process::Contents;
use crate::world::World;
use std::collections::BTreeMap;
use store::mem::MemStore;
use types::{HObject, OsdId};

/// Durable contents of all OSDs.
#[derive(Debug, Default)]
pub struct Stores {
    durable: BTreeMap<OsdId, Contents>,
}

impl Stores {
    /// The content of an OSD.
    pub fn of(&self, osd: OsdId) -> &MemStore {
        &self.contents(osd).store
    }

    /// True if the copy of the object on this OSD has lost data to its device.
    pub fn is_damaged(&self, osd: OsdId, object: &HObject) -> bool {
        self.contents(osd).damaged.contains(object)
    }

    /// OSDs and objects of all damaged copies.
    pub fn damaged(&self) -> impl Iterator<Item = (OsdId, &HObject)> {
        self.durable
            .iter()
            .flat_map(|(osd, contents)| contents.damaged.iter().map(move |object| (*osd, object)))
    }

    fn contents(&self, osd: OsdId) -> &Contents {
        self.durable.get(&osd).expect("the map has no other OSDs")
    }
}

/// Opens block stores over copies of their devices after a power loss, and reads their content.
pub fn read(world: &World) -> Result<Stores, String> {
    let mut stores = Stores::default();
    let nodes = world.cast.osds.iter().copied();
    for (node, osd) in nodes.zip(world.osds()) {
        let (id, disk) = (osd.id(), osd.disk());
        disk.check_invariants();
        let durable = disk.durable(world.clock(node)).map_err(|why| format!("osd.{id}: {why}"))?;
        if !durable.damaged.is_empty() && !world.is_rotten(id) {
            return Err(format!("osd.{id} lost the data of {:?}", durable.damaged));
        }
        stores.durable.insert(id, durable);
    }
    Ok(stores)
}
