//! The schedule of scrubs.

use super::state::GroupScrub;
use crate::env::Env;
use engine::Duration;
use maps::{OsdMap, OsdMapFlags, PoolFlags, PoolOption, PoolOptionValue};
use pg::Pg;
use pg::scrub::{Forbidden, Intervals, Level, Order};
use serde_json::{Value, json};
use types::{PgShard, PoolId, UTime};

/// A group that may be scrubbed, the most urgent first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// Zero for orders and for objects to check again.
    due: UTime,
    pg: PgShard,
    level: Level,
}

/// The group to scrub next, with the level and the order that it performs.
pub(crate) fn next<'a>(
    env: &Env,
    map: &OsdMap,
    groups: impl Iterator<Item = (&'a Pg, &'a GroupScrub)>,
) -> Option<(PgShard, Level, Option<Order>)> {
    let is_ready = |scrub: &GroupScrub| {
        scrub.running.is_none() && scrub.not_before.is_none_or(|time| time <= env.now)
    };
    let candidates = groups
        .filter(|(pg, scrub)| pg.is_primary() && pg.is_clean() && is_ready(scrub))
        .filter_map(|(pg, scrub)| {
            let order = scrub.wanted(pg);
            if order.is_some() || !scrub.repaired.is_empty() {
                let level = Level::Light;
                return Some((Candidate { due: UTime::ZERO, pg: pg.pg_shard(), level }, order));
            }
            let (intervals, forbidden) = rules(env, map, pg.id().pool);
            let (due, level) = scrub.stamps?.due(pg.id(), scrub.since?, &intervals, forbidden)?;
            (due <= env.now.wall()).then_some((Candidate { due, pg: pg.pg_shard(), level }, None))
        });
    let (Candidate { pg, level, .. }, order) = candidates.min_by(|a, b| a.0.cmp(&b.0))?;
    Some((pg, order.map_or(level, |order| order.level), order))
}

/// Next scrubs of the groups whose primary this OSD is (`dump_scrubs`).
pub(crate) fn dump<'a>(
    env: &Env,
    map: &OsdMap,
    groups: impl Iterator<Item = (&'a Pg, &'a GroupScrub)>,
) -> Value {
    let row = |(pg, scrub): (&Pg, &GroupScrub)| {
        let (stamps, since) = (scrub.stamps?, scrub.since?);
        let (intervals, forbidden) = rules(env, map, pg.id().pool);
        let is_forced = scrub.wanted(pg).is_some();
        let due = stamps.due(pg.id(), since, &intervals, forbidden).map(|(due, _)| due);
        let due = if is_forced { Some(UTime::ZERO) } else { due };
        let most = env.options.scrub_max_interval.as_secs().min(u64::from(u32::MAX)) as u32;
        let deadline = stamps.last.seconds.saturating_add(most);
        Some(json!({
            "pgid": pg.id().to_string(),
            "sched_time": due?.to_iso(),
            "deadline": UTime { seconds: deadline, nanoseconds: 0 }.to_iso(),
            "forced": is_forced,
        }))
    };
    let primaries = groups.filter(|(pg, _)| pg.is_primary());
    Value::from(primaries.filter_map(row).collect::<Vec<_>>())
}

/// When the groups of a pool are scrubbed, and which scrubs the map forbids.
fn rules(env: &Env, map: &OsdMap, id: PoolId) -> (Intervals, Forbidden) {
    let seconds = |duration: Duration| duration.as_secs().min(u64::from(u32::MAX)) as u32;
    let mut intervals = Intervals {
        light: seconds(env.options.scrub_min_interval),
        deep: seconds(env.options.deep_scrub_interval),
        ..Intervals::default()
    };
    let flags = map.flags;
    let mut forbidden = Forbidden {
        light: flags.contains(OsdMapFlags::NOSCRUB),
        deep: flags.contains(OsdMapFlags::NODEEP_SCRUB),
    };
    if let Some(pool) = map.pool(id) {
        forbidden.light |= pool.flags.contains(PoolFlags::NOSCRUB);
        forbidden.deep |= pool.flags.contains(PoolFlags::NODEEP_SCRUB);
        let option = |name: &str| match pool.options.0.get(&PoolOption::from_name(name)?) {
            Some(PoolOptionValue::Double(value)) if *value > 0.0 => Some(*value as u32),
            _ => None,
        };
        intervals.light = option("scrub_min_interval").unwrap_or(intervals.light);
        intervals.deep = option("deep_scrub_interval").unwrap_or(intervals.deep);
    }
    (intervals, forbidden)
}
