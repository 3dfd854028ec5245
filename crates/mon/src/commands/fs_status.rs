//! `fs status`: ranks, pools and standbys of file systems.

use super::file_system::pool_name;
use super::mds::short_state;
use crate::command::{Answer, Command, Context, Refusal, command};
use crate::live::MdsActivity;
use crate::table::{Table, bytes};
use crate::usage::pool_usage;
use maps::{MdsInfo, MdsMap, MdsState};
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
    let shown_rank = |info: &MdsInfo| {
        let activity = activity(context, info);
        let counters = &activity.counters;
        json!({
            "rank": info.rank,
            "name": info.name,
            "state": short_state(info),
            "rate": activity.requests_per_second.round() as u64,
            // The tree is kept as inodes, which have their names.
            "dns": counters.inodes,
            "inos": counters.inodes,
            "dirs": counters.directories,
            "caps": counters.caps,
        })
    };
    let absent = |(rank, state): (i32, &str)| json!({ "rank": rank, "state": state });
    let mut servers = Vec::new();
    for map in shown {
        servers.extend(map.ranked().map(shown_rank));
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
        "clients": shown
            .iter()
            .map(|map| json!({ "fs": map.fs_name, "clients": clients(context, map) }))
            .collect::<Vec<_>>(),
        "mds_version": versions(context).into_iter().map(version).collect::<Vec<_>>(),
        "mdsmap": servers,
        "pools": shown.iter().flat_map(|map| pools(map)).map(pool).collect::<Vec<_>>(),
    })
}

/// The last report of a server; zeros before it has sent one.
fn activity(context: &Context<'_>, info: &MdsInfo) -> MdsActivity {
    context.live.mds.activity(info.gid).cloned().unwrap_or_default()
}

/// Sessions of clients. One that uses several ranks has a session with each.
fn clients(context: &Context<'_>, map: &MdsMap) -> u64 {
    let sessions = |info| activity(context, info).counters.sessions;
    map.ranked().map(sessions).max().unwrap_or_default()
}

/// Ranks without a server, and why.
fn without_server(map: &MdsMap) -> impl Iterator<Item = (i32, &'static str)> {
    let damaged = map.damaged.iter().map(|rank| (*rank, "damaged"));
    map.failed.iter().map(|rank| (*rank, "failed")).chain(damaged)
}

fn rank_row(info: &MdsInfo, activity: &MdsActivity) -> [String; 8] {
    let requests = short_number(activity.requests_per_second.round() as u64);
    let counters = &activity.counters;
    [
        info.rank.to_string(),
        short_state(info).to_owned(),
        info.name.clone(),
        if info.state == MdsState::ACTIVE {
            format!("Reqs: {requests:>4} /s")
        } else {
            String::new()
        },
        short_number(counters.inodes),
        short_number(counters.inodes),
        short_number(counters.directories),
        short_number(counters.caps),
    ]
}

/// `12.3k`: at most four characters and a unit, as Ceph shows numbers here.
fn short_number(number: u64) -> String {
    let (mut scaled, mut units) = (number as f64, ["", "k", "M", "G", "T", "P", "E"].into_iter());
    while scaled >= 10_000.0 {
        scaled /= 1000.0;
        units.next();
    }
    let digits = format!("{scaled:.6}");
    let unit = units.next().unwrap_or_default();
    match unit {
        "" => format!("{number}"),
        unit => format!("{}{unit}", digits[..4].trim_end_matches('.')),
    }
}

fn status_plain(context: &Context<'_>, shown: &[&MdsMap]) -> String {
    let mut text = String::new();
    for map in shown {
        let name = &map.fs_name;
        let clients = clients(context, map);
        text += &format!("{name} - {clients} clients\n{}\n", "=".repeat(name.chars().count()));
        let columns = ["RANK", "STATE", "MDS", "ACTIVITY", ">DNS", ">INOS", ">DIRS", ">CAPS"];
        let mut ranks = Table::new(&columns);
        map.ranked().for_each(|info| ranks.row(rank_row(info, &activity(context, info))));
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
