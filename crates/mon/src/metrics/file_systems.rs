//! Metrics of file systems and their metadata servers: facts of the map, and counters of the last reports.

use super::monitors::ip;
use super::page::{Column, Family, Kind, Labels, Page};
use crate::health::View;
use crate::live::MdsActivity;
use maps::{FileSystem, MdsInfo};
use types::PoolId;

/// A server with a rank, and its last report.
struct Row<'a> {
    labels: Labels,
    activity: Option<&'a MdsActivity>,
}

/// Under the names of Ceph's metadata servers.
const OF_CEPH: &[Column<MdsActivity>] = &[
    ("ceph_mds_server_handle_client_request", Kind::Untyped, "Requests of clients", |a| {
        a.counters.requests as f64
    }),
    ("ceph_mds_request", Kind::Untyped, "Requests of clients", |a| a.counters.requests as f64),
    ("ceph_mds_reply", Kind::Untyped, "Requests that were answered", |a| a.counters.replies as f64),
    ("ceph_mds_reply_latency_sum", Kind::Untyped, "Seconds until a request was answered", |a| {
        a.counters.reply_ns as f64 / 1e9
    }),
    ("ceph_mds_reply_latency_count", Kind::Untyped, "Replies whose latency is summed", |a| {
        a.counters.replies_timed as f64
    }),
    ("ceph_mds_sessions_session_count", Kind::Gauge, "Sessions of clients", |a| {
        a.counters.sessions as f64
    }),
    ("ceph_mds_inodes", Kind::Gauge, "Inodes in memory", |a| a.counters.inodes as f64),
    ("ceph_mds_mem_ino", Kind::Gauge, "Inodes in memory", |a| a.counters.inodes as f64),
    ("ceph_mds_mem_dn", Kind::Gauge, "Names in memory", |a| a.counters.inodes as f64),
    ("ceph_mds_mem_dir", Kind::Gauge, "Directories in memory", |a| a.counters.directories as f64),
    ("ceph_mds_caps", Kind::Gauge, "Capabilities of clients", |a| a.counters.caps as f64),
    ("ceph_mds_mem_cap", Kind::Gauge, "Capabilities of clients", |a| a.counters.caps as f64),
    ("ceph_mds_log_evadd", Kind::Untyped, "Records written to the journal", |a| {
        a.counters.records as f64
    }),
    ("ceph_mds_log_ev", Kind::Gauge, "Records that no checkpoint contains", |a| {
        a.counters.records_kept as f64
    }),
    ("ceph_mds_log_seg", Kind::Gauge, "Segments of the journal", |a| a.counters.segments as f64),
    // One rank serves a file system.
    ("ceph_mds_forward", Kind::Untyped, "Requests that were sent on to another rank", |_| 0.0),
    ("ceph_mds_server_handle_peer_request", Kind::Untyped, "Requests of other ranks", |_| 0.0),
];

/// Of parts that Ceph's servers do not have.
const OWN: &[Column<MdsActivity>] = &[
    (
        "sepiola_mds_cpu_seconds_total",
        Kind::Counter,
        "CPU time: an equal share of that of its core",
        |a| a.counters.cpu_ns as f64 / 1e9,
    ),
    (
        "sepiola_mds_early_replies_total",
        Kind::Counter,
        "Requests that were answered before their change was stored",
        |a| a.counters.early_replies as f64,
    ),
    (
        "sepiola_mds_asynchronous_requests_total",
        Kind::Counter,
        "Creates and unlinks on which the client had acted before it asked",
        |a| a.counters.asynchronous as f64,
    ),
    ("sepiola_mds_evictions_total", Kind::Counter, "Clients that were evicted", |a| {
        a.counters.evictions as f64
    }),
    ("sepiola_mds_requests_in_flight", Kind::Gauge, "Requests in progress", |a| {
        a.counters.in_flight as f64
    }),
    ("sepiola_mds_purges", Kind::Gauge, "Inodes whose data remains to be removed", |a| {
        a.counters.purges as f64
    }),
];

pub(super) fn write(page: &mut Page, view: &View<'_>) {
    let file_systems = || view.state.fs.map.file_systems.values();
    if file_systems().next().is_none() {
        return;
    }
    let mut family = page.family("ceph_fs_metadata", Kind::Gauge, "Facts about a file system");
    file_systems().for_each(|fs| write_file_system(&mut family, fs));
    let mut family = page.family("ceph_mds_metadata", Kind::Gauge, "Facts about a metadata server");
    for fs in file_systems() {
        fs.map
            .ranked()
            .for_each(|info| write_server(&mut family, view, &fs.fscid.to_string(), info));
    }
    let standbys = view.state.fs.map.standbys.values();
    standbys.for_each(|info| write_server(&mut family, view, "-1", info));
    let rows: Vec<Row<'_>> = file_systems()
        .flat_map(|fs| fs.map.ranked())
        .map(|info| Row {
            labels: Labels::daemon("mds", &info.name),
            activity: view.live.mds.activity(info.gid),
        })
        .collect();
    let reports = rows.iter().map(|row| (&row.labels, row.activity));
    page.columns(OF_CEPH, reports.clone());
    page.columns(OWN, reports);
}

fn write_file_system(family: &mut Family<'_>, fs: &FileSystem) {
    let id = |pool: &PoolId| pool.0.to_string();
    let data: Vec<String> = fs.map.data_pools.iter().map(id).collect();
    family.fact(&[
        ("data_pools", &data.join(",")),
        ("fs_id", &fs.fscid.to_string()),
        ("metadata_pool", &id(&fs.map.metadata_pool)),
        ("name", &fs.map.fs_name),
    ]);
}

fn write_server(family: &mut Family<'_>, view: &View<'_>, fs_id: &str, info: &MdsInfo) {
    let fact = |name| view.state.fs.fact(info.gid, name).unwrap_or_default();
    family.fact(&[
        ("ceph_daemon", &format!("mds.{}", info.name)),
        ("fs_id", fs_id),
        ("hostname", fact("hostname")),
        ("public_addr", &ip(&info.addrs)),
        ("rank", &info.rank.to_string()),
        ("ceph_version", fact("ceph_version")),
    ]);
}
