//! Health: what is wrong with the cluster, by check name as Ceph names them.

use crate::state::State;
use crate::statistics::Statistics;
use engine::Time;
use maps::{OsdMap, OsdMapFlags, OsdState, PoolFlags};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{PgId, PoolId};
use wire::internal::pg_state;

/// Detail lines per check; more would not be read.
const DETAILS_MAX: usize = 50;
/// Groups of a pool that is younger need not have been reported yet.
const CREATION_GRACE: Duration = Duration::from_secs(10);
/// A pool without an application is worth a warning once it holds data.
const APPLICATION_HINT: &str = "use 'ceph osd pool application enable <pool-name> <app-name>', \
     where <app-name> is 'cephfs', 'rbd', 'rgw', or freeform for custom applications.";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Ok,
    Warning,
    Error,
}

impl Severity {
    pub fn name(self) -> &'static str {
        match self {
            Severity::Ok => "HEALTH_OK",
            Severity::Warning => "HEALTH_WARN",
            Severity::Error => "HEALTH_ERR",
        }
    }

    fn short(self) -> &'static str {
        match self {
            Severity::Ok => "INF",
            Severity::Warning => "WRN",
            Severity::Error => "ERR",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub severity: Severity,
    pub summary: String,
    pub count: u64,
    pub details: Vec<String>,
}

/// All checks that say something, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Health {
    pub checks: BTreeMap<&'static str, Check>,
    /// Checks that OSDs reported, whose names they chose.
    pub reported: BTreeMap<String, Check>,
    pub muted: Vec<String>,
}

/// Looks at everything.
pub fn health(state: &State, stats: &Statistics, now: Time) -> Health {
    let mut health = Health::default();
    let map = &state.osdmap;
    check_osds(&mut health, map);
    check_flags(&mut health, map);
    check_space(&mut health, map, stats);
    check_groups(&mut health, map, stats, now);
    check_pools(&mut health, state, stats);
    for (osd, report) in stats.osds() {
        for (name, message) in &report.health {
            let check = health.reported.entry(name.clone()).or_insert_with(|| Check {
                severity: Severity::Warning,
                summary: message.clone(),
                count: 0,
                details: Vec::new(),
            });
            check.count += 1;
            check.details.push(format!("osd.{osd}: {message}"));
        }
    }
    health.muted = state.mutes.iter().map(|mute| mute.code.clone()).collect();
    health
}

impl Health {
    fn warn(&mut self, name: &'static str, count: usize, summary: String, details: Vec<String>) {
        self.add(name, Severity::Warning, count, summary, details);
    }

    fn add(
        &mut self,
        name: &'static str,
        severity: Severity,
        count: usize,
        summary: String,
        mut details: Vec<String>,
    ) {
        if count == 0 {
            return;
        }
        if details.len() > DETAILS_MAX {
            let more = details.len() - DETAILS_MAX;
            details.truncate(DETAILS_MAX);
            details.push(format!("{more} more"));
        }
        let check = Check { severity, summary, count: count as u64, details };
        self.checks.insert(name, check);
    }

    /// All checks in the order of their names.
    pub fn all(&self) -> BTreeMap<&str, &Check> {
        let own = self.checks.iter().map(|(name, check)| (*name, check));
        own.chain(self.reported.iter().map(|(name, check)| (name.as_str(), check))).collect()
    }

    pub fn is_muted(&self, name: &str) -> bool {
        self.muted.iter().any(|muted| muted == name)
    }

    pub fn severity(&self) -> Severity {
        let audible = self.all().into_iter().filter(|(name, _)| !self.is_muted(name));
        audible.map(|(_, check)| check.severity).max().unwrap_or(Severity::Ok)
    }

    pub fn json(&self, state: &State, detail: bool) -> Value {
        let checks = self.all().into_iter().map(|(name, check)| {
            let mut object = Map::new();
            object.insert("severity".to_owned(), json!(check.severity.name()));
            let summary = json!({ "message": check.summary, "count": check.count });
            object.insert("summary".to_owned(), summary);
            if detail {
                let details = check.details.iter().map(|line| json!({ "message": line }));
                object.insert("detail".to_owned(), details.collect());
            }
            object.insert("muted".to_owned(), json!(self.is_muted(name)));
            (name.to_owned(), Value::Object(object))
        });
        let mutes = state.mutes.iter().map(|mute| {
            json!({
                "code": mute.code,
                "sticky": mute.sticky,
                "summary": mute.summary,
                "count": mute.count,
            })
        });
        json!({
            "status": self.severity().name(),
            "checks": checks.collect::<Map<_, _>>(),
            "mutes": mutes.collect::<Vec<_>>(),
        })
    }

    /// Summaries that are not muted, and the muted names in brackets.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self
            .all()
            .into_iter()
            .filter(|(name, _)| !self.is_muted(name))
            .map(|(_, check)| check.summary.clone())
            .collect();
        if !self.muted.is_empty() {
            lines.push(format!("(muted: {})", self.muted.join(", ")));
        }
        lines
    }

    pub fn plain(&self, detail: bool) -> String {
        let lines = self.lines();
        let mut text = self.severity().name().to_owned();
        if !lines.is_empty() {
            text += &format!(" {}", lines.join("; "));
        }
        text.push('\n');
        if detail {
            for (name, check) in self.all() {
                let muted = if self.is_muted(name) { "(MUTED) " } else { "" };
                let severity = check.severity.short();
                text += &format!("{muted}[{severity}] {name}: {}\n", check.summary);
                for line in &check.details {
                    text += &format!("    {line}\n");
                }
            }
        }
        text
    }
}

fn check_osds(health: &mut Health, map: &OsdMap) {
    if map.osd_count() == 0 {
        let summary = "no OSDs exist".to_owned();
        return health.warn("TOO_FEW_OSDS", 1, summary, Vec::new());
    }
    let down: Vec<_> = map.existing_osds().filter(|(_, osd)| osd.is_in() && !osd.is_up()).collect();
    let place = |osd: i32| {
        let levels = map.crush.full_location(osd).into_iter().rev();
        levels.map(|(kind, name)| format!("{kind}={name}")).collect::<Vec<_>>().join(",")
    };
    let details =
        down.iter().map(|(id, _)| format!("osd.{id} ({}) is down", place(id.0))).collect();
    let summary = format!("{} osds down", down.len());
    health.warn("OSD_DOWN", down.len(), summary, details);
    let hosts: Vec<&str> = map
        .crush
        .buckets()
        .filter(|bucket| map.crush.type_name(bucket.type_id()) == Some("host"))
        .filter(|bucket| !map.crush.is_shadow(bucket.id()))
        .filter(|bucket| {
            let devices = map.crush.devices_below(bucket.id());
            let ids = || devices.iter().map(|device| types::OsdId(*device));
            ids().any(|osd| map.is_in(osd)) && ids().all(|osd| !map.is_up(osd))
        })
        .filter_map(|bucket| map.crush.item_name(bucket.id()))
        .collect();
    let details = hosts.iter().map(|host| format!("host {host} is down")).collect();
    let summary = format!("{} host{} down", hosts.len(), plural(hosts.len()));
    health.warn("OSD_HOST_DOWN", hosts.len(), summary, details);
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn check_flags(health: &mut Health, map: &OsdMap) {
    let worth = OsdMapFlags::FULL
        | OsdMapFlags::PAUSERD
        | OsdMapFlags::PAUSEWR
        | OsdMapFlags::PAUSEREC
        | OsdMapFlags::NOUP
        | OsdMapFlags::NODOWN
        | OsdMapFlags::NOIN
        | OsdMapFlags::NOOUT
        | OsdMapFlags::NOBACKFILL
        | OsdMapFlags::NOREBALANCE
        | OsdMapFlags::NORECOVER
        | OsdMapFlags::NOSCRUB
        | OsdMapFlags::NODEEP_SCRUB
        | OsdMapFlags::NOTIERAGENT
        | OsdMapFlags::NOSNAPTRIM;
    let set = OsdMapFlags(map.flags.0 & worth.0);
    let count = set.0.count_ones() as usize;
    health.warn("OSDMAP_FLAGS", count, format!("{set} flag(s) set"), Vec::new());
    let held = OsdState::NOUP | OsdState::NODOWN | OsdState::NOIN | OsdState::NOOUT;
    let details: Vec<String> = map
        .existing_osds()
        .filter(|(_, osd)| osd.state.intersects(held))
        .map(|(id, osd)| format!("osd.{id} has flags {}", OsdState(osd.state.0 & held.0)))
        .collect();
    let summary = format!(
        "{} OSDs or CRUSH {{nodes, device-classes}} have {{NOUP,NODOWN,NOIN,NOOUT}} flags set",
        details.len()
    );
    health.warn("OSD_FLAGS", details.len(), summary, details);
}

fn check_space(health: &mut Health, map: &OsdMap, stats: &Statistics) {
    let fuller_than = |ratio: f32, below: f32| -> Vec<String> {
        let used = |usage: &wire::internal::OsdUsage| match usage.bytes_total {
            0 => 0.0,
            total => 1.0 - usage.bytes_available as f64 / total as f64,
        };
        let full = stats.osds().filter(|(osd, report)| {
            let used = used(&report.usage);
            map.is_in(*osd) && used >= f64::from(ratio) && used < f64::from(below)
        });
        full.map(|(osd, _)| osd.to_string()).collect()
    };
    let sentence = |osds: &[String], what: &str| {
        (
            format!("{} {what} osd(s)", osds.len()),
            osds.iter().map(|osd| format!("osd.{osd} is {what}")).collect::<Vec<_>>(),
        )
    };
    let near = fuller_than(map.nearfull_ratio, map.full_ratio);
    let (summary, details) = sentence(&near, "nearfull");
    health.warn("OSD_NEARFULL", near.len(), summary, details);
    let full = fuller_than(map.full_ratio, f32::INFINITY);
    let (summary, details) = sentence(&full, "full");
    health.add("OSD_FULL", Severity::Error, full.len(), summary, details);
}

fn check_groups(health: &mut Health, map: &OsdMap, stats: &Statistics, now: Time) {
    let mut inactive = Vec::new();
    let mut by_bad_state = BTreeMap::<&str, usize>::new();
    let mut degraded = Vec::new();
    let mut damaged = Vec::new();
    let is_new = |pg: PgId| {
        let created = map.pool(pg.pool).map_or(0, |pool| pool.create_time.as_nanos());
        now.since(Time(created)) < CREATION_GRACE
    };
    for (pg, state) in stats.pg_states(map).filter(|(pg, state)| *state != 0 || !is_new(*pg)) {
        if state & (pg_state::ACTIVE | pg_state::PEERED) != pg_state::ACTIVE
            || state & pg_state::STALE != 0
        {
            inactive.push((pg, state));
            let bad = [
                (pg_state::STALE, "stale"),
                (pg_state::DOWN, "down"),
                (pg_state::INCOMPLETE, "incomplete"),
                (pg_state::PEERING, "peering"),
            ];
            for (_, name) in bad.iter().filter(|(bit, _)| state & bit != 0) {
                *by_bad_state.entry(name).or_default() += 1;
            }
        }
        if state & (pg_state::DEGRADED | pg_state::UNDERSIZED) != 0 {
            degraded.push((pg, state));
        }
        if state & pg_state::INCONSISTENT != 0 {
            damaged.push((pg, state));
        }
    }
    let lines = |pgs: &[(PgId, u64)]| {
        let line = |(pg, state): &(PgId, u64)| {
            let acting = stats.pg(*pg).map(|stat| crate::dump::pgs::set_text(&stat.acting));
            let acting = acting.unwrap_or_else(|| "[]".to_owned());
            format!("pg {pg} is {}, acting {acting}", pg_state::to_text(*state))
        };
        pgs.iter().map(line).collect::<Vec<_>>()
    };
    let mut parts = vec![format!("{} pg{} inactive", inactive.len(), plural(inactive.len()))];
    parts.extend(by_bad_state.iter().map(|(name, n)| format!("{n} pg{} {name}", plural(*n))));
    let summary = format!("Reduced data availability: {}", parts.join(", "));
    health.warn("PG_AVAILABILITY", inactive.len(), summary, lines(&inactive));
    check_redundancy(health, stats, &degraded, lines(&degraded));
    let summary =
        format!("Possible data damage: {} pg{} inconsistent", damaged.len(), plural(damaged.len()));
    health.add("PG_DAMAGED", Severity::Error, damaged.len(), summary, lines(&damaged));
}

fn check_redundancy(
    health: &mut Health,
    stats: &Statistics,
    degraded: &[(PgId, u64)],
    details: Vec<String>,
) {
    let totals = stats.totals();
    let mut parts = Vec::new();
    if totals.degraded > 0 && totals.copies > 0 {
        let percent = totals.degraded as f64 * 100.0 / totals.copies as f64;
        let (degraded, copies) = (totals.degraded, totals.copies);
        parts.push(format!("{degraded}/{copies} objects degraded ({percent:.3}%)"));
    }
    for (bit, name) in [(pg_state::DEGRADED, "degraded"), (pg_state::UNDERSIZED, "undersized")] {
        let count = degraded.iter().filter(|(_, state)| state & bit != 0).count();
        if count > 0 {
            parts.push(format!("{count} pg{} {name}", plural(count)));
        }
    }
    let summary = format!("Degraded data redundancy: {}", parts.join(", "));
    health.warn("PG_DEGRADED", degraded.len(), summary, details);
}

fn check_pools(health: &mut Health, state: &State, stats: &Statistics) {
    let map = &state.osdmap;
    let named = |wanted: &dyn Fn(PoolId, &maps::Pool) -> bool| -> Vec<String> {
        let found = map.pools.iter().filter(|(id, pool)| wanted(**id, pool));
        found.filter_map(|(id, _)| map.pool_name(*id).map(str::to_owned)).collect()
    };
    let full = named(&|_, pool| pool.flags.intersects(PoolFlags::FULL | PoolFlags::FULL_QUOTA));
    let details =
        full.iter().map(|name| format!("pool '{name}' is full (running out of quota)")).collect();
    health.warn("POOL_FULL", full.len(), format!("{} pool(s) full", full.len()), details);

    let warns = |option: &str| state.mon_switch(option, true);
    if warns("mon_warn_on_pool_no_redundancy") {
        let bare = named(&|_, pool| pool.is_replicated() && pool.size == 1);
        let details = bare.iter().map(|name| format!("pool '{name}' has no replicas configured"));
        let (count, details) = (bare.len(), details.collect());
        let summary = format!("{count} pool(s) have no replicas configured");
        health.warn("POOL_NO_REDUNDANCY", count, summary, details);
    }
    if warns("mon_warn_on_pool_no_app") {
        let nameless = named(&|id, pool| {
            pool.application_metadata.is_empty() && stats.pool_totals(id).objects > 0
        });
        let lines = nameless.iter().map(|name| format!("application not enabled on pool '{name}'"));
        let details = lines.chain([APPLICATION_HINT.to_owned()]).collect();
        let summary = format!("{} pool(s) do not have an application enabled", nameless.len());
        health.warn("POOL_APP_NOT_ENABLED", nameless.len(), summary, details);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::{Pool, PoolType};

    #[test]
    fn muted_checks_are_listed_but_do_not_count() {
        let mut state = State::default();
        state.osdmap.flags = OsdMapFlags::NOOUT;
        state.osdmap.osds =
            vec![maps::Osd { state: OsdState::EXISTS | OsdState::UP, ..Default::default() }];
        let stats = Statistics::default();
        let loud = health(&state, &stats, Time(0));
        assert_eq!(loud.plain(false), "HEALTH_WARN noout flag(s) set\n");
        state.mutes.push(crate::state::Mute {
            code: "OSDMAP_FLAGS".to_owned(),
            sticky: false,
            summary: String::new(),
            count: 1,
            expires_at: 0,
        });
        let quiet = health(&state, &stats, Time(0));
        assert_eq!(quiet.plain(false), "HEALTH_OK (muted: OSDMAP_FLAGS)\n");
        assert_eq!(quiet.json(&state, true)["checks"]["OSDMAP_FLAGS"]["muted"], true);
    }

    #[test]
    fn unreported_groups_reduce_availability() {
        let mut state = State::default();
        state.osdmap.pools.insert(PoolId(1), Pool::new(PoolType::Replicated, 3, 8, 0));
        state.osdmap.pool_names.insert(PoolId(1), "p".to_owned());
        let later = Time(CREATION_GRACE.as_nanos() as u64);
        assert!(
            !health(&state, &Statistics::default(), Time(0)).checks.contains_key("PG_AVAILABILITY")
        );
        let checks = health(&state, &Statistics::default(), later).checks;
        let summary = &checks["PG_AVAILABILITY"].summary;
        assert_eq!(summary, "Reduced data availability: 8 pgs inactive");
    }
}
