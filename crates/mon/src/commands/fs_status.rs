//! `fs status`: ranks, pools and standbys of file systems.

use super::file_system::pool_name;
use super::mds::short_state;
use crate::command::{Answer, Command, Context, Refusal, command};
use crate::table::{Table, bytes};
use crate::usage::pool_usage;
use maps::{MdsInfo, MdsMap};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use types::PoolId;

pub const COMMANDS: &[Command] = &[command(
    "fs status name=fs,type=CephString,req=false",
    "Show the status of a CephFS filesystem",
    "mgr",
    "r",
    status,
)];

fn status(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let asked = context.arguments.optional("fs").filter(|name| !name.is_empty());
    let all = context.state.fs.map.file_systems.values().map(|fs| &fs.map);
    let shown: Vec<&MdsMap> =
        all.filter(|map| asked.is_none_or(|name| map.fs_name == name)).collect();
    if let Some(name) = asked.filter(|_| shown.is_empty()) {
        return Err(Refusal::invalid(format!("Invalid filesystem: {name}")));
    }
    Ok(context.show(|| status_json(context, &shown), || status_plain(context, &shown)))
}

/// The pools of a file system with their roles.
fn pools(map: &MdsMap) -> impl Iterator<Item = (PoolId, &'static str)> {
    let data = map.data_pools.iter().map(|id| (*id, "data"));
    std::iter::once((map.metadata_pool, "metadata")).chain(data)
}

fn used_and_available(context: &Context<'_>, id: PoolId) -> (u64, u64) {
    let usage = pool_usage(&context.state.osdmap, context.live.stats, id);
    (usage.used, usage.available)
}

/// Servers by version.
fn versions<'a>(context: &'a Context<'_>) -> BTreeMap<&'a str, Vec<&'a str>> {
    let mut versions = BTreeMap::<&str, Vec<&str>>::new();
    for info in context.state.fs.map.servers() {
        let version = context.state.fs.fact(info.gid, "ceph_version").unwrap_or("unknown");
        versions.entry(version).or_default().push(&info.name);
    }
    versions
}

pub(super) fn status_json(context: &Context<'_>, shown: &[&MdsMap]) -> Value {
    // Servers report their counters to a manager, which is not asked for them yet.
    let ranked = |info: &MdsInfo| {
        json!({
            "rank": info.rank,
            "name": info.name,
            "state": short_state(info),
            "rate": 0,
            "dns": 0,
            "inos": 0,
            "dirs": 0,
            "caps": 0,
        })
    };
    let absent = |(rank, state): (i32, &str)| json!({ "rank": rank, "state": state });
    let mut servers = Vec::new();
    for map in shown {
        servers.extend(map.up.values().filter_map(|gid| map.mds_info.get(gid)).map(ranked));
        servers.extend(without_server(map).map(absent));
    }
    let standbys = context.state.fs.map.standbys.values();
    servers.extend(standbys.map(|info| json!({ "name": info.name, "state": "standby" })));
    let pool = |(id, role): (PoolId, &str)| {
        let (used, avail) = used_and_available(context, id);
        json!({ "id": id.0, "name": pool_name(context, id), "type": role, "used": used, "avail": avail })
    };
    let version =
        |(version, daemon): (&str, Vec<&str>)| json!({ "version": version, "daemon": daemon });
    json!({
        "clients": shown.iter().map(|map| json!({ "fs": map.fs_name, "clients": 0 })).collect::<Vec<_>>(),
        "mds_version": versions(context).into_iter().map(version).collect::<Vec<_>>(),
        "mdsmap": servers,
        "pools": shown.iter().flat_map(|map| pools(map)).map(pool).collect::<Vec<_>>(),
    })
}

/// Ranks without a server, and why.
fn without_server(map: &MdsMap) -> impl Iterator<Item = (i32, &'static str)> {
    let damaged = map.damaged.iter().map(|rank| (*rank, "damaged"));
    map.failed.iter().map(|rank| (*rank, "failed")).chain(damaged)
}

fn status_plain(context: &Context<'_>, shown: &[&MdsMap]) -> String {
    let mut text = String::new();
    for map in shown {
        let name = &map.fs_name;
        text += &format!("{name} - 0 clients\n{}\n", "=".repeat(name.chars().count()));
        let mut ranks = Table::new(&["RANK", "STATE", "MDS", "ACTIVITY"]);
        for info in map.up.values().filter_map(|gid| map.mds_info.get(gid)) {
            let activity = if short_state(info) == "active" { "Reqs:    0 /s" } else { "" };
            ranks.row([&info.rank.to_string(), short_state(info), &info.name, activity]);
        }
        without_server(map).for_each(|(rank, state)| ranks.row([&rank.to_string(), state]));
        let mut usage = Table::new(&["POOL", "TYPE", ">USED", ">AVAIL"]);
        for (id, role) in pools(map) {
            let (used, avail) = used_and_available(context, id);
            usage.row([pool_name(context, id), role.to_owned(), bytes(used), bytes(avail)]);
        }
        text += &format!("{ranks}{usage}");
    }
    let standbys = &context.state.fs.map.standbys;
    if !standbys.is_empty() {
        let mut table = Table::new(&["STANDBY MDS"]);
        standbys.values().for_each(|info| table.row([info.name.as_str()]));
        text += &table.to_string();
    }
    match versions(context).into_iter().collect::<Vec<_>>().as_slice() {
        [] => {}
        [(version, _)] => text += &format!("MDS version: {version}\n"),
        several => {
            let mut table = Table::new(&["VERSION", "DAEMONS"]);
            several.iter().for_each(|(version, names)| table.row([*version, &names.join(", ")]));
            text += &table.to_string();
        }
    }
    text
}
