//! The content of the console's views. Values that change with time alone are not in it, so that a page is
//! sent only when something has happened.

use super::pg::shortfalls;
use super::{fs_status, status};
use crate::command::{Context, number};
use crate::dump::pgs::{self, Row};
use crate::dump::tree::{Selection, Utilization};
use crate::dump::{addrs, fsmap};
use crate::health::health;
use crate::image_traffic::COLUMNS;
use crate::usage::pool_usage;
use maps::{OsdMap, OsdMapFlags};
use serde_json::{Map, Value, json};
use types::{EntityType, OsdId};
use wire::internal::{PgStat, pg_state};

/// Groups that are listed; further ones are only counted.
const GROUPS_MAX: usize = 200;
/// Clients, events and images that are listed.
const CLIENTS_MAX: usize = 500;
const EVENTS_MAX: usize = 200;
const IMAGES_MAX: usize = 50;
/// OSDs that are down and that a reason names.
const DOWN_MAX: usize = 5;
/// Share of the space above which OSDs take no data (`osd full ratio`), if the map has none.
const FULL_RATIO: f64 = 0.95;

pub(super) fn overview(context: &Context<'_>) -> Value {
    let (state, stats) = (context.state, context.live.stats);
    let map = &state.osdmap;
    let usage = stats.usage(map);
    let ratio = if map.full_ratio > 0.0 { f64::from(map.full_ratio) } else { FULL_RATIO };
    let full = (usage.bytes_total as f64 * ratio) as u64;
    let quorum: Vec<&str> = state.quorum().into_iter().map(|(_, name)| name).collect();
    let flags = map.flags.without(OsdMapFlags::BASE);
    let by_state = stats.pgs_by_state(map);
    let groups = by_state.iter().map(|(state, count)| json!([pg_state::to_text(*state), count]));
    let rate: Map<String, Value> = status::rate_fields(&stats.rate(context.now, None))
        .into_iter()
        .map(|(name, value)| (name.to_owned(), json!(value)))
        .collect();
    json!({
        "health": health(&context.view()).json(state, true),
        "monitors": { "quorum": quorum, "absent": state.absent_monitors() },
        "osds": status::osdmap_summary(state),
        "flags": if flags.is_empty() { String::new() } else { flags.to_string() },
        "pools": map.pools.len(),
        "servers": fsmap::servers_line(&state.fs.map),
        "groups": groups.collect::<Vec<_>>(),
        "objects": stats.totals().objects,
        "data": stats.totals().bytes,
        "used": usage.bytes_used,
        "available": usage.bytes_available,
        "total": usage.bytes_total,
        "days_until_full": stats.history.days_until(full).map(|days| number(days.round())),
        "rate": rate,
        "shortfalls": missing(context),
        "recoveries": recoveries(context),
    })
}

fn missing(context: &Context<'_>) -> Vec<Value> {
    let totals = context.live.stats.totals();
    shortfalls(&totals).map(|(name, some, all)| json!([name, some, all])).collect()
}

/// Movements of data that are in progress.
fn recoveries(context: &Context<'_>) -> Vec<Value> {
    let events = context.live.osds.progress.events().map(|event| {
        json!({
            "message": event.message,
            "fraction": number((event.fraction() * 1000.0).round() / 1000.0),
            "seconds_left": event.remaining(context.now).map(|left| left.as_secs().next_multiple_of(5)),
        })
    });
    events.collect()
}

pub(super) fn history(context: &Context<'_>) -> Value {
    context.live.stats.history.json()
}

pub(super) fn osds(context: &Context<'_>) -> Value {
    let map = &context.state.osdmap;
    let usage = Utilization::new(map, context.live.stats);
    let selection = Selection { root: None, hide_empty: false, shows: &|_| true };
    let osds = map.existing_osds().map(|(id, _)| (id.to_string(), osd(context, id)));
    json!({ "tree": usage.json(true, &selection)["nodes"], "osds": osds.collect::<Map<_, _>>() })
}

fn osd(context: &Context<'_>, id: OsdId) -> Value {
    let map = &context.state.osdmap;
    let metadata = context.state.osd_metadata.get(&id);
    let fact = |name: &str| metadata.and_then(|metadata| metadata.get(name));
    let report = context.live.stats.osd(id);
    json!({
        "up": map.is_up(id),
        "in": map.is_in(id),
        "host": fact("hostname"),
        "devices": fact("devices"),
        "version": fact("ceph_version_short"),
        "commit_ms": report.map(|it| it.usage.commit_latency_us / 1000),
        "slow": report.map_or(0, |it| it.slow.count),
    })
}

pub(super) fn pools(context: &Context<'_>) -> Value {
    let (map, stats) = (&context.state.osdmap, context.live.stats);
    let pools = map.pools.iter().map(|(id, pool)| {
        let usage = pool_usage(map, stats, *id);
        let applications: Vec<&String> = pool.application_metadata.keys().collect();
        let rate = stats.rate(context.now, Some(*id));
        json!({
            "id": id.0,
            "name": map.pool_name(*id),
            "kind": if pool.is_erasure() { "erasure" } else { "replicated" },
            "profile": pool.erasure_code_profile,
            "size": pool.size,
            "min_size": pool.min_size,
            "groups": pool.pg_num,
            "groups_wanted": pool.pg_num_target,
            "autoscale": pool.pg_autoscale_mode.name(),
            "rule": map.crush.rule_name(pool.crush_rule.into()),
            "applications": applications,
            "objects": usage.objects,
            "stored": usage.stored,
            "used": usage.used,
            "available": usage.available,
            "share": number((usage.percent * 1e4).round() / 1e4),
            "quota_bytes": pool.quota_max_bytes,
            "quota_objects": pool.quota_max_objects,
            "reads": rate.reads,
            "writes": rate.writes,
            "read_bytes": rate.read_bytes,
            "write_bytes": rate.write_bytes,
        })
    });
    json!({ "pools": pools.collect::<Vec<_>>() })
}

pub(super) fn groups(context: &Context<'_>) -> Value {
    let map = &context.state.osdmap;
    let rows = pgs::rows(map, context.live.stats);
    let total = rows.len();
    let unclean: Vec<Row> = rows.into_iter().filter(|row| !is_well(row.state)).collect();
    let listed = unclean.iter().take(GROUPS_MAX).map(|row| {
        let Row { pg, state, stat } = row;
        json!({
            "id": pg.to_string(),
            "pool": map.pool_name(pg.pool),
            "state": pg_state::to_text(*state),
            "up": pgs::set_text(&stat.up),
            "acting": pgs::set_text(&stat.acting),
            "objects": stat.objects,
            "missing": stat.degraded + stat.misplaced,
            "reason": reason(map, row),
        })
    });
    json!({ "total": total, "unclean": unclean.len(), "groups": listed.collect::<Vec<_>>() })
}

/// Clean, and nothing was found damaged.
fn is_well(state: u64) -> bool {
    const BAD: u64 = pg_state::INCONSISTENT | pg_state::STALE | pg_state::FAILED_REPAIR;
    state & pg_state::CLEAN != 0 && state & BAD == 0
}

/// Why a group is not clean, in one sentence.
fn reason(map: &OsdMap, row: &Row) -> String {
    const TOO_FULL: u64 = pg_state::BACKFILL_TOOFULL | pg_state::RECOVERY_TOOFULL;
    const UNFOUND: u64 = pg_state::RECOVERY_UNFOUND | pg_state::BACKFILL_UNFOUND;
    const WAITS: u64 = pg_state::BACKFILL_WAIT | pg_state::RECOVERY_WAIT;
    const MOVES: u64 = pg_state::BACKFILLING | pg_state::RECOVERING;
    let (state, stat) = (row.state, &row.stat);
    let has = |bits: u64| state & bits != 0;
    let left = stat.degraded + stat.misplaced;
    if state == 0 {
        return format!(
            "no OSD has reported it: it is new, or its OSDs are down{}",
            down(map, stat)
        );
    }
    if has(pg_state::STALE) {
        return format!("its primary is down, and no other OSD has taken over{}", down(map, stat));
    }
    if has(pg_state::DOWN) {
        return format!("it waits for OSDs that may have newer writes{}", down(map, stat));
    }
    if has(pg_state::INCOMPLETE) {
        return "no reachable OSDs have all its writes: start those that were members".to_owned();
    }
    if has(UNFOUND) || stat.unfound > 0 {
        return format!("{} objects are on none of the OSDs that are up", stat.unfound);
    }
    if has(pg_state::INCONSISTENT) {
        return format!("scrub found {} inconsistencies: repair it", stat.scrub_errors);
    }
    if has(TOO_FULL) {
        return "an OSD that is to get copies is too full".to_owned();
    }
    if has(MOVES) {
        return format!("copies are being made or moved, {left} are left");
    }
    if has(WAITS) {
        return format!("{left} copies are to be made or moved; other groups are before it");
    }
    if has(pg_state::PEERING | pg_state::ACTIVATING) {
        return format!("its OSDs agree on its history{}", blockers(stat));
    }
    if has(pg_state::UNDERSIZED) {
        return undersized(map, row);
    }
    if has(pg_state::DEGRADED) {
        return format!("copies are missing{}", down(map, stat));
    }
    "it is settling".to_owned()
}

/// `on 2 of 3 OSDs: the rule finds no other that is up and in; osd.0 is down`
fn undersized(map: &OsdMap, row: &Row) -> String {
    let size = map.pool(row.pg.pool).map_or(0, |pool| pool.size);
    let present = row.stat.acting.iter().filter(|osd| **osd != OsdId::NONE).count();
    let is_awaited = |osd: &OsdId| map.is_in(*osd) && !map.is_up(*osd);
    let down: Vec<String> = map
        .existing_osds()
        .map(|(osd, _)| osd)
        .filter(is_awaited)
        .take(DOWN_MAX)
        .map(|osd| format!("osd.{osd}"))
        .collect();
    let waits =
        if down.is_empty() { String::new() } else { format!("; down: {}", down.join(", ")) };
    format!("on {present} of {size} OSDs: the rule finds no other that is up and in{waits}")
}

/// Members that are down: `: osd.1 is down`.
fn down(map: &OsdMap, stat: &PgStat) -> String {
    let members = stat.up.iter().chain(&stat.acting).chain(&stat.blocked_by);
    let mut down: Vec<OsdId> =
        members.filter(|osd| **osd != OsdId::NONE && !map.is_up(**osd)).copied().collect();
    down.sort();
    down.dedup();
    match down.len() {
        0 => String::new(),
        1 => format!(": osd.{} is down", down[0]),
        _ => {
            let names: Vec<String> = down.iter().map(|osd| format!("osd.{osd}")).collect();
            format!(": {} are down", names.join(", "))
        }
    }
}

fn blockers(stat: &PgStat) -> String {
    let names: Vec<String> = stat.blocked_by.iter().map(|osd| format!("osd.{osd}")).collect();
    if names.is_empty() { String::new() } else { format!("; they wait for {}", names.join(", ")) }
}

pub(super) fn clients(context: &Context<'_>) -> Value {
    let live = context.live.peers.iter().filter(|(_, peer)| peer.kind == EntityType::CLIENT);
    let total = live.clone().count();
    let clients = live.take(CLIENTS_MAX).map(|(session, peer)| {
        json!({
            "session": session,
            "name": peer.name.to_string(),
            "from": addrs::plain(&peer.seen_addr),
            "release": crate::dump::peers::release_of(peer.features),
            "caps": peer.caps,
        })
    });
    let map = &context.state.osdmap;
    let blocked = map
        .blocklist
        .iter()
        .take(CLIENTS_MAX)
        .map(|(addr, until)| json!({ "addr": addrs::plain(addr), "until": until.seconds }));
    let registered = super::services::dump(context.live.daemons);
    json!({
        "total": total,
        "clients": clients.collect::<Vec<_>>(),
        "blocklist": blocked.collect::<Vec<_>>(),
        "services": registered["services"],
    })
}

pub(super) fn events(context: &Context<'_>) -> Value {
    let entries = context.state.log.values().rev().take(EVENTS_MAX).map(|entry| {
        json!({
            "time": entry.stamp.seconds,
            "from": entry.name.to_string(),
            "severity": entry.severity,
            "channel": entry.channel,
            "text": entry.text,
        })
    });
    json!({ "events": entries.collect::<Vec<_>>() })
}

/// Entities and their capabilities, without keys.
pub(super) fn users(context: &Context<'_>) -> Value {
    let users = context.state.entities.iter();
    let users =
        users.map(|(name, entity)| json!({ "name": name.to_string(), "caps": entity.caps }));
    json!({ "users": users.collect::<Vec<_>>() })
}

pub(super) fn files(context: &Context<'_>) -> Value {
    let all = context.state.fs.map.file_systems.values().map(|fs| &fs.map);
    let all: Vec<_> = all.collect();
    let names: Vec<&String> = all.iter().map(|map| &map.fs_name).collect();
    json!({ "names": names, "status": fs_status::status_json(context, &all) })
}

/// The busiest images.
pub(super) fn images(context: &Context<'_>) -> Value {
    let rates = context.live.stats.images.rates(context.now);
    let mut rows: Vec<_> =
        rates.into_iter().filter(|(_, row)| row.iter().any(|it| *it > 0.0)).collect();
    let total = |row: &[f64; 6]| (row[0] + row[1]) as u64;
    rows.sort_by_key(|(key, row)| (std::cmp::Reverse(total(row)), key.clone()));
    let images = rows.iter().take(IMAGES_MAX).map(|((pool, namespace, name), row)| {
        let pool = context.state.osdmap.pool_name(*pool);
        let values: Map<String, Value> = std::iter::zip(COLUMNS, row)
            .map(|(name, value)| (name.to_owned(), number(value.round())))
            .collect();
        json!({ "pool": pool, "namespace": namespace, "image": name, "rates": values })
    });
    let pools = context
        .state
        .osdmap
        .pools
        .iter()
        .filter(|(_, pool)| pool.application_metadata.contains_key("rbd"));
    let pools: Vec<_> = pools.map(|(id, _)| context.state.osdmap.pool_name(*id)).collect();
    json!({ "pools": pools, "images": images.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::{Osd, OsdState, Pool, PoolType, WEIGHT_IN};
    use types::{PgId, PoolId, Uuid};

    #[test]
    fn a_group_that_is_not_clean_has_a_reason_that_names_those_that_are_down() {
        let mut map = OsdMap::new(Uuid::default());
        let up = Osd { state: OsdState::EXISTS | OsdState::UP, ..Osd::default() };
        let down = Osd { state: OsdState::EXISTS, weight: WEIGHT_IN, ..Osd::default() };
        map.osds = vec![up.clone(), down, up];
        map.pools.insert(PoolId(1), Pool::new(PoolType::Replicated, 3, 8, 0));
        let of = |state: u64| {
            let stat = PgStat {
                up: vec![OsdId(0), OsdId(1)],
                acting: vec![OsdId(0), OsdId::NONE],
                degraded: 4,
                misplaced: 1,
                blocked_by: vec![OsdId(2)],
                ..PgStat::default()
            };
            reason(&map, &Row { pg: PgId { pool: PoolId(1), seed: 0 }, state, stat })
        };
        let active = pg_state::ACTIVE;
        assert_eq!(of(active | pg_state::DEGRADED), "copies are missing: osd.1 is down");
        let undersized = "on 1 of 3 OSDs: the rule finds no other that is up and in; down: osd.1";
        assert_eq!(of(active | pg_state::UNDERSIZED), undersized);
        assert_eq!(
            of(active | pg_state::BACKFILLING),
            "copies are being made or moved, 5 are left"
        );
        assert!(of(pg_state::DOWN).ends_with("newer writes: osd.1 is down"));
        assert!(of(pg_state::PEERING).ends_with("; they wait for osd.2"));
        assert!(is_well(active | pg_state::CLEAN));
        assert!(!is_well(active | pg_state::CLEAN | pg_state::INCONSISTENT));
    }
}
