//! Checks of placement groups: availability, redundancy and integrity of data.

use super::check::{Health, Severity, View, next_step, plural, share};
use crate::dump::pgs::set_text;
use crate::statistics::{Statistics, Totals};
use crate::usage::{room_found, room_wanted};
use engine::Time;
use maps::{ErasureCode, OsdMap};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{OsdId, PgId, PoolId};
use wire::internal::pg_state;

/// Age below which a pool's groups need not have been reported yet.
const CREATION_GRACE: Duration = Duration::from_secs(10);

/// Groups and their states.
type Found = Vec<(PgId, u64)>;

pub(crate) fn check(health: &mut Health, view: &View<'_>) {
    let (map, stats) = (&view.state.osdmap, view.live.stats);
    let groups = settled(map, stats, view.now);
    let narrow = narrow_pools(map, &groups);
    check_availability(health, map, stats, &groups, &narrow);
    check_redundancy(health, map, stats, &groups, &narrow);
    check_room(health, map, stats, &groups);
    check_damage(health, map, stats, &groups);
    check_objects(health, view, &stats.totals());
}

fn settled(map: &OsdMap, stats: &Statistics, now: Time) -> Found {
    let is_new = |pg: PgId| {
        let created = map.pool(pg.pool).map_or(0, |pool| pool.create_time.as_nanos());
        now.since(Time(created)) < CREATION_GRACE
    };
    stats.pg_states(map).filter(|(pg, state)| *state != 0 || !is_new(*pg)).collect()
}

fn with_any(groups: &Found, states: u64) -> Found {
    groups.iter().filter(|(_, state)| state & states != 0).copied().collect()
}

/// `pg 1.3 is active+undersized, acting [2,0]`
fn lines<'a>(
    map: &'a OsdMap,
    stats: &'a Statistics,
    groups: &'a Found,
) -> impl Iterator<Item = String> + 'a {
    groups.iter().map(move |(pg, state)| {
        let acting = stats.pg(*pg).map_or_else(|| "[]".to_owned(), |stat| set_text(&stat.acting));
        let blockers = stats.pg(*pg).map(|stat| stat.blocked_by.as_slice()).unwrap_or_default();
        let blocked = match blockers {
            [] => String::new(),
            blockers => {
                let osds: Vec<String> = blockers.iter().map(|osd| osd.to_string()).collect();
                format!(", blocked by {}", osds.join(","))
            }
        };
        let missing = missing_shards(map, stats, *pg, *state).unwrap_or_default();
        format!("pg {pg} is {}, acting {acting}{blocked}{missing}", pg_state::to_text(*state))
    })
}

/// `; of 6 shards 4 are up, needed are 5 (min_size), 4 hold the data (k)`
fn missing_shards(map: &OsdMap, stats: &Statistics, pg: PgId, state: u64) -> Option<String> {
    const SHORT: u64 = pg_state::UNDERSIZED | pg_state::DOWN | pg_state::INCOMPLETE;
    let pool = map.pool(pg.pool).filter(|pool| pool.is_erasure())?;
    let (size, min_size) = (pool.size, usize::from(pool.min_size));
    let up = shards_up(stats, pg)?;
    let data = ErasureCode::of_pool(map, pool).ok()?.data;
    (state & SHORT != 0 && up < min_size).then(|| {
        format!(
            "; of {size} shards {up} are up, needed are {min_size} (min_size), {data} hold the data (k)"
        )
    })
}

fn shards_up(stats: &Statistics, pg: PgId) -> Option<usize> {
    Some(stats.pg(pg)?.acting.iter().filter(|osd| **osd != OsdId::NONE).count())
}

/// Whether some group has all its data, though fewer shards than its pool wants for service.
fn waits_for_min_size(map: &OsdMap, stats: &Statistics, groups: &Found) -> bool {
    groups.iter().any(|(pg, _)| {
        let Some(pool) = map.pool(pg.pool).filter(|pool| pool.is_erasure()) else { return false };
        let (Some(up), Ok(code)) = (shards_up(stats, *pg), ErasureCode::of_pool(map, pool)) else {
            return false;
        };
        (usize::from(code.data)..usize::from(pool.min_size)).contains(&up)
    })
}

/// Pools whose rules find fewer failure domains than the pools have copies or shards.
#[derive(Default)]
struct Narrow {
    lines: Vec<String>,
    has_replicated: bool,
    has_erasure: bool,
}

/// Such pools with groups that are undersized although nothing is down.
fn narrow_pools(map: &OsdMap, groups: &Found) -> Narrow {
    let undersized = with_any(groups, pg_state::UNDERSIZED);
    let pools: BTreeSet<PoolId> = undersized.iter().map(|(pg, _)| pg.pool).collect();
    let mut domains = map.domains();
    let mut narrow = Narrow::default();
    for id in pools {
        let (Some(pool), Some(name)) = (map.pool(id), map.pool_name(id)) else { continue };
        let Some(rule) = map.crush.rule_name(pool.crush_rule.into()) else { continue };
        let room = domains.room(pool, |osd| map.is_in(osd));
        if room.places < usize::from(pool.size) {
            let (wanted, found) = (room_wanted(pool, &room), room_found(&room));
            narrow
                .lines
                .push(format!("pool '{name}' wants {wanted}, and its rule '{rule}' {found}"));
            narrow.has_erasure |= pool.is_erasure();
            narrow.has_replicated |= pool.is_replicated();
        }
    }
    narrow
}

impl Narrow {
    /// The next step, which is `otherwise` if there are none.
    fn widen<'a>(&self, otherwise: &'a str) -> Cow<'a, str> {
        let mut ways = Vec::new();
        if self.has_replicated {
            ways.push(
                "'ceph osd crush rule create-replicated osds default osd' and 'ceph osd pool set POOL \
                 crush_rule osds'",
            );
        }
        if self.has_erasure {
            ways.push(
                "of an erasure-coded pool 'ceph osd erasure-code-profile set shards \
                 crush-failure-domain=osd', 'ceph osd crush rule create-erasure shards shards' and \
                 'ceph osd pool set POOL crush_rule shards'",
            );
        }
        if ways.is_empty() {
            return otherwise.into();
        }
        let ways = ways.join("; ");
        format!("add OSDs in other failure domains; to be content with different OSDs: {ways}")
            .into()
    }
}

fn check_availability(
    health: &mut Health,
    map: &OsdMap,
    stats: &Statistics,
    groups: &Found,
    narrow: &Narrow,
) {
    let serves = |state: u64| {
        state & (pg_state::ACTIVE | pg_state::PEERED | pg_state::STALE) == pg_state::ACTIVE
    };
    let inactive: Found = groups.iter().filter(|(_, state)| !serves(*state)).copied().collect();
    let bad = [
        (pg_state::STALE, "stale"),
        (pg_state::DOWN, "down"),
        (pg_state::INCOMPLETE, "incomplete"),
        (pg_state::PEERING, "peering"),
    ];
    let mut by_state = BTreeMap::<&str, usize>::new();
    for (_, name) in
        inactive.iter().flat_map(|(_, state)| bad.iter().filter(move |(bit, _)| state & bit != 0))
    {
        *by_state.entry(name).or_default() += 1;
    }
    let mut parts = vec![format!("{} pg{} inactive", inactive.len(), plural(inactive.len()))];
    parts.extend(by_state.iter().map(|(name, n)| format!("{n} pg{} {name}", plural(*n))));
    let mut step =
        "start OSDs that are down ('ceph osd tree down'); 'ceph pg PGID query' says what a \
                    group waits for"
            .to_owned();
    if waits_for_min_size(map, stats, &inactive) {
        step += "; 'ceph osd pool set POOL min_size' to as many as hold the data lets a group serve \
                 without any redundancy: raise it again once shards are back";
    }
    let none = Narrow::default();
    let narrow = if with_any(&inactive, pg_state::UNDERSIZED).is_empty() { &none } else { narrow };
    let found = narrow.lines.iter().cloned().chain(lines(map, stats, &inactive));
    let details = next_step(found, &narrow.widen(&step));
    let summary = format!("Reduced data availability: {}", parts.join(", "));
    health.warn("PG_AVAILABILITY", inactive.len(), summary, details);
}

fn check_redundancy(
    health: &mut Health,
    map: &OsdMap,
    stats: &Statistics,
    groups: &Found,
    narrow: &Narrow,
) {
    let degraded = with_any(groups, pg_state::DEGRADED | pg_state::UNDERSIZED);
    let totals = stats.totals();
    let mut parts = Vec::new();
    if totals.degraded > 0 && totals.copies > 0 {
        parts.push(share(totals.degraded, totals.copies, "degraded"));
    }
    for (bit, name) in [(pg_state::DEGRADED, "degraded"), (pg_state::UNDERSIZED, "undersized")] {
        let count = with_any(&degraded, bit).len();
        if count > 0 {
            parts.push(format!("{count} pg{} {name}", plural(count)));
        }
    }
    let step = "wait while they recover ('ceph -s' shows how fast); groups that stay undersized need \
                more OSDs that are up and in, in enough failure domains";
    let found = narrow.lines.iter().cloned().chain(lines(map, stats, &degraded));
    let details = next_step(found, &narrow.widen(step));
    let summary = format!("Degraded data redundancy: {}", parts.join(", "));
    health.warn("PG_DEGRADED", degraded.len(), summary, details);
}

fn check_room(health: &mut Health, map: &OsdMap, stats: &Statistics, groups: &Found) {
    const NEXT: &str = "add OSDs or delete data: copies cannot be made on OSDs that are full";
    let waiting = with_any(groups, pg_state::BACKFILL_TOOFULL);
    let count = waiting.len();
    let summary = format!(
        "Low space hindering backfill (add storage if this doesn't resolve itself): {count} pg{} \
         backfill_toofull",
        plural(count)
    );
    let details = next_step(lines(map, stats, &waiting), NEXT);
    health.warn("PG_BACKFILL_FULL", count, summary, details);
    let stuck = with_any(groups, pg_state::RECOVERY_TOOFULL);
    let count = stuck.len();
    let summary =
        format!("Full OSDs blocking recovery: {count} pg{} recovery_toofull", plural(count));
    let details = next_step(lines(map, stats, &stuck), NEXT);
    health.add("PG_RECOVERY_FULL", Severity::Error, count, summary, details);
}

fn check_damage(health: &mut Health, map: &OsdMap, stats: &Statistics, groups: &Found) {
    let kinds = [
        (pg_state::INCONSISTENT, "inconsistent"),
        (pg_state::RECOVERY_UNFOUND, "recovery_unfound"),
        (pg_state::BACKFILL_UNFOUND, "backfill_unfound"),
        (pg_state::SNAPTRIM_ERROR, "snaptrim_error"),
        (pg_state::FAILED_REPAIR, "failed_repair"),
    ];
    let damaged = with_any(groups, kinds.iter().fold(0, |all, (bit, _)| all | bit));
    let parts: Vec<String> = kinds
        .iter()
        .map(|(bit, name)| (with_any(&damaged, *bit).len(), name))
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{count} pg{} {name}", plural(count)))
        .collect();
    let step = "'rados list-inconsistent-obj PGID' shows what differs, 'ceph pg repair PGID' mends \
                it from the copies whose checksums hold; 'rados list-inconsistent-snapset PGID' shows \
                clones that do not fit their object: what is missing goes with its snapshot, what is \
                superfluous by 'ceph pg repair PGID'; of recovery_unfound see OBJECT_UNFOUND";
    let details = next_step(lines(map, stats, &damaged), step);
    let summary = format!("Possible data damage: {}", parts.join(", "));
    health.add("PG_DAMAGED", Severity::Error, damaged.len(), summary, details);
}

fn check_objects(health: &mut Health, view: &View<'_>, totals: &Totals) {
    let stats = view.live.stats;
    if totals.unfound > 0 {
        let unfound = stats.pgs().filter(|(_, stat)| stat.unfound > 0);
        let lines =
            unfound.map(|(pg, stat)| format!("pg {pg} has {} unfound objects", stat.unfound));
        let step = "start the OSDs that may still have them; 'ceph pg PGID list_unfound' names \
                    objects and OSDs; if all are 'already probed', 'ceph pg repair PGID' reads all \
                    copies once more, and 'ceph pg PGID mark_unfound_lost delete' gives up what \
                    cannot be read; overwriting or removing an object does that, too";
        let details = next_step(lines, step);
        let summary = share(totals.unfound, totals.objects, "unfound");
        health.warn("OBJECT_UNFOUND", totals.unfound as usize, summary, details);
    }
    if totals.misplaced > 0 && view.options().switch("mon_warn_on_misplaced") {
        let summary = share(totals.misplaced, totals.copies, "misplaced");
        let line = "copies are complete but lie on other OSDs than they should".to_owned();
        let details =
            next_step([line], "wait while they move; 'ceph progress' shows how far it is");
        health.warn("OBJECT_MISPLACED", totals.misplaced as usize, summary, details);
    }
    if totals.scrub_errors > 0 {
        let summary = format!("{} scrub errors", totals.scrub_errors);
        let wrong = stats.pgs().filter(|(_, stat)| stat.scrub_errors > 0);
        let lines =
            wrong.map(|(pg, stat)| format!("pg {pg} has {} scrub errors", stat.scrub_errors));
        let details = next_step(lines, "see PG_DAMAGED");
        let count = totals.scrub_errors as usize;
        health.add("OSD_SCRUB_ERRORS", Severity::Error, count, summary, details);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::health;
    use crate::live::testing::Overview;
    use crate::services::CHECKS;
    use crate::state::State;
    use crush::{CrushMap, Location, RuleKind, SimpleRule};
    use maps::{Osd, OsdState, Pool, PoolType, WEIGHT_IN};
    use std::sync::Arc;
    use types::OsdId;
    use wire::internal::{PgStat, StatsReport};

    fn state() -> State {
        let mut state = State::default();
        let up = OsdState::EXISTS | OsdState::UP;
        state.osdmap.osds = vec![Osd { state: up, ..Osd::default() }; 3];
        state.osdmap.pools.insert(PoolId(1), Pool::new(PoolType::Replicated, 3, 8, 0));
        state.osdmap.pool_names.insert(PoolId(1), "p".to_owned());
        state
    }

    fn look(state: &State, stats: &Statistics, now: Time) -> Health {
        health(&View { state, live: Overview::default().live(stats), checks: CHECKS, now })
    }

    #[test]
    fn unreported_groups_reduce_availability() {
        let (state, stats) = (state(), Statistics::default());
        let later = Time(CREATION_GRACE.as_nanos() as u64);
        assert!(!look(&state, &stats, Time(0)).checks.contains_key("PG_AVAILABILITY"));
        let checks = look(&state, &stats, later).checks;
        let summary = &checks["PG_AVAILABILITY"].summary;
        assert_eq!(summary, "Reduced data availability: 8 pgs inactive");
    }

    #[test]
    fn each_state_raises_its_check() {
        let state = state();
        for (bits, name, summary) in [
            (
                pg_state::ACTIVE | pg_state::UNDERSIZED | pg_state::DEGRADED,
                "PG_DEGRADED",
                "Degraded data redundancy: 5/30 objects degraded (16.667%), 1 pg degraded, 1 pg undersized",
            ),
            (
                pg_state::DOWN,
                "PG_AVAILABILITY",
                "Reduced data availability: 1 pg inactive, 1 pg down",
            ),
            (
                pg_state::ACTIVE | pg_state::RECOVERY_UNFOUND,
                "PG_DAMAGED",
                "Possible data damage: 1 pg recovery_unfound",
            ),
            (
                pg_state::ACTIVE | pg_state::BACKFILL_TOOFULL,
                "PG_BACKFILL_FULL",
                "Low space hindering backfill (add storage if this doesn't resolve itself): 1 pg \
                 backfill_toofull",
            ),
            (
                pg_state::ACTIVE | pg_state::RECOVERY_TOOFULL,
                "PG_RECOVERY_FULL",
                "Full OSDs blocking recovery: 1 pg recovery_toofull",
            ),
            (pg_state::ACTIVE, "OBJECT_UNFOUND", "1/10 objects unfound (10.000%)"),
        ] {
            let mut stats = Statistics::default();
            let stat = PgStat {
                state: bits,
                objects: 10,
                copies: 30,
                degraded: 5,
                unfound: 1,
                blocked_by: vec![OsdId(2)],
                ..PgStat::default()
            };
            let pgs = [(PgId { pool: PoolId(1), seed: 0 }, stat)].into();
            let report = StatsReport { osd: OsdId(0), pgs, ..StatsReport::default() };
            stats.record(Time(0), &state.osdmap, report);
            let checks = look(&state, &stats, Time(0)).checks;
            let check = checks.get(name).unwrap_or_else(|| panic!("{name}: {checks:?}"));
            assert_eq!(check.summary, summary);
            assert!(check.details.last().unwrap().starts_with("next: "), "{name}");
        }
    }
    /// Three OSDs of one host under a rule over hosts, as after three calls of `osd create`.
    #[test]
    fn health_says_that_a_rule_finds_too_few_hosts() {
        let mut state = state();
        let mut crush = CrushMap::new();
        crush.add_bucket("default", crush.type_id("root").unwrap()).unwrap();
        let location = Location::parse(["root=default", "host=one"]).unwrap();
        for osd in 0..3 {
            crush.insert_item(osd, WEIGHT_IN, &format!("osd.{osd}"), &location).unwrap();
        }
        let mut add = |name, failure_domain| {
            let kind = RuleKind::Replicated;
            let rule = SimpleRule { name, root: "default", failure_domain, class: None, kind };
            crush.add_simple_rule(&rule).unwrap() as u8
        };
        let (hosts, osds) = (add("hosts", "host"), add("osds", "osd"));
        state.osdmap.crush = Arc::new(crush);
        state.osdmap.osds.iter_mut().for_each(|osd| osd.weight = WEIGHT_IN);
        let stat = PgStat { state: pg_state::PEERED | pg_state::UNDERSIZED, ..PgStat::default() };
        let pgs = [(PgId { pool: PoolId(1), seed: 0 }, stat)].into();
        let mut stats = Statistics::default();
        let report = StatsReport { osd: OsdId(0), pgs, ..StatsReport::default() };
        stats.record(Time(0), &state.osdmap, report);
        for (rule, expected) in [(hosts, true), (osds, false)] {
            state.osdmap.pools.get_mut(&PoolId(1)).unwrap().crush_rule = rule;
            let checks = look(&state, &stats, Time(0)).checks;
            for name in ["PG_AVAILABILITY", "PG_DEGRADED"] {
                let details = &checks[name].details;
                let says = details[0]
                    == "pool 'p' wants 3 copies, each on another host, and its rule 'hosts' finds 1 host";
                let helps = details.last().unwrap().contains("osd pool set POOL crush_rule");
                assert_eq!((says, helps), (expected, expected), "{details:?}");
            }
        }
    }
}
