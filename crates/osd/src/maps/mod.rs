//! The map of the cluster: its newest epoch, its history, what is stored of it, and its distribution
//! to the groups.

pub(crate) mod candidates;
pub(crate) mod history;
pub(crate) mod stored;
pub(crate) mod telling;

use crate::groups::placement::Placed;
use candidates::Candidates;
use history::MapsHistory;
use maps::{OsdMap, SnapIntervals};
use std::collections::BTreeMap;
use stored::StoredMaps;
use telling::Distribution;
use types::{PoolId, Uuid};

/// The map, and all that is known of earlier and later ones.
#[derive(Debug)]
pub(crate) struct Maps {
    pub map: OsdMap,
    pub candidates: Candidates,
    pub placed: Placed,
    pub stored: StoredMaps,
    pub history: MapsHistory,
    /// Removed snapshots of each pool, according to the maps so far.
    pub removed_snaps: BTreeMap<PoolId, SnapIntervals>,
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
            removed_snaps: BTreeMap::new(),
            distribution: Distribution::default(),
        }
    }
}
