//! Usage of OSDs: space, latencies, groups.

use super::osd::existing;
use crate::command::{Answer, Command, Context, Refusal, command, number};
use crate::dump::pgs::pgs_per_osd;
use crate::dump::tree::{Selection, Utilization};
use crate::table::Table;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use types::OsdId;

pub const COMMANDS: &[Command] = &[
    command(
        "osd df name=output_method,type=CephChoices,strings=plain|tree,req=false \
         name=filter_by,type=CephChoices,strings=class|name,req=false \
         name=filter,type=CephString,req=false",
        "show OSD utilization",
        "osd",
        "r",
        df,
    )
    .of_manager(),
    command("osd perf", "print dump of OSD perf summary stats", "osd", "r", perf).of_manager(),
    command(
        "osd blocked-by",
        "print histogram of which OSDs are blocking their peers",
        "osd",
        "r",
        blocked_by,
    )
    .of_manager(),
    command("osd utilization", "get basic pg distribution stats", "osd", "r", utilization),
    command(
        "osd last-stat-seq name=id,type=CephOsdName",
        "get the last pg stats sequence number reported for this osd",
        "osd",
        "r",
        last_stat_seq,
    ),
    command(
        "osd status name=bucket,type=CephString,req=false",
        "Show the status of OSDs within a bucket, or all",
        "mgr",
        "r",
        status,
    ),
];

fn df(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.osdmap;
    let tree = context.arguments.optional("output_method") == Some("tree");
    let filter = context.arguments.optional("filter").unwrap_or_default();
    let (root, class) = match context.arguments.optional("filter_by") {
        None if !filter.is_empty() => {
            let text = format!(
                "'{filter}' is neither plain nor tree, and no filter without 'class' or 'name' before it"
            );
            return Err(Refusal::invalid(text));
        }
        None => (None, None),
        Some(_) if filter.is_empty() => {
            return Err(Refusal::invalid("osd df: filter_by needs a filter: a class or a name"));
        }
        Some("class") if map.crush.class_id(filter).is_none() => {
            return Err(Refusal::invalid(format!("specified class '{filter}' does not exist")));
        }
        Some("class") => (None, Some(filter)),
        Some(_) => {
            let missing = || Refusal::invalid(format!("specified name '{filter}' does not exist"));
            (Some(map.crush.item_id(filter).ok_or_else(missing)?), None)
        }
    };
    let shows = |osd: OsdId| class.is_none_or(|class| map.crush.item_class(osd.0) == Some(class));
    let selection = Selection { root, hide_empty: class.is_some(), shows: &shows };
    let usage = Utilization::new(map, context.live.stats);
    Ok(context.show(|| usage.json(tree, &selection), || usage.plain(tree, &selection)))
}

fn perf(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let infos = || {
        context.live.stats.osds().map(|(osd, report)| {
            let (commit, apply) = (report.usage.commit_latency_us, report.usage.apply_latency_us);
            (osd, commit, apply)
        })
    };
    let json = || {
        let info = |(osd, commit, apply): (OsdId, u64, u64)| {
            json!({
                "id": osd.0,
                "perf_stats": {
                    "commit_latency_ms": commit / 1000,
                    "apply_latency_ms": apply / 1000,
                    "commit_latency_ns": commit * 1000,
                    "apply_latency_ns": apply * 1000,
                },
            })
        };
        let infos: Vec<Value> = infos().map(info).collect();
        json!({ "pg_ready": true, "osdstats": { "osd_perf_infos": infos } })
    };
    let plain = || {
        let mut table = Table::new(&[">osd", ">commit_latency(ms)", ">apply_latency(ms)"]);
        for (osd, commit, apply) in infos() {
            table.row([osd.to_string(), (commit / 1000).to_string(), (apply / 1000).to_string()]);
        }
        table.to_string()
    };
    Ok(context.show(json, plain))
}

fn blocked_by(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let mut blocked = BTreeMap::<OsdId, u64>::new();
    for osd in context.live.stats.pgs().flat_map(|(_, stat)| &stat.blocked_by) {
        *blocked.entry(*osd).or_default() += 1;
    }
    let json = || {
        let infos = blocked.iter().map(|(osd, count)| json!({ "id": osd.0, "num_blocked": count }));
        let infos: Vec<Value> = infos.collect();
        json!({ "pg_ready": true, "osd_blocked_by": { "osd_blocked_by_infos": infos } })
    };
    let plain = || {
        let mut table = Table::new(&[">osd", ">num_blocked"]);
        for (osd, count) in &blocked {
            table.row([osd.to_string(), count.to_string()]);
        }
        table.to_string()
    };
    Ok(context.show(json, plain))
}

fn utilization(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.osdmap;
    let mut counts = pgs_per_osd(map);
    for (osd, _) in map.existing_osds().filter(|(_, osd)| osd.is_in()) {
        counts.entry(osd).or_default();
    }
    let Some(min) = counts.iter().min_by_key(|(_, count)| **count) else {
        return Ok(context.show(|| json!({}), || "no pgs\n".to_owned()));
    };
    let max = counts.iter().max_by_key(|(_, count)| **count).unwrap_or(min);
    let osds = counts.len() as f64;
    let sum: u64 = counts.values().sum();
    let average = sum as f64 / osds;
    let squares: f64 = counts.values().map(|count| (*count as f64 - average).powi(2)).sum();
    let (deviation, baseline) = ((squares / osds).sqrt(), (average * (1.0 - 1.0 / osds)).sqrt());
    let json = || {
        json!({
            "avg_pgs": average as u64,
            "std_dev": number(deviation),
            "expected_baseline_std_dev": number(baseline),
            "min_osd": min.0.0,
            "min_osd_pgs": min.1,
            "max_osd": max.0.0,
            "max_osd_pgs": max.1,
        })
    };
    let plain = || {
        let share = |count: u64| count as f64 / average.max(f64::MIN_POSITIVE);
        format!(
            "avg {}\nstddev {deviation:.4} (expected baseline {baseline:.4})\nmin osd.{} with {} pgs \
             ({:.5} * mean)\nmax osd.{} with {} pgs ({:.5} * mean)\n",
            average as u64,
            min.0,
            min.1,
            share(*min.1),
            max.0,
            max.1,
            share(*max.1),
        )
    };
    Ok(context.show(json, plain))
}

fn last_stat_seq(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let osd = existing(context, "id")?;
    let sequence = context.live.stats.osd(osd).map_or(0, |report| report.sequence);
    Ok(context.show(|| json!(sequence), || sequence.to_string()))
}

fn status(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.osdmap;
    let row = |(osd, known): (OsdId, &maps::Osd)| {
        let usage =
            context.live.stats.osd(osd).map(|report| report.usage.clone()).unwrap_or_default();
        let metadata = context.state.osd_metadata.get(&osd);
        let host = metadata.and_then(|metadata| metadata.get("hostname")).cloned();
        (osd, host.unwrap_or_default(), usage, known.state)
    };
    let rows: Vec<_> = map.existing_osds().map(row).collect();
    let json = || {
        let osds = rows.iter().map(|(osd, host, usage, state)| {
            json!({
                "id": osd.0,
                "host name": host,
                "kb used": usage.bytes_used >> 10,
                "kb available": usage.bytes_available >> 10,
                "state": state.names().collect::<Vec<_>>(),
            })
        });
        json!({ "OSDs": osds.collect::<Vec<_>>() })
    };
    let plain = || {
        let mut table = Table::new(&[">ID", "HOST", ">USED", ">AVAIL", "STATE"]);
        for (osd, host, usage, state) in &rows {
            let (used, available) = (usage.bytes_used, usage.bytes_available);
            table.row([
                osd.to_string(),
                host.clone(),
                crate::table::bytes(used),
                crate::table::bytes(available),
                state.to_string(),
            ]);
        }
        table.to_string()
    };
    Ok(context.show(json, plain))
}
