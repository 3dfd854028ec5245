//! Removal of purged snapshots from `removed_snaps_queue`.
//!
//! A removed snapshot is in the queue until the primary of every group of its pool has reported that no clone
//! of it is left.

use crate::change::Change;
use crate::state::State;
use crate::statistics::Statistics;
use maps::{OsdMap, SnapIntervals};
use types::{PoolId, SnapId};

/// Removes snapshots from the queue that every group has purged.
pub(super) fn plan(state: &State, stats: &Statistics, change: &mut Change) {
    for (pool, queue) in &state.osdmap.removed_snaps_queue {
        let purged = purged(&state.osdmap, stats, *pool, queue);
        if !purged.is_empty() {
            change.osdmap(state).new_purged_snaps.insert(*pool, purged);
        }
    }
}

/// The snapshots of the queue that all groups of the pool have purged.
fn purged(map: &OsdMap, stats: &Statistics, pool: PoolId, queue: &SnapIntervals) -> SnapIntervals {
    let mut left = queue.clone();
    let last_merge = map.pool(pool).map_or(map.epoch, |pool| pool.last_force_op_resend);
    for pg in map.pgs(pool) {
        // A merge since then may have added clones of another group.
        let stat = stats.pg(pg).filter(|stat| stat.reported_epoch >= last_merge);
        let reported = stat.map(|stat| stat.purged_snaps.as_slice()).unwrap_or_default();
        let mut others = left.clone();
        others.subtract(&intervals(reported));
        left.subtract(&others);
        if left.is_empty() {
            break;
        }
    }
    left
}

fn intervals(parts: &[(SnapId, u64)]) -> SnapIntervals {
    let mut set = SnapIntervals::default();
    parts.iter().for_each(|(first, length)| set.insert_interval(*first, *length));
    set
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Time;
    use maps::Pool;
    use std::collections::BTreeMap;
    use types::{Epoch, OsdId, PgId, Uuid};
    use wire::internal::{OsdUsage, PgStat, StatsReport};

    #[test]
    fn a_snapshot_leaves_the_queue_when_the_last_group_has_purged_it() {
        let pool = PoolId(1);
        let mut map = OsdMap::new(Uuid::default());
        map.pools.insert(pool, Pool::new(maps::PoolType::Replicated, 2, 2, 0));
        let queue: SnapIntervals = [3, 4, 9].map(SnapId).into_iter().collect();
        map.pools.get_mut(&pool).expect("it was just made").last_force_op_resend = Epoch(8);
        let mut stats = Statistics::default();
        let mut report_at = |epoch, seed, purged_snaps| {
            let reported_epoch = Epoch(epoch);
            let stat = PgStat { purged_snaps, reported_epoch, ..PgStat::default() };
            let report = StatsReport {
                fsid: Uuid::default(),
                osd: OsdId(seed as i32),
                map_epoch: map.epoch,
                usage: OsdUsage::default(),
                pgs: BTreeMap::from([(PgId { pool, seed }, stat)]),
                is_complete: true,
                ..StatsReport::default()
            };
            stats.record(Time::ZERO, &map, report);
            purged(&map, &stats, pool, &queue).to_string()
        };
        let mut report = |seed, purged_snaps| report_at(9, seed, purged_snaps);
        assert_eq!(
            report(0, vec![(SnapId(3), 2), (SnapId(9), 1)]),
            "[]",
            "of the other none is known"
        );
        assert_eq!(report(1, vec![(SnapId(4), 1)]), "[4~1]");
        assert_eq!(report(1, vec![(SnapId(4), 9)]), "[4~1,9~1]");
        assert_eq!(report_at(7, 1, vec![(SnapId(4), 9)]), "[]", "it was merged with another since");
    }
}
