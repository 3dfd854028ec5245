//! Faults that end after a while.

use crate::fault::{Fault, Plan};
use crate::fault_mix::FaultMix;
use crate::node::NodeId;
use engine::Duration;
use stdx::Prng;

pub(super) fn crash(prng: &mut Prng, mix: &FaultMix, nodes: Vec<NodeId>) -> Plan {
    let away = Duration::from_millis(1 + prng.below(mix.away_ms_max.max(1)));
    (Fault::Crash(nodes.clone()), vec![(away, Fault::Start(nodes))])
}

pub(super) fn until_mended(prng: &mut Prng, fault: Fault, ms_max: u64) -> Plan {
    (fault, vec![(Duration::from_millis(1 + prng.below(ms_max)), Fault::Mend)])
}
