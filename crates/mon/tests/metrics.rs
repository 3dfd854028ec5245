//! Metrics for Prometheus.

mod cluster;

use bytes::Bytes;
use cluster::Cluster;
use mon::{DiskSpace, Monitor, Settings};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{OsdId, PoolId};
use wire::internal::{
    ImageTraffic, OsdCounters, OsdUsage, SlowRequests, StatsAck, StatsReport, StoreCounters,
};

/// The metrics that the dashboards and alert rules of Ceph 20.2 read of a cluster without file systems,
/// gateways and mirrors, without `ceph_`.
const OF_DASHBOARDS: &str = "
    health_status health_detail healthcheck_slow_ops daemon_health_metrics mon_metadata mon_quorum_status mgr_metadata
    mgr_status osd_metadata osd_up osd_in osd_apply_latency_ms osd_commit_latency_ms osd_numpg osd_op_r osd_op_w
    osd_op_r_out_bytes osd_op_w_in_bytes osd_recovery_ops osd_stat_bytes osd_stat_bytes_used osd_op_r_latency_sum
    osd_op_r_latency_count osd_op_w_latency_sum osd_op_w_latency_count disk_occupation disk_occupation_human
    cluster_total_bytes cluster_total_used_bytes cluster_by_class_total_used_bytes pool_metadata pool_bytes_used
    pool_compress_bytes_used pool_compress_under_bytes pool_dirty pool_max_avail pool_objects pool_percent_used
    pool_quota_bytes pool_quota_objects pool_rd pool_rd_bytes pool_stored pool_stored_raw pool_wr pool_wr_bytes pg_total
    pg_active pg_backfill pg_backfill_toofull pg_clean pg_creating pg_deep pg_degraded pg_down pg_forced_backfill
    pg_forced_recovery pg_incomplete pg_inconsistent pg_peered pg_peering pg_recovering pg_remapped pg_repair
    pg_scrubbing pg_stale pg_undersized pg_wait_backfill rbd_read_ops rbd_write_ops rbd_read_bytes rbd_write_bytes
    rbd_read_latency_sum rbd_read_latency_count rbd_write_latency_sum rbd_write_latency_count objecter_op_r
    objecter_op_w";

/// Where metrics are served.
const URL: &str = "http://127.0.0.1:9283/";

/// A cluster with a pool, of which one image is written.
fn cluster() -> Cluster {
    let services = [("prometheus".to_owned(), URL.to_owned())].into();
    let Cluster { control, now, .. } = Cluster::new();
    let monitor = Monitor::new(Settings { services, ..cluster::settings() }, [9; 32]);
    let mut cluster = Cluster::run(monitor, control, now);
    cluster.abilities = vec!["devices"];
    (0..3).for_each(|osd| cluster.boot(osd));
    for command in [
        json!({ "prefix": "osd pool create", "pool": "vms", "pg_num": 8 }),
        json!({ "prefix": "osd pool application enable", "pool": "vms", "app": "rbd" }),
        json!({ "prefix": "osd set", "key": "noout" }),
        json!({ "prefix": "config set", "who": "mgr", "name": "mgr/prometheus/rbd_stats_pools", "value": "vms" }),
    ] {
        assert_eq!(cluster.command(command.clone()).result, 0, "{command}");
    }
    (0..3).for_each(|osd| cluster.report(osd, 10));
    cluster
}

fn scrape(cluster: &mut Cluster) -> String {
    let text = cluster.monitor.scrape(cluster.now);
    check_format(&text);
    text
}

/// Each family stands once with its help and type, and each sample once, below its family.
fn check_format(text: &str) {
    let (mut families, mut samples) = (BTreeSet::new(), BTreeSet::new());
    let mut family = "";
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            family = help.split(' ').next().unwrap();
            assert!(families.insert(family) && help.len() > family.len() + 1, "{line}");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert!(name == family && ["gauge", "counter", "untyped"].contains(&kind), "{line}");
        } else {
            let (sample, value) = line.rsplit_once(' ').unwrap();
            assert_eq!(sample.split('{').next().unwrap(), family, "{line}");
            assert!(value.parse::<f64>().is_ok() && samples.insert(sample), "{line}");
        }
    }
}

fn value(text: &str, sample: &str) -> Option<f64> {
    let line =
        text.lines().find(|line| line.rsplit_once(' ').is_some_and(|(name, _)| name == sample));
    line.map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
}

/// An image named `disk`, whose data was written ten times.
fn report_image(cluster: &mut Cluster) {
    let image = ImageTraffic {
        pool: PoolId(1),
        image: Bytes::from_static(b"10ab"),
        writes: 10,
        write_bytes: 40_960,
        write_ns: 5_000,
        ..ImageTraffic::default()
    };
    let report = StatsReport { images: vec![image], images_ms: 1000, ..StatsReport::default() };
    cluster.send(Cluster::osd_conn(0), 1, &report);
}

/// As a worker does that has looked up the image's name.
fn name_image(cluster: &mut Cluster) {
    let names = json!([{ "pool": 1, "namespace": "", "id": "10ab", "name": "disk" }]).to_string();
    let command = json!({ "prefix": "rbd perf image name", "names": names });
    assert_eq!(cluster.command(command).result, 0);
}

#[test]
fn a_scrape_has_what_the_dashboards_of_ceph_read() {
    let mut cluster = cluster();
    scrape(&mut cluster);
    report_image(&mut cluster);
    name_image(&mut cluster);
    (0..3).for_each(|osd| cluster.report(osd, 10));
    let text = scrape(&mut cluster);
    let names: BTreeSet<&str> =
        text.lines().filter_map(|line| line.split(['{', ' ']).next()).collect();
    let missing: Vec<&str> = OF_DASHBOARDS
        .split_whitespace()
        .filter(|name| !names.contains(format!("ceph_{name}").as_str()))
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
    assert_eq!(OF_DASHBOARDS.split_whitespace().count(), 78);
}

#[test]
fn samples_say_what_commands_say() {
    let mut cluster = cluster();
    let text = scrape(&mut cluster);
    for (sample, expected) in [
        ("ceph_health_status", 1.0),
        ("ceph_health_detail{name=\"OSDMAP_FLAGS\",severity=\"HEALTH_WARN\"}", 1.0),
        ("ceph_osd_flag_noout", 1.0),
        ("ceph_osd_flag_noin", 0.0),
        ("ceph_osd_up{ceph_daemon=\"osd.2\"}", 1.0),
        ("ceph_osd_weight{ceph_daemon=\"osd.2\"}", 1.0),
        ("ceph_osd_stat_bytes{ceph_daemon=\"osd.1\"}", f64::from(4 << 20) * 1024.0),
        ("ceph_mon_quorum_status{ceph_daemon=\"mon.a\"}", 1.0),
        ("ceph_mgr_status{ceph_daemon=\"mgr.x\"}", 1.0),
        (
            "ceph_cluster_by_class_total_used_bytes{device_class=\"hdd\"}",
            f64::from(3 << 20) * 1024.0,
        ),
        ("ceph_pg_total{pool_id=\"1\"}", 8.0),
        ("ceph_pg_clean{pool_id=\"1\"}", 8.0),
        ("ceph_pg_unknown{pool_id=\"1\"}", 0.0),
        ("ceph_pool_objects{pool_id=\"1\"}", 80.0),
        ("ceph_pool_stored{pool_id=\"1\"}", 8000.0),
        ("ceph_pool_stored_raw{pool_id=\"1\"}", 24000.0),
    ] {
        assert_eq!(value(&text, sample), Some(expected), "{sample}");
    }
    let df = cluster.json(json!({ "prefix": "df", "detail": "detail" }));
    let pool = &df["pools"][0]["stats"];
    let max_avail = value(&text, "ceph_pool_max_avail{pool_id=\"1\"}").unwrap();
    assert_eq!(pool["max_avail"].as_u64(), Some(max_avail as u64));
    let pool = "ceph_pool_metadata{pool_id=\"1\",name=\"vms\",type=\"replicated\",description=\"replica:3\",\
                compression_mode=\"none\",application=\"Block\"}";
    assert_eq!(value(&text, pool), Some(1.0), "{text}");
}

#[test]
fn counters_are_those_of_the_last_report_while_the_osd_is_up() {
    let mut cluster = cluster();
    let slow = SlowRequests { count: 4, oldest_ms: 31_000, ..SlowRequests::default() };
    let counters =
        OsdCounters { writes: 7, write_ns: 1_500_000_000, groups: 24, ..OsdCounters::default() };
    let usage = OsdUsage { commit_latency_us: 1500, ..OsdUsage::default() };
    let report = StatsReport { osd: OsdId(1), counters, slow, usage, ..StatsReport::default() };
    cluster.send(Cluster::osd_conn(1), 1, &report);
    let text = scrape(&mut cluster);
    for (sample, expected) in [
        ("ceph_osd_op_w{ceph_daemon=\"osd.1\"}", 7.0),
        ("ceph_osd_op_w_latency_sum{ceph_daemon=\"osd.1\"}", 1.5),
        ("ceph_osd_op_w_latency_count{ceph_daemon=\"osd.1\"}", 7.0),
        ("ceph_osd_numpg{ceph_daemon=\"osd.1\"}", 24.0),
        ("ceph_osd_commit_latency_ms{ceph_daemon=\"osd.1\"}", 1.5),
        ("ceph_daemon_health_metrics{type=\"SLOW_OPS\",ceph_daemon=\"osd.1\"}", 4.0),
        ("ceph_daemon_health_metrics{type=\"SLOW_OPS\",ceph_daemon=\"osd.0\"}", 0.0),
        ("ceph_healthcheck_slow_ops", 4.0),
        ("ceph_health_detail{name=\"SLOW_OPS\",severity=\"HEALTH_WARN\"}", 1.0),
    ] {
        assert_eq!(value(&text, sample), Some(expected), "{sample}");
    }
    assert_eq!(cluster.command(json!({ "prefix": "osd down", "ids": ["1"] })).result, 0);
    let text = scrape(&mut cluster);
    assert_eq!(value(&text, "ceph_osd_up{ceph_daemon=\"osd.1\"}"), Some(0.0));
    assert_eq!(value(&text, "ceph_osd_op_w{ceph_daemon=\"osd.1\"}"), None);
}

#[test]
fn images_are_counted_while_they_are_scraped_and_an_option_names_their_pools() {
    let mut cluster = cluster();
    let counted_for = |cluster: &mut Cluster| {
        cluster.report(0, 10);
        let acks = cluster.take::<StatsAck>(Cluster::osd_conn(0));
        acks.last().unwrap().count_images
    };
    assert_eq!(counted_for(&mut cluster), 0, "it is not scraped");
    scrape(&mut cluster);
    assert!(counted_for(&mut cluster) > 0);
    report_image(&mut cluster);
    name_image(&mut cluster);
    let text = scrape(&mut cluster);
    let of =
        |name: &str| value(&text, &format!("{name}{{pool=\"vms\",namespace=\"\",image=\"disk\"}}"));
    assert_eq!(of("ceph_rbd_write_ops"), Some(10.0));
    assert_eq!(of("ceph_rbd_write_latency_sum"), Some(5000.0));
    cluster.advance(Duration::from_secs(90));
    assert_eq!(counted_for(&mut cluster), 0, "nobody scrapes any more");
    let other = json!({ "prefix": "config set", "who": "mgr", "name": "mgr/prometheus/rbd_stats_pools", "value": "" });
    assert_eq!(cluster.command(other).result, 0);
    scrape(&mut cluster);
    assert_eq!(counted_for(&mut cluster), 0, "no pool is named");
}

#[test]
fn the_leader_says_where_its_metrics_are() {
    let mut cluster = cluster();
    cluster.advance(Duration::from_secs(2));
    let services = cluster.json(json!({ "prefix": "mgr services" }));
    assert_eq!(services, json!({ "prometheus": URL }));
    let status = cluster.json(json!({ "prefix": "status" }));
    assert_eq!(status["mgrmap"]["services"]["prometheus"], URL);
}

#[test]
fn labels_of_all_pools_and_daemons_are_there() {
    let mut cluster = cluster();
    let text = scrape(&mut cluster);
    let mut by_family = BTreeMap::<&str, usize>::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        *by_family.entry(line.split('{').next().unwrap()).or_default() += 1;
    }
    for family in [
        "ceph_osd_metadata",
        "ceph_disk_occupation",
        "ceph_osd_op_w",
        "sepiola_store_batches_total",
    ] {
        assert_eq!(by_family[family], 3, "{family}");
    }
    let osd = "ceph_osd_metadata{back_iface=\"\",ceph_daemon=\"osd.0\",cluster_addr=\"127.0.0.1\",device_class=\"hdd\",\
               front_iface=\"\",hostname=\"alpha\",objectstore=\"\",public_addr=\"127.0.0.1\",\
               ceph_version=\"sepiola version 0.1.0\"}";
    assert_eq!(value(&text, osd), Some(1.0), "{text}");
}

#[test]
fn checks_that_alerts_look_for_are_raised() {
    let mut cluster = cluster();
    let raised = |cluster: &mut Cluster, name: &str, severity: &str| {
        let text = scrape(cluster);
        value(&text, &format!("ceph_health_detail{{name=\"{name}\",severity=\"{severity}\"}}"))
            .is_some()
    };
    let quota = |field: &str, value: &str| json!({ "prefix": "osd pool set-quota", "pool": "vms", "field": field, "val": value });
    assert!(!raised(&mut cluster, "POOL_NEAR_FULL", "HEALTH_WARN"));
    assert_eq!(cluster.command(quota("max_objects", "101")).result, 0);
    assert!(!raised(&mut cluster, "POOL_NEAR_FULL", "HEALTH_WARN"), "80 of 101 objects");
    assert_eq!(cluster.command(quota("max_objects", "100")).result, 0);
    assert!(raised(&mut cluster, "POOL_NEAR_FULL", "HEALTH_WARN"), "80 of 100 objects");
    let store = StoreCounters { repeated_reads: 1, ..StoreCounters::default() };
    let report = StatsReport { osd: OsdId(2), store, ..StatsReport::default() };
    cluster.send(Cluster::osd_conn(2), 1, &report);
    assert!(raised(&mut cluster, "BLUESTORE_SPURIOUS_READ_ERRORS", "HEALTH_WARN"));
    let few =
        json!({ "prefix": "config set", "who": "mon", "name": "mon_max_pg_per_osd", "value": "7" });
    assert!(!raised(&mut cluster, "TOO_MANY_PGS", "HEALTH_WARN"));
    assert_eq!(cluster.command(few).result, 0);
    assert!(
        raised(&mut cluster, "TOO_MANY_PGS", "HEALTH_WARN"),
        "eight groups with three copies on three OSDs"
    );
    for (available, low, critical) in [(31, false, false), (30, true, false), (5, false, true)] {
        cluster.monitor.note_disk_space(DiskSpace { total: 100, available });
        assert_eq!(raised(&mut cluster, "MON_DISK_LOW", "HEALTH_WARN"), low, "{available}");
        assert_eq!(raised(&mut cluster, "MON_DISK_CRIT", "HEALTH_ERR"), critical, "{available}");
    }
}
