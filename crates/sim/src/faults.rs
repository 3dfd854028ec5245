//! What goes wrong, and when it is over.

use crate::network::NodeId;
use crate::scenario::FaultMix;
use engine::Duration;
use stdx::Prng;

const PARTITION_MS_MAX: u64 = 40_000;
const STORM_MS_MAX: u64 = 5_000;
const STORM_FACTOR_MAX: u64 = 200;
const CLOCK_JUMP_S_MAX: u64 = 700;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Processes die, losing all that is not durable.
    Crash(Vec<NodeId>),
    Start(Vec<NodeId>),
    /// About so many percent of a process's connections break.
    Cut {
        node: NodeId,
        share: u64,
    },
    /// Nothing gets through between these and all others.
    Partition(Vec<NodeId>),
    Storm {
        factor: u64,
    },
    /// Partitions and storms are over.
    Mend,
    /// Clocks stand still and then jump, as on a machine that slept.
    ClockJump(Duration),
    CreatePool,
    /// The device of an OSD loses data.
    Rot(NodeId),
}

/// Who is who.
#[derive(Debug, Clone)]
pub struct Cast {
    pub monitor: NodeId,
    pub osds: Vec<NodeId>,
    pub clients: Vec<NodeId>,
}

impl Cast {
    fn daemons(&self) -> Vec<NodeId> {
        [self.monitor].into_iter().chain(self.osds.iter().copied()).collect()
    }

    fn all(&self) -> Vec<NodeId> {
        [self.daemons(), self.clients.clone()].concat()
    }
}

/// The next fault and, if it has an end, that and after which time.
pub fn draw(prng: &mut Prng, mix: &FaultMix, cast: &Cast) -> (Fault, Option<(Duration, Fault)>) {
    let away = |prng: &mut Prng| Duration::from_millis(1 + prng.below(mix.away_ms_max.max(1)));
    let crash = |prng: &mut Prng, nodes: Vec<NodeId>| {
        let back = (away(prng), Fault::Start(nodes.clone()));
        (Fault::Crash(nodes), Some(back))
    };
    match choose(prng, &mix.weights()) {
        0 => {
            let osd = *prng.choose(&cast.osds);
            crash(prng, vec![osd])
        }
        1 => crash(prng, vec![cast.monitor]),
        2 => {
            let mut server = cast.osds.clone();
            server.push(cast.monitor);
            crash(prng, server)
        }
        3 => {
            let client = *prng.choose(&cast.clients);
            crash(prng, vec![client])
        }
        4 => {
            let node = *prng.choose(&cast.all());
            (Fault::Cut { node, share: 10 + prng.below(91) }, None)
        }
        5 => {
            let apart = draw_island(prng, cast);
            let over = Duration::from_millis(1 + prng.below(PARTITION_MS_MAX));
            (Fault::Partition(apart), Some((over, Fault::Mend)))
        }
        6 => {
            let over = Duration::from_millis(1 + prng.below(STORM_MS_MAX));
            let factor = 2 + prng.below(STORM_FACTOR_MAX);
            (Fault::Storm { factor }, Some((over, Fault::Mend)))
        }
        7 => (Fault::ClockJump(Duration::from_secs(1 + prng.below(CLOCK_JUMP_S_MAX))), None),
        _ => (Fault::CreatePool, None),
    }
}

/// Some clients, or some daemons. Never both: an OSD that is cut off from the others while a client
/// still reaches it would answer reads from a past that others have left, until it learns of it.
fn draw_island(prng: &mut Prng, cast: &Cast) -> Vec<NodeId> {
    let (one_in, candidates) = match prng.chance(1, 2) {
        true => (2, cast.clients.clone()),
        false => (3, cast.daemons()),
    };
    candidates.into_iter().filter(|_| prng.chance(1, one_in)).collect()
}

/// An index, as often as its weight says.
fn choose(prng: &mut Prng, weights: &[u64]) -> usize {
    let total: u64 = weights.iter().sum();
    let mut left = prng.below(total.max(1));
    for (index, weight) in weights.iter().enumerate() {
        if left < *weight {
            return index;
        }
        left -= weight;
    }
    weights.len()
}
