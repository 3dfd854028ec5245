//! `pg`: placement groups.

use crate::command::{Answer, Command, Context, Refusal, command, number};
use crate::dump::pg_tables;
use crate::dump::pgs::{self, Row};
use crate::statistics::Totals;
use crate::table::{bytes, count};
use serde_json::{Map, Value, json};
use types::{Errno, OsdId, PoolId, UTime};
use wire::internal::pg_state;

/// `mon_pg_stuck_threshold`
const STUCK_THRESHOLD_SECONDS: i64 = 60;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

const LIST_PARAMS: &str = "list pg with specific pool, osd, state";

pub const COMMANDS: &[Command] = &[
    command("pg stat", "show placement group status.", "pg", "r", stat),
    command(
        "pg dump name=dumpcontents,type=CephChoices,strings=all|summary|sum|delta|pools|osds|pgs|pgs_brief,n=N,req=false",
        "show human-readable versions of pg map (only 'all' valid with plain)",
        "pg",
        "r",
        dump,
    ),
    command(
        "pg dump_json name=dumpcontents,type=CephChoices,strings=all|summary|sum|pools|osds|pgs,n=N,req=false",
        "show human-readable version of pg map in json only",
        "pg",
        "r",
        dump_json,
    ),
    command("pg dump_pools_json", "show pg pools info in json only", "pg", "r", dump_pools_json),
    command(
        "pg ls name=pool,type=CephInt,req=false name=states,type=CephString,n=N,req=false",
        LIST_PARAMS,
        "pg",
        "r",
        list,
    ),
    command(
        "pg ls-by-pool name=poolstr,type=CephString name=states,type=CephString,n=N,req=false",
        "list pg with pool = [poolname]",
        "pg",
        "r",
        list,
    ),
    command(
        "pg ls-by-osd name=osd,type=CephOsdName name=pool,type=CephInt,req=false \
         name=states,type=CephString,n=N,req=false",
        "list pg on osd [osd]",
        "pg",
        "r",
        list_by_osd,
    ),
    command(
        "pg ls-by-primary name=osd,type=CephOsdName name=pool,type=CephInt,req=false \
         name=states,type=CephString,n=N,req=false",
        "list pg with primary = [osd]",
        "pg",
        "r",
        list_by_primary,
    ),
    command(
        "pg dump_stuck name=stuckops,type=CephChoices,strings=inactive|unclean|stale|undersized|degraded|peering,n=N,req=false \
         name=threshold,type=CephInt,req=false",
        "show information about stuck pgs",
        "pg",
        "r",
        dump_stuck,
    ),
    command(
        "pg debug name=debugop,type=CephChoices,strings=unfound_objects_exist|degraded_pgs_exist",
        "show debug info about pgs",
        "pg",
        "r",
        debug,
    ),
    command("pg getmap", "get binary pg map to -o/stdout", "pg", "r", getmap),
];

/// The content of Ceph's binary `pg_map`, as JSON.
fn getmap(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let value = dump_value(context, &["all".to_owned()]);
    let text = format!("got pgmap version {}", context.live.stats.version);
    Ok(Answer::output(value.to_string()).saying(text))
}

/// Counts of groups by state, sorted by state bits as in Ceph.
fn stat(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (map, stats) = (&context.state.osdmap, context.live.stats);
    let mut by_state = stats.pgs_by_state(map);
    by_state.sort_unstable();
    Ok(context.show(|| stat_json(context, &by_state), || stat_plain(context, &by_state)))
}

fn stat_json(context: &Context<'_>, by_state: &[(u64, u64)]) -> Value {
    let stats = context.live.stats;
    let (totals, usage) = (stats.totals(), stats.usage(&context.state.osdmap));
    let states = by_state
        .iter()
        .map(|(state, count)| json!({ "name": pg_state::to_text(*state), "num": count }));
    let mut summary = json!({
        "num_pg_by_state": states.collect::<Vec<_>>(),
        "num_pgs": by_state.iter().map(|(_, count)| count).sum::<u64>(),
        "num_bytes": totals.bytes,
        "total_bytes": usage.bytes_total,
        "total_avail_bytes": usage.bytes_available,
        "total_used_bytes": usage.bytes_used,
        "total_used_raw_bytes": usage.bytes_used,
    });
    let rate = stats.rate(context.now, None);
    if rate.reads > 0 {
        summary["read_bytes_sec"] = json!(rate.read_bytes);
    }
    if rate.writes > 0 {
        summary["write_bytes_sec"] = json!(rate.write_bytes);
    }
    if rate.reads + rate.writes > 0 {
        summary["io_sec"] = json!(rate.reads + rate.writes);
    }
    for (name, some, all) in shortfalls(&totals) {
        let (objects, total) = (format!("{name}_objects"), format!("{name}_total"));
        summary[objects] = json!(some);
        summary[total] = json!(all);
        summary[format!("{name}_ratio")] = number(some as f64 / all as f64);
    }
    json!({ "pg_ready": true, "pg_summary": summary })
}

fn stat_plain(context: &Context<'_>, by_state: &[(u64, u64)]) -> String {
    let stats = context.live.stats;
    let (totals, usage) = (stats.totals(), stats.usage(&context.state.osdmap));
    let groups: u64 = by_state.iter().map(|(_, count)| count).sum();
    let states: Vec<String> = by_state
        .iter()
        .map(|(state, count)| format!("{count} {}", pg_state::to_text(*state)))
        .collect();
    let mut text = format!(
        "{groups} pgs: {}; {} data, {} used, {} / {} avail",
        states.join(", "),
        bytes(totals.bytes),
        bytes(usage.bytes_used),
        bytes(usage.bytes_available),
        bytes(usage.bytes_total),
    );
    let rate = stats.rate(context.now, None);
    let mut client = Vec::new();
    if rate.reads > 0 {
        client.push(format!("{}/s rd", bytes(rate.read_bytes)));
    }
    if rate.writes > 0 {
        client.push(format!("{}/s wr", bytes(rate.write_bytes)));
    }
    if !client.is_empty() {
        text += &format!("; {}, {} op/s", client.join(", "), count(rate.reads + rate.writes));
    }
    for (name, some, all) in shortfalls(&totals) {
        let percent = some as f64 * 100.0 / all as f64;
        text += &format!("; {some}/{all} objects {name} ({percent:.3}%)");
    }
    if rate.recovered_objects + rate.recovered_bytes > 0 {
        let (volume, objects) = (bytes(rate.recovered_bytes), count(rate.recovered_objects));
        text += &format!("; {volume}/s, {objects} objects/s recovering");
    }
    text + "\n"
}

/// Degraded, misplaced and unfound counts, each with its total; only those above zero.
pub(super) fn shortfalls(totals: &Totals) -> impl Iterator<Item = (&'static str, u64, u64)> {
    let all = [
        ("degraded", totals.degraded, totals.copies),
        ("misplaced", totals.misplaced, totals.copies),
        ("unfound", totals.unfound, totals.objects),
    ];
    all.into_iter().filter(|(_, some, all)| *some > 0 && *all > 0)
}

fn wanted(context: &Context<'_>) -> Vec<String> {
    let contents = context.arguments.list("dumpcontents");
    if contents.is_empty() { vec!["all".to_owned()] } else { contents.to_vec() }
}

fn dump(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let contents = wanted(context);
    let answer = context.show(|| dump_value(context, &contents), || dump_plain(context, &contents));
    Ok(answer.saying(format!("dumped {}", contents.join(","))))
}

fn dump_json(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let contents = wanted(context);
    let value = dump_value(context, &contents);
    Ok(context.json(&value).saying(format!("dumped {}", contents.join(","))))
}

fn dump_pools_json(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let value = dump_value(context, &["pools".to_owned()]);
    Ok(context.json(&value).saying("dumped pools"))
}

fn dump_value(context: &Context<'_>, contents: &[String]) -> Value {
    let has = |name: &str| contents.iter().any(|wanted| wanted == name);
    let rows = || pgs::rows(&context.state.osdmap, context.live.stats);
    let pg_stats = || rows().iter().map(pgs::json).collect::<Vec<_>>();
    let mut object = Map::new();
    object.insert("pg_ready".to_owned(), json!(true));
    let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
    if has("all") || has("summary") || has("sum") {
        let mut map = sums(context);
        if has("all") {
            map.insert("pg_stats".to_owned(), json!(pg_stats()));
            map.insert("pool_stats".to_owned(), json!(pool_stats(context)));
            map.insert("osd_stats".to_owned(), json!(osd_stats(context)));
            map.insert("pool_statfs".to_owned(), json!([]));
        }
        put("pg_map", Value::Object(map));
        return Value::Object(object);
    }
    if has("pools") {
        put("pool_stats", json!(pool_stats(context)));
    }
    if has("osds") {
        put("osd_stats", json!(osd_stats(context)));
        put("pool_statfs", json!([]));
    }
    if has("pgs") {
        put("pg_stats", json!(pg_stats()));
    } else if has("pgs_brief") {
        put("pg_stats", rows().iter().map(pgs::brief_json).collect());
    }
    if has("delta") {
        put("pg_stats_delta", pgs::sums_json(&Default::default(), 0));
    }
    Value::Object(object)
}

fn sums(context: &Context<'_>) -> Map<String, Value> {
    let (map, stats) = (&context.state.osdmap, context.live.stats);
    let held: u64 = pgs::pgs_per_osd(map).values().sum();
    let usage = stats.usage(map);
    let mut delta = pgs::sums_json(&Default::default(), 0);
    delta["stamp_delta"] = json!("0.000000");
    let fields = [
        ("version", json!(stats.version)),
        ("stamp", json!(stats.stamp.wall().to_iso())),
        ("last_osdmap_epoch", json!(map.epoch.0)),
        ("last_pg_scan", json!(map.epoch.0)),
        ("pg_stats_sum", pgs::sums_json(&stats.totals(), 0)),
        ("osd_stats_sum", pgs::osd_json(&usage, map.in_count() as u64, held)),
        ("pg_stats_delta", delta),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn pool_stats(context: &Context<'_>) -> Vec<Value> {
    let map = &context.state.osdmap;
    map.pools.keys().rev().map(|id| pgs::pool_json(map, context.live.stats, *id)).collect()
}

fn osd_stats(context: &Context<'_>) -> Vec<Value> {
    let held = pgs::pgs_per_osd(&context.state.osdmap);
    let stat = |(osd, report): (OsdId, &crate::statistics::OsdReport)| {
        let mut object = Map::new();
        object.insert("osd".to_owned(), json!(osd.0));
        let pgs = held.get(&osd).copied().unwrap_or(0);
        if let Value::Object(rest) = pgs::osd_json(&report.usage, 1, pgs) {
            object.extend(rest);
        }
        Value::Object(object)
    };
    context.live.stats.osds().map(stat).collect()
}

fn dump_plain(context: &Context<'_>, contents: &[String]) -> String {
    let (map, stats) = (&context.state.osdmap, context.live.stats);
    let has = |name: &str| contents.iter().any(|wanted| wanted == name);
    let basics = || {
        let (version, stamp) = (stats.version, stats.stamp.wall().to_iso());
        let epoch = map.epoch;
        format!(
            "version {version}\nstamp {stamp}\nlast_osdmap_epoch {epoch}\nlast_pg_scan {epoch}\n"
        )
    };
    let rows = || pgs::rows(map, stats);
    if has("all") {
        let parts = [
            basics() + &pg_tables::dump_table(&rows()),
            pg_tables::pool_table(map, stats),
            pg_tables::sum_table(stats),
            pg_tables::osd_table(map, stats),
        ];
        return parts.join("\n");
    }
    if has("summary") || has("sum") {
        let parts = [basics(), pg_tables::sum_table(stats), pg_tables::osd_sum_table(map, stats)];
        return parts.concat();
    }
    let mut parts = Vec::new();
    if has("pgs_brief") {
        parts.push(pg_tables::brief_table(&rows()));
    }
    if has("pgs") {
        parts.push(pg_tables::dump_table(&rows()));
    }
    if has("pools") {
        parts.push(pg_tables::pool_table(map, stats));
    }
    if has("osds") {
        parts.push(pg_tables::osd_table(map, stats));
    }
    parts.join("\n")
}

/// The states of an argument, as one bit each; `None` for all.
fn states_asked(context: &Context<'_>) -> Result<Option<Vec<u64>>, Refusal> {
    let names = context.arguments.list("states");
    if names.is_empty() || names.iter().any(|name| name == "all") {
        return Ok(None);
    }
    let states = names.iter().map(|name| {
        pg_state::from_name(name).ok_or_else(|| {
            let known: Vec<&str> = pg_state::names().collect();
            let text =
                format!("'{name}' is not a valid pg state, available choices: {}", known.join("+"));
            Refusal::invalid(text)
        })
    });
    states.collect::<Result<_, _>>().map(Some)
}

/// The groups that match the pool and states of the arguments.
fn selected(context: &Context<'_>) -> Result<Vec<Row>, Refusal> {
    let map = &context.state.osdmap;
    let pool = match (context.arguments.optional("poolstr"), context.arguments.int("pool")) {
        (Some(name), _) => {
            let missing = || Refusal::missing(format!("pool {name} does not exist"));
            Some(map.pool_id(name).ok_or_else(missing)?)
        }
        (None, Some(id)) if map.pool(PoolId(id)).is_none() => {
            return Err(Refusal::missing(format!("pool {id} does not exist")));
        }
        (None, id) => id.map(PoolId),
    };
    let states = states_asked(context)?;
    let holds = |state: u64, wanted: u64| state & wanted != 0 || state == 0 && wanted == 0;
    let fits = |row: &Row| {
        states.as_ref().is_none_or(|states| states.iter().any(|wanted| holds(row.state, *wanted)))
    };
    let rows = pgs::rows(map, context.live.stats).into_iter();
    Ok(rows.filter(|row| pool.is_none_or(|pool| row.pg.pool == pool) && fits(row)).collect())
}

fn listing(context: &Context<'_>, rows: &[Row]) -> Answer {
    let json =
        || json!({ "pg_ready": true, "pg_stats": rows.iter().map(pgs::json).collect::<Vec<_>>() });
    context.show(json, || pg_tables::list_table(rows, context.now))
}

fn list(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    Ok(listing(context, &selected(context)?))
}

/// The OSD of the argument, which must be up: `EAGAIN` otherwise, as it has no groups now.
fn up(context: &Context<'_>) -> Result<OsdId, Refusal> {
    let osd = context.arguments.osd("osd");
    match context.state.osdmap.is_up(osd) {
        true => Ok(osd),
        false => Err(Refusal::new(Errno::AGAIN, format!("osd {osd} is not up"))),
    }
}

fn list_by_osd(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let osd = up(context)?;
    let mut rows = selected(context)?;
    rows.retain(|row| row.stat.acting.contains(&osd) || row.stat.up.contains(&osd));
    Ok(listing(context, &rows))
}

fn list_by_primary(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let osd = up(context)?;
    let mut rows = selected(context)?;
    rows.retain(|row| row.stat.acting.iter().find(|one| **one != OsdId::NONE) == Some(&osd));
    Ok(listing(context, &rows))
}

/// The time since which a group has been in one of these stuck states; `None` if it is in none of them.
fn stuck_since(row: &Row, kinds: &[&str], created: UTime) -> Option<UTime> {
    let (state, stat) = (row.state, &row.stat);
    // The time at which a group was last complete is not recorded; that of its last clean state stands for
    // it.
    let since = |kind: &&str| match *kind {
        "inactive" => (state & pg_state::ACTIVE == 0).then_some(stat.last_active),
        "stale" => (state & pg_state::STALE != 0).then_some(stat.last_active),
        "peering" => (state & pg_state::PEERING != 0).then_some(stat.last_active),
        "undersized" => (state & pg_state::UNDERSIZED != 0).then_some(stat.last_clean),
        "degraded" => (state & pg_state::DEGRADED != 0).then_some(stat.last_clean),
        _ => (state & pg_state::CLEAN == 0).then_some(stat.last_clean),
    };
    kinds.iter().filter_map(since).min().map(|since| since.max(created))
}

fn dump_stuck(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.osdmap;
    let kinds = context.arguments.list("stuckops").iter().map(String::as_str);
    let kinds: Vec<&str> = if kinds.len() == 0 { vec!["unclean"] } else { kinds.collect() };
    let threshold = context.arguments.int("threshold").unwrap_or(STUCK_THRESHOLD_SECONDS);
    let threshold = u64::try_from(threshold).unwrap_or(0).saturating_mul(NANOS_PER_SECOND);
    let cutoff = context.now.wall().as_nanos().saturating_sub(threshold);
    let mut rows = pgs::rows(map, context.live.stats);
    rows.retain(|row| {
        let created = map.pool(row.pg.pool).map_or(UTime::ZERO, |pool| pool.create_time);
        stuck_since(row, &kinds, created).is_some_and(|since| since.as_nanos() < cutoff)
    });
    let json = || json!({ "pg_ready": true, "stuck_pg_stats": rows.iter().map(pgs::json).collect::<Vec<_>>() });
    let plain = || if rows.is_empty() { String::new() } else { pg_tables::brief_table(&rows) };
    Ok(context.show(json, plain).saying("ok"))
}

fn debug(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let totals = context.live.stats.totals();
    let found = match context.arguments.text("debugop") {
        "unfound_objects_exist" => totals.unfound > 0,
        _ => totals.degraded > 0,
    };
    // As in Ceph, the same word in every format.
    Ok(Answer::output(if found { "TRUE" } else { "FALSE" }))
}
