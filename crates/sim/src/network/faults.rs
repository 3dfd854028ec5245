//! Network faults: blocked, slow and lossy directions, storms, and suspended processes.
//!
//! All faults concern one direction: messages from one process to another may be held back, slow or lossy
//! while the way back is not affected.

use crate::node::{NodeId, Way};
use engine::Duration;
use std::collections::{BTreeMap, BTreeSet};
use stdx::Prng;

/// Number of deliveries in a thousand that take much longer than usual.
const SPIKES_PER_MILLE: u64 = 3;
const SPIKE_FACTOR_MAX: u64 = 40;
/// Spikes, slow links and storms multiply, up to this delay: later messages of the same connection would
/// otherwise wait long after the faults have ended.
const DELAY_MAX: Duration = Duration::from_secs(20);
/// Time after which a lost packet is resent; doubled with each further loss.
const RETRANSMIT: Duration = Duration::from_millis(200);
const RETRANSMITS_MAX: u32 = 5;

/// Faults of directions, and suspended processes.
#[derive(Debug, Clone, Default)]
pub struct NetworkFaults {
    /// Delays without faults, in microseconds.
    pub delay_min_us: u64,
    /// Longest delay without faults, in microseconds.
    pub delay_max_us: u64,
    /// Factor of all delays in a storm.
    pub storm_factor: u64,
    /// Directions without any delivery.
    blocked: BTreeSet<Way>,
    /// Factors of delays.
    slow: BTreeMap<Way, u64>,
    /// Lost packets per thousand; lost packets are resent.
    lossy: BTreeMap<Way, u64>,
    /// Suspended processes.
    paused: BTreeSet<NodeId>,
}

impl NetworkFaults {
    /// No faults.
    pub fn none(delay_min_us: u64, delay_max_us: u64) -> Self {
        NetworkFaults { delay_min_us, delay_max_us, storm_factor: 1, ..NetworkFaults::default() }
    }

    /// Draws the delay of a message.
    pub fn delay(&self, prng: &mut Prng, way: Way) -> Duration {
        let base = prng.range(self.delay_min_us..self.delay_max_us + 1);
        let spike = match prng.chance(SPIKES_PER_MILLE, 1000) {
            true => 1 + prng.below(SPIKE_FACTOR_MAX),
            false => 1,
        };
        let slow = self.slow.get(&way).copied().unwrap_or(1);
        let delay = Duration::from_micros(base * spike * self.storm_factor * slow);
        delay.min(DELAY_MAX) + self.loss(prng, way)
    }

    fn loss(&self, prng: &mut Prng, way: Way) -> Duration {
        let Some(per_mille) = self.lossy.get(&way).copied() else { return Duration::ZERO };
        let lost = (0..RETRANSMITS_MAX).take_while(|_| prng.chance(per_mille, 1000));
        lost.map(|nth| RETRANSMIT * 2u32.pow(nth)).sum()
    }

    /// True if no message gets from one process to the other.
    pub fn is_blocked(&self, way: Way) -> bool {
        self.blocked.contains(&way)
    }

    /// True if two processes cannot have a connection, which takes both directions.
    pub fn is_cut(&self, a: NodeId, b: NodeId) -> bool {
        self.is_blocked((a, b)) || self.is_blocked((b, a))
    }

    /// Holds back all messages in a direction.
    pub fn block(&mut self, way: Way) {
        self.blocked.insert(way);
    }

    /// Lets messages pass in a direction again.
    pub fn unblock(&mut self, way: Way) {
        self.blocked.remove(&way);
    }

    /// Multiplies delays in a direction.
    pub fn slow_down(&mut self, way: Way, factor: u64) {
        self.slow.insert(way, factor);
    }

    /// Loses packets in a direction.
    pub fn lose(&mut self, way: Way, per_mille: u64) {
        self.lossy.insert(way, per_mille);
    }

    /// True while the process is suspended.
    pub fn is_paused(&self, node: NodeId) -> bool {
        self.paused.contains(&node)
    }

    /// Suspends or resumes a process.
    pub fn set_paused(&mut self, node: NodeId, paused: bool) {
        match paused {
            true => self.paused.insert(node),
            false => self.paused.remove(&node),
        };
    }

    /// Ends all faults of links; suspended processes stay suspended.
    pub fn mend(&mut self) {
        self.blocked.clear();
        self.slow.clear();
        self.lossy.clear();
        self.storm_factor = 1;
    }
}
