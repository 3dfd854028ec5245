//! A pool whose expected size determines its number of groups, while the autoscaler runs.
//!
//! The number never changes, whichever OSDs have not reported yet.

use super::admin::command;
use crate::events::run_until;
use crate::names::SCALED_POOL;
use crate::stores::StoreKind;
use crate::world::{Steady, World};
use engine::Duration;
use mon::statistics::Statistics;
use types::OsdId;

/// Number of groups of that pool, and its share of a hundred groups per OSD.
const SCALED_GROUPS: u32 = 16;
const GROUPS_PER_OSD: u64 = 100;
const REPORTED_WITHIN: Duration = Duration::from_secs(120);
/// True if OSDs have similar sizes, so that the result hardly depends on which of them are counted.
fn are_alike(stores: &[StoreKind]) -> bool {
    let blocks = stores.iter().filter(|store| matches!(store, StoreKind::Block(_))).count();
    blocks == 0 || blocks == stores.len()
}

/// Creates the pool, once all OSDs have reported their sizes.
pub fn prepare(world: &mut World) -> Result<(), String> {
    if !are_alike(&world.scenario.disks.stores) {
        return Ok(());
    }
    if !run_until(world, REPORTED_WITHIN, |world| mean_size(world).is_some()) {
        return Err("not all OSDs say how large they are".to_owned());
    }
    let mean = mean_size(world).expect("it was just known");
    let (size, expected) =
        (world.scenario.cluster.size, mean * u64::from(SCALED_GROUPS) / GROUPS_PER_OSD);
    command(
        world,
        &format!(
            r#"{{"prefix":"osd pool create","pool":"{SCALED_POOL}","pg_num":{SCALED_GROUPS},"pgp_num":{SCALED_GROUPS},"size":{size},"pg_autoscale_mode":"on","pg_num_min":1,"target_size_bytes":{expected}}}"#
        ),
    )?;
    let pool = world.newest_map().and_then(|map| map.pool_id(SCALED_POOL));
    if let Some(pool) = pool {
        world.checks.expect_steady(Steady { pool, groups: SCALED_GROUPS });
    }
    Ok(())
}

fn mean_size(world: &World) -> Option<u64> {
    let osds = world.scenario.cluster.osds as u64;
    let monitors = world.nodes.monitors().filter_map(|monitor| monitor.daemon());
    // OSDs report to the leader.
    let size_of = |stats: &Statistics, osd| Some(stats.osd(OsdId(osd))?.usage.bytes_total);
    let sum = |stats: &Statistics| (0..osds as i32).map(|osd| size_of(stats, osd)).sum();
    let mut sums = monitors.filter_map(|monitor| sum(monitor.statistics()));
    sums.next().map(|sum: u64| sum / osds).filter(|mean| *mean > 0)
}
