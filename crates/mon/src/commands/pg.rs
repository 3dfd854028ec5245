//! Placement groups: where they are and how they fare.
//!
//! In Ceph the manager answers most of these. Groups whose primary has not reported yet are shown
//! as unknown, at the place where the map puts them.

use super::pool_named;
use super::status::{client_rate_fields, rate_plain};
use crate::command::{Answer, Command, Context, Refusal, command, number};
use crate::dump::osdmap::stamp;
use crate::dump::pgs::{self, Row};
use crate::statistics::Totals;
use crate::table::{Table, bytes};
use serde_json::{Map, Value, json};
use std::time::Duration;
use types::{Errno, OsdId, PgId, PoolId};
use wire::internal::pg_state;

/// `mon_pg_stuck_threshold`: how long a group may be in a state before it is stuck, in seconds.
const STUCK_THRESHOLD: u64 = 60;

pub const COMMANDS: &[Command] = &[
    command("pg stat", "show placement group status.", "pg", "r", stat),
    command("pg map name=pgid,type=CephPgid", "show mapping of pg to osds", "pg", "r", map),
    command(
        "pg dump name=dumpcontents,type=CephChoices,\
         strings=all|summary|sum|delta|pools|osds|pgs|pgs_brief,n=N,req=false",
        "show human-readable versions of pg map (only 'all' valid with plain)",
        "pg",
        "r",
        dump,
    ),
    command(
        "pg dump_json name=dumpcontents,type=CephChoices,\
         strings=all|summary|sum|pools|osds|pgs,n=N,req=false",
        "show human-readable version of pg map in json only",
        "pg",
        "r",
        dump_json,
    ),
    command("pg dump_pools_json", "show pg pools info in json only", "pg", "r", dump_pools),
    command(
        "pg dump_stuck name=stuckops,type=CephChoices,\
         strings=inactive|unclean|stale|undersized|degraded,n=N,req=false \
         name=threshold,type=CephInt,req=false",
        "show information about stuck pgs",
        "pg",
        "r",
        dump_stuck,
    ),
    command(
        "pg ls name=pool,type=CephInt,req=false name=states,type=CephString,n=N,req=false",
        "list pg with specific pool, osd, state",
        "pg",
        "r",
        |context| list(context, |_| true),
    ),
    command(
        "pg ls-by-pool name=poolstr,type=CephString name=states,type=CephString,n=N,req=false",
        "list pg with pool = [poolname]",
        "pg",
        "r",
        |context| {
            let pool = pool_named(context, "poolstr")?;
            list(context, |row| row.pg.pool == pool)
        },
    ),
    command(
        "pg ls-by-osd name=osd,type=CephOsdName name=pool,type=CephInt,req=false \
         name=states,type=CephString,n=N,req=false",
        "list pg on osd [osd]",
        "pg",
        "r",
        |context| {
            let osd = known_osd(context)?;
            list(context, |row| row.stat.acting.contains(&osd))
        },
    ),
    command(
        "pg ls-by-primary name=osd,type=CephOsdName name=pool,type=CephInt,req=false \
         name=states,type=CephString,n=N,req=false",
        "list pg with primary = [osd]",
        "pg",
        "r",
        |context| {
            let osd = known_osd(context)?;
            list(context, |row| primary(row) == Some(osd))
        },
    ),
    command(
        "pg query name=pgid,type=CephPgid",
        "show details of a specific pg",
        "pg",
        "r",
        query,
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
    command("pg repair name=pgid,type=CephPgid", "start repair on <pgid>", "pg", "rw", repair),
];

fn stat(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    Ok(context.show(|| stat_json(context), || stat_plain(context)))
}

fn stat_json(context: &Context<'_>) -> Value {
    let (map, stats) = (&context.state.osdmap, context.stats);
    let (totals, usage) = (stats.totals(), stats.usage(map));
    // Ceph names the rarest state first here, and the most frequent one first in `status`.
    let by_state = || stats.pgs_by_state(map).into_iter().rev();
    let states = by_state()
        .map(|(state, count)| json!({ "name": pg_state::to_text(state), "num": count }));
    let mut summary = json!({
        "num_pg_by_state": states.collect::<Vec<_>>(),
        "num_pgs": by_state().map(|(_, count)| count).sum::<u64>(),
        "num_bytes": totals.bytes,
        "total_bytes": usage.bytes_total,
        "total_avail_bytes": usage.bytes_available,
        "total_used_bytes": usage.bytes_used,
        "total_used_raw_bytes": usage.bytes_used,
    });
    if totals.degraded > 0 {
        summary["degraded_objects"] = json!(totals.degraded);
        summary["degraded_total"] = json!(totals.copies);
        let ratio = totals.degraded as f64 / totals.copies.max(1) as f64;
        summary["degraded_ratio"] = number(ratio);
    }
    for (name, value) in client_rate_fields(&stats.rate(context.now, None)) {
        summary[name] = json!(value);
    }
    json!({ "pg_ready": true, "pg_summary": summary })
}

fn stat_plain(context: &Context<'_>) -> String {
    let (map, stats) = (&context.state.osdmap, context.stats);
    let (totals, usage) = (stats.totals(), stats.usage(map));
    let by_state = stats.pgs_by_state(map);
    let groups: u64 = by_state.iter().map(|(_, count)| count).sum();
    let states: Vec<String> = by_state
        .iter()
        .rev()
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
    let rate = rate_plain(&stats.rate(context.now, None));
    if !rate.is_empty() {
        text += &format!("; {rate}");
    }
    for (count, what) in [(totals.degraded, "degraded"), (totals.misplaced, "misplaced")] {
        if count > 0 {
            let percent = count as f64 * 100.0 / totals.copies.max(1) as f64;
            text += &format!("; {count}/{} objects {what} ({percent:.3}%)", totals.copies);
        }
    }
    text + "\n"
}

fn ids(osds: &[OsdId]) -> Vec<i32> {
    osds.iter().map(|osd| osd.0).collect()
}

/// A group as it was asked for and the one that is meant: raw ids carry a whole hash.
fn group_named(context: &Context<'_>) -> Result<(PgId, PgId), Refusal> {
    let raw = context.arguments.pg("pgid");
    let missing = || Refusal::missing(format!("pgid '{raw}' does not exist"));
    Ok((raw, context.state.osdmap.raw_pg_to_pg(raw).ok_or_else(missing)?))
}

fn map(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (raw, pg) = group_named(context)?;
    let map = &context.state.osdmap;
    let mapping = map.pg_to_osds(pg);
    let json = || {
        json!({
            "epoch": map.epoch.0,
            "raw_pgid": raw.to_string(),
            "pgid": pg.to_string(),
            "up": ids(&mapping.up),
            "acting": ids(&mapping.acting),
        })
    };
    Ok(context.show(json, || {
        let (up, acting) = (pgs::set_text(&mapping.up), pgs::set_text(&mapping.acting));
        format!("osdmap e{} pg {raw} ({pg}) -> up {up} acting {acting}\n", map.epoch)
    }))
}

fn rows(context: &Context<'_>) -> Vec<Row> {
    pgs::rows(&context.state.osdmap, context.stats)
}

fn primary(row: &Row) -> Option<OsdId> {
    row.stat.acting.iter().copied().find(|osd| *osd != OsdId::NONE)
}

fn dump(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let contents = context.arguments.list("dumpcontents");
    let wants = Wanted::of(contents);
    let said = format!("dumped {}", wants.names.join(","));
    Ok(context.show(|| wants.json(context), || wants.plain(context)).saying(said))
}

fn dump_json(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let wants = Wanted::of(context.arguments.list("dumpcontents"));
    let said = format!("dumped {}", wants.names.join(","));
    Ok(context.json(&wants.json(context)).saying(said))
}

fn dump_pools(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let value = json!({ "pg_ready": true, "pool_stats": pools(context) });
    Ok(context.json(&value).saying("dumped pools"))
}

/// The sections of a dump.
struct Wanted<'a> {
    names: Vec<&'a str>,
}

impl<'a> Wanted<'a> {
    fn of(given: &'a [String]) -> Self {
        let mut names: Vec<&str> = given.iter().map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        if names.is_empty() {
            names.push("all");
        }
        Wanted { names }
    }

    fn has(&self, name: &str) -> bool {
        self.names.contains(&name)
    }

    fn sum(&self) -> bool {
        self.has("sum") || self.has("summary")
    }

    fn json(&self, context: &Context<'_>) -> Value {
        let mut value = json!({ "pg_ready": true });
        if self.has("all") {
            let mut whole = summary(context);
            let groups: Vec<Value> = rows(context).iter().map(pgs::json).collect();
            whole.insert("pg_stats".to_owned(), Value::from(groups));
            whole.insert("pool_stats".to_owned(), Value::from(pools(context)));
            whole.insert("osd_stats".to_owned(), Value::from(osds(context)));
            whole.insert("pool_statfs".to_owned(), json!([]));
            value["pg_map"] = Value::Object(whole);
            return value;
        }
        if self.sum() {
            value["pg_map"] = Value::Object(summary(context));
        }
        if self.has("pools") {
            value["pool_stats"] = Value::from(pools(context));
        }
        if self.has("osds") {
            value["osd_stats"] = Value::from(osds(context));
        }
        if self.has("pgs") {
            value["pg_stats"] = rows(context).iter().map(pgs::json).collect();
        } else if self.has("pgs_brief") {
            value["pg_stats"] = rows(context).iter().map(pgs::brief_json).collect();
        }
        if self.has("delta") {
            value["pg_stats_delta"] = delta();
        }
        value
    }

    fn plain(&self, context: &Context<'_>) -> String {
        let (map, stats) = (&context.state.osdmap, context.stats);
        let mut sections = Vec::new();
        if self.has("all") {
            sections.push(header(context));
            sections.push(pgs::dump_table(&rows(context)));
            sections.push(String::from("\n") + &pgs::pool_table(map, stats));
            sections.push(String::from("\n") + &sum_table(&stats.totals()));
            sections.push(pgs::osd_table(map, stats));
        }
        if self.sum() {
            sections.push(header(context));
            sections.push(sum_table(&stats.totals()));
            sections.push(usage_table(context));
        }
        if self.has("pools") {
            sections.push(pgs::pool_table(map, stats));
        }
        if self.has("osds") {
            sections.push(pgs::osd_table(map, stats));
        }
        if self.has("pgs") {
            sections.push(pgs::dump_table(&rows(context)));
        } else if self.has("pgs_brief") {
            sections.push(pgs::brief_table(&rows(context)));
        }
        sections.concat()
    }
}

/// Version, time and sums.
fn summary(context: &Context<'_>) -> Map<String, Value> {
    let (map, stats) = (&context.state.osdmap, context.stats);
    let osds = stats.osds().count() as u64;
    let members: u64 = pgs::pgs_per_osd(map).values().sum();
    let fields = [
        ("version", json!(stats.version)),
        ("stamp", json!(stamp(stats.stamp.wall()))),
        ("last_osdmap_epoch", json!(map.epoch.0)),
        ("last_pg_scan", json!(map.epoch.0)),
        ("pg_stats_sum", pgs::sums_json(&stats.totals(), osds)),
        ("osd_stats_sum", pgs::osd_json(&stats.usage(map), osds, members)),
        ("pg_stats_delta", delta()),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Rates are kept apart from the sums, so no difference of sums is ever pending.
fn delta() -> Value {
    let mut delta = pgs::sums_json(&Totals::default(), 0);
    delta["stamp_delta"] = json!(stamp(types::UTime::ZERO));
    delta
}

fn pools(context: &Context<'_>) -> Vec<Value> {
    let (map, stats) = (&context.state.osdmap, context.stats);
    map.pools.keys().rev().map(|pool| pgs::pool_json(map, stats, *pool)).collect()
}

fn osds(context: &Context<'_>) -> Vec<Value> {
    let held = pgs::pgs_per_osd(&context.state.osdmap);
    let one = |(osd, report): (OsdId, &crate::statistics::OsdReport)| {
        let groups = held.get(&osd).copied().unwrap_or(0);
        let mut object = Map::new();
        object.insert("osd".to_owned(), json!(osd.0));
        if let Value::Object(fields) = pgs::osd_json(&report.usage, 1, groups) {
            object.extend(fields);
        }
        Value::Object(object)
    };
    context.stats.osds().map(one).collect()
}

fn header(context: &Context<'_>) -> String {
    let epoch = context.state.osdmap.epoch;
    format!(
        "version {}\nstamp {}\nlast_osdmap_epoch {epoch}\nlast_pg_scan {epoch}\n",
        context.stats.version,
        stamp(context.stats.stamp.wall()),
    )
}

fn sum_table(totals: &Totals) -> String {
    let mut table = Table::new(&[
        "PG_STAT", "^OBJECTS", "^MISSING_ON_PRIMARY", "^DEGRADED", "^MISPLACED", "^UNFOUND",
        "^BYTES", "^OMAP_BYTES*", "^OMAP_KEYS*", "^LOG", "^DISK_LOG",
    ]);
    let numbers = [
        totals.objects,
        0,
        totals.degraded,
        totals.misplaced,
        totals.unfound,
        totals.bytes,
        totals.omap_bytes,
        totals.omap_keys,
        totals.log_size,
        totals.log_size,
    ];
    table.row(["sum".to_owned()].into_iter().chain(numbers.map(|number| number.to_string())));
    table.to_string()
}

fn usage_table(context: &Context<'_>) -> String {
    let mut table = Table::new(&["OSD_STAT", "^USED", "^AVAIL", "^USED_RAW", "^TOTAL"]);
    let sum = context.stats.usage(&context.state.osdmap);
    let sizes = [sum.bytes_used, sum.bytes_available, sum.bytes_used, sum.bytes_total];
    table.row(["sum".to_owned()].into_iter().chain(sizes.map(bytes)));
    table.to_string()
}

/// Groups that have been without something for longer than the threshold.
fn dump_stuck(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let given = context.arguments.list("stuckops");
    let kinds: Vec<&str> = match given {
        [] => vec!["unclean"],
        given => given.iter().map(String::as_str).collect(),
    };
    let threshold = context.arguments.int("threshold").and_then(|given| u64::try_from(given).ok());
    let threshold = Duration::from_secs(threshold.unwrap_or(STUCK_THRESHOLD));
    let mut stuck = rows(context);
    stuck.retain(|row| kinds.iter().any(|kind| is_stuck(context, row, kind, threshold)));
    let json = || {
        let groups: Vec<Value> = stuck.iter().map(pgs::json).collect();
        json!({ "pg_ready": true, "stuck_pg_stats": groups })
    };
    let plain = || if stuck.is_empty() { String::new() } else { pgs::brief_table(&stuck) };
    Ok(context.show(json, plain).saying("ok"))
}

fn is_stuck(context: &Context<'_>, row: &Row, kind: &str, threshold: Duration) -> bool {
    let (has, since) = match kind {
        "inactive" => (row.state & pg_state::ACTIVE == 0, row.stat.last_active),
        "unclean" => (row.state & pg_state::CLEAN == 0, row.stat.last_clean),
        "stale" => (row.state & pg_state::STALE != 0, row.stat.last_active),
        "undersized" => (row.state & pg_state::UNDERSIZED != 0, row.stat.last_change),
        "degraded" => (row.state & pg_state::DEGRADED != 0, row.stat.last_change),
        _ => (false, row.stat.last_change),
    };
    has && context.now.since(engine::Time(since.as_nanos())) >= threshold
}

/// The OSD of `pg ls-by-osd`, which must exist.
fn known_osd(context: &Context<'_>) -> Result<OsdId, Refusal> {
    let osd = context.arguments.osd("osd");
    match context.state.osdmap.exists(osd) {
        true => Ok(osd),
        false => Err(Refusal::missing(format!("osd.{osd} does not exist"))),
    }
}

fn list(context: &Context<'_>, belongs: impl Fn(&Row) -> bool) -> Result<Answer, Refusal> {
    let pool = context.arguments.int("pool").map(PoolId);
    if let Some(pool) = pool.filter(|pool| context.state.osdmap.pool(*pool).is_none()) {
        return Err(Refusal::missing(format!("pool {pool} does not exist")));
    }
    let states = wanted_states(context.arguments.list("states"))?;
    let mut listed = rows(context);
    listed.retain(|row| {
        belongs(row) && pool.is_none_or(|pool| row.pg.pool == pool) && states.include(row.state)
    });
    let json = || {
        let groups: Vec<Value> = listed.iter().map(pgs::json).collect();
        json!({ "pg_ready": true, "pg_stats": groups })
    };
    Ok(context.show(json, || pgs::list_table(&listed, context.now)))
}

/// States of which a group must have one; without any, all groups fit.
#[derive(Debug, Default, PartialEq, Eq)]
struct States {
    bits: u64,
    is_unknown_wanted: bool,
}

impl States {
    fn include(&self, state: u64) -> bool {
        *self == States::default()
            || state & self.bits != 0
            || self.is_unknown_wanted && state == 0
    }
}

fn wanted_states(names: &[String]) -> Result<States, Refusal> {
    let mut states = States::default();
    for name in names.iter().flat_map(|name| name.split('+')) {
        match name {
            "all" => return Ok(States::default()),
            "unknown" => states.is_unknown_wanted = true,
            name => {
                let bit = (0..u64::BITS).map(|bit| 1 << bit).find(|bit| {
                    let known = pg_state::to_text(*bit);
                    known == name && known != pg_state::to_text(0)
                });
                let unknown = || Refusal::invalid(format!("'{name}' is not a valid pg state"));
                states.bits |= bit.ok_or_else(unknown)?;
            }
        }
    }
    Ok(states)
}

/// What the primary last reported; its own view goes with `ceph pg <pgid> query`.
fn query(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (_, pg) = group_named(context)?;
    let map = &context.state.osdmap;
    let row = rows(context).into_iter().find(|row| row.pg == pg);
    let Some(row) = row else {
        return Err(Refusal::missing(format!("pgid '{pg}' does not exist")));
    };
    let value = json!({
        "snap_trimq": "[]",
        "snap_trimq_len": 0,
        "state": pg_state::to_text(row.state),
        "epoch": map.epoch.0,
        "up": ids(&row.stat.up),
        "acting": ids(&row.stat.acting),
        "info": {
            "pgid": pg.to_string(),
            "last_update": row.stat.version.to_string(),
            "stats": pgs::json(&row),
        },
        "recovery_state": [],
    });
    Ok(context.json(&value))
}

fn debug(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let totals = context.stats.totals();
    let exist = match context.arguments.text("debugop") {
        "unfound_objects_exist" => totals.unfound > 0,
        _ => totals.degraded > 0,
    };
    Ok(Answer::output(if exist { "TRUE\n" } else { "FALSE\n" }))
}

/// Checksums are verified at each read, so nothing has to be started; the answer says so.
fn scrub(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (_, pg) = group_named(context)?;
    let primary = context.state.osdmap.pg_to_osds(pg).acting_primary;
    let Some(primary) = primary else {
        return Err(Refusal::new(Errno::AGAIN, format!("pg {pg} has no primary osd")));
    };
    let text = format!(
        "pg {pg} on osd.{primary} is not scrubbed in the background: objects are checked against \
         their checksums whenever they are read"
    );
    Ok(Answer::said(text))
}

fn repair(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (_, pg) = group_named(context)?;
    let text = format!("pg {pg} cannot be repaired by command: copies are not compared");
    Err(Refusal::new(Errno::NOTSUPP, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(names: &[&str]) -> Result<States, Refusal> {
        wanted_states(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn groups_are_chosen_by_any_of_the_states() {
        let clean = pg_state::ACTIVE | pg_state::CLEAN;
        assert!(states(&[]).unwrap().include(0));
        assert!(states(&["active"]).unwrap().include(clean));
        assert!(states(&["clean+stale"]).unwrap().include(clean));
        assert!(!states(&["stale"]).unwrap().include(clean));
        assert!(states(&["unknown"]).unwrap().include(0));
        assert!(!states(&["unknown"]).unwrap().include(clean));
        assert_eq!(states(&["fine"]).unwrap_err().text, "'fine' is not a valid pg state");
    }

    #[test]
    fn a_dump_without_sections_has_all() {
        assert!(Wanted::of(&[]).has("all"));
        let given = ["osds".to_owned(), "pgs".to_owned(), "osds".to_owned()];
        assert_eq!(Wanted::of(&given).names, ["osds", "pgs"]);
        assert!(!Wanted::of(&given).has("all"));
    }
}
