//! What is durable on each OSD, which the other checkers look at, and whether the stores are sound.

use crate::process::Contents;
use crate::world::World;
use std::collections::BTreeMap;
use store::mem::MemStore;
use types::{HObject, OsdId};

#[derive(Debug, Default)]
pub struct Stores {
    durable: BTreeMap<OsdId, Contents>,
}

impl Stores {
    pub fn of(&self, osd: OsdId) -> &MemStore {
        &self.contents(osd).store
    }

    /// Whether a copy of the object has lost data to its device.
    pub fn is_damaged(&self, osd: OsdId, object: &HObject) -> bool {
        self.contents(osd).damaged.contains(object)
    }

    /// The names of all objects of which that is true of some copy.
    pub fn damaged(&self) -> impl Iterator<Item = &[u8]> {
        let all = self.durable.values().flat_map(|contents| &contents.damaged);
        all.map(|object| &object.name[..])
    }

    fn contents(&self, osd: OsdId) -> &Contents {
        self.durable.get(&osd).expect("the map has no other OSDs")
    }
}

/// Block stores are opened once more, over copies of their devices after a loss of power, and say
/// themselves what they hold.
pub fn read(world: &World) -> Result<Stores, String> {
    let mut stores = Stores::default();
    let nodes = world.cast.osds.iter().copied();
    for (node, osd) in nodes.zip(world.osds()) {
        let (id, disk) = (osd.config.id, &osd.hosted.disk);
        disk.check_invariants();
        let durable = disk.durable(world.clock(node)).map_err(|why| format!("osd.{id}: {why}"))?;
        if !durable.damaged.is_empty() && !world.is_rotten(id) {
            return Err(format!("osd.{id} lost the data of {:?}", durable.damaged));
        }
        stores.durable.insert(id, durable);
    }
    Ok(stores)
}
