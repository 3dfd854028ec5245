//! How the network fares at the moment.

use super::NodeId;
use engine::Duration;
use std::collections::BTreeSet;
use stdx::Prng;

/// Of a thousand deliveries so many take much longer than usual.
const SPIKES_PER_MILLE: u64 = 3;
const SPIKE_FACTOR_MAX: u64 = 40;

#[derive(Debug, Clone, Default)]
pub struct Weather {
    /// Usual delays, in microseconds.
    pub delay_min_us: u64,
    pub delay_max_us: u64,
    /// All delays are multiplied with this in a storm.
    pub storm_factor: u64,
    /// Pairs, the lower number first, between which nothing gets through.
    partitioned: BTreeSet<(NodeId, NodeId)>,
}

impl Weather {
    pub fn fair(delay_min_us: u64, delay_max_us: u64) -> Self {
        Weather { delay_min_us, delay_max_us, storm_factor: 1, partitioned: BTreeSet::new() }
    }

    pub fn delay(&self, prng: &mut Prng) -> Duration {
        let base = prng.range(self.delay_min_us..self.delay_max_us + 1);
        let spike = match prng.chance(SPIKES_PER_MILLE, 1000) {
            true => 1 + prng.below(SPIKE_FACTOR_MAX),
            false => 1,
        };
        Duration::from_micros(base * spike * self.storm_factor)
    }

    pub fn is_cut(&self, a: NodeId, b: NodeId) -> bool {
        self.partitioned.contains(&(a.min(b), a.max(b)))
    }

    pub fn partition(&mut self, a: NodeId, b: NodeId) {
        self.partitioned.insert((a.min(b), a.max(b)));
    }

    pub fn mend(&mut self) {
        self.partitioned.clear();
        self.storm_factor = 1;
    }
}
