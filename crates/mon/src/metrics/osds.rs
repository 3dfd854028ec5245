//! Metrics of OSDs: their state in the map, facts, and the counters of their last reports.

use super::monitors::ip;
use super::page::{Column, Kind, Labels, Page};
use crate::health::View;
use crate::statistics::OsdReport;
use maps::{Osd, WEIGHT_IN};
use types::OsdId;

/// An OSD of the map, with its last report.
struct Row<'a> {
    id: OsdId,
    osd: &'a Osd,
    labels: Labels,
    report: Option<&'a OsdReport>,
}

/// Under the names of Ceph's OSDs.
const OF_CEPH: &[Column<OsdReport>] = &[
    ("ceph_osd_apply_latency_ms", Kind::Gauge, "Time until a write is visible", |r| {
        r.usage.apply_latency_us as f64 / 1e3
    }),
    ("ceph_osd_commit_latency_ms", Kind::Gauge, "Time until a write is durable", |r| {
        r.usage.commit_latency_us as f64 / 1e3
    }),
    ("ceph_osd_numpg", Kind::Gauge, "Groups of which the OSD has a copy", |r| {
        r.counters.groups as f64
    }),
    ("ceph_osd_op_wip", Kind::Gauge, "Requests in progress", |r| r.counters.in_flight as f64),
    ("ceph_osd_op", Kind::Untyped, "Requests of clients", |r| {
        (r.counters.reads + r.counters.writes) as f64
    }),
    ("ceph_osd_op_in_bytes", Kind::Untyped, "Bytes that clients wrote", |r| {
        r.counters.write_bytes as f64
    }),
    ("ceph_osd_op_out_bytes", Kind::Untyped, "Bytes that clients read", |r| {
        r.counters.read_bytes as f64
    }),
    ("ceph_osd_op_latency_sum", Kind::Untyped, "Seconds from arrival to reply", |r| {
        seconds(r.counters.read_ns + r.counters.write_ns)
    }),
    ("ceph_osd_op_latency_count", Kind::Untyped, "Requests with a reply", |r| {
        (r.counters.reads + r.counters.writes) as f64
    }),
    ("ceph_osd_op_r", Kind::Untyped, "Requests that read", |r| r.counters.reads as f64),
    ("ceph_osd_op_r_out_bytes", Kind::Untyped, "Bytes that they read", |r| {
        r.counters.read_bytes as f64
    }),
    ("ceph_osd_op_r_latency_sum", Kind::Untyped, "Seconds from arrival to reply", |r| {
        seconds(r.counters.read_ns)
    }),
    ("ceph_osd_op_r_latency_count", Kind::Untyped, "Requests that read, with a reply", |r| {
        r.counters.reads as f64
    }),
    ("ceph_osd_op_w", Kind::Untyped, "Requests that write", |r| r.counters.writes as f64),
    ("ceph_osd_op_w_in_bytes", Kind::Untyped, "Bytes that they wrote", |r| {
        r.counters.write_bytes as f64
    }),
    ("ceph_osd_op_w_latency_sum", Kind::Untyped, "Seconds from arrival to reply", |r| {
        seconds(r.counters.write_ns)
    }),
    ("ceph_osd_op_w_latency_count", Kind::Untyped, "Requests that write, with a reply", |r| {
        r.counters.writes as f64
    }),
    ("ceph_osd_recovery_ops", Kind::Untyped, "Objects that were recovered", |r| {
        r.counters.recovered as f64
    }),
    ("ceph_osd_stat_bytes", Kind::Gauge, "Size of the store", |r| r.usage.bytes_total as f64),
    ("ceph_osd_stat_bytes_used", Kind::Gauge, "Bytes in use", |r| r.usage.bytes_used as f64),
    ("ceph_osd_stat_bytes_avail", Kind::Gauge, "Bytes left", |r| r.usage.bytes_available as f64),
    ("ceph_objecter_op_r", Kind::Untyped, "Objects that were requested from other OSDs", |r| {
        r.counters.fetches as f64
    }),
    (
        "ceph_objecter_op_w",
        Kind::Untyped,
        "Objects that were written to other OSDs as a client",
        |_| 0.0,
    ),
];

/// Of parts that Ceph's OSDs do not have.
const OWN: &[Column<OsdReport>] = &[
    (
        "sepiola_osd_cpu_seconds_total",
        Kind::Counter,
        "CPU time: an equal share of that of its core",
        |r| seconds(r.counters.cpu_ns),
    ),
    ("sepiola_osd_turns_total", Kind::Counter, "Turns of its core", |r| r.counters.turns as f64),
    ("sepiola_osd_stalls_total", Kind::Counter, "Turns of its core that took over 50 ms", |r| {
        r.counters.stalls as f64
    }),
    (
        "sepiola_osd_activations_total",
        Kind::Counter,
        "Groups that became active with it as primary",
        |r| r.counters.activations as f64,
    ),
    (
        "sepiola_osd_write_queue_seconds_total",
        Kind::Counter,
        "Time of writes before they were executed",
        |r| seconds(r.counters.write_queue_ns),
    ),
    (
        "sepiola_osd_write_commit_seconds_total",
        Kind::Counter,
        "Time of writes until all members had stored them",
        |r| seconds(r.counters.write_commit_ns),
    ),
    ("sepiola_osd_slow_requests", Kind::Gauge, "Requests that are not answered in time", |r| {
        r.slow.count as f64
    }),
    ("sepiola_osd_oldest_request_seconds", Kind::Gauge, "Age of the oldest of them", |r| {
        r.slow.oldest_ms as f64 / 1e3
    }),
    ("sepiola_osd_objects", Kind::Gauge, "Objects in its store, with clones", |r| {
        r.usage.objects as f64
    }),
    ("sepiola_store_commits_total", Kind::Counter, "Transactions", |r| r.store.commits as f64),
    (
        "sepiola_store_batches_total",
        Kind::Counter,
        "Batches of the log: transactions divided by these are the size of a group commit",
        |r| r.store.batches as f64,
    ),
    ("sepiola_store_log_bytes_total", Kind::Counter, "Bytes of these batches", |r| {
        r.store.log_bytes as f64
    }),
    (
        "sepiola_store_batch_seconds_total",
        Kind::Counter,
        "Time until each batch was durable",
        |r| seconds(r.store.batch_ns),
    ),
    ("sepiola_store_flushes_total", Kind::Counter, "Flushes of devices", |r| {
        r.store.flushes as f64
    }),
    ("sepiola_store_device_reads_total", Kind::Counter, "Reads of devices", |r| {
        r.store.device_reads as f64
    }),
    ("sepiola_store_device_read_bytes_total", Kind::Counter, "Bytes of these reads", |r| {
        r.store.device_read_bytes as f64
    }),
    ("sepiola_store_repeated_reads_total", Kind::Counter, "Reads that had to be made again", |r| {
        r.store.repeated_reads as f64
    }),
    ("sepiola_store_device_writes_total", Kind::Counter, "Writes to devices", |r| {
        r.store.device_writes as f64
    }),
    ("sepiola_store_device_written_bytes_total", Kind::Counter, "Bytes of these writes", |r| {
        r.store.device_write_bytes as f64
    }),
    ("sepiola_store_cache_hits_total", Kind::Counter, "Blocks of data that were in memory", |r| {
        r.store.cache_hits as f64
    }),
    (
        "sepiola_store_cache_misses_total",
        Kind::Counter,
        "Blocks of data that had to be read",
        |r| r.store.cache_misses as f64,
    ),
    ("sepiola_store_checkpoints_total", Kind::Counter, "Checkpoints", |r| {
        r.store.checkpoints as f64
    }),
    (
        "sepiola_store_log_used_bytes",
        Kind::Gauge,
        "Bytes of the log that no checkpoint contains",
        |r| r.store.log_used_bytes as f64,
    ),
    (
        "sepiola_store_buffered_bytes",
        Kind::Gauge,
        "Changed metadata and deferred writes in memory",
        |r| r.store.buffered_bytes as f64,
    ),
];

pub(super) fn write(page: &mut Page, view: &View<'_>) {
    let rows = rows(view);
    if rows.is_empty() {
        return;
    }
    write_facts(page, view, &rows);
    write_states(page, &rows);
    let reports = rows.iter().map(|row| (&row.labels, row.report));
    page.columns(OF_CEPH, reports.clone());
    page.columns(OWN, reports);
}

/// The reports of OSDs that are down are of no present state.
fn rows<'a>(view: &View<'a>) -> Vec<Row<'a>> {
    let (map, stats) = (&view.state.osdmap, view.live.stats);
    let row = |(id, osd): (OsdId, &'a Osd)| {
        let report = stats.osd(id).filter(|_| osd.is_up());
        Row { id, osd, labels: Labels::daemon("osd", id), report }
    };
    map.existing_osds().map(row).collect()
}

fn write_states(page: &mut Page, rows: &[Row<'_>]) {
    let mut family = page.family("ceph_osd_up", Kind::Untyped, "Whether an OSD is up");
    rows.iter().for_each(|row| family.add(&row.labels, u8::from(row.osd.is_up())));
    let mut family = page.family("ceph_osd_in", Kind::Untyped, "Whether an OSD is in");
    rows.iter().for_each(|row| family.add(&row.labels, u8::from(row.osd.is_in())));
    let mut family = page.family("ceph_osd_weight", Kind::Untyped, "Weight of an OSD, 0 to 1");
    rows.iter().for_each(|row| {
        family.add(&row.labels, f64::from(row.osd.weight) / f64::from(WEIGHT_IN));
    });
    let help = "Requests of a daemon that are not answered in time";
    let mut family = page.family("ceph_daemon_health_metrics", Kind::Gauge, help);
    for Row { id, report, .. } in rows {
        if let Some(report) = report {
            let daemon = format!("osd.{id}");
            let labels = Labels::of(&[("type", "SLOW_OPS"), ("ceph_daemon", &daemon)]);
            family.add(&labels, report.slow.count);
        }
    }
}

fn write_facts(page: &mut Page, view: &View<'_>, rows: &[Row<'_>]) {
    let crush = &view.state.osdmap.crush;
    let fact = |row: &Row<'_>, name: &str| -> &str {
        let metadata = view.state.osd_metadata.get(&row.id);
        metadata.and_then(|metadata| metadata.get(name)).map_or("", String::as_str)
    };
    let mut family = page.family("ceph_osd_metadata", Kind::Gauge, "Facts about an OSD");
    for row in rows {
        family.fact(&[
            ("back_iface", fact(row, "back_iface")),
            ("ceph_daemon", &format!("osd.{}", row.id)),
            ("cluster_addr", &ip(&row.osd.cluster_addrs)),
            ("device_class", crush.item_class(row.id.0).unwrap_or_default()),
            ("front_iface", fact(row, "front_iface")),
            ("hostname", fact(row, "hostname")),
            ("objectstore", fact(row, "osd_objectstore")),
            ("public_addr", &ip(&row.osd.client_addrs)),
            ("ceph_version", fact(row, "ceph_version")),
        ]);
    }
    let disks = || rows.iter().filter(|row| !fact(row, "devices").is_empty());
    if disks().next().is_none() {
        return;
    }
    for name in ["ceph_disk_occupation", "ceph_disk_occupation_human"] {
        let mut family = page.family(name, Kind::Gauge, "The disk of an OSD");
        for row in disks() {
            family.fact(&[
                ("ceph_daemon", &format!("osd.{}", row.id)),
                ("device", &path(fact(row, "devices"))),
                ("db_device", &path(fact(row, "log_devices"))),
                ("wal_device", &path(fact(row, "log_devices"))),
                ("instance", fact(row, "hostname")),
                ("devices", fact(row, "devices")),
                ("device_ids", fact(row, "device_ids")),
            ]);
        }
    }
}

/// The path of the first of these disks.
fn path(disks: &str) -> String {
    let first = disks.split(',').next().filter(|name| !name.is_empty());
    first.map(|name| format!("/dev/{name}")).unwrap_or_default()
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}
