//! `mds`: metadata servers.

use super::file_system::{confirm, edit};
use crate::command::{Answer, Command, Context, Refusal, command};
use crate::dump::fsmap;
use crate::dump::peers::count_values;
use crate::file_systems::{INFO, fail};
use crate::services::assign_ranks;
use maps::{FsId, FsMap, MdsGid, MdsInfo, MdsRank, MdsState};
use serde_json::{Map, Value, json};
use types::Errno;

pub const COMMANDS: &[Command] = &[
    command("mds stat", "show MDS status", "mds", "r", stat),
    command(
        "mds metadata name=who,type=CephString,req=false",
        "fetch metadata for mds <role>",
        "mds",
        "r",
        metadata,
    ),
    command(
        "mds count-metadata name=property,type=CephString",
        "count MDSs by metadata field property",
        "mds",
        "r",
        count_metadata,
    ),
    command("mds versions", "check running versions of MDSs", "mds", "r", |context| {
        Ok(context.json(&count(context, "ceph_version")))
    }),
    command("mds compat show", "show mds compatibility settings", "mds", "r", |context| {
        let compat = &context.state.fs.map.default_compat;
        Ok(context.show(|| fsmap::compat(compat), || fsmap::compat_plain(compat) + "\n"))
    }),
    command(
        "mds ok-to-stop name=ids,type=CephString,n=N",
        "check whether stopping the specified MDS would reduce immediate availability",
        "mds",
        "r",
        ok_to_stop,
    ),
    command(
        "mds fail name=role_or_gid,type=CephString \
         name=yes_i_really_mean_it,type=CephBool,req=false",
        "Mark MDS failed: trigger a failover if a standby is available",
        "mds",
        "rw",
        fail_one,
    ),
    command(
        "mds repaired name=role,type=CephString",
        "mark a damaged MDS rank as no longer damaged",
        "mds",
        "rw",
        repaired,
    ),
    command("mds rm name=gid,type=CephInt,range=0", "remove nonactive mds", "mds", "rw", remove),
    command(
        "mds rmfailed name=role,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false",
        "remove failed rank",
        "mds",
        "rw",
        remove_failed,
    ),
];

fn stat(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.fs.map;
    let json = || {
        json!({
            "fsmap": fsmap::json(map),
            "mdsmap_first_committed": 1,
            "mdsmap_last_committed": map.epoch.0,
        })
    };
    let plain = || match fsmap::line(map) {
        line if line.is_empty() => line,
        line => line + "\n",
    };
    Ok(context.show(json, plain))
}

/// Metadata of a server, with its address.
fn facts(context: &Context<'_>, info: &MdsInfo) -> Map<String, Value> {
    let known = context.state.fs.metadata.get(&info.gid).into_iter().flatten();
    let known = known.map(|(key, value)| (key.clone(), json!(value)));
    let addr = ("addr".to_owned(), json!(info.addrs.to_string()));
    std::iter::once(addr).chain(known.filter(|(key, _)| key != "addr")).collect()
}

/// The server that a name, a global id or a role (`0`, `cephfs:0`, `1:0`) means.
fn server<'a>(map: &'a FsMap, who: &str) -> Option<&'a MdsInfo> {
    if let Some(info) = map.servers().find(|info| info.name == who) {
        return Some(info);
    }
    if let Some(info) = who.parse().ok().and_then(|gid: MdsGid| map.server(gid)) {
        return Some(info);
    }
    let (id, rank) = role(map, who).ok()?;
    map.file_systems.get(&id)?.map.server(rank)
}

/// A file system and a rank. Without a file system, the rank is that of the only one.
fn role(map: &FsMap, text: &str) -> Result<(FsId, MdsRank), Refusal> {
    let (fs, rank) = match text.rsplit_once(':') {
        Some((fs, rank)) => (Some(fs), rank),
        None => (None, text),
    };
    let fs = match fs {
        Some(name) => {
            let by_id = || map.file_systems.get(&name.parse().ok()?);
            map.named(name).or_else(by_id)
        }
        None => map.file_systems.values().next().filter(|_| map.file_systems.len() == 1),
    };
    let Some(fs) = fs else { return Err(Refusal::missing("Invalid filesystem")) };
    let parsed = rank.parse::<MdsRank>().ok().filter(|rank| *rank >= 0);
    let rank = parsed.ok_or_else(|| Refusal::invalid(format!("Invalid rank '{rank}'")))?;
    if !fs.map.in_ranks.contains(&rank) {
        return Err(Refusal::missing(format!("Rank '{rank}' not found")));
    }
    Ok((fs.fscid, rank))
}

fn metadata(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.fs.map;
    let Some(who) = context.arguments.optional("who") else {
        let all = map.servers().map(|info| {
            let name = ("name".to_owned(), json!(info.name));
            std::iter::once(name).chain(facts(context, info)).collect::<Map<_, _>>()
        });
        return Ok(context.json(&json!(all.collect::<Vec<_>>())));
    };
    match server(map, who) {
        Some(info) => Ok(context.json(&Value::Object(facts(context, info)))),
        None => {
            let text = format!("MDS named '{who}' does not exist, or is not up");
            Err(Refusal::invalid(text))
        }
    }
}

fn count(context: &Context<'_>, property: &str) -> Value {
    count_values(facts_named(context, property))
}

fn count_metadata(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let property = context.arguments.text("property");
    Ok(context.json(&count(context, property)))
}

/// The versions of metadata servers.
pub fn versions(context: &Context<'_>) -> Vec<String> {
    facts_named(context, "ceph_version").map(str::to_owned).collect()
}

/// One fact of each server.
fn facts_named<'a>(context: &'a Context<'_>, name: &'a str) -> impl Iterator<Item = &'a str> {
    let fs = &context.state.fs;
    fs.map.servers().map(move |info| fs.fact(info.gid, name).unwrap_or("unknown"))
}

/// The names of metadata servers by host.
pub fn hosts(context: &Context<'_>) -> Value {
    let mut hosts = Map::new();
    for info in context.state.fs.map.servers() {
        let host = context.state.fs.fact(info.gid, "hostname").unwrap_or_default();
        let list = hosts.entry(host).or_insert_with(|| json!([]));
        if let Value::Array(list) = list {
            list.push(json!(info.name));
        }
    }
    Value::Object(hosts)
}

fn ok_to_stop(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.fs.map;
    let ids = context.arguments.list("ids");
    let stopped: Vec<&MdsInfo> = ids.iter().filter_map(|id| server(map, id)).collect();
    let (active, standby): (Vec<&MdsInfo>, Vec<&MdsInfo>) =
        stopped.iter().partition(|info| info.rank >= 0);
    let left = map.standbys.len().saturating_sub(standby.len());
    if left < active.len() {
        let gids = |list: &[&MdsInfo]| {
            list.iter().map(|info| info.gid.to_string()).collect::<Vec<_>>().join(",")
        };
        let text = format!(
            "insufficent standby MDS daemons to stop active gids {} and/or standby gids {}",
            gids(&active),
            gids(&standby)
        );
        return Err(Refusal::new(Errno::BUSY, text));
    }
    Ok(Answer::said(format!("should be safe to stop [{}]", ids.join(","))))
}

fn fail_one(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let who = context.arguments.text("role_or_gid");
    let Some(info) = server(&context.state.fs.map, who) else {
        let text = format!(
            "MDS named '{who}' does not exist, is not up or you lack the permission to see."
        );
        return Ok(Answer::said(text));
    };
    let (gid, name) = (info.gid, info.name.clone());
    fail(context.state, &mut context.change, gid);
    assign_ranks(context.state, &mut context.change);
    let text = format!("daemon mds.{name} marked failed by {}", context.caller.name);
    context.change.note(INFO, text);
    Ok(Answer::said(format!("failed mds gid {gid}")))
}

fn repaired(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (id, rank) = role(&context.state.fs.map, context.arguments.text("role"))?;
    let map = edit(context, id)?;
    if !map.damaged.remove(&rank) {
        return Ok(Answer::said("nothing to do: rank is not damaged"));
    }
    map.failed.insert(rank);
    assign_ranks(context.state, &mut context.change);
    Ok(Answer::said(format!("repaired: restoring rank {id}:{rank}")))
}

fn remove(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let gid = context.arguments.int("gid").unwrap_or(0) as MdsGid;
    let Some(info) = context.state.fs.map.server(gid) else {
        return Ok(Answer::said(format!("mds gid {gid} does not exist")));
    };
    if info.rank >= 0 {
        let (name, rank, state) = (&info.name, info.rank, info.state.name());
        let text =
            format!("cannot remove active mds.{name} rank {rank}, state {state}: fail it instead");
        return Err(Refusal::new(Errno::BUSY, text));
    }
    fail(context.state, &mut context.change, gid);
    Ok(Answer::said(format!("removed mds gid {gid}")))
}

fn remove_failed(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    confirm(
        context,
        "WARNING: this can make your filesystem inaccessible! Add --yes-i-really-mean-it if you are sure you \
         wish to continue.",
    )?;
    let (id, rank) = role(&context.state.fs.map, context.arguments.text("role"))?;
    let map = edit(context, id)?;
    if !map.failed.remove(&rank) {
        return Err(Refusal::invalid(format!("rank {rank} is not failed")));
    }
    // The rank exists all the same: otherwise a standby would create it, over what the pool has.
    Ok(Answer::said(format!("removed failed mds.{id}:{rank}")))
}

/// The state of a server as `fs status` writes it.
pub(super) fn short_state(info: &MdsInfo) -> &'static str {
    match info.state {
        state if info.is_laggy() && state == MdsState::ACTIVE => "active(laggy)",
        state => state.name().trim_start_matches("up:"),
    }
}
