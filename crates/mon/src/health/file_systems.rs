//! Checks of file systems: ranks without a server, standbys, and the complaints of metadata servers.

use super::check::{Health, Severity, View, next_step, plural};
use crate::file_systems::roles;
use maps::{FileSystem, MdsInfo, MdsMap, MdsState};
use std::collections::BTreeMap;

/// `MDS_HEALTH_*` by number: name of the check, what it counts, and the text behind the number.
const COMPLAINTS: [(u16, &str, &str, &str); 13] = [
    (1, "MDS_TRIM", "MDSs", "behind on trimming"),
    (2, "MDS_CLIENT_RECALL", "clients", "failing to respond to cache pressure"),
    (3, "MDS_CLIENT_LATE_RELEASE", "clients", "failing to respond to capability release"),
    (4, "MDS_CLIENT_RECALL_MANY", "MDSs", "have many clients failing to respond to cache pressure"),
    (
        5,
        "MDS_CLIENT_LATE_RELEASE_MANY",
        "MDSs",
        "have many clients failing to respond to capability release",
    ),
    (6, "MDS_CLIENT_OLDEST_TID", "clients", "failing to advance oldest client/flush tid"),
    (
        7,
        "MDS_CLIENT_OLDEST_TID_MANY",
        "MDSs",
        "have clients failing to advance oldest client/flush tid",
    ),
    (8, DAMAGE, "MDSs", "report damaged metadata"),
    (9, "MDS_READ_ONLY", "MDSs", "are read only"),
    (10, "MDS_SLOW_REQUEST", "MDSs", "report slow requests"),
    (11, "MDS_CACHE_OVERSIZED", "MDSs", "report oversized cache"),
    (12, "MDS_SLOW_METADATA_IO", "MDSs", "report slow metadata IOs"),
    (14, "MDS_CLIENTS_LAGGY", "clients", "laggy due to laggy OSDs"),
];
const DAMAGE: &str = "MDS_DAMAGE";

pub(crate) fn check(health: &mut Health, view: &View<'_>) {
    check_ranks(health, view);
    check_standbys(health, view);
    check_complaints(health, view);
}

/// `1 filesystem is degraded`
fn sentence(count: usize, one: &str, many: &str, text: &str) -> String {
    let verb = if count == 1 { one } else { many };
    format!("{count} filesystem{} {verb} {text}", plural(count))
}

/// The file systems that fulfil a condition, and what is said of each.
fn lines(view: &View<'_>, line: impl Fn(&FileSystem) -> Option<String>) -> Vec<String> {
    view.state.fs.map.file_systems.values().filter_map(line).collect()
}

fn check_ranks(health: &mut Health, view: &View<'_>) {
    let waits =
        |fs: &FileSystem| roles::standbys_for(&view.state.fs.map, fs.fscid).next().is_none();
    let failed = lines(view, |fs| {
        let count = fs.map.failed.len();
        let (name, s) = (&fs.map.fs_name, plural(count));
        (count > 0 && waits(fs)).then(|| format!("fs {name} has {count} failed mds{s}"))
    });
    let count = failed.len();
    let step = "start a metadata server, or 'ceph fs set NAME joinable true' after 'ceph fs fail'";
    let summary = sentence(count, "has", "have", "a failed mds daemon");
    health.warn("FS_WITH_FAILED_MDS", count, summary, next_step(failed, step));

    let degraded = lines(view, |fs| {
        fs.map.is_degraded().then(|| format!("fs {} is degraded", fs.map.fs_name))
    });
    let count = degraded.len();
    let step = "wait until its ranks are active; 'ceph fs status' shows their states";
    let summary = sentence(count, "is", "are", "degraded");
    health.warn("FS_DEGRADED", count, summary, next_step(degraded, step));

    let offline = lines(view, |fs| {
        let name = &fs.map.fs_name;
        let is_offline = !fs.map.mds_info.values().any(serves);
        is_offline.then(|| format!("fs {name} is offline because no MDS is active for it."))
    });
    let count = offline.len();
    let step = "start a metadata server, and see 'ceph fs status' and the server's log";
    let summary = sentence(count, "is", "are", "offline");
    health.add("MDS_ALL_DOWN", Severity::Error, count, summary, next_step(offline, step));

    let few = lines(view, |fs| few_ranks(&fs.map));
    let count = few.len();
    let step = "start more metadata servers, or lower max_mds with 'ceph fs set NAME max_mds N'";
    let summary = sentence(count, "is", "are", "online with fewer MDS than max_mds");
    health.warn("MDS_UP_LESS_THAN_MAX", count, summary, next_step(few, step));
}

/// Whether clients get answers from a server, or will as soon as it has recovered.
fn serves(info: &MdsInfo) -> bool {
    info.rank >= 0 && info.state != MdsState::STOPPED
}

fn few_ranks(map: &MdsMap) -> Option<String> {
    let (up, wanted) = (map.up.len(), map.max_mds);
    let name = &map.fs_name;
    let is_few = (up as i64) < i64::from(wanted);
    is_few.then(|| format!("fs {name} has {up} MDS online, but wants {wanted}"))
}

fn check_standbys(health: &mut Health, view: &View<'_>) {
    let map = &view.state.fs.map;
    let wanted = map.file_systems.values().map(|fs| fs.map.standby_count_wanted.max(0)).max();
    let (wanted, have) = (wanted.unwrap_or(0) as usize, map.standbys.len());
    if have < wanted {
        let line = format!("have {have}; want {} more", wanted - have);
        let step = "start more metadata servers, or lower it with 'ceph fs set NAME standby_count_wanted N'";
        let summary = "insufficient standby MDS daemons available".to_owned();
        health.warn("MDS_INSUFFICIENT_STANDBY", 1, summary, next_step([line], step));
    }
}

/// Complaints of metadata servers about themselves and their clients, and damaged ranks.
fn check_complaints(health: &mut Health, view: &View<'_>) {
    let mut found = BTreeMap::<u16, (Severity, Vec<String>)>::new();
    for info in view.state.fs.map.servers() {
        for complaint in view.live.mds.complaints(info.gid) {
            let severity =
                if complaint.severity == 0 { Severity::Error } else { Severity::Warning };
            let entry = found.entry(complaint.kind).or_insert((severity, Vec::new()));
            entry.0 = entry.0.max(severity);
            entry.1.push(format!("mds.{}(mds.{}): {}", info.name, info.rank, complaint.message));
        }
    }
    let ranks = view.state.fs.map.file_systems.values().map(|fs| &fs.map);
    for map in ranks.filter(|map| !map.damaged.is_empty()) {
        let damaged = map.damaged.iter();
        let damaged = damaged.map(|rank| format!("fs {} mds.{rank} is damaged", map.fs_name));
        let entry = found.entry(8).or_insert((Severity::Error, Vec::new()));
        entry.0 = Severity::Error;
        entry.1.extend(damaged);
    }
    for (kind, (severity, lines)) in found {
        let known = COMPLAINTS.iter().find(|(known, ..)| *known == kind);
        let Some((_, name, subject, text)) = known else { continue };
        let count = lines.len();
        let summary = match *name == DAMAGE && lines.iter().all(|line| line.starts_with("fs ")) {
            true => format!("{count} mds daemon{} damaged", plural(count)),
            false => format!("{count} {subject} {text}"),
        };
        let step = match *name {
            DAMAGE => "see the server's log; 'ceph mds repaired FS:RANK' lets a server try again",
            _ => "see 'ceph tell mds.NAME client ls' and the server's log",
        };
        health.add(name, severity, count, summary, next_step(lines, step));
    }
}
