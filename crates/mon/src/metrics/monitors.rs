//! Metrics of monitors, and of the managers that they stand in for.

use super::page::{Kind, Labels, Page};
use crate::health::View;
use crate::live::Operation;
use std::net::IpAddr;
use types::EntityAddrVec;

pub(super) fn write(page: &mut Page, view: &View<'_>) {
    write_monitors(page, view);
    write_managers(page, view);
    write_services(page, view);
    write_own(page, view);
}

fn write_monitors(page: &mut Page, view: &View<'_>) {
    let state = view.state;
    let alive: Vec<&str> = state.quorum().into_iter().map(|(_, name)| name).collect();
    let help = "Facts about a monitor";
    let mut family = page.family("ceph_mon_metadata", Kind::Gauge, help);
    for (rank, mon) in state.monmap.mons().enumerate() {
        family.fact(&[
            ("ceph_daemon", &format!("mon.{}", mon.name)),
            ("hostname", hostname(view, &mon.name)),
            ("public_addr", &ip(&mon.public_addrs)),
            ("rank", &rank.to_string()),
            ("ceph_version", state.members.release(&mon.name)),
        ]);
    }
    let help = "Whether a monitor is alive";
    let mut family = page.family("ceph_mon_quorum_status", Kind::Gauge, help);
    for mon in state.monmap.mons() {
        let is_alive = alive.contains(&mon.name.as_str());
        family.add(&Labels::daemon("mon", &mon.name), u8::from(is_alive));
    }
}

fn write_managers(page: &mut Page, view: &View<'_>) {
    let map = &view.state.mgrmap;
    let names = || {
        let standbys = map.standbys.values().map(|standby| standby.name.as_str());
        std::iter::once(map.active_name.as_str()).chain(standbys)
    };
    let mut family = page.family("ceph_mgr_metadata", Kind::Gauge, "Facts about a manager");
    for name in names() {
        let present = &view.state.members.present;
        let host = present.values().find(|presence| presence.manager == name);
        family.fact(&[
            ("ceph_daemon", &format!("mgr.{name}")),
            ("hostname", host.map_or(&view.live.identity.hostname, |presence| &presence.hostname)),
            ("ceph_version", crate::VERSION),
        ]);
    }
    let help = "Whether a manager is active (1) or stands by (0)";
    let mut family = page.family("ceph_mgr_status", Kind::Gauge, help);
    for name in names() {
        let is_active = name == map.active_name && map.available;
        family.add(&Labels::daemon("mgr", name), u8::from(is_active));
    }
}

/// Gateways and mirrors that register themselves.
fn write_services(page: &mut Page, view: &View<'_>) {
    const NAMES: [(&str, &str); 2] =
        [("rgw", "ceph_rgw_metadata"), ("rbd-mirror", "ceph_rbd_mirror_metadata")];
    let services = view.live.daemons.services();
    for (service, name) in NAMES {
        let Some(daemons) = services.get(service) else { continue };
        let mut family = page.family(name, Kind::Gauge, "Facts about a daemon of a service");
        for (id, daemon) in daemons {
            let fact = |name: &str| daemon.metadata.get(name).map_or("", String::as_str);
            family.fact(&[
                ("ceph_daemon", &format!("{service}.{}", fact("id"))),
                ("hostname", fact("hostname")),
                ("ceph_version", fact("ceph_version")),
                ("instance_id", id),
                ("id", fact("id")),
            ]);
        }
    }
}

/// The leader itself.
fn write_own(page: &mut Page, view: &View<'_>) {
    let (state, live) = (view.state, view.live);
    let waiting = live.operations.in_flight().count();
    let slowest = live.operations.done().map(Operation::duration).max().unwrap_or_default();
    for (name, help, value) in [
        ("sepiola_mon_sessions", "Open sessions of the leading monitor", live.peers.len() as f64),
        (
            "sepiola_mon_operations_waiting",
            "Operations that wait for the control store",
            waiting as f64,
        ),
        (
            "sepiola_mon_slowest_operation_seconds",
            "Longest of the last operations of clients, from request to answer",
            slowest.as_secs_f64(),
        ),
        (
            "sepiola_mon_election_epoch",
            "Grows with each change of the leader",
            f64::from(state.election_epoch()),
        ),
        ("sepiola_mon_osdmap_epoch", "Epoch of the OSD map", f64::from(state.osdmap.epoch.0)),
        (
            "sepiola_mon_uptime_seconds",
            "Time since the leading monitor was started",
            view.now.since(live.identity.started).as_secs_f64(),
        ),
    ] {
        page.single(name, Kind::Gauge, help, value);
    }
    if let Some(space) = live.identity.disk {
        for (name, value) in [
            ("sepiola_mon_disk_bytes", space.total),
            ("sepiola_mon_disk_available_bytes", space.available),
        ] {
            page.single(name, Kind::Gauge, "Space at the directory of the leading monitor", value);
        }
    }
    page.single(
        "sepiola_mon_reports_total",
        Kind::Counter,
        "Reports of OSDs that the leading monitor has received",
        live.stats.version,
    );
}

fn hostname<'a>(view: &View<'a>, monitor: &str) -> &'a str {
    let present = view.state.members.present.get(monitor);
    present.map_or(&view.live.identity.hostname, |present| &present.hostname)
}

/// The first address, without its port.
pub(super) fn ip(addrs: &EntityAddrVec) -> String {
    let ips = addrs.0.iter().filter_map(|addr| addr.socket).map(|socket| socket.ip());
    ips.map(|ip: IpAddr| ip.to_string()).next().unwrap_or_default()
}
