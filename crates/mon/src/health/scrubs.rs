//! Checks of scrubs: groups that are overdue.

use super::check::{Health, View, next_step, plural};
use maps::{Pool, PoolOption, PoolOptionValue};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{PgId, PoolId, UTime};
use wire::internal::PgStat;

/// A kind of scrub: its check, its word in messages, its options, and the stamp of the last one.
struct Kind {
    check: &'static str,
    word: &'static str,
    interval: &'static str,
    of_pool: &'static str,
    ratio: &'static str,
    stamp: fn(&PgStat) -> UTime,
}

const KINDS: [Kind; 2] = [
    Kind {
        check: "PG_NOT_SCRUBBED",
        word: "scrubbed",
        interval: "osd_scrub_max_interval",
        of_pool: "scrub_max_interval",
        ratio: "mon_warn_pg_not_scrubbed_ratio",
        stamp: |stat| stat.last_scrub,
    },
    Kind {
        check: "PG_NOT_DEEP_SCRUBBED",
        word: "deep-scrubbed",
        interval: "osd_deep_scrub_interval",
        of_pool: "deep_scrub_interval",
        ratio: "mon_warn_pg_not_deep_scrubbed_ratio",
        stamp: |stat| stat.last_deep_scrub,
    },
];

pub(crate) fn check(health: &mut Health, view: &View<'_>) {
    KINDS.iter().for_each(|kind| check_kind(health, view, kind));
}

fn check_kind(health: &mut Health, view: &View<'_>, kind: &Kind) {
    let ratio = view.options().real(kind.ratio);
    if ratio == 0.0 {
        return;
    }
    let pools = view.state.osdmap.pools.iter();
    // Once per pool: there may be 100,000 groups, and this runs for every health report.
    let limits: BTreeMap<PoolId, (Duration, UTime)> = pools
        .map(|(&id, pool)| {
            (id, (stretched(interval(view, pool, kind), 1.0 + ratio), pool.create_time))
        })
        .collect();
    let late = view.live.stats.pgs().filter_map(|(pg, stat)| {
        let &(limit, created) = limits.get(&pg.pool)?;
        // A group that was never scrubbed is due since its pool was created.
        let last = (kind.stamp)(stat).max(created);
        let age = Duration::from_nanos(view.now.0.saturating_sub(last.as_nanos()));
        let is_known = last != UTime::ZERO && !limit.is_zero();
        (is_known && age > limit).then_some((pg, last))
    });
    let late: Vec<(PgId, UTime)> = late.collect();
    let lines =
        late.iter().map(|(pg, last)| format!("pg {pg} not {} since {}", kind.word, last.to_iso()));
    let step = "see whether scrubs are forbidden ('ceph osd dump' shows flags noscrub and nodeep-scrub, of the cluster \
                and of pools) or groups are not clean, for only clean ones are scrubbed; if there is too little time for \
                all, raise osd_max_scrubs or the interval";
    let details = next_step(lines, step);
    let count = late.len();
    let summary = format!("{count} pg{} not {} in time", plural(count), kind.word);
    health.warn(kind.check, count, summary, details);
}

/// The longest duration if the product is none: options may have any value.
fn stretched(interval: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(interval.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}

fn interval(view: &View<'_>, pool: &Pool, kind: &Kind) -> Duration {
    let of_pool = PoolOption::from_name(kind.of_pool).and_then(|name| pool.options.0.get(&name));
    match of_pool {
        Some(PoolOptionValue::Double(seconds)) if *seconds > 0.0 => {
            Duration::try_from_secs_f64(*seconds).unwrap_or(Duration::MAX)
        }
        _ => view.state.osd_options(view.live.running).duration(kind.interval),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::health;
    use crate::live::testing::Overview;
    use crate::services::CHECKS;
    use crate::state::State;
    use crate::statistics::Statistics;
    use engine::Time;
    use maps::PoolType;
    use types::OsdId;
    use wire::internal::StatsReport;

    const DAY: u64 = 86_400;

    #[test]
    fn an_interval_beyond_all_durations_is_never_over() {
        assert_eq!(stretched(Duration::MAX, 1.5), Duration::MAX);
        assert_eq!(stretched(Duration::from_secs(1), -2.0), Duration::MAX);
    }

    #[test]
    fn groups_whose_scrub_is_long_due_are_named_with_the_time_of_the_last_one() {
        let mut state = State::default();
        let mut pool = Pool::new(PoolType::Replicated, 3, 2, 0);
        pool.create_time = UTime { seconds: 1000, nanoseconds: 0 };
        state.osdmap.pools.insert(PoolId(1), pool);
        let at = |days: u64| UTime { seconds: 1000 + (days * DAY) as u32, nanoseconds: 0 };
        let light = PgStat { last_scrub: at(5), ..PgStat::default() };
        let both = PgStat { last_scrub: at(5), last_deep_scrub: at(5), ..PgStat::default() };
        let group = |seed| PgId { pool: PoolId(1), seed };
        let pgs = [(group(0), light), (group(1), both)].into();
        let mut stats = Statistics::default();
        let report = StatsReport { osd: OsdId(0), pgs, ..StatsReport::default() };
        stats.record(Time(0), &state.osdmap, report);
        let late = |state: &State, days: u64| {
            let now = Time(at(days).as_nanos());
            let overview = Overview::default();
            let view = View { state, live: overview.live(&stats), checks: CHECKS, now };
            let checks = health(&view).checks;
            let summary = |name| checks.get(name).map(|check| check.summary.clone());
            (summary("PG_NOT_SCRUBBED"), summary("PG_NOT_DEEP_SCRUBBED"))
        };
        // Seven days, and half of that more for scrubs, three quarters more for deep ones.
        assert_eq!(late(&state, 12), (None, None));
        assert_eq!(late(&state, 13), (None, Some("1 pg not deep-scrubbed in time".to_owned())));
        assert_eq!(late(&state, 16).0, Some("2 pgs not scrubbed in time".to_owned()));
        let options = [("mon_warn_pg_not_scrubbed_ratio", "0"), ("osd_deep_scrub_interval", "9e6")];
        for (name, value) in options {
            let section = state.config.entry("global".to_owned()).or_default();
            section.insert(name.to_owned(), value.to_owned());
        }
        assert_eq!(late(&state, 16), (None, None));
    }
}
