//! Answers about the use of space, from the reports of OSDs.

use crate::service::Cx;
use crate::state::State;
use crate::statistics::Statistics;
use auth::Rwx;
use engine::ConnId;
use types::PoolId;
use wire::pool_stats::{ObjectStatCollection, ObjectStatSum, StoreStatfs};
use wire::{GetPoolStats, GetPoolStatsReply, MessageBody, PoolStat, Statfs, StatfsReply};

/// Answers how much space is used.
pub(super) fn tell(cx: &mut Cx<'_>, stats: &Statistics, conn: ConnId, tid: u64, asked: Statfs) {
    if !cx.sessions.get(conn).is_some_and(|session| session.may("pg", Rwx::READ)) {
        return;
    }
    let map = &cx.state.osdmap;
    let pool = asked.data_pool.map(PoolId).filter(|id| map.pool(*id).is_some());
    let (total, available, used, objects) = match pool {
        None => {
            let usage = stats.usage(map);
            let objects = stats.totals().objects;
            (usage.bytes_total, usage.bytes_available, usage.bytes_used, objects)
        }
        Some(id) => {
            let totals = stats.pool_totals(id);
            let available = crate::usage::pool_available(map, stats, id);
            (totals.bytes + available, available, totals.bytes, totals.objects)
        }
    };
    let reply = StatfsReply {
        fsid: cx.state.monmap.fsid,
        version: stats.version,
        kib: total >> 10,
        kib_used: used >> 10,
        kib_available: available >> 10,
        objects,
    };
    cx.reply(conn, |features| reply.encode(features).with_tid(tid));
}

/// Answers how much some pools contain.
pub(super) fn tell_pools(
    cx: &mut Cx<'_>,
    statistics: &Statistics,
    conn: ConnId,
    tid: u64,
    asked: GetPoolStats,
) {
    if !cx.sessions.get(conn).is_some_and(|session| session.may("pg", Rwx::READ)) {
        return;
    }
    let state = cx.state;
    let map = &state.osdmap;
    let known = asked.pools.iter().filter_map(|name| Some((name, map.pool_id(name)?)));
    let stats = known.map(|(name, id)| (name.clone(), pool_stat(state, statistics, id))).collect();
    let reply = GetPoolStatsReply {
        version: statistics.version,
        fsid: state.monmap.fsid,
        stats,
        per_pool: true,
    };
    cx.reply(conn, |features| reply.encode(features).with_tid(tid));
}

fn pool_stat(state: &State, stats: &Statistics, id: PoolId) -> PoolStat {
    let totals = stats.pool_totals(id);
    let rate = crate::usage::raw_bytes_per_byte(&state.osdmap, id);
    let stored = (totals.bytes as f64 * rate) as i64;
    let sum = ObjectStatSum {
        bytes: totals.bytes as i64,
        objects: totals.objects as i64,
        clones: totals.clones as i64,
        copies: totals.copies as i64,
        degraded: totals.degraded as i64,
        misplaced: totals.misplaced as i64,
        unfound: totals.unfound as i64,
        dirty: totals.objects as i64,
        reads: totals.traffic.reads as i64,
        read_kib: (totals.traffic.read_bytes >> 10) as i64,
        writes: totals.traffic.writes as i64,
        write_kib: (totals.traffic.write_bytes >> 10) as i64,
        omap_bytes: totals.omap_bytes as i64,
        omap_keys: totals.omap_keys as i64,
        large_omap: totals.large_omaps as i64,
        ..ObjectStatSum::default()
    };
    PoolStat {
        stats: ObjectStatCollection { sum, categories: 0 },
        log_size: totals.log_size as i64,
        ondisk_log_size: totals.log_size as i64,
        up: totals.up as i32,
        acting: totals.acting as i32,
        store: StoreStatfs { allocated: stored, data_stored: stored, ..StoreStatfs::default() },
        store_count: state.osdmap.in_count() as i32,
    }
}
