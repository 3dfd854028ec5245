//! `report`, `mon_status`, and the answer to `ceph ping`.

use super::osd::metadata_of;
use super::services;
use crate::command::{Answer, Command, Context, Refusal, command};
use crate::dump::peers::feature_map;
use crate::dump::{crush, maps, osdmap, pgs};
use crate::health::{View, health};
use crate::keys::VersionGroup;
use crate::statistics::Statistics;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use types::{OsdId, PoolId};
use wire::internal::{OsdUsage, pg_state};

pub const COMMANDS: &[Command] = &[
    command("mon_status", "report status of monitors", "mon", "r", |context| {
        Ok(context.json(&mon_status(&context.view())))
    }),
    command(
        "report name=tags,type=CephString,n=N,req=false",
        "report full status of cluster, optional title tag strings",
        "mon",
        "r",
        report,
    ),
];

/// `mon_status`
pub(super) fn mon_status(view: &View<'_>) -> Value {
    let (state, identity) = (view.state, view.live.identity);
    let leads = state.leader_name() == identity.mon_name;
    let mut value = maps::quorum(state, identity, view.now);
    let required = json!(state.monmap.persistent_features.names().collect::<Vec<_>>());
    value["features"]["required_con"] = json!(types::features::SUPPORTED.to_string());
    value["features"]["required_mon"] = required;
    let mut status = json!({
        "name": identity.mon_name,
        "rank": state.monmap.rank(&identity.mon_name),
        "state": if leads { "leader" } else { "peon" },
        "uptime": view.now.since(identity.started).as_secs(),
        "outside_quorum": state.absent_monitors(),
        "extra_probe_peers": [],
        "sync_provider": [],
        "feature_map": feature_map(view.live),
        "stretch_mode": state.monmap.stretch_mode_enabled,
    });
    if let (Value::Object(status), Value::Object(quorum)) = (&mut status, value) {
        status.extend(quorum);
    }
    status
}

/// The answer to `ceph ping mon.X`.
pub fn ping(view: &View<'_>) -> String {
    let health = health(view).json(view.state, false);
    json!({ "health": health, "mon_status": mon_status(view) }).to_string()
}

fn report(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let mut value = Map::new();
    for part in [heading(context), of_maps(context), of_groups(context), versions(context)] {
        if let Value::Object(part) = part {
            value.extend(part);
        }
    }
    Ok(context.json(&Value::Object(value)).saying("report"))
}

fn heading(context: &Context<'_>) -> Value {
    let state = context.state;
    let ranks: Vec<usize> = state.quorum().into_iter().map(|(rank, _)| rank).collect();
    json!({
        "cluster_fingerprint": state.monmap.fsid.to_string(),
        "version": crate::VERSION,
        "commit": "",
        "timestamp": context.now.wall().to_iso(),
        "tag": context.arguments.list("tags").join(" "),
        "health": health(&context.view()).json(state, true),
        "quorum": ranks,
    })
}

fn of_maps(context: &Context<'_>) -> Value {
    let state = context.state;
    let map = &state.osdmap;
    let metadata: Vec<Value> =
        map.existing_osds().map(|(osd, _)| metadata_of(context, osd)).collect();
    let oldest = state.history.incrementals.keys().next().map_or(map.epoch, |epoch| *epoch);
    let purged = map.new_purged_snaps.keys();
    json!({
        // Only the newest mon map is kept.
        "monmap_first_committed": state.monmap.epoch.0,
        "monmap_last_committed": state.monmap.epoch.0,
        "monmap": maps::monmap(&state.monmap),
        "osdmap": osdmap::json(map),
        "osd_metadata": metadata,
        "osdmap_clean_epochs": clean_epochs(context),
        "osdmap_first_committed": oldest.0,
        "osdmap_last_committed": map.epoch.0,
        "crushmap": crush::json(&map.crush),
        "mgrmap": maps::mgrmap(&state.mgrmap),
        "fsmap": crate::dump::fsmap::json(&state.fs.map),
        "mdsmap_first_committed": 1,
        "mdsmap_last_committed": state.fs.map.epoch.0,
        "purged_snaps": purged.map(|pool| json!({ "pool": pool.0, "purged_snaps": {} })).collect::<Vec<_>>(),
        "servicemap": services::dump(context.live.daemons),
    })
}

fn clean_epochs(context: &Context<'_>) -> Value {
    let (map, stats) = (&context.state.osdmap, context.live.stats);
    let mut floors = BTreeMap::<PoolId, u32>::new();
    for (pg, stat) in stats.pgs() {
        let floor = floors.entry(pg.pool).or_insert(u32::MAX);
        *floor = (*floor).min(stat.last_epoch_clean.0);
    }
    let floors = floors.iter().map(|(pool, floor)| json!({ "poolid": pool.0, "floor": floor }));
    json!({
        "min_last_epoch_clean": stats.oldest_clean_epoch(map).map_or(0, |epoch| epoch.0),
        "last_epoch_clean": { "per_pool": floors.collect::<Vec<_>>() },
        "osd_epochs": [],
    })
}

fn of_groups(context: &Context<'_>) -> Value {
    let (map, stats) = (&context.state.osdmap, context.live.stats);
    let rows = pgs::rows(map, stats);
    let count = |holds: fn(u64) -> bool| rows.iter().filter(|row| holds(row.state)).count();
    let held = pgs::pgs_per_osd(map);
    let mut by_osd = BTreeMap::<OsdId, [u64; 3]>::new();
    for row in &rows {
        let (up, acting) = (&row.stat.up, &row.stat.acting);
        let members = acting.iter().filter(|osd| **osd != OsdId::NONE);
        for (position, osd) in members.enumerate() {
            let counts = by_osd.entry(*osd).or_default();
            counts[0] += u64::from(position == 0);
            counts[1] += 1;
        }
        for osd in up.iter().filter(|osd| **osd != OsdId::NONE && !acting.contains(osd)) {
            by_osd.entry(*osd).or_default()[2] += 1;
        }
    }
    let by_osd = by_osd.iter().map(|(osd, [primary, acting, up])| {
        json!({
            "osd": osd.0,
            "num_primary_pg": primary,
            "num_acting_pg": acting,
            "num_up_not_acting_pg": up,
        })
    });
    let states = stats.pgs_by_state(map);
    let states = states
        .iter()
        .map(|(state, count)| json!({ "state": pg_state::to_text(*state), "num": count }));
    let sequence = stats.version;
    let reports = stats.osds().map(|(osd, _)| json!({ "osd": osd.0, "seq": sequence }));
    let pools = map.pools.keys().map(|id| pgs::pool_json(map, stats, *id));
    json!({
        "num_pg": rows.len(),
        "num_pg_active": count(|state| state & pg_state::ACTIVE != 0),
        "num_pg_unknown": count(|state| state == 0),
        "num_osd": map.osd_count(),
        "pool_sum": pgs::sums_json(&stats.totals(), 0),
        "osd_sum": pgs::osd_json(&stats.usage(map), map.in_count() as u64, held.values().sum()),
        "osd_sum_by_class": sums_by_class(context, stats, &held),
        "pool_stats": pools.collect::<Vec<_>>(),
        "osd_stats": reports.collect::<Vec<_>>(),
        "num_pg_by_state": states.collect::<Vec<_>>(),
        "num_pg_by_osd": by_osd.collect::<Vec<_>>(),
    })
}

fn sums_by_class(
    context: &Context<'_>,
    stats: &Statistics,
    held: &BTreeMap<OsdId, u64>,
) -> Map<String, Value> {
    let mut classes = BTreeMap::<&str, (OsdUsage, u64, u64)>::new();
    for (osd, report) in stats.osds() {
        let class = context.state.osdmap.crush.item_class(osd.0).unwrap_or_default();
        let (sum, osds, groups) = classes.entry(class).or_default();
        sum.bytes_total += report.usage.bytes_total;
        sum.bytes_used += report.usage.bytes_used;
        sum.bytes_available += report.usage.bytes_available;
        *osds += 1;
        *groups += held.get(&osd).copied().unwrap_or(0);
    }
    let sum = |(class, (usage, osds, groups)): (&str, (OsdUsage, u64, u64))| {
        (class.to_owned(), pgs::osd_json(&usage, osds, groups))
    };
    classes.into_iter().map(sum).collect()
}

/// The control store keeps no history of its own: the version of a group counts its changes.
fn versions(context: &Context<'_>) -> Value {
    let state = context.state;
    let version = |group: VersionGroup| state.version(group).0;
    let newest = VersionGroup::all().into_iter().filter_map(|group| state.version(group).1).max();
    let newest = newest.unwrap_or(0);
    let log = || state.log.keys();
    json!({
        "auth": {
            "first_committed": version(VersionGroup::AUTH).min(1),
            "last_committed": version(VersionGroup::AUTH),
            "num_secrets": state.entities.len(),
        },
        "mgrstat_first_committed": context.live.stats.version.min(1),
        "mgrstat_last_committed": context.live.stats.version,
        "logm_first_committed": log().next().copied().unwrap_or(0),
        "logm_last_committed": log().next_back().copied().unwrap_or(0),
        "paxos": {
            "first_committed": newest.min(1),
            "last_committed": newest,
            "last_pn": 0,
            "accepted_pn": 0,
        },
    })
}
