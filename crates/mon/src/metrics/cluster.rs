//! Metrics of the whole cluster: health, and space.

use super::page::{Kind, Labels, Page};
use crate::health::{Severity, View, health};
use crate::usage::usage_by_class;
use maps::OsdMapFlags;

pub(super) fn write(page: &mut Page, view: &View<'_>) {
    write_health(page, view);
    write_space(page, view);
    write_objects(page, view);
    write_flags(page, view);
}

fn write_health(page: &mut Page, view: &View<'_>) {
    let health = health(view);
    let status = match health.severity() {
        Severity::Ok => 0,
        Severity::Warning => 1,
        Severity::Error => 2,
    };
    let help = "Health of the cluster: 0 ok, 1 warning, 2 error";
    page.single("ceph_health_status", Kind::Untyped, help, status);
    let checks = health.all();
    if !checks.is_empty() {
        let help = "Health checks that fail";
        let mut family = page.family("ceph_health_detail", Kind::Gauge, help);
        for (name, check) in &checks {
            family.fact(&[("name", name), ("severity", check.severity.name())]);
        }
    }
    let slow: u64 = view.live.stats.osds().map(|(_, report)| report.slow.count).sum();
    let help = "Requests to OSDs that are not answered in time";
    page.single("ceph_healthcheck_slow_ops", Kind::Gauge, help, slow);
}

fn write_space(page: &mut Page, view: &View<'_>) {
    let (map, stats) = (&view.state.osdmap, view.live.stats);
    let usage = stats.usage(map);
    // Named totals, and they are no counters.
    for (name, help, value) in [
        ("ceph_cluster_total_bytes", "Size of all OSDs that are in", usage.bytes_total),
        ("ceph_cluster_total_used_bytes", "Bytes that they use", usage.bytes_used),
        ("ceph_cluster_total_used_raw_bytes", "Bytes that they use", usage.bytes_used),
        ("ceph_cluster_total_avail_bytes", "Bytes that they have left", usage.bytes_available),
    ] {
        page.single(name, Kind::Gauge, help, value);
    }
    let classes = usage_by_class(map, stats);
    if classes.is_empty() {
        return;
    }
    let labels: Vec<Labels> =
        classes.keys().map(|class| Labels::of(&[("device_class", class)])).collect();
    let help = "Bytes that OSDs of a device class have";
    let mut family = page.family("ceph_cluster_by_class_total_bytes", Kind::Gauge, help);
    labels
        .iter()
        .zip(classes.values())
        .for_each(|(labels, usage)| family.add(labels, usage.bytes_total));
    let help = "Bytes that OSDs of a device class use";
    for name in
        ["ceph_cluster_by_class_total_used_bytes", "ceph_cluster_by_class_total_used_raw_bytes"]
    {
        let mut family = page.family(name, Kind::Gauge, help);
        labels
            .iter()
            .zip(classes.values())
            .for_each(|(labels, usage)| family.add(labels, usage.bytes_used));
    }
}

fn write_objects(page: &mut Page, view: &View<'_>) {
    let totals = view.live.stats.totals();
    for (name, help, value) in [
        ("ceph_num_objects_degraded", "Copies of objects that are missing", totals.degraded),
        (
            "ceph_num_objects_misplaced",
            "Copies of objects on other OSDs than the up set",
            totals.misplaced,
        ),
        ("ceph_num_objects_unfound", "Objects without a reachable copy", totals.unfound),
    ] {
        page.single(name, Kind::Gauge, help, value);
    }
}

fn write_flags(page: &mut Page, view: &View<'_>) {
    const FLAGS: [(&str, OsdMapFlags); 9] = [
        ("ceph_osd_flag_noup", OsdMapFlags::NOUP),
        ("ceph_osd_flag_nodown", OsdMapFlags::NODOWN),
        ("ceph_osd_flag_noout", OsdMapFlags::NOOUT),
        ("ceph_osd_flag_noin", OsdMapFlags::NOIN),
        ("ceph_osd_flag_nobackfill", OsdMapFlags::NOBACKFILL),
        ("ceph_osd_flag_norebalance", OsdMapFlags::NOREBALANCE),
        ("ceph_osd_flag_norecover", OsdMapFlags::NORECOVER),
        ("ceph_osd_flag_noscrub", OsdMapFlags::NOSCRUB),
        ("ceph_osd_flag_nodeep_scrub", OsdMapFlags::NODEEP_SCRUB),
    ];
    for (name, flag) in FLAGS {
        let is_set = view.state.osdmap.flags.contains(flag);
        page.single(name, Kind::Untyped, "Whether the flag is set", u8::from(is_set));
    }
}
