//! The map of the cluster: its newest epoch, its history, what is stored of it, and its distribution
//! to the groups.

mod candidates;
pub(crate) mod current;
mod history;
mod removed_snaps;
mod sharing;
pub(crate) mod stored;
pub(crate) mod telling;

use candidates::Candidates;
use history::MapsHistory;
use maps::{OsdMap, SnapIntervals};
use std::collections::BTreeMap;
use stored::StoredMaps;
use telling::{Distribution, Placed};
use types::{PoolId, Uuid};

/// The map, and all that is known of earlier and later ones.
#[derive(Debug)]
pub(crate) struct Maps {
    map: OsdMap,
    candidates: Candidates,
    placed: Placed,
    stored: StoredMaps,
    history: MapsHistory,
    /// Removed snapshots of each pool, according to the maps so far.
    removed_snaps: BTreeMap<PoolId, SnapIntervals>,
    distribution: Distribution,
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
            removed_snaps: BTreeMap::new(),
            distribution: Distribution::default(),
        }
    }
}
