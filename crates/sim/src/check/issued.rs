//! Client ids and epochs of the OSD map: the control plane issues each only once, even after its store was
//! restored. Checked after every step of the run.

use crate::model::ActorId;
use crate::node::NodeId;
use maps::OsdMap;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use types::Epoch;

/// Maps and ids that were seen so far.
#[derive(Debug, Default)]
pub struct Issued {
    /// The checksum of each map, and the first process that had it.
    maps: BTreeMap<Epoch, (u32, NodeId)>,
    /// The map of each process at the last check, with the number of its start.
    had: BTreeMap<NodeId, (u32, Epoch)>,
    ids: BTreeMap<u64, ActorId>,
}

impl Issued {
    /// Checks that all processes with a map of one epoch have the same map.
    pub fn note_map(&mut self, node: NodeId, start: u32, map: &OsdMap) -> Result<(), String> {
        let had = (start, map.epoch);
        if map.epoch == Epoch(0) || self.had.insert(node, had) == Some(had) {
            return Ok(());
        }
        let checksum = map.checksum();
        match self.maps.entry(map.epoch) {
            Entry::Vacant(first) => {
                first.insert((checksum, node));
                Ok(())
            }
            Entry::Occupied(known) if known.get().0 == checksum => Ok(()),
            Entry::Occupied(known) => Err(format!(
                "epoch {} of the OSD map is one at node {node} and another at node {}",
                map.epoch,
                known.get().1
            )),
        }
    }

    /// Checks that an id belongs to one client, from its start to its end.
    pub fn note_id(&mut self, id: u64, actor: ActorId) -> Result<(), String> {
        match *self.ids.entry(id).or_insert(actor) {
            owner if owner == actor => Ok(()),
            owner => Err(format!("id {id} was given to actor {owner} and to actor {actor}")),
        }
    }

    /// The newest epoch that any process had.
    pub fn newest(&self) -> Epoch {
        self.maps.last_key_value().map_or(Epoch(0), |(epoch, _)| *epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_maps_of_one_epoch_and_two_owners_of_one_id_are_found() {
        let map =
            |max| OsdMap { epoch: Epoch(3), pool_max: types::PoolId(max), ..OsdMap::default() };
        let mut issued = Issued::default();
        assert_eq!(issued.note_map(1, 1, &map(4)), Ok(()));
        assert_eq!(issued.note_map(2, 1, &map(4)), Ok(()));
        assert!(issued.note_map(3, 1, &map(5)).unwrap_err().contains("epoch 3"));
        // A restarted process is checked anew.
        assert!(issued.note_map(2, 2, &map(5)).is_err());
        assert_eq!(issued.note_id(7, 1), Ok(()));
        assert_eq!(issued.note_id(7, 1), Ok(()));
        assert!(issued.note_id(7, 2).is_err());
    }
}
