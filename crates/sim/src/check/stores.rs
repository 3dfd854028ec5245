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

    /// Which OSDs have such copies, and of which objects.
    pub fn damaged(&self) -> impl Iterator<Item = (OsdId, &HObject)> {
        self.durable
            .iter()
            .flat_map(|(osd, contents)| contents.damaged.iter().map(move |object| (*osd, object)))
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
