//! Faults with the autoscaler: it changes `pg_num` during all other faults, based on reports of which some
//! are late.
//!
//! The number of groups of one pool, whose expected size determines it, never changes, whichever OSDs have
//! not reported yet.

use crate::cluster::{self, SCALED_POOL};
use crate::faults::{Cast, Fault, Plan};
use crate::network::{NodeId, Way};
use crate::run::command;
use crate::stores::StoreKind;
use crate::world::{Body, World};
use engine::Duration;
use mon::statistics::Statistics;
use stdx::Prng;
use types::{OsdId, PoolId};

/// Number of groups of that pool, and its share of a hundred groups per OSD.
const SCALED_GROUPS: u32 = 16;
const GROUPS_PER_OSD: u64 = 100;
const REPORTED_WITHIN: Duration = Duration::from_secs(120);
const MODES: [&str; 4] = ["on", "on", "warn", "off"];
const PG_NUMS_LEAST: [u64; 4] = [1, 2, 8, 16];
const PG_NUMS_MOST: [u64; 4] = [4, 8, 16, 32];
/// Factor of delays of reports and of messages between OSDs.
const REPORT_FACTOR_MAX: u64 = 500;
const SLOW_PEER_FACTOR_MAX: u64 = 150;
const LATE_MS_MAX: u64 = 30_000;
const MONITORS_AWAY_MS_MAX: u64 = 3_000;

/// The pool with a constant number of groups.
#[derive(Debug, Clone, Copy)]
pub struct Steady {
    pool: PoolId,
}

/// Draws settings of the autoscaler.
pub fn draw_command(prng: &mut Prng) -> Fault {
    let (variable, value) = match prng.below(4) {
        0 => ("pg_num_min", prng.choose(&PG_NUMS_LEAST).to_string()),
        1 => ("pg_num_max", prng.choose(&PG_NUMS_MOST).to_string()),
        _ => ("pg_autoscale_mode", (*prng.choose(&MODES)).to_owned()),
    };
    Fault::Command(crate::world::set_pool_command(cluster::POOL, variable, &value))
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

/// True if OSDs have similar sizes, so that the result hardly depends on which of them are counted.
fn are_alike(stores: &[StoreKind]) -> bool {
    let blocks = stores.iter().filter(|store| matches!(store, StoreKind::Block(_))).count();
    blocks == 0 || blocks == stores.len()
}

/// Creates the pool, once all OSDs have reported their sizes.
pub fn prepare(world: &mut World) -> Result<(), String> {
    if !are_alike(&world.scenario.stores) {
        return Ok(());
    }
    if !world.run_until(REPORTED_WITHIN, |world| mean_size(world).is_some()) {
        return Err("not all OSDs say how large they are".to_owned());
    }
    let mean = mean_size(world).expect("it was just known");
    let (size, expected) = (world.scenario.size, mean * u64::from(SCALED_GROUPS) / GROUPS_PER_OSD);
    command(
        world,
        &format!(
            r#"{{"prefix":"osd pool create","pool":"{SCALED_POOL}","pg_num":{SCALED_GROUPS},"pgp_num":{SCALED_GROUPS},"size":{size},"pg_autoscale_mode":"on","pg_num_min":1,"target_size_bytes":{expected}}}"#
        ),
    )?;
    let pool = world.newest_map().and_then(|map| map.pool_id(SCALED_POOL));
    world.steady = pool.map(|pool| Steady { pool });
    Ok(())
}

fn mean_size(world: &World) -> Option<u64> {
    let osds = world.scenario.osds as u64;
    let monitors = world.nodes.iter().filter_map(|node| match &node.body {
        Body::Monitor(monitor) => monitor.hosted.daemon.as_ref(),
        _ => None,
    });
    // OSDs report to the leader.
    let size_of = |stats: &Statistics, osd| Some(stats.osd(OsdId(osd))?.usage.bytes_total);
    let sum = |stats: &Statistics| (0..osds as i32).map(|osd| size_of(stats, osd)).sum();
    let mut sums = monitors.filter_map(|monitor| sum(monitor.statistics()));
    sums.next().map(|sum: u64| sum / osds).filter(|mean| *mean > 0)
}

impl World {
    /// Panics if a monitor chooses another number of groups than the expected size determines.
    pub fn check_steady(&self, node: NodeId) {
        let (Some(steady), Body::Monitor(monitor)) = (self.steady, &self.nodes[node].body) else {
            return;
        };
        let Some(daemon) = &monitor.hosted.daemon else { return };
        let map = &daemon.state().osdmap;
        let Some(pool) = map.pool(steady.pool) else { return };
        let (epoch, target) = (map.epoch, pool.pg_num_target);
        assert!(
            target == SCALED_GROUPS,
            "epoch {epoch} wants {target} groups where the size that is expected makes {SCALED_GROUPS}"
        );
    }
}
