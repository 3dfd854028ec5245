//! Ballast: data outside of the OSD's groups that fills a disk for a while. All others have space.

use crate::event::Event;
use crate::fault::Fault;
use crate::node::NodeId;
use crate::stores::StoreKind;
use crate::world::World;
use block::device::BLOCK;
use bytes::Bytes;
use engine::{Duration, Storage};
use store::{Change, Collection, Request, RequestKind, Transaction};
use types::{HObject, PgId, PoolId};

const PIECE: u64 = 1 << 20;
/// Collection of the OSD's maps, which no split or scrub touches.
const OWN: Collection = Collection::replicated(PgId { pool: PoolId(-1), seed: 0 });
/// Interval at which removal from the disk of an OSD that does not run is retried.
const PATIENCE: Duration = Duration::from_millis(500);

fn ballast() -> HObject {
    HObject::head(OWN.0.pg.pool, Bytes::new(), Bytes::new(), Bytes::from_static(b"ballast"), 0)
}

/// Fills the disk with ballast of `percent` of its size, as far as there is free space.
pub(super) fn fill(world: &mut World, node: NodeId, percent: u64) {
    let Some(osd) = world.nodes.osd(node) else { return };
    let id = osd.id().0 as usize;
    let StoreKind::Block(shape) = &world.scenario.disks.stores[id] else { return };
    let is_working = osd.daemon().is_some() && !world.disks.is_bad(node);
    if !is_working || !world.disks.note_filled(node) {
        return;
    }
    let bytes = shape.store.main_blocks * BLOCK as u64 * percent / 100;
    let data = Bytes::from(vec![0xba; PIECE as usize]);
    let pieces = (0..bytes).step_by(PIECE as usize);
    let object = ballast();
    let write = |offset| Change::Write { object: object.clone(), offset, data: data.clone() };
    change_behind(world, node, pieces.map(write).collect());
}

/// Removes the ballast; retries later if the store accepts no writes now.
pub(super) fn unfill(world: &mut World, node: NodeId) {
    if !world.disks.is_filled(node) {
        return;
    }
    if !world.nodes.is_up(node) || world.disks.is_bad(node) {
        return world.agenda.after(PATIENCE, Event::Fault(Fault::Unfill(node)));
    }
    world.disks.note_emptied(node);
    change_behind(world, node, vec![Change::Remove { object: ballast() }]);
}

/// Removes all ballast, also where a crash undid an earlier removal.
pub(super) fn unfill_all(world: &mut World) {
    world.disks.refill().into_iter().for_each(|node| unfill(world, node));
}

/// Submits each change as a transaction of its own. Results are ignored: some may lack space.
fn change_behind(world: &mut World, node: NodeId, changes: Vec<Change>) {
    world.with_store(node, |store, now| {
        for (number, change) in changes.into_iter().enumerate() {
            let transaction = Transaction { changes: vec![(OWN, change)] };
            let kind = RequestKind::Commit(transaction);
            store.submit(now, Request { token: u64::MAX - number as u64, kind });
        }
        store.end_turn(now);
    });
    world.touch(node);
}
