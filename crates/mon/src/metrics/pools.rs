//! Metrics of pools, and of their placement groups by state.

use super::page::{Kind, Labels, Page};
use crate::health::View;
use crate::usage::{PoolUsage, pool_usage};
use maps::{OsdMap, Pool, PoolOption};
use std::collections::BTreeMap;
use types::PoolId;
use wire::internal::pg_state;

/// States of groups, with the bit of each, under the names that Ceph's metrics have
/// now and had before.
const STATES: [(&str, u64); 36] = [
    ("ceph_pg_creating", pg_state::CREATING),
    ("ceph_pg_active", pg_state::ACTIVE),
    ("ceph_pg_activating", pg_state::ACTIVATING),
    ("ceph_pg_clean", pg_state::CLEAN),
    ("ceph_pg_down", pg_state::DOWN),
    ("ceph_pg_recovery_unfound", pg_state::RECOVERY_UNFOUND),
    ("ceph_pg_backfill_unfound", pg_state::BACKFILL_UNFOUND),
    ("ceph_pg_premerge", pg_state::PREMERGE),
    ("ceph_pg_scrubbing", pg_state::SCRUBBING),
    ("ceph_pg_degraded", pg_state::DEGRADED),
    ("ceph_pg_inconsistent", pg_state::INCONSISTENT),
    ("ceph_pg_peering", pg_state::PEERING),
    ("ceph_pg_repair", pg_state::REPAIR),
    ("ceph_pg_recovering", pg_state::RECOVERING),
    ("ceph_pg_recovery_wait", pg_state::RECOVERY_WAIT),
    ("ceph_pg_recovery_toofull", pg_state::RECOVERY_TOOFULL),
    ("ceph_pg_backfill_wait", pg_state::BACKFILL_WAIT),
    ("ceph_pg_wait_backfill", pg_state::BACKFILL_WAIT),
    ("ceph_pg_backfilling", pg_state::BACKFILLING),
    ("ceph_pg_backfill", pg_state::BACKFILLING),
    ("ceph_pg_backfill_toofull", pg_state::BACKFILL_TOOFULL),
    ("ceph_pg_incomplete", pg_state::INCOMPLETE),
    ("ceph_pg_stale", pg_state::STALE),
    ("ceph_pg_remapped", pg_state::REMAPPED),
    ("ceph_pg_deep", pg_state::DEEP_SCRUB),
    ("ceph_pg_undersized", pg_state::UNDERSIZED),
    ("ceph_pg_peered", pg_state::PEERED),
    ("ceph_pg_snaptrim", pg_state::SNAPTRIM),
    ("ceph_pg_snaptrim_wait", pg_state::SNAPTRIM_WAIT),
    ("ceph_pg_snaptrim_error", pg_state::SNAPTRIM_ERROR),
    ("ceph_pg_forced_recovery", pg_state::FORCED_RECOVERY),
    ("ceph_pg_forced_backfill", pg_state::FORCED_BACKFILL),
    ("ceph_pg_failed_repair", pg_state::FAILED_REPAIR),
    ("ceph_pg_laggy", pg_state::LAGGY),
    ("ceph_pg_wait", pg_state::WAIT),
    // No bit.
    ("ceph_pg_unknown", 0),
];

/// A pool with its numbers.
struct Row<'a> {
    id: PoolId,
    pool: &'a Pool,
    labels: Labels,
    usage: PoolUsage,
    counts: Counts,
}

/// Groups of a pool.
#[derive(Debug, Clone, Copy)]
struct Counts {
    groups: u64,
    /// Those without a state.
    unknown: u64,
    /// Those in a state, by the number of its bit.
    by_bit: [u64; u64::BITS as usize],
}

impl Counts {
    const NONE: Counts = Counts { groups: 0, unknown: 0, by_bit: [0; u64::BITS as usize] };

    fn add(&mut self, state: u64) {
        self.groups += 1;
        self.unknown += u64::from(state == 0);
        let mut bits = state;
        while bits != 0 {
            self.by_bit[bits.trailing_zeros() as usize] += 1;
            bits &= bits - 1;
        }
    }

    /// Groups in a state of [`STATES`].
    fn of(&self, state: u64) -> u64 {
        if state == 0 { self.unknown } else { self.by_bit[state.trailing_zeros() as usize] }
    }
}

/// A number of a pool: name, type, help, value.
type Column = (&'static str, Kind, &'static str, fn(&Row<'_>) -> f64);

const COLUMNS: &[Column] = &[
    ("ceph_pg_total", Kind::Untyped, "Groups of a pool", |row| row.counts.groups as f64),
    ("ceph_pool_max_avail", Kind::Gauge, "Bytes that can still be stored", |row| {
        row.usage.available as f64
    }),
    ("ceph_pool_avail_raw", Kind::Gauge, "The same, as raw bytes", |row| {
        row.usage.raw_available as f64
    }),
    ("ceph_pool_stored", Kind::Gauge, "Bytes stored, as clients see them", |row| {
        row.usage.stored as f64
    }),
    ("ceph_pool_stored_raw", Kind::Gauge, "Bytes stored, in all copies", |row| {
        row.usage.used as f64
    }),
    ("ceph_pool_bytes_used", Kind::Gauge, "Bytes used on OSDs", |row| row.usage.used as f64),
    ("ceph_pool_percent_used", Kind::Gauge, "Share of the reachable space in use, 0 to 1", |row| {
        row.usage.percent
    }),
    ("ceph_pool_objects", Kind::Gauge, "Objects, with clones", |row| row.usage.objects as f64),
    ("ceph_pool_dirty", Kind::Gauge, "Objects that a cache tier has not written back", |_| 0.0),
    ("ceph_pool_quota_bytes", Kind::Gauge, "Quota in bytes; 0 is none", |row| {
        row.pool.quota_max_bytes as f64
    }),
    ("ceph_pool_quota_objects", Kind::Gauge, "Quota in objects; 0 is none", |row| {
        row.pool.quota_max_objects as f64
    }),
    ("ceph_pool_compress_bytes_used", Kind::Gauge, "Bytes used by compressed data", |_| 0.0),
    (
        "ceph_pool_compress_under_bytes",
        Kind::Gauge,
        "Bytes of data that is stored compressed",
        |_| 0.0,
    ),
    ("ceph_pool_rd", Kind::Untyped, "Operations that read", |row| {
        row.usage.totals.traffic.reads as f64
    }),
    ("ceph_pool_rd_bytes", Kind::Untyped, "Bytes read", |row| {
        row.usage.totals.traffic.read_bytes as f64
    }),
    ("ceph_pool_wr", Kind::Untyped, "Operations that write", |row| {
        row.usage.totals.traffic.writes as f64
    }),
    ("ceph_pool_wr_bytes", Kind::Untyped, "Bytes written", |row| {
        row.usage.totals.traffic.write_bytes as f64
    }),
    ("ceph_pool_num_objects_recovered", Kind::Untyped, "Objects that were recovered", |row| {
        row.usage.totals.traffic.recovered_objects as f64
    }),
    ("ceph_pool_num_bytes_recovered", Kind::Untyped, "Bytes of these objects", |row| {
        row.usage.totals.traffic.recovered_bytes as f64
    }),
];

pub(super) fn write(page: &mut Page, view: &View<'_>) {
    let map = &view.state.osdmap;
    let rows = rows(view);
    if rows.is_empty() {
        return;
    }
    let mut family = page.family("ceph_pool_metadata", Kind::Gauge, "Facts about a pool");
    for row in &rows {
        let (kind, description) = kind_of(map, row.pool);
        family.fact(&[
            ("pool_id", &row.id.to_string()),
            ("name", map.pool_name(row.id).unwrap_or_default()),
            ("type", kind),
            ("description", &description),
            ("compression_mode", &compression_mode(row.pool)),
            ("application", &applications(row.pool)),
        ]);
    }
    for (name, kind, help, value) in COLUMNS {
        let mut family = page.family(name, *kind, help);
        rows.iter().for_each(|row| family.add(&row.labels, value(row)));
    }
    for (name, state) in STATES {
        let mut family = page.family(name, Kind::Gauge, "Groups of a pool in this state");
        rows.iter().for_each(|row| family.add(&row.labels, row.counts.of(state)));
    }
}

fn rows<'a>(view: &View<'a>) -> Vec<Row<'a>> {
    let (map, stats) = (&view.state.osdmap, view.live.stats);
    let mut counts = BTreeMap::<PoolId, Counts>::new();
    for (pg, state) in stats.pg_states(map) {
        counts.entry(pg.pool).or_insert(Counts::NONE).add(state);
    }
    let row = |(id, pool): (&PoolId, &'a Pool)| {
        let counts = counts.get(id).copied().unwrap_or(Counts::NONE);
        let labels = Labels::of(&[("pool_id", &id.to_string())]);
        Row { id: *id, pool, labels, usage: pool_usage(map, stats, *id), counts }
    };
    map.pools.iter().map(row).collect()
}

/// `replicated` and `replica:3`, or `erasure` and `ec:4+2`
fn kind_of(map: &OsdMap, pool: &Pool) -> (&'static str, String) {
    if pool.is_replicated() {
        return ("replicated", format!("replica:{}", pool.size));
    }
    let profile = map.erasure_code_profiles.get(&pool.erasure_code_profile);
    let shards =
        |name: &str| profile.and_then(|profile| profile.get(name)).map_or("?", String::as_str);
    ("erasure", format!("ec:{}+{}", shards("k"), shards("m")))
}

fn compression_mode(pool: &Pool) -> String {
    let option =
        PoolOption::from_name("compression_mode").and_then(|name| pool.options.0.get(&name));
    let value = option.map(crate::dump::pool::option_value);
    value.and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_else(|| "none".to_owned())
}

/// In words that dashboards show: `Block`, `Filesystem`, `Object`, or the names of other applications.
fn applications(pool: &Pool) -> String {
    let name = |name: &String| match name.as_str() {
        "rbd" => "Block".to_owned(),
        "cephfs" => "Filesystem".to_owned(),
        "rgw" => "Object".to_owned(),
        other => other.to_owned(),
    };
    pool.application_metadata.keys().map(name).collect::<Vec<_>>().join(",")
}
