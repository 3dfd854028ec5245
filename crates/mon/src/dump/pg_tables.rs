//! Plain tables of placement groups and their statistics.

use super::osdmap::stamp;
use super::pgs::{Row, pgs_per_osd, primaries_per_osd, primary, set_text};
use crate::statistics::{Statistics, Totals};
use crate::table::{Table, bytes};
use maps::OsdMap;
use std::collections::BTreeMap;
use types::OsdId;
use wire::internal::pg_state;

/// `pg dump pgs_brief`
pub fn brief_table(rows: &[Row]) -> String {
    let columns = ["PG_STAT", "STATE", "UP", "^UP_PRIMARY", "ACTING", "^ACTING_PRIMARY"];
    let mut table = Table::new(&columns);
    for row in rows {
        table.row([
            row.pg.to_string(),
            pg_state::to_text(row.state),
            set_text(&row.stat.up),
            primary(&row.stat.up).to_string(),
            set_text(&row.stat.acting),
            primary(&row.stat.acting).to_string(),
        ]);
    }
    table.to_string()
}

/// `pg ls`
pub fn list_table(rows: &[Row], now: engine::Time) -> String {
    let mut table = Table::new(&[
        "PG",
        "^OBJECTS",
        "^DEGRADED",
        "^MISPLACED",
        "^UNFOUND",
        "^BYTES",
        "^OMAP_BYTES*",
        "^OMAP_KEYS*",
        "^LOG",
        "STATE",
        "^SINCE",
        "^VERSION",
        "^REPORTED",
        "^UP",
        "^ACTING",
        "SCRUB_STAMP",
        "DEEP_SCRUB_STAMP",
    ]);
    for Row { pg, state, stat } in rows {
        let since = now.since(engine::Time(stat.last_change.as_nanos())).as_secs();
        let set = |osds: &[OsdId]| format!("{}p{}", set_text(osds), primary(osds));
        table.row([
            pg.to_string(),
            stat.objects.to_string(),
            stat.degraded.to_string(),
            stat.misplaced.to_string(),
            stat.unfound.to_string(),
            stat.bytes.to_string(),
            stat.omap_bytes.to_string(),
            stat.omap_keys.to_string(),
            stat.log_size.to_string(),
            pg_state::to_text(*state),
            crate::table::age(since),
            stat.version.to_string(),
            format!("{}:{}", stat.reported_epoch, stat.reported_sequence),
            set(&stat.up),
            set(&stat.acting),
            stamp(stat.last_scrub),
            stamp(stat.last_deep_scrub),
        ]);
    }
    table.to_string()
}

/// `pg dump pgs`
pub fn dump_table(rows: &[Row]) -> String {
    let mut table = Table::new(&[
        "PG_STAT",
        "^OBJECTS",
        "^MISSING_ON_PRIMARY",
        "^DEGRADED",
        "^MISPLACED",
        "^UNFOUND",
        "^BYTES",
        "^OMAP_BYTES*",
        "^OMAP_KEYS*",
        "^LOG",
        "^DISK_LOG",
        "STATE",
        "STATE_STAMP",
        "^VERSION",
        "^REPORTED",
        "UP",
        "^UP_PRIMARY",
        "ACTING",
        "^ACTING_PRIMARY",
    ]);
    for Row { pg, state, stat } in rows {
        table.row([
            pg.to_string(),
            stat.objects.to_string(),
            "0".to_owned(),
            stat.degraded.to_string(),
            stat.misplaced.to_string(),
            stat.unfound.to_string(),
            stat.bytes.to_string(),
            stat.omap_bytes.to_string(),
            stat.omap_keys.to_string(),
            stat.log_size.to_string(),
            stat.log_size.to_string(),
            pg_state::to_text(*state),
            stamp(stat.last_change),
            stat.version.to_string(),
            format!("{}:{}", stat.reported_epoch, stat.reported_sequence),
            set_text(&stat.up),
            primary(&stat.up).to_string(),
            set_text(&stat.acting),
            primary(&stat.acting).to_string(),
        ]);
    }
    table.to_string()
}

fn totals_table(first: &str) -> Table {
    Table::new(&[
        first,
        "^OBJECTS",
        "^MISSING_ON_PRIMARY",
        "^DEGRADED",
        "^MISPLACED",
        "^UNFOUND",
        "^BYTES",
        "^OMAP_BYTES*",
        "^OMAP_KEYS*",
        "^LOG",
        "^DISK_LOG",
    ])
}

fn totals_row(table: &mut Table, first: String, totals: &Totals) {
    let numbers = [
        totals.objects,
        0,
        totals.degraded,
        totals.misplaced,
        totals.unfound,
        totals.bytes,
        totals.omap_bytes,
        totals.omap_keys,
        totals.log_size,
        totals.log_size,
    ];
    table.row([first].into_iter().chain(numbers.map(|number| number.to_string())));
}

/// Sums of each pool: `pg dump pools`.
pub fn pool_table(map: &OsdMap, stats: &Statistics) -> String {
    let mut table = totals_table("POOLID");
    for id in map.pools.keys().rev() {
        totals_row(&mut table, id.to_string(), &stats.pool_totals(*id));
    }
    table.to_string()
}

/// Sums over all groups.
pub fn sum_table(stats: &Statistics) -> String {
    let mut table = totals_table("PG_STAT");
    totals_row(&mut table, "sum".to_owned(), &stats.totals());
    table.to_string()
}

/// Sums over all OSDs.
pub fn osd_sum_table(map: &OsdMap, stats: &Statistics) -> String {
    let mut table = Table::new(&["OSD_STAT", "^USED", "^AVAIL", "^USED_RAW", "^TOTAL"]);
    table.row(osd_sums(map, stats));
    table.to_string()
}

fn osd_sums(map: &OsdMap, stats: &Statistics) -> Vec<String> {
    let sum = stats.usage(map);
    let sizes = [sum.bytes_used, sum.bytes_available, sum.bytes_used, sum.bytes_total];
    ["sum".to_owned()].into_iter().chain(sizes.map(bytes)).collect()
}

/// Usage of each OSD: `pg dump osds`.
pub fn osd_table(map: &OsdMap, stats: &Statistics) -> String {
    let mut table = Table::new(&[
        "OSD_STAT",
        "^USED",
        "^AVAIL",
        "^USED_RAW",
        "^TOTAL",
        "^HB_PEERS",
        "^PG_SUM",
        "^PRIMARY_PG_SUM",
    ]);
    let (held, led) = (pgs_per_osd(map), primaries_per_osd(map));
    for (osd, report) in stats.osds() {
        let usage = &report.usage;
        let count = |counts: &BTreeMap<OsdId, u64>| counts.get(&osd).copied().unwrap_or(0);
        table.row([
            osd.to_string(),
            bytes(usage.bytes_used),
            bytes(usage.bytes_available),
            bytes(usage.bytes_used),
            bytes(usage.bytes_total),
            "[]".to_owned(),
            count(&held).to_string(),
            count(&led).to_string(),
        ]);
    }
    let mut last = osd_sums(map, stats);
    last.resize(8, String::new());
    table.row(last);
    table.to_string()
}
