//! The file system map, as commands show it.

use super::addrs;
use super::osdmap::stamp;
use crate::file_systems::roles::REFUSE_STANDBY_FOR_ANOTHER_FS;
use crate::file_systems::{BALANCE_AUTOMATE, CLIENT_FEATURES};
use maps::{CompatSet, FeatureSet, FileSystem, FsMap, MdsInfo, MdsMap};
use serde_json::{Map, Value, json};

/// Flags by their names in plain output and JSON.
const FLAGS: [(u32, &str); 6] = [
    (MdsMap::ALLOW_SNAPS, "allow_snaps"),
    (MdsMap::ALLOW_MULTIMDS_SNAPS, "allow_multimds_snaps"),
    (MdsMap::ALLOW_STANDBY_REPLAY, "allow_standby_replay"),
    (MdsMap::REFUSE_CLIENT_SESSION, "refuse_client_session"),
    (REFUSE_STANDBY_FOR_ANOTHER_FS, "refuse_standby_for_another_fs"),
    (BALANCE_AUTOMATE, "balance_automate"),
];

/// The whole map as JSON.
pub fn json(map: &FsMap) -> Value {
    json!({
        "epoch": map.epoch.0,
        "default_fscid": map.default_fscid,
        "compat": compat(&map.default_compat),
        "feature_flags": {
            "enable_multiple": map.enable_multiple,
            "ever_enabled_multiple": map.ever_enabled_multiple,
        },
        "standbys": map.standbys.iter().map(|(gid, info)| standby(map, *gid, info)).collect::<Vec<_>>(),
        "filesystems": map.file_systems.values().map(file_system).collect::<Vec<_>>(),
    })
}

fn standby(map: &FsMap, gid: u64, info: &MdsInfo) -> Value {
    let mut value = server(info);
    value["epoch"] = json!(map.standby_epochs.get(&gid).map_or(0, |epoch| epoch.0));
    value
}

/// One file system as JSON.
pub fn file_system(fs: &FileSystem) -> Value {
    json!({ "mdsmap": mdsmap(&fs.map), "id": fs.fscid })
}

fn mdsmap(map: &MdsMap) -> Value {
    let up = map.up.iter().map(|(rank, gid)| (format!("mds_{rank}"), json!(gid)));
    let info = map.mds_info.iter().map(|(gid, info)| (format!("gid_{gid}"), server(info)));
    let mut flags = Map::new();
    flags.insert("joinable".to_owned(), json!(!map.has(MdsMap::NOT_JOINABLE)));
    flags.extend(FLAGS.map(|(flag, name)| (name.to_owned(), json!(map.has(flag)))));
    json!({
        "epoch": map.epoch.0,
        "flags": map.flags,
        "flags_state": flags,
        "ever_allowed_features": map.ever_allowed_features,
        "explicitly_allowed_features": map.explicitly_allowed_features,
        "created": stamp(map.created),
        "modified": stamp(map.modified),
        "tableserver": map.tableserver,
        "root": map.root,
        "session_timeout": map.session_timeout,
        "session_autoclose": map.session_autoclose,
        "required_client_features": required_features(map).collect::<Map<_, _>>(),
        "max_file_size": map.max_file_size,
        "max_xattr_size": map.max_xattr_size,
        "last_failure": map.last_failure.0,
        "last_failure_osd_epoch": map.last_failure_osd_epoch.0,
        "compat": compat(&map.compat),
        "max_mds": map.max_mds,
        "in": map.in_ranks,
        "up": up.collect::<Map<_, _>>(),
        "failed": map.failed,
        "damaged": map.damaged,
        "stopped": map.stopped,
        "info": info.collect::<Map<_, _>>(),
        "data_pools": map.data_pools.iter().map(|pool| pool.0).collect::<Vec<_>>(),
        "metadata_pool": map.metadata_pool.0,
        "enabled": map.enabled,
        "fs_name": map.fs_name,
        "balancer": map.balancer,
        "bal_rank_mask": rank_mask(map),
        "standby_count_wanted": map.standby_count_wanted.max(0),
    })
}

/// No mask means all ranks, which Ceph writes as -1.
fn rank_mask(map: &MdsMap) -> &str {
    if map.bal_rank_mask.is_empty() { "-1" } else { &map.bal_rank_mask }
}

fn required_features(map: &MdsMap) -> impl Iterator<Item = (String, Value)> {
    let names = CLIENT_FEATURES.iter().filter(|(bit, _)| requires(map, *bit));
    names.map(|(bit, name)| (format!("feature_{bit}"), json!(name)))
}

/// Whether clients must have a feature.
pub fn requires(map: &MdsMap, bit: usize) -> bool {
    map.required_client_features.get(bit / 8).is_some_and(|byte| byte & (1 << (bit % 8)) != 0)
}

/// A metadata server as JSON.
pub fn server(info: &MdsInfo) -> Value {
    let mut value = json!({
        "gid": info.gid,
        "name": info.name,
        "rank": info.rank,
        "incarnation": info.incarnation,
        "state": info.state.name(),
        "state_seq": info.state_seq,
        "addr": addrs::legacy(&info.addrs),
        "addrs": addrs::vector(&info.addrs),
        "join_fscid": info.join_fscid,
        "export_targets": info.export_targets,
        "features": info.features,
        "flags": info.flags,
        "compat": compat(&info.compat),
    });
    if info.is_laggy() {
        value["laggy_since"] = json!(stamp(info.laggy_since));
    }
    value
}

/// A set of on-disk features as JSON.
pub fn compat(set: &CompatSet) -> Value {
    let features = |set: &FeatureSet| -> Map<String, Value> {
        set.names.iter().map(|(bit, name)| (format!("feature_{bit}"), json!(name))).collect()
    };
    json!({
        "compat": features(&set.compat),
        "ro_compat": features(&set.ro_compat),
        "incompat": features(&set.incompat),
    })
}

/// A set of on-disk features in one line.
pub fn compat_plain(set: &CompatSet) -> String {
    let features = |set: &FeatureSet| {
        let names = set.names.iter().map(|(bit, name)| format!("{bit}={name}"));
        names.collect::<Vec<_>>().join(",")
    };
    format!(
        "compat={{{}}},rocompat={{{}}},incompat={{{}}}",
        features(&set.compat),
        features(&set.ro_compat),
        features(&set.incompat)
    )
}

/// The whole map in plain text.
pub fn plain(map: &FsMap) -> String {
    let mut text = format!(
        "e{}\nenable_multiple, ever_enabled_multiple: {},{}\ndefault compat: {}\nlegacy client \
         fscid: {}\n \n",
        map.epoch,
        u8::from(map.enable_multiple),
        u8::from(map.ever_enabled_multiple),
        compat_plain(&map.default_compat),
        map.default_fscid,
    );
    if map.file_systems.is_empty() {
        text += "No filesystems configured\n";
    }
    for fs in map.file_systems.values() {
        text += &format!("{} \n \n", file_system_plain(fs));
    }
    if !map.standbys.is_empty() {
        text += "Standby daemons:\n \n";
        map.standbys.values().for_each(|info| text += &format!("{}\n", server_plain(info)));
    }
    text
}

/// One file system in plain text.
pub fn file_system_plain(fs: &FileSystem) -> String {
    let map = &fs.map;
    let list = |ranks: &mut dyn Iterator<Item = String>| ranks.collect::<Vec<_>>().join(",");
    let ranks = |set: &std::collections::BTreeSet<i32>| list(&mut set.iter().map(i32::to_string));
    let up = list(&mut map.up.iter().map(|(rank, gid)| format!("{rank}={gid}")));
    let pools = list(&mut map.data_pools.iter().map(|pool| pool.0.to_string()));
    let required = required_features(map).map(|(bit, name)| {
        let bit = bit.trim_start_matches("feature_").to_owned();
        format!("{bit}={}", name.as_str().unwrap_or_default())
    });
    let required = list(&mut { required });
    let lines: Vec<(&str, String)> = vec![
        ("fs_name", map.fs_name.clone()),
        ("epoch", map.epoch.to_string()),
        ("flags", flags_plain(map)),
        ("created", stamp(map.created)),
        ("modified", stamp(map.modified)),
        ("tableserver", map.tableserver.to_string()),
        ("root", map.root.to_string()),
        ("session_timeout", map.session_timeout.to_string()),
        ("session_autoclose", map.session_autoclose.to_string()),
        ("max_file_size", map.max_file_size.to_string()),
        ("max_xattr_size", map.max_xattr_size.to_string()),
        ("required_client_features", format!("{{{required}}}")),
        ("last_failure", map.last_failure.to_string()),
        ("last_failure_osd_epoch", map.last_failure_osd_epoch.to_string()),
        ("compat", compat_plain(&map.compat)),
        ("max_mds", map.max_mds.to_string()),
        ("in", ranks(&map.in_ranks)),
        ("up", format!("{{{up}}}")),
        ("failed", ranks(&map.failed)),
        ("damaged", ranks(&map.damaged)),
        ("stopped", ranks(&map.stopped)),
        ("data_pools", format!("[{pools}]")),
        ("metadata_pool", map.metadata_pool.0.to_string()),
        ("inline_data", if map.inline_data_enabled { "enabled" } else { "disabled" }.to_owned()),
        ("balancer", map.balancer.clone()),
        ("bal_rank_mask", rank_mask(map).to_owned()),
        ("standby_count_wanted", map.standby_count_wanted.max(0).to_string()),
    ];
    let mut text = format!("Filesystem '{}' ({})\n", map.fs_name, fs.fscid);
    lines.into_iter().for_each(|(name, value)| text += &format!("{name}\t{value}\n"));
    map.mds_info.values().for_each(|info| text += &format!("{}\n", server_plain(info)));
    text
}

fn flags_plain(map: &MdsMap) -> String {
    let set = FLAGS.iter().filter(|(flag, _)| map.has(*flag)).map(|(_, name)| *name);
    let joinable = (!map.has(MdsMap::NOT_JOINABLE)).then_some("joinable");
    let names: Vec<&str> = joinable.into_iter().chain(set).collect();
    format!("{:x} {}", map.flags, names.join(" "))
}

fn server_plain(info: &MdsInfo) -> String {
    // Bit 0 is set in sets of daemons, and lost in their encoding.
    let mask = |set: &FeatureSet| format!("{:x}", set.mask | 1);
    let laggy = match info.is_laggy() {
        true => format!(" laggy since {}", stamp(info.laggy_since)),
        false => String::new(),
    };
    format!(
        "[mds.{}{{{}:{}}} state {}{laggy} seq {} addr {} compat {{c=[{}],r=[{}],i=[{}]}}]",
        info.name,
        info.rank,
        info.gid,
        info.state.name(),
        info.state_seq,
        info.addrs,
        mask(&info.compat.compat),
        mask(&info.compat.ro_compat),
        mask(&info.compat.incompat),
    )
}

/// The map in one line, as in `mds stat`: `cephfs:1 {0=a=up:active} 1 up:standby`.
pub fn line(map: &FsMap) -> String {
    let many = map.file_systems.len() > 1;
    let mut parts: Vec<String> = Vec::new();
    let mut servers = Vec::new();
    for fs in map.file_systems.values() {
        let name = &fs.map.fs_name;
        let mut part = format!("{name}:{}", fs.map.up.len());
        if fs.map.is_degraded() {
            part += &format!("/{}", fs.map.in_ranks.len());
        }
        parts.push(part);
        for (rank, gid) in &fs.map.up {
            let Some(info) = fs.map.mds_info.get(gid) else { continue };
            let rank = if many { format!("{name}:{rank}") } else { rank.to_string() };
            let laggy = if info.is_laggy() { "(laggy or crashed)" } else { "" };
            servers.push(format!("{rank}={}={}{laggy}", info.name, info.state.name()));
        }
    }
    if !servers.is_empty() {
        parts.push(format!("{{{}}}", servers.join(",")));
    }
    if !map.standbys.is_empty() {
        parts.push(format!("{} up:standby", map.standbys.len()));
    }
    let failed: usize = map.file_systems.values().map(|fs| fs.map.failed.len()).sum();
    let damaged: usize = map.file_systems.values().map(|fs| fs.map.damaged.len()).sum();
    if damaged > 0 {
        parts.push(format!(", {damaged} damaged"));
    }
    if failed > 0 {
        parts.push(format!(", {failed} failed"));
    }
    parts.join(" ").replace(" ,", ",")
}

/// The map in `status`.
pub fn summary(map: &FsMap) -> Value {
    let mut summary = Map::new();
    summary.insert("epoch".to_owned(), json!(map.epoch.0));
    let mut ranks = Vec::new();
    for fs in map.file_systems.values() {
        // Of several file systems, as in Ceph's output, the last one is shown.
        summary.insert("id".to_owned(), json!(fs.fscid));
        summary.insert("up".to_owned(), json!(fs.map.up.len()));
        summary.insert("in".to_owned(), json!(fs.map.in_ranks.len()));
        summary.insert("max".to_owned(), json!(fs.map.max_mds));
        for info in fs.map.ranked() {
            ranks.push(json!({
                "filesystem_id": fs.fscid,
                "rank": info.rank,
                "name": info.name,
                "status": info.state.name(),
                "gid": info.gid,
            }));
        }
    }
    summary.insert("by_rank".to_owned(), json!(ranks));
    summary.insert("up:standby".to_owned(), json!(map.standbys.len()));
    Value::Object(summary)
}

/// The line of services in `status`: `1/1 daemons up, 1 standby`. `None` without file systems and servers.
pub fn servers_line(map: &FsMap) -> Option<String> {
    if map.file_systems.is_empty() && map.standbys.is_empty() {
        return None;
    }
    let maps = || map.file_systems.values().map(|fs| &fs.map);
    let (up, ranks): (usize, usize) =
        (maps().map(|fs| fs.up.len()).sum(), maps().map(|fs| fs.in_ranks.len()).sum());
    let standbys = match map.standbys.len() {
        0 => String::new(),
        count => format!(", {count} standby"),
    };
    Some(format!("{up}/{ranks} daemons up{standbys}"))
}

/// The line of data in `status`: `1/1 healthy`. `None` without file systems.
pub fn volumes_line(map: &FsMap) -> Option<String> {
    let maps = || map.file_systems.values().map(|fs| &fs.map);
    let all = maps().count();
    let damaged = maps().filter(|fs| !fs.damaged.is_empty()).count();
    let recovering = maps().filter(|fs| fs.damaged.is_empty() && fs.is_degraded()).count();
    let mut line = format!("{}/{all} healthy", all - damaged - recovering);
    if recovering > 0 {
        line += &format!(", {recovering} recovering");
    }
    if damaged > 0 {
        line += &format!("; {damaged} damaged");
    }
    (all > 0).then_some(line)
}
