//! State of fault injection: its randomness, and faults that last.

use crate::fault::Kind;
use engine::Time;
use std::collections::BTreeMap;
use stdx::Prng;

/// Progress of the removal of an OSD.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removal {
    /// Earliest time of the next step.
    pub not_before: Time,
    /// The OSD is stopped, and no group needs its data.
    pub is_stopped: bool,
}

/// Fault injection between two faults.
pub struct Injection {
    prng: Prng,
    is_busy: bool,
    /// Number of faults by kind.
    tally: BTreeMap<Kind, u64>,
    /// Weights or states of OSDs were changed.
    has_churned: bool,
    removal: Option<Removal>,
    pools_made: u32,
}

impl Injection {
    /// Nothing has happened yet.
    pub fn new(prng: Prng) -> Self {
        let (tally, removal) = (BTreeMap::new(), None);
        Injection { prng, is_busy: false, tally, has_churned: false, removal, pools_made: 0 }
    }

    /// The generator of all faults.
    pub fn prng(&mut self) -> &mut Prng {
        &mut self.prng
    }

    /// True while clients make requests and faults happen.
    pub fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Starts or ends load and faults.
    pub fn set_busy(&mut self, busy: bool) {
        self.is_busy = busy;
    }

    /// Counts a fault.
    pub fn count(&mut self, kind: Kind) {
        *self.tally.entry(kind).or_default() += 1;
    }

    /// Number of faults by kind.
    pub fn tally(&self) -> &BTreeMap<Kind, u64> {
        &self.tally
    }

    /// True once weights or states of OSDs were changed.
    pub fn has_churned(&self) -> bool {
        self.has_churned
    }

    /// Weights or states of OSDs are changed.
    pub fn note_churned(&mut self) {
        self.has_churned = true;
    }

    /// Progress of the removal of an OSD.
    pub fn removal(&self) -> Option<&Removal> {
        self.removal.as_ref()
    }

    /// Notes progress of the removal of an OSD.
    pub fn note_removal(&mut self, removal: Removal) {
        self.removal = Some(removal);
    }

    /// Name of the next pool.
    pub fn next_pool(&mut self) -> String {
        self.pools_made += 1;
        format!("more.{}", self.pools_made)
    }
}
