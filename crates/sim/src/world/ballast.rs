//! Ballast: data outside of the OSD's groups that fills a disk for a while. All others have space.

use super::{Body, Event, World};
use crate::faults::{Fault, Plan};
use crate::network::NodeId;
use crate::process::Disk;
use crate::scenario::FaultMix;
use crate::stores::StoreKind;
use block::device::BLOCK;
use bytes::Bytes;
use engine::Duration;
use engine::Storage;
use stdx::Prng;
use store::{Change, Collection, Request, RequestKind, Transaction};
use types::{HObject, PgId, PoolId};

const PIECE: u64 = 1 << 20;
/// Collection of the OSD's maps, which no split or scrub touches.
const OWN: Collection = Collection::replicated(PgId { pool: PoolId(-1), seed: 0 });
/// Lowest fill level in percent.
const PERCENT_LEAST: u64 = 75;
const PERCENT_MOST: u64 = 101;
const FILLED_MS_MAX: u64 = 40_000;
/// An OSD with a full disk may be away while others are written to, and come back to the missed writes.
const LEAVES_AFTER_MS_MAX: u64 = 1_000;
/// Interval at which removal from the disk of an OSD that does not run is retried.
const PATIENCE: Duration = Duration::from_millis(500);

pub fn draw(prng: &mut Prng, mix: &FaultMix, osds: &[NodeId]) -> Plan {
    let (osd, percent) = (*prng.choose(osds), prng.range(PERCENT_LEAST..PERCENT_MOST));
    let mut follows = Vec::new();
    if prng.chance(2, 3) {
        let gone = Duration::from_millis(prng.below(LEAVES_AFTER_MS_MAX));
        let back = gone + Duration::from_millis(1 + prng.below(mix.away_ms_max.max(1)));
        follows.push((gone, Fault::Crash(vec![osd])));
        follows.push((back, Fault::Start(vec![osd])));
    }
    follows.push((Duration::from_millis(1 + prng.below(FILLED_MS_MAX)), Fault::Unfill(osd)));
    (Fault::Fill(osd, percent), follows)
}

fn ballast() -> HObject {
    HObject::head(OWN.0.pg.pool, Bytes::new(), Bytes::new(), Bytes::from_static(b"ballast"), 0)
}

impl World {
    /// Fills the disk with ballast of `percent` of its size, as far as there is free space.
    pub(super) fn fill(&mut self, node: NodeId, percent: u64) {
        let Body::Osd(osd) = &self.nodes[node].body else { return };
        let id = osd.config.id.0 as usize;
        let StoreKind::Block(shape) = &self.scenario.stores[id] else { return };
        let is_working = osd.hosted.daemon.is_some() && !self.bad_disks.contains(&node);
        if !is_working || !self.filled.insert(node) {
            return;
        }
        let bytes = shape.store.main_blocks * BLOCK as u64 * percent / 100;
        let data = Bytes::from(vec![0xba; PIECE as usize]);
        let pieces = (0..bytes).step_by(PIECE as usize);
        let object = ballast();
        let write = |offset| Change::Write { object: object.clone(), offset, data: data.clone() };
        self.change_behind(node, pieces.map(write).collect());
    }

    /// Removes the ballast; retries later if the store accepts no writes now.
    pub(super) fn unfill(&mut self, node: NodeId) {
        if !self.filled.contains(&node) {
            return;
        }
        if !self.nodes[node].process().is_up() || self.bad_disks.contains(&node) {
            return self.agenda.after(PATIENCE, Event::Fault(Fault::Unfill(node)));
        }
        self.filled.remove(&node);
        self.emptied.insert(node);
        self.change_behind(node, vec![Change::Remove { object: ballast() }]);
    }

    /// Removes all ballast, also where a crash undid an earlier removal.
    pub(super) fn unfill_all(&mut self) {
        self.filled.append(&mut self.emptied);
        self.filled.clone().into_iter().for_each(|node| self.unfill(node));
    }

    /// Submits each change as a transaction of its own. Results are ignored: some may lack space.
    fn change_behind(&mut self, node: NodeId, changes: Vec<Change>) {
        self.with_store(node, |store, now| {
            for (number, change) in changes.into_iter().enumerate() {
                let transaction = Transaction { changes: vec![(OWN, change)] };
                let kind = RequestKind::Commit(transaction);
                store.submit(now, Request { token: u64::MAX - number as u64, kind });
            }
            store.end_turn(now);
        });
        self.touch(node);
    }
}
