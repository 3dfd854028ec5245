//! Draws changes of the autoscaler's settings, and late reports of OSDs.

use crate::cast::Cast;
use crate::commands::set_pool_command;
use crate::fault::{Fault, Plan};
use crate::names::POOL;
use crate::node::{NodeId, Way};
use engine::Duration;
use stdx::Prng;

const MODES: [&str; 4] = ["on", "on", "warn", "off"];
const PG_NUMS_LEAST: [u64; 4] = [1, 2, 8, 16];
const PG_NUMS_MOST: [u64; 4] = [4, 8, 16, 32];
/// Factor of delays of reports and of messages between OSDs.
const REPORT_FACTOR_MAX: u64 = 500;
const SLOW_PEER_FACTOR_MAX: u64 = 150;
const LATE_MS_MAX: u64 = 30_000;
const MONITORS_AWAY_MS_MAX: u64 = 3_000;

/// Draws settings of the autoscaler.
pub fn draw_command(prng: &mut Prng) -> Fault {
    let (variable, value) = match prng.below(4) {
        0 => ("pg_num_min", prng.choose(&PG_NUMS_LEAST).to_string()),
        1 => ("pg_num_max", prng.choose(&PG_NUMS_MOST).to_string()),
        _ => ("pg_autoscale_mode", (*prng.choose(&MODES)).to_owned()),
    };
    Fault::Command(set_pool_command(POOL, variable, &value))
}

/// Delays the messages of some OSDs to restarted monitors, or to other OSDs, which then report them.
pub fn draw_late_reports(prng: &mut Prng, cast: &Cast) -> Plan {
    let late: Vec<NodeId> = cast.osds.iter().copied().filter(|_| prng.chance(1, 2)).collect();
    let over = Duration::from_millis(1 + prng.below(LATE_MS_MAX));
    if prng.chance(1, 3) {
        let factor = 2 + prng.below(SLOW_PEER_FACTOR_MAX);
        return (Fault::Slow(ways(&late, &cast.osds), factor), vec![(over, Fault::Mend)]);
    }
    let back = Duration::from_millis(1 + prng.below(MONITORS_AWAY_MS_MAX));
    let follows = vec![
        (Duration::ZERO, Fault::Crash(cast.monitors.clone())),
        (back, Fault::Start(cast.monitors.clone())),
        (back + over, Fault::Mend),
    ];
    (Fault::Slow(ways(&late, &cast.monitors), 2 + prng.below(REPORT_FACTOR_MAX)), follows)
}

fn ways(from: &[NodeId], to: &[NodeId]) -> Vec<Way> {
    let all = from.iter().flat_map(|from| to.iter().map(|to| (*from, *to)));
    all.filter(|(from, to)| from != to).collect()
}
