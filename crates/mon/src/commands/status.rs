//! `status`, `health` and other summaries of the cluster.

use super::mon::releases;
use super::pg::shortfalls;
use super::{mds, progress, services};
use crate::command::{Answer, Command, Context, Refusal, command, number};
use crate::dump::fsmap;
use crate::dump::maps::quorum;
use crate::dump::peers::{count_values, feature_map};
use crate::health::health;
use crate::keys;
use crate::live::Skew;
use crate::state::{Mute, State};
use crate::statistics::Traffic;
use crate::table::{age, bytes, count, since};
use maps::OsdMapFlags;
use serde_json::{Map, Value, json};
use wire::internal::pg_state;

pub const COMMANDS: &[Command] = &[
    command("status", "show cluster status", "mon", "r", status),
    command(
        "health name=detail,type=CephChoices,strings=detail,req=false",
        "show cluster health",
        "mon",
        "r",
        show_health,
    ),
    command(
        "health mute name=code,type=CephString name=ttl,type=CephString,req=false \
         name=sticky,type=CephBool,req=false",
        "mute health alert",
        "mon",
        "w",
        mute,
    ),
    command(
        "health unmute name=code,type=CephString,req=false",
        "unmute existing health alert mute(s)",
        "mon",
        "w",
        unmute,
    ),
    command("version", "show mon daemon version", "mon", "r", version),
    command("versions", "check running versions of ceph daemons", "mon", "r", versions),
    command("fsid", "show cluster FSID/UUID", "mon", "r", fsid),
    command("features", "report of connected features", "mon", "r", features),
    command(
        "node ls name=type,type=CephChoices,strings=all|osd|mon|mds|mgr,req=false",
        "list all nodes in cluster [type]",
        "mon",
        "r",
        nodes,
    ),
    command("time-sync-status", "show time sync status", "mon", "r", time_sync),
    command("quorum_status", "report status of monitor quorum", "mon", "r", quorum_status),
];

fn status(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    Ok(context.show(|| status_json(context), || status_plain(context)))
}

fn status_json(context: &Context<'_>) -> Value {
    let state = context.state;
    let age = context.now.since(context.live.identity.started).as_secs();
    let (ranks, names): (Vec<usize>, Vec<&str>) = state.quorum().into_iter().unzip();
    json!({
        "fsid": state.monmap.fsid.to_string(),
        "health": health(&context.view()).json(state, false),
        "election_epoch": state.election_epoch(),
        "quorum": ranks,
        "quorum_names": names,
        "quorum_age": age,
        "monmap": {
            "epoch": state.monmap.epoch.0,
            "min_mon_release_name": state.monmap.min_mon_release.name(),
            "num_mons": state.monmap.ranks.len(),
        },
        "osdmap": osdmap_summary(state),
        "pgmap": pgmap_summary(context),
        "fsmap": fsmap::summary(&state.fs.map),
        "mgrmap": {
            "available": state.mgrmap.available,
            "num_standbys": state.mgrmap.standbys.len(),
            "modules": state.mgrmap.modules,
            "services": state.mgrmap.services,
        },
        "servicemap": services::dump(context.live.daemons),
        "progress_events": progress_events(context),
    })
}

/// The counts of `osd stat`, which `status` repeats.
pub fn osdmap_summary(state: &State) -> Value {
    let map = &state.osdmap;
    json!({
        "epoch": map.epoch.0,
        "num_osds": map.osd_count(),
        "num_up_osds": map.up_count(),
        "osd_up_since": map.last_up_change.seconds,
        "num_in_osds": map.in_count(),
        "osd_in_since": map.last_in_change.seconds,
        "num_remapped_pgs": map.pg_temp.len(),
    })
}

fn pgmap_summary(context: &Context<'_>) -> Value {
    let (map, stats) = (&context.state.osdmap, context.live.stats);
    let (totals, usage) = (stats.totals(), stats.usage(map));
    let by_state = stats.pgs_by_state(map);
    let groups: u64 = by_state.iter().map(|(_, count)| count).sum();
    let states = by_state
        .iter()
        .map(|(state, count)| json!({ "state_name": pg_state::to_text(*state), "count": count }));
    let mut summary = Map::new();
    let mut put = |name: &str, value: Value| summary.insert(name.to_owned(), value);
    put("pgs_by_state", states.collect());
    put("num_pgs", json!(groups));
    put("num_pools", json!(map.pools.len()));
    put("num_objects", json!(totals.objects));
    put("data_bytes", json!(totals.bytes));
    put("bytes_used", json!(usage.bytes_used));
    put("bytes_avail", json!(usage.bytes_available));
    put("bytes_total", json!(usage.bytes_total));
    let ratio_of = |wanted: &dyn Fn(u64) -> bool| {
        let some: u64 = by_state.iter().filter(|(s, _)| wanted(*s)).map(|(_, count)| count).sum();
        (some > 0).then(|| number(some as f64 / groups as f64))
    };
    if let Some(ratio) = ratio_of(&|state| state == 0) {
        put("unknown_pgs_ratio", ratio);
    }
    if let Some(ratio) = ratio_of(&|state| state != 0 && state & pg_state::ACTIVE == 0) {
        put("inactive_pgs_ratio", ratio);
    }
    for (name, some, all) in shortfalls(&totals) {
        put(&format!("{name}_objects"), json!(some));
        put(&format!("{name}_total"), json!(all));
        put(&format!("{name}_ratio"), number(some as f64 / all as f64));
    }
    let rate = stats.rate(context.now, None);
    for (name, value) in rate_fields(&rate) {
        put(name, json!(value));
    }
    Value::Object(summary)
}

/// Rates that are not zero, as named in `status` and `osd pool stats`.
pub fn rate_fields(rate: &Traffic) -> Vec<(&'static str, u64)> {
    let mut fields = Vec::new();
    if rate.recovered_objects > 0 || rate.recovered_bytes > 0 {
        fields.push(("recovering_objects_per_sec", rate.recovered_objects));
        fields.push(("recovering_bytes_per_sec", rate.recovered_bytes));
        fields.push(("recovering_keys_per_sec", 0));
    }
    fields.extend(client_rate_fields(rate));
    fields
}

/// The same for client traffic only.
pub fn client_rate_fields(rate: &Traffic) -> Vec<(&'static str, u64)> {
    if rate.reads == 0 && rate.writes == 0 {
        return Vec::new();
    }
    vec![
        ("read_bytes_sec", rate.read_bytes),
        ("write_bytes_sec", rate.write_bytes),
        ("read_op_per_sec", rate.reads),
        ("write_op_per_sec", rate.writes),
    ]
}

/// `1.2 KiB/s rd, 3 MiB/s wr, 3 op/s rd, 4 op/s wr`
pub fn rate_plain(rate: &Traffic) -> String {
    let mut parts = Vec::new();
    if rate.reads > 0 {
        parts.push(format!("{}/s rd", bytes(rate.read_bytes)));
    }
    if rate.writes > 0 {
        parts.push(format!("{}/s wr", bytes(rate.write_bytes)));
    }
    if rate.reads > 0 {
        parts.push(format!("{} op/s rd", count(rate.reads)));
    }
    if rate.writes > 0 {
        parts.push(format!("{} op/s wr", count(rate.writes)));
    }
    parts.join(", ")
}

fn status_plain(context: &Context<'_>) -> String {
    let state = context.state;
    let health = health(&context.view());
    let mut text = format!(
        "  cluster:\n    id:     {}\n    health: {}\n",
        state.monmap.fsid,
        health.severity().name()
    );
    for line in health.lines() {
        text += &format!("            {line}\n");
    }
    let names: Vec<&str> = state.quorum().into_iter().map(|(_, name)| name).collect();
    let absent = state.absent_monitors();
    let names = match absent.is_empty() {
        true => names.join(","),
        false => format!("{}, out of quorum: {}", names.join(","), absent.join(", ")),
    };
    let standbys: Vec<&str> = state.mgrmap.standbys.values().map(|mgr| mgr.name.as_str()).collect();
    let standbys = match standbys.is_empty() {
        true => String::new(),
        false => format!(", standbys: {}", standbys.join(", ")),
    };
    let quorum_age = age(context.now.since(context.live.identity.started).as_secs());
    let map = &state.osdmap;
    let registered = &context.live.daemons;
    let width = services::width(registered) + 1;
    let [mon, mgr, mds, osd] =
        ["mon:", "mgr:", "mds:", "osd:"].map(|label| format!("{label:<width$}"));
    let servers = fsmap::servers_line(&state.fs.map);
    let servers = servers.map_or(String::new(), |line| format!("    {mds} {line}\n"));
    text += &format!(
        " \n  services:\n    {mon} {} daemons, quorum {names} (age {quorum_age})\n    {mgr} \
         {}(active, since {}){standbys}\n{servers}    {osd} {} osds: {} up{}, {} in{}\n",
        state.monmap.ranks.len(),
        state.mgrmap.active_name,
        age(context.now.wall().seconds.saturating_sub(state.mgrmap.active_change.seconds).into()),
        map.osd_count(),
        map.up_count(),
        since(context.now, map.last_up_change),
        map.in_count(),
        since(context.now, map.last_in_change),
    );
    let flags = map.flags.without(OsdMapFlags::BASE);
    if !flags.is_empty() {
        text += &format!("{:indent$}flags {flags}\n", "", indent = width + 5);
    }
    text += &services::plain(registered);
    text += &services::tasks_plain(registered);
    text += &data_plain(context);
    let rate = context.live.stats.rate(context.now, None);
    let mut io = Vec::new();
    if rate.reads > 0 || rate.writes > 0 {
        io.push(format!("    client:   {}", rate_plain(&rate)));
    }
    if rate.recovered_objects > 0 {
        let (objects, volume) = (rate.recovered_objects, bytes(rate.recovered_bytes));
        io.push(format!("    recovery: {volume}/s, {objects} objects/s"));
    }
    if !io.is_empty() {
        text += &format!(" \n  io:\n{}\n", io.join("\n"));
    }
    let events = context.live.osds.progress.events();
    let events: String = events.map(|event| progress::plain(event, context.now)).collect();
    let events = events + &progress::tasks_plain(context);
    if !events.is_empty() {
        text += &format!(" \n  progress:\n{events}");
    }
    text + " \n"
}

fn progress_events(context: &Context<'_>) -> Value {
    let events = context.live.osds.progress.events().map(|event| {
        let message = progress::plain(event, context.now).trim().to_owned();
        let event_json = json!({
            "message": message,
            "progress": number(event.fraction()),
            "add_to_ceph_s": true,
        });
        (event.id.clone(), event_json)
    });
    Value::Object(events.chain(progress::tasks_events(context)).collect())
}

fn data_plain(context: &Context<'_>) -> String {
    let (map, stats) = (&context.state.osdmap, context.live.stats);
    let (totals, usage) = (stats.totals(), stats.usage(map));
    let by_state = stats.pgs_by_state(map);
    let groups: u64 = by_state.iter().map(|(_, count)| count).sum();
    let volumes = fsmap::volumes_line(&context.state.fs.map);
    let volumes = volumes.map_or(String::new(), |line| format!("    volumes: {line}\n"));
    let mut text = format!(
        " \n  data:\n{volumes}    pools:   {} pools, {groups} pgs\n    objects: {} objects, {}\n    usage:   \
         {} used, {} / {} avail\n",
        map.pools.len(),
        count(totals.objects),
        bytes(totals.bytes),
        bytes(usage.bytes_used),
        bytes(usage.bytes_available),
        bytes(usage.bytes_total),
    );
    let mut lines = Vec::new();
    let unknown: u64 = by_state.iter().filter(|(s, _)| *s == 0).map(|(_, n)| n).sum();
    let idle = |state: u64| state != 0 && state & pg_state::ACTIVE == 0;
    let inactive: u64 = by_state.iter().filter(|(s, _)| idle(*s)).map(|(_, n)| n).sum();
    let percent = |some: u64| some as f64 * 100.0 / groups.max(1) as f64;
    if unknown > 0 {
        lines.push(format!("{:.3}% pgs unknown", percent(unknown)));
    }
    if inactive > 0 {
        lines.push(format!("{:.3}% pgs not active", percent(inactive)));
    }
    for (name, some, all) in shortfalls(&totals) {
        let share = some as f64 * 100.0 / all as f64;
        lines.push(format!("{some}/{all} objects {name} ({share:.3}%)"));
    }
    let width = by_state.iter().map(|(_, count)| count.to_string().len()).max().unwrap_or(0);
    for (state, count) in &by_state {
        lines.push(format!("{count:<width$} {}", pg_state::to_text(*state)));
    }
    let indent = "\n             ";
    text += &format!("    pgs:     {}\n", lines.join(indent));
    text
}

fn show_health(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let detail = context.arguments.optional("detail").is_some();
    let health = health(&context.view());
    Ok(context.show(|| health.json(context.state, detail), || health.plain(detail)))
}

fn mute(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let code = context.arguments.text("code").to_owned();
    let ttl = match context.arguments.optional("ttl") {
        None => 0,
        Some(text) => parse_duration(text).ok_or_else(|| {
            Refusal::invalid(format!("ttl '{text}' is no duration, expected one such as 10m or 2h"))
        })?,
    };
    let sticky = context.arguments.flag("sticky");
    let health = health(&context.view());
    let all = health.all();
    let (summary, count) = match all.get(code.as_str()) {
        Some(check) => (check.summary.clone(), check.count),
        None if sticky => (String::new(), 0),
        None => {
            return Err(Refusal::missing(format!("health alert {code} is not currently raised")));
        }
    };
    let now = u64::from(context.now.wall().seconds);
    let expires_at = if ttl == 0 { 0 } else { now + ttl };
    let mut mutes = context.state.mutes.clone();
    mutes.retain(|mute| mute.code != code);
    mutes.push(Mute { code, sticky, summary, count, expires_at });
    store_mutes(context, &mutes);
    Ok(Answer::default())
}

fn unmute(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let code = context.arguments.optional("code");
    let mut mutes = context.state.mutes.clone();
    mutes.retain(|mute| code.is_some_and(|code| mute.code != code));
    if mutes != context.state.mutes {
        store_mutes(context, &mutes);
    }
    Ok(Answer::default())
}

fn store_mutes(context: &mut Context<'_>, mutes: &[Mute]) {
    context.change.put(keys::HEALTH_MUTES, serde_json::to_vec(mutes).unwrap_or_default());
}

/// Parses `90`, `90s`, `10m`, `2h`, `1d`, `1w` to seconds.
fn parse_duration(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = match text[digits..].trim() {
        "" | "s" | "sec" => 1,
        "m" | "min" => 60,
        "h" | "hour" | "hours" => 3600,
        "d" | "day" | "days" => 86_400,
        "w" | "week" | "weeks" => 604_800,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(unit)
}

fn version(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let json = || json!({ "version": crate::VERSION, "release": "reef", "release_type": "stable" });
    Ok(context.show(json, || format!("{}\n", crate::VERSION)))
}

fn versions(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let osds = osd_versions(context.state);
    let osd_versions = osds.iter().map(String::as_str);
    let mons: Vec<&str> = releases(context).collect();
    let mut value = json!({
        "mon": count_values(mons.iter().copied()),
        "mgr": { crate::VERSION: 1 },
    });
    if !osds.is_empty() {
        value["osd"] = count_values(osd_versions.clone());
    }
    let servers = mds::versions(context);
    if !servers.is_empty() {
        value["mds"] = count_values(servers.iter().map(String::as_str));
    }
    let services = services::versions(context.live.daemons);
    for (service, versions) in &services {
        value[*service] = count_values(versions.iter().copied());
    }
    let of_services = services.into_iter().flat_map(|(_, versions)| versions);
    value["overall"] = count_values(
        mons.into_iter()
            .chain([crate::VERSION])
            .chain(osd_versions)
            .chain(servers.iter().map(String::as_str))
            .chain(of_services),
    );
    Ok(context.json(&value))
}

/// The versions that OSDs reported when they booted.
pub fn osd_versions(state: &State) -> Vec<String> {
    let version = |osd| {
        let metadata = state.osd_metadata.get(&osd)?;
        Some(metadata.get("ceph_version").map_or("unknown", String::as_str).to_owned())
    };
    state.osdmap.existing_osds().filter_map(|(osd, _)| version(osd)).collect()
}

fn fsid(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let fsid = context.state.monmap.fsid.to_string();
    Ok(context.show(|| json!({ "fsid": fsid }), || format!("{fsid}\n")))
}

fn features(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    Ok(context.json(&Value::Object(feature_map(context.live))))
}

fn nodes(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let host = &context.live.identity.hostname;
    let mut osds = Map::new();
    for (osd, _) in context.state.osdmap.existing_osds() {
        let metadata = context.state.osd_metadata.get(&osd);
        let place = metadata.and_then(|metadata| metadata.get("hostname")).unwrap_or(host);
        let list = osds.entry(place.clone()).or_insert_with(|| json!([]));
        if let Value::Array(list) = list {
            list.push(json!(osd.0));
        }
    }
    let mut all = Map::new();
    all.insert("mon".to_owned(), json!({ host: context.state.monmap.ranks }));
    all.insert("osd".to_owned(), Value::Object(osds));
    all.insert("mds".to_owned(), mds::hosts(context));
    all.insert("mgr".to_owned(), json!({ host: [context.live.identity.mgr_name] }));
    let value = match context.arguments.optional("type") {
        None | Some("all") => Value::Object(all),
        Some(kind) => all.remove(kind).unwrap_or_default(),
    };
    Ok(context.json(&value))
}

fn time_sync(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let checks =
        json!({ "epoch": context.state.election_epoch(), "round": 0, "round_status": "finished" });
    let skews = &context.live.clocks;
    if skews.is_empty() {
        return Ok(context.json(&json!({ "timechecks": checks })));
    }
    let allowed = context.state.clock_drift_allowed(context.live.running);
    let own = (context.live.identity.mon_name.as_str(), Skew { seconds: 0.0, latency: 0.0 });
    let all = skews.iter().map(|(name, skew)| (name.as_str(), *skew)).chain([own]);
    let status = all.map(|(name, skew)| {
        let health = if skew.is_beyond(allowed) { "HEALTH_WARN" } else { "HEALTH_OK" };
        let value = json!({ "skew": skew.seconds, "latency": skew.latency, "health": health });
        (name.to_owned(), value)
    });
    let status: Map<String, Value> = status.collect();
    Ok(context.json(&json!({ "time_skew_status": status, "timechecks": checks })))
}

fn quorum_status(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let value = quorum(context.state, context.live.identity, context.now);
    Ok(context.json(&value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(parse_duration("10m"), Some(600));
        assert_eq!(parse_duration("45"), Some(45));
        assert_eq!(parse_duration("soon"), None);
    }
}
