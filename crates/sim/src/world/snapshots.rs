//! Clients that take and remove snapshots.

use super::{Body, World};
use crate::cluster;
use crate::network::NodeId;
use crate::snapshots::SnapshotAction;
use rados::PoolRequest;
use types::{Errno, SnapId};

impl World {
    pub fn change_snapshots(&mut self, node: NodeId, action: SnapshotAction) {
        let clock = self.clock(node);
        let Body::Client(client) = &mut self.nodes[node].body else { return };
        if !client.knows_pool(cluster::POOL) {
            return;
        }
        match action {
            SnapshotAction::Take => {
                client.pool_op(clock, cluster::POOL, PoolRequest::take_snapshot, action);
            }
            SnapshotAction::Remove(snap) => {
                self.snapshots.removing(snap, &mut self.history);
                let request = |pool| PoolRequest::remove_snapshot(pool, snap);
                client.pool_op(clock, cluster::POOL, request, action);
            }
        }
        self.line(format_args!("client {node}: {action:?}"));
        self.touch(node);
    }

    pub(super) fn handle_snapshot_event(
        &mut self,
        action: SnapshotAction,
        outcome: Result<Option<SnapId>, Errno>,
    ) {
        let now = self.agenda.now();
        self.line(format_args!("{action:?}: {outcome:?}"));
        match (action, outcome) {
            (SnapshotAction::Take, Ok(Some(snap))) => {
                let objects = self.workload.targets.len();
                self.snapshots.taken(now, snap, objects, &self.history);
            }
            (SnapshotAction::Remove(snap), Ok(_)) => {
                self.snapshots.removed.insert(snap, true);
            }
            _ => {}
        }
    }
}
