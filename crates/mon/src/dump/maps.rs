//! Formatting of the mon map and the mgr map.

use super::addrs;
use crate::live::Identity;
use crate::state::State;
use maps::{MgrMap, MonMap};
use serde_json::{Value, json};

/// Modules that are always on in Ceph, since octopus. Tools check for them before they use their commands.
pub const ALWAYS_ON: [&str; 10] = [
    "balancer",
    "crash",
    "devicehealth",
    "orchestrator",
    "pg_autoscaler",
    "progress",
    "rbd_support",
    "status",
    "telemetry",
    "volumes",
];

/// Releases for which `mgr dump` lists the modules that are always on.
const RELEASES: [&str; 4] = ["octopus", "pacific", "quincy", "reef"];

/// `2026-11-20T11:02:18.232233Z`
fn zulu(time: types::UTime) -> String {
    time.to_iso().replace("+0000", "Z")
}

/// `mon dump`
pub fn monmap(map: &MonMap) -> Value {
    let mons = map.mons().enumerate().map(|(rank, mon)| {
        json!({
            "rank": rank,
            "name": mon.name,
            "public_addrs": addrs::vector(&mon.public_addrs),
            "addr": addrs::legacy(&mon.public_addrs),
            "public_addr": addrs::legacy(&mon.public_addrs),
            "priority": mon.priority,
            "weight": mon.weight,
            "crush_location": "{}",
        })
    });
    json!({
        "epoch": map.epoch.0,
        "fsid": map.fsid.to_string(),
        "modified": zulu(map.last_changed),
        "created": zulu(map.created),
        "min_mon_release": map.min_mon_release.0,
        "min_mon_release_name": map.min_mon_release.name(),
        "election_strategy": map.strategy.0,
        "disallowed_leaders: ": "",
        "stretch_mode": map.stretch_mode_enabled,
        "tiebreaker_mon": map.tiebreaker_mon,
        "removed_ranks: ": "",
        "features": {
            "persistent": map.persistent_features.names().collect::<Vec<_>>(),
            "optional": map.optional_features.names().collect::<Vec<_>>(),
        },
        "mons": mons.collect::<Vec<_>>(),
    })
}

/// Plain `mon dump`.
pub fn monmap_plain(map: &MonMap) -> String {
    let mut text = format!(
        "epoch {}\nfsid {}\nlast_changed {}\ncreated {}\nmin_mon_release {} ({})\n\
         election_strategy: {}\n",
        map.epoch,
        map.fsid,
        map.last_changed.to_iso(),
        map.created.to_iso(),
        map.min_mon_release.0,
        map.min_mon_release,
        map.strategy.0,
    );
    for (rank, mon) in map.mons().enumerate() {
        text += &format!("{rank}: {} mon.{}\n", mon.public_addrs, mon.name);
    }
    text
}

/// `mgr dump`
pub fn mgrmap(map: &MgrMap) -> Value {
    // A map of an older release names no modules.
    let known = RELEASES.iter().map(|release| ((*release).to_owned(), json!(ALWAYS_ON)));
    let mut always_on: serde_json::Map<String, Value> = known.collect();
    always_on.extend(map.always_on_modules.iter().map(|(release, modules)| {
        (maps::Release(*release as u8).name().to_owned(), json!(modules))
    }));
    let clients = map.clients.iter().map(
        |(name, clients)| json!({ "name": name, "addrvec": addrs::vector(clients)["addrvec"] }),
    );
    let standbys = map.standbys.values().map(|standby| {
        json!({
            "gid": standby.gid,
            "name": standby.name,
            "mgr_features": standby.mgr_features,
            "available_modules": [],
        })
    });
    json!({
        "epoch": map.epoch.0,
        "flags": map.flags,
        "active_gid": map.active_gid,
        "active_name": map.active_name,
        "active_addrs": addrs::vector(&map.active_addrs),
        "active_addr": addrs::legacy(&map.active_addrs),
        "active_change": map.active_change.to_iso(),
        "active_mgr_features": map.active_mgr_features,
        "available": map.available,
        "standbys": standbys.collect::<Vec<_>>(),
        "modules": map.modules,
        "available_modules": [],
        "services": map.services,
        "always_on_modules": always_on,
        "last_failure_osd_epoch": map.last_failure_osd_epoch.0,
        "active_clients": clients.collect::<Vec<_>>(),
    })
}

/// `quorum_status`
pub fn quorum(state: &State, identity: &Identity, now: engine::Time) -> Value {
    let map = &state.monmap;
    let (ranks, names): (Vec<usize>, Vec<&str>) = state.quorum().into_iter().unzip();
    json!({
        "election_epoch": state.election_epoch(),
        "quorum": ranks,
        "quorum_names": names,
        "quorum_leader_name": state.leader_name(),
        "quorum_age": now.since(identity.started).as_secs(),
        "features": {
            "quorum_con": types::features::SUPPORTED.to_string(),
            "quorum_mon": map.persistent_features.names().collect::<Vec<_>>(),
        },
        "monmap": monmap(map),
    })
}
