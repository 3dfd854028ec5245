//! The map of the cluster: its newest epoch, its history, what is stored of it, and its distribution
//! to the groups.

mod candidates;
pub(crate) mod current;
mod features;
mod history;
mod removed_snaps;
mod sharing;
pub(crate) mod stored;
pub(crate) mod telling;

use crate::outbox::Outbox;
use crate::sessions::clients::Clients;
use candidates::Candidates;
use engine::ConnId;
use history::MapsHistory;
use maps::{Mapping, OsdMap};
use removed_snaps::RemovedSnaps;
use std::collections::BTreeSet;
use store::{Outcome, StoreError};
use stored::StoredMaps;
use telling::{Distribution, Placed};
use types::{Epoch, OsdId, PgId, PgShard, PoolId, Uuid};

/// The map, and all that is known of earlier and later ones.
#[derive(Debug)]
pub(crate) struct Maps {
    map: OsdMap,
    candidates: Candidates,
    placed: Placed,
    stored: StoredMaps,
    history: MapsHistory,
    removed_snaps: RemovedSnaps,
    pub distribution: Distribution,
}

impl Maps {
    /// No map yet.
    pub fn new(fsid: Uuid) -> Self {
        Maps {
            map: OsdMap::new(fsid),
            candidates: Candidates::default(),
            placed: Placed::default(),
            stored: StoredMaps::default(),
            history: MapsHistory::default(),
            removed_snaps: RemovedSnaps::default(),
            distribution: Distribution::default(),
        }
    }

    /// The newest map.
    pub fn map(&self) -> &OsdMap {
        &self.map
    }

    /// Lends the map to a function that changes other parts of the OSD; until it is returned, there
    /// is an empty one in its place.
    pub fn take_map(&mut self) -> OsdMap {
        std::mem::take(&mut self.map)
    }

    pub fn return_map(&mut self, map: OsdMap) {
        self.map = map;
    }

    /// The groups that the newest map may assign to this OSD, some more than once.
    pub fn candidates(&mut self, own: OsdId) -> impl Iterator<Item = PgId> + '_ {
        self.candidates.update(&self.map, own);
        self.candidates.all()
    }

    /// The up and acting set of a group under the map that the groups are told; `map` is that map.
    pub fn mapping(&self, map: &OsdMap, pg: PgId) -> Mapping {
        self.candidates.mapping(map, pg)
    }

    /// The oldest epoch from which clients can be sent increments.
    pub fn oldest_increment(&self) -> Option<Epoch> {
        self.history.oldest()
    }

    /// Whether maps were skipped between the one that the groups have handled and the newest.
    pub fn is_gap(&self) -> bool {
        self.placed.is_gap(self.map.epoch)
    }

    /// Whether the groups have handled no map with this pool.
    pub fn is_new(&self, pool: PoolId) -> bool {
        !self.placed.contains(pool)
    }

    /// All groups have handled the newest map.
    pub fn note_placed(&mut self) {
        self.placed = Placed::of(&self.map);
    }

    /// Whether groups have not handled the map, or have not stored the intervals that it began.
    pub fn is_telling(&self) -> bool {
        self.distribution.is_on()
    }

    /// Sends a client that is behind the maps that it lacks; clients rely on it. `known` is the
    /// epoch of its request.
    pub fn share(&self, clients: &mut Clients, out: &mut Outbox, conn: ConnId, known: Epoch) {
        let Some(session) = clients.get_mut(conn) else { return };
        let Some(known) = session.note_map(known, self.map.epoch) else { return };
        let features = session.peer.features;
        out.send(conn, sharing::share(&self.map, &self.history, known, features));
    }

    /// Adds the snapshots that the newest map removes to those known as removed.
    pub fn note_removed_snaps(&mut self) {
        self.removed_snaps.note(&self.map);
    }

    /// The removed snapshots of each pool.
    pub fn removed_snaps(&self) -> &RemovedSnaps {
        &self.removed_snaps
    }

    /// Stores the map that all groups have handled as soon as the intervals of these copies are durable.
    pub fn store_behind(&mut self, copies: BTreeSet<PgShard>, out: &mut Outbox) {
        if self.stored.wait_for(copies) {
            self.stored.store(&self.map, &self.removed_snaps, out);
        }
    }

    /// Whether the map is to be stored behind the interval of this copy.
    pub fn waits_for(&self, pg: PgShard) -> bool {
        self.stored.waits_for(pg)
    }

    /// The interval of this copy is durable.
    pub fn note_stored_interval(&mut self, pg: PgShard, out: &mut Outbox) {
        if self.stored.note_interval(pg) {
            self.stored.store(&self.map, &self.removed_snaps, out);
        }
    }

    /// The store refused a map: the next one is stored in full.
    pub fn store_failed(&mut self) {
        self.stored.store_failed();
    }

    /// Loads the stored map; loading of the OSD ends only after it.
    pub fn load(&mut self, out: &mut Outbox) {
        self.stored.load(out);
    }

    /// Whether the stored map has not been read yet.
    pub fn is_loading(&self) -> bool {
        self.stored.is_loading()
    }

    /// Handles the loaded map. If it does not decode, the OSD starts without a map. Fails with the reason for
    /// which this version must not use the store.
    pub fn loaded(
        &mut self,
        whoami: OsdId,
        outcome: Result<Outcome, StoreError>,
    ) -> Result<(), String> {
        if let Some((map, removed)) = self.stored.loaded(whoami, outcome)? {
            (self.map, self.removed_snaps) = (map, removed);
        }
        Ok(())
    }
}
