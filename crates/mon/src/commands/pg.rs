//! Placement groups.

use crate::command::{Answer, Command, Context, Refusal, command};
use crate::dump::pgs::{self, Row};
use crate::table::bytes;
use serde_json::{Map, Value, json};
use types::{Errno, OsdId, PgId, PoolId};
use wire::internal::pg_state;

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
        "pg dump_stuck name=stuckops,type=CephChoices,strings=inactive|unclean|stale|undersized|degraded,n=N,req=false \
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
    command("pg scrub name=pgid,type=CephPgid", "start scrub on <pgid>", "pg", "rw", scrub),
    command(
        "pg deep-scrub name=pgid,type=CephPgid",
        "start deep-scrub on <pgid>",
        "pg",
        "rw",
        scrub,
    ),
    command("pg repair name=pgid,type=CephPgid", "start repair on <pgid>", "pg", "rw", scrub),
    command(
        "osd scrub name=who,type=CephString",
        "initiate scrub on osd <who>",
        "osd",
        "rw",
        scrub,
    ),
    command(
        "osd deep-scrub name=who,type=CephString",
        "initiate deep scrub on osd <who>",
        "osd",
        "rw",
        scrub,
    ),
    command(
        "osd repair name=who,type=CephString",
        "initiate repair on osd <who>",
        "osd",
        "rw",
        scrub,
    ),
];

fn stat(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (map, stats) = (&context.state.osdmap, context.stats);
    let (by_state, totals, usage) = (stats.pgs_by_state(map), stats.totals(), stats.usage(map));
    let groups: u64 = by_state.iter().map(|(_, count)| count).sum();
    let json = || {
        let states = by_state
            .iter()
            .map(|(state, count)| json!({ "name": pg_state::to_text(*state), "num": count }));
        json!({
            "pg_ready": true,
            "pg_summary": {
                "num_pg_by_state": states.collect::<Vec<_>>(),
                "num_pgs": groups,
                "num_bytes": totals.bytes,
                "total_bytes": usage.bytes_total,
                "total_avail_bytes": usage.bytes_available,
                "total_used_bytes": usage.bytes_used,
                "total_used_raw_bytes": usage.bytes_used,
            },
        })
    };
    let plain = || {
        let states: Vec<String> = by_state
            .iter()
            .map(|(state, count)| format!("{count} {}", pg_state::to_text(*state)))
            .collect();
        format!(
            "{groups} pgs: {}; {} data, {} used, {} / {} avail\n",
            states.join(", "),
            bytes(totals.bytes),
            bytes(usage.bytes_used),
            bytes(usage.bytes_available),
            bytes(usage.bytes_total),
        )
    };
    Ok(context.show(json, plain))
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
    let rows = || pgs::rows(&context.state.osdmap, context.stats);
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
    let (map, stats) = (&context.state.osdmap, context.stats);
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
    map.pools.keys().rev().map(|id| pgs::pool_json(map, context.stats, *id)).collect()
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
    context.stats.osds().map(stat).collect()
}

fn dump_plain(context: &Context<'_>, contents: &[String]) -> String {
    let (map, stats) = (&context.state.osdmap, context.stats);
    let has = |name: &str| contents.iter().any(|wanted| wanted == name);
    let all = has("all");
    let mut text = String::new();
    if all || has("summary") || has("sum") {
        text += &format!(
            "version {}\nstamp {}\nlast_osdmap_epoch {}\nlast_pg_scan {}\n",
            stats.version,
            stats.stamp.wall().to_iso(),
            map.epoch,
            map.epoch
        );
    }
    if all || has("pgs") {
        text += &pgs::dump_table(&pgs::rows(map, stats));
    } else if has("pgs_brief") {
        text += &pgs::brief_table(&pgs::rows(map, stats));
    }
    if all || has("pools") {
        text += &format!("\n{}", pgs::pool_table(map, stats));
    }
    if all || has("osds") {
        text += &format!("\n{}", pgs::osd_table(map, stats));
    }
    text.trim_start_matches('\n').to_owned()
}

/// Groups that a listing asks for by pool and states.
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
    let states = context.arguments.list("states");
    let fits = |row: &Row| {
        let text = pg_state::to_text(row.state);
        let holds =
            |wanted: &String| wanted == "all" || text.split('+').any(|state| state == wanted);
        states.is_empty() || states.iter().any(holds)
    };
    let rows = pgs::rows(map, context.stats).into_iter();
    Ok(rows.filter(|row| pool.is_none_or(|pool| row.pg.pool == pool) && fits(row)).collect())
}

fn listing(context: &Context<'_>, rows: &[Row]) -> Answer {
    let json =
        || json!({ "pg_ready": true, "pg_stats": rows.iter().map(pgs::json).collect::<Vec<_>>() });
    context.show(json, || pgs::list_table(rows, context.now))
}

fn list(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    Ok(listing(context, &selected(context)?))
}

fn list_by_osd(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let osd = super::osd::existing(context, "osd")?;
    let mut rows = selected(context)?;
    rows.retain(|row| row.stat.acting.contains(&osd) || row.stat.up.contains(&osd));
    Ok(listing(context, &rows))
}

fn list_by_primary(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let osd = super::osd::existing(context, "osd")?;
    let mut rows = selected(context)?;
    rows.retain(|row| row.stat.acting.iter().find(|one| **one != OsdId::NONE) == Some(&osd));
    Ok(listing(context, &rows))
}

fn dump_stuck(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let kinds = context.arguments.list("stuckops");
    let is_stuck = |state: u64| {
        let one = |kind: &str| match kind {
            "inactive" => state & pg_state::ACTIVE == 0,
            "unclean" => state & pg_state::CLEAN == 0,
            "stale" => state & pg_state::STALE != 0,
            "undersized" => state & pg_state::UNDERSIZED != 0,
            _ => state & pg_state::DEGRADED != 0,
        };
        if kinds.is_empty() { one("unclean") } else { kinds.iter().any(|kind| one(kind)) }
    };
    let mut rows = pgs::rows(&context.state.osdmap, context.stats);
    rows.retain(|row| is_stuck(row.state));
    let json = || json!({ "pg_ready": true, "stuck_pg_stats": rows.iter().map(pgs::json).collect::<Vec<_>>() });
    Ok(context.show(json, || pgs::brief_table(&rows)).saying("ok"))
}

fn debug(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let totals = context.stats.totals();
    let found = match context.arguments.text("debugop") {
        "unfound_objects_exist" => totals.unfound > 0,
        _ => totals.degraded > 0,
    };
    let text = if found { "TRUE" } else { "FALSE" };
    Ok(context.show(|| json!(found), || text.to_owned()))
}

fn scrub(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let what = match context.arguments.optional("pgid") {
        Some(_) => {
            let pg: PgId = context.arguments.pg("pgid");
            let map = &context.state.osdmap;
            if map.pool(pg.pool).is_none_or(|pool| pg.seed >= pool.pg_num) {
                return Err(Refusal::missing(format!("pgid '{pg}' does not exist")));
            }
            format!("pg {pg}")
        }
        None => format!("osd {}", context.arguments.text("who")),
    };
    let text = format!(
        "{what} was not scrubbed: OSDs check each block when it is read, scrubbing is not supported"
    );
    Err(Refusal::new(Errno::NOTSUPP, text))
}
