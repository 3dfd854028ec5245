//! Formatting of placement groups and their statistics.

use super::osdmap::stamp;
use crate::statistics::{Statistics, Totals};
use maps::OsdMap;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use types::{OsdId, PgId, PoolId};
use wire::internal::{OsdUsage, PgStat, pg_state};

/// Shown for epochs that are not recorded, such as that of a group's creation.
const NO_EPOCH: u32 = 0;

/// Number of groups that the map puts on each OSD.
pub fn pgs_per_osd(map: &OsdMap) -> BTreeMap<OsdId, u64> {
    let mut counts = BTreeMap::new();
    for mapping in all_mappings(map) {
        for osd in mapping.up.into_iter().filter(|osd| *osd != OsdId::NONE) {
            *counts.entry(osd).or_default() += 1;
        }
    }
    counts
}

/// Number of groups of which each OSD is the primary.
pub fn primaries_per_osd(map: &OsdMap) -> BTreeMap<OsdId, u64> {
    let mut counts = BTreeMap::new();
    for primary in all_mappings(map).filter_map(|mapping| mapping.acting_primary) {
        *counts.entry(primary).or_default() += 1;
    }
    counts
}

fn all_mappings(map: &OsdMap) -> impl Iterator<Item = maps::Mapping> + '_ {
    let mut placement = map.placement();
    let pgs = map.pools.keys().flat_map(|pool| map.pgs(*pool));
    pgs.map(move |pg| placement.pg_to_osds(pg))
}

/// A group with its current state and last report.
pub struct Row {
    pub pg: PgId,
    pub state: u64,
    pub stat: PgStat,
}

/// All groups that exist. A group without a report has state zero, and its placement is that of the map.
pub fn rows(map: &OsdMap, stats: &Statistics) -> Vec<Row> {
    let mut placement = map.placement();
    let row = |(pg, state): (PgId, u64)| {
        let stat = stats.pg(pg).cloned().unwrap_or_else(|| {
            let mapping = placement.pg_to_osds(pg);
            PgStat { up: mapping.up, acting: mapping.acting, ..PgStat::default() }
        });
        Row { pg, state, stat }
    };
    stats.pg_states(map).map(row).collect()
}

fn ids(osds: &[OsdId]) -> Vec<i32> {
    osds.iter().map(|osd| osd.0).collect()
}

/// The id of the primary, or -1.
pub fn primary(osds: &[OsdId]) -> i32 {
    osds.iter().find(|osd| **osd != OsdId::NONE).map_or(-1, |osd| osd.0)
}

/// `[0,NONE,2]`
pub fn set_text(osds: &[OsdId]) -> String {
    let name = |osd: &OsdId| match *osd {
        OsdId::NONE => "NONE".to_owned(),
        osd => osd.to_string(),
    };
    format!("[{}]", osds.iter().map(name).collect::<Vec<_>>().join(","))
}

/// `pg dump pgs_brief`
pub fn brief_json(row: &Row) -> Value {
    json!({
        "pgid": row.pg.to_string(),
        "state": pg_state::to_text(row.state),
        "up": ids(&row.stat.up),
        "acting": ids(&row.stat.acting),
        "up_primary": primary(&row.stat.up),
        "acting_primary": primary(&row.stat.acting),
    })
}

/// `pg dump pgs`
pub fn json(row: &Row) -> Value {
    let stat = &row.stat;
    let mut object = Map::new();
    for part in [times(row), log(row)] {
        if let Value::Object(part) = part {
            object.extend(part);
        }
    }
    object.insert("stat_sum".to_owned(), stat_sum(&Totals::of([stat])));
    let sets = json!({
        "up": ids(&stat.up),
        "acting": ids(&stat.acting),
        "avail_no_missing": [],
        "object_location_counts": [],
        "blocked_by": [],
        "up_primary": primary(&stat.up),
        "acting_primary": primary(&stat.acting),
        "purged_snaps": purged(stat),
    });
    if let Value::Object(sets) = sets {
        object.extend(sets);
    }
    Value::Object(object)
}

/// Removed snapshots of which the group has no clones left.
fn purged(stat: &PgStat) -> Value {
    let interval = |(first, length): &(types::SnapId, u64)| json!({ "start": first.0.to_string(), "length": length.to_string() });
    stat.purged_snaps.iter().map(interval).collect()
}

fn times(row: &Row) -> Value {
    let stat = &row.stat;
    let active = stamp(stat.last_active);
    json!({
        "pgid": row.pg.to_string(),
        "version": stat.version.to_string(),
        "reported_seq": stat.reported_sequence,
        "reported_epoch": stat.reported_epoch.0,
        "state": pg_state::to_text(row.state),
        "last_fresh": active,
        "last_change": stamp(stat.last_change),
        "last_active": active,
        "last_peered": active,
        "last_clean": stamp(stat.last_clean),
        "last_became_active": stamp(stat.last_change),
        "last_became_peered": stamp(stat.last_change),
        "last_unstale": active,
        "last_undegraded": active,
        "last_fullsized": active,
        "mapping_epoch": NO_EPOCH,
    })
}

fn log(row: &Row) -> Value {
    let stat = &row.stat;
    json!({
        "log_start": "0'0",
        "ondisk_log_start": "0'0",
        "created": NO_EPOCH,
        "last_epoch_clean": stat.reported_epoch.0,
        "parent": "0.0",
        "parent_split_bits": 0,
        "last_scrub": "0'0",
        "last_scrub_stamp": stamp(stat.last_scrub),
        "last_deep_scrub": "0'0",
        "last_deep_scrub_stamp": stamp(stat.last_deep_scrub),
        "last_clean_scrub_stamp": stamp(stat.last_scrub),
        "objects_scrubbed": 0,
        "log_size": stat.log_size,
        "log_dups_size": 0,
        "ondisk_log_size": stat.log_size,
        "stats_invalid": false,
        "dirty_stats_invalid": false,
        "omap_stats_invalid": false,
        "hitset_stats_invalid": false,
        "hitset_bytes_stats_invalid": false,
        "pin_stats_invalid": false,
        "manifest_stats_invalid": false,
        "snaptrimq_len": stat.snaptrim_queue,
        "last_scrub_duration": 0,
        "scrub_schedule": "",
        "scrub_duration": 0,
        "objects_trimmed": 0,
        "snaptrim_duration": 0,
    })
}

/// The counters that are kept; the others of `object_stat_sum_t` are zero.
pub fn stat_sum(totals: &Totals) -> Value {
    let mut sum = Map::new();
    let known = [
        ("num_bytes", totals.bytes),
        ("num_objects", totals.objects),
        ("num_object_clones", totals.clones),
        ("num_object_copies", totals.copies),
        ("num_objects_missing_on_primary", 0),
        ("num_objects_missing", 0),
        ("num_objects_degraded", totals.degraded),
        ("num_objects_misplaced", totals.misplaced),
        ("num_objects_unfound", totals.unfound),
        ("num_objects_dirty", totals.objects),
        ("num_whiteouts", 0),
        ("num_read", totals.traffic.reads),
        ("num_read_kb", totals.traffic.read_bytes >> 10),
        ("num_write", totals.traffic.writes),
        ("num_write_kb", totals.traffic.write_bytes >> 10),
        ("num_scrub_errors", totals.scrub_errors),
        ("num_shallow_scrub_errors", 0),
        ("num_deep_scrub_errors", totals.scrub_errors),
        ("num_objects_recovered", totals.traffic.recovered_objects),
        ("num_bytes_recovered", totals.traffic.recovered_bytes),
        ("num_keys_recovered", 0),
        ("num_objects_omap", 0),
        ("num_objects_hit_set_archive", 0),
        ("num_bytes_hit_set_archive", 0),
        ("num_flush", 0),
        ("num_flush_kb", 0),
        ("num_evict", 0),
        ("num_evict_kb", 0),
        ("num_promote", 0),
        ("num_flush_mode_high", 0),
        ("num_flush_mode_low", 0),
        ("num_evict_mode_some", 0),
        ("num_evict_mode_full", 0),
        ("num_objects_pinned", 0),
        ("num_legacy_snapsets", 0),
        ("num_large_omap_objects", totals.large_omaps),
        ("num_objects_manifest", 0),
        ("num_omap_bytes", totals.omap_bytes),
        ("num_omap_keys", totals.omap_keys),
        ("num_objects_repaired", totals.repaired),
    ];
    sum.extend(known.map(|(name, value)| (name.to_owned(), json!(value))));
    Value::Object(sum)
}

/// `store_statfs_t`; arguments are in bytes.
pub fn statfs(total: u64, available: u64, allocated: u64, omap: u64, meta: u64) -> Value {
    json!({
        "total": total,
        "available": available,
        "internally_reserved": 0,
        "allocated": allocated,
        "data_stored": allocated,
        "data_compressed": 0,
        "data_compressed_allocated": 0,
        "data_compressed_original": 0,
        "omap_allocated": omap,
        "internal_metadata": meta,
    })
}

/// Sums of a pool, or of all (`pool_stat_t`).
pub fn sums_json(totals: &Totals, stores: u64) -> Value {
    json!({
        "stat_sum": stat_sum(totals),
        "store_stats": statfs(0, 0, totals.bytes, totals.omap_bytes, 0),
        "log_size": totals.log_size,
        "ondisk_log_size": totals.log_size,
        "up": totals.up,
        "acting": totals.acting,
        "num_store_stats": stores,
    })
}

/// Sums of one pool, as in `pg dump pools`.
pub fn pool_json(map: &OsdMap, stats: &Statistics, pool: PoolId) -> Value {
    let totals = stats.pool_totals(pool);
    let mut object = Map::new();
    object.insert("poolid".to_owned(), json!(pool.0));
    let pgs = map.pool(pool).map_or(0, |pool| pool.pg_num);
    object.insert("num_pg".to_owned(), json!(pgs));
    if let Value::Object(sums) = sums_json(&totals, map.in_count() as u64) {
        object.extend(sums);
    }
    Value::Object(object)
}

/// `osd_stat_t` of one OSD, or of all.
pub fn osd_json(usage: &OsdUsage, osds: u64, pgs: u64) -> Value {
    let data = usage.bytes_used.saturating_sub(usage.bytes_omap + usage.bytes_meta);
    let milliseconds = |microseconds: u64| microseconds / 1000;
    json!({
        "up_from": NO_EPOCH,
        "seq": 0,
        "num_pgs": pgs,
        "num_osds": osds,
        "num_per_pool_osds": osds,
        "num_per_pool_omap_osds": osds,
        "kb": usage.bytes_total >> 10,
        "kb_used": usage.bytes_used >> 10,
        "kb_used_data": data >> 10,
        "kb_used_omap": usage.bytes_omap >> 10,
        "kb_used_meta": usage.bytes_meta >> 10,
        "kb_avail": usage.bytes_available >> 10,
        "statfs": statfs(
            usage.bytes_total,
            usage.bytes_available,
            data,
            usage.bytes_omap,
            usage.bytes_meta
        ),
        "hb_peers": [],
        "snap_trim_queue_len": 0,
        "num_snap_trimming": 0,
        "num_shards_repaired": 0,
        "op_queue_age_hist": { "histogram": [], "upper_bound": 1 },
        "perf_stat": {
            "commit_latency_ms": milliseconds(usage.commit_latency_us),
            "apply_latency_ms": milliseconds(usage.apply_latency_us),
            "commit_latency_ns": usage.commit_latency_us * 1000,
            "apply_latency_ns": usage.apply_latency_us * 1000,
        },
        "alerts": [],
        "network_ping_times": [],
    })
}
