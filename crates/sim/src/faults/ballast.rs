//! Draws how full a disk becomes, and for how long.

use crate::fault::{Fault, Plan};
use crate::fault_mix::FaultMix;
use crate::node::NodeId;
use engine::Duration;
use stdx::Prng;

/// Lowest fill level in percent.
const PERCENT_LEAST: u64 = 75;
const PERCENT_MOST: u64 = 101;
const FILLED_MS_MAX: u64 = 40_000;
/// An OSD with a full disk may be away while others are written to, and come back to the missed writes.
const LEAVES_AFTER_MS_MAX: u64 = 1_000;

/// Draws a disk that other data fills for a while.
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
