//! Check of the ids and maps that the control plane issues.

use super::{Body, Node, World};
use crate::network::NodeId;

impl World {
    /// Called after each step of a process, with its map and id of that moment.
    pub(super) fn check_issued(&mut self, node: NodeId) {
        let Node { body, starts, .. } = &self.nodes[node];
        let map = match body {
            Body::Monitor(monitor) => {
                monitor.hosted.daemon.as_ref().map(|monitor| &monitor.state().osdmap)
            }
            Body::Osd(osd) => osd.hosted.daemon.as_ref().map(osd::Osd::map),
            Body::Client(client) => {
                let daemon = client.hosted.daemon.as_ref();
                let id = daemon.map_or(0, rados::Client::global_id);
                if id != 0 {
                    agreed(self.issued.note_id(id, client.actor));
                }
                daemon.and_then(rados::Client::osd_map)
            }
        };
        if let Some(map) = map {
            agreed(self.issued.note_map(node, *starts, map));
        }
    }
}

fn agreed(outcome: Result<(), String>) {
    if let Err(what) = outcome {
        panic!("{what}");
    }
}
