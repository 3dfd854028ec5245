//! The check of the number of OSD maps that are kept, and of the groups that need them.

use super::check::{Health, View, next_step};
use crate::state::INCREMENTALS_KEPT;
use maps::OsdMap;
use std::collections::BTreeMap;
use types::{Epoch, PgId, PoolId};

/// Multiple of the maps that are kept in any case from which on health names the groups that need more.
const KEPT_FACTOR: usize = 10;
/// Bound of the named groups with the oldest `last_epoch_clean`.
const NAMED_MAX: usize = 10;

/// A map is kept as long as an OSD may need it to find past intervals. For a group without a report that is
/// not known, so there is no bound: health warns before the store is full.
pub(crate) fn check(health: &mut Health, view: &View<'_>) {
    let (map, kept) = (&view.state.osdmap, &view.state.history.incrementals);
    let kept_max = kept_max(view);
    let Some(oldest) = kept.keys().next().filter(|_| kept.len() >= kept_max) else { return };
    let mut unknown = BTreeMap::<PoolId, Vec<PgId>>::new();
    let mut behind = Vec::<(Epoch, PgId)>::new();
    for pg in map.pools.keys().flat_map(|pool| map.pgs(*pool)) {
        match view.live.stats.pg(pg) {
            None => unknown.entry(pg.pool).or_default().push(pg),
            Some(stat) => behind.push((stat.last_epoch_clean, pg)),
        }
    }
    let lines = unknown.iter().map(|(pool, groups)| unreported(map, *pool, groups));
    let mut lines: Vec<String> = lines.collect();
    if lines.is_empty() {
        behind.sort_unstable();
        let first = behind.into_iter().take(NAMED_MAX);
        let long_ago =
            first.filter(|(epoch, _)| epoch.0 as usize + kept_max / 2 < map.epoch.0 as usize);
        lines
            .extend(long_ago.map(|(epoch, pg)| format!("pg {pg} was clean last in epoch {epoch}")));
    }
    lines.insert(0, format!("epochs {oldest} to {} are kept", map.epoch));
    let step = "let OSDs that hold these groups come up (PG_AVAILABILITY says what they wait for), or remove a pool that is \
                not needed any more; old maps go then by themselves. The control store needs room for them until then";
    let summary = format!("{} OSD maps are kept for groups that are not clean", kept.len());
    health.warn("OSDMAP_HISTORY", 1, summary, next_step(lines, step));
}

/// Number of kept maps from which on health warns. Few maps that are kept by choice do not lower it.
fn kept_max(view: &View<'_>) -> usize {
    let by_choice = view.options().number("mon_min_osdmap_epochs") as usize;
    KEPT_FACTOR * by_choice.max(INCREMENTALS_KEPT)
}

fn unreported(map: &OsdMap, pool: PoolId, groups: &[PgId]) -> String {
    let name = map.pool_name(pool).unwrap_or_default();
    let all = map.pool(pool).map_or(0, |pool| pool.pg_num);
    let first = groups.first().map(PgId::to_string).unwrap_or_default();
    format!("no OSD reports {} of {all} groups of pool '{name}' (such as {first})", groups.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::health;
    use crate::live::testing::Overview;
    use crate::services::CHECKS;
    use crate::state::State;
    use crate::statistics::Statistics;
    use bytes::Bytes;
    use engine::Time;
    use maps::{Pool, PoolType};
    use types::OsdId;
    use wire::internal::{PgStat, StatsReport};

    #[test]
    fn maps_that_are_kept_for_groups_without_reports_or_long_unclean_are_told_with_these_groups() {
        let mut state = State::default();
        for (id, name) in [(PoolId(1), "seen"), (PoolId(2), "lost")] {
            state.osdmap.pools.insert(id, Pool::new(PoolType::Replicated, 3, 2, 0));
            state.osdmap.pool_names.insert(id, name.to_owned());
        }
        let mut stats = Statistics::default();
        let mut report = |map: &OsdMap, pool: i64, clean: [u32; 2]| {
            let stat = |(seed, epoch)| {
                let stat = PgStat { last_epoch_clean: Epoch(epoch), ..PgStat::default() };
                (PgId { pool: PoolId(pool), seed }, stat)
            };
            let pgs = (0..).zip(clean).map(stat).collect();
            let report = StatsReport { osd: OsdId(pool as i32), pgs, ..StatsReport::default() };
            stats.record(Time(1), map, report);
            let check = |state: &State| {
                let overview = Overview::default();
                let view =
                    View { state, live: overview.live(&stats), checks: CHECKS, now: Time(1) };
                health(&view).checks.get("OSDMAP_HISTORY").map(|check| check.details.join("\n"))
            };
            let mut state = State::default();
            state.osdmap = map.clone();
            let mut told = Vec::new();
            let kept_max = (KEPT_FACTOR * INCREMENTALS_KEPT) as u32;
            for kept in [kept_max - 1, kept_max] {
                state.osdmap.epoch = Epoch(kept + 100);
                state.history.incrementals =
                    (1..=kept).map(|e| (Epoch(e + 100), Bytes::new())).collect();
                told.push(check(&state));
            }
            assert_eq!(told[0], None);
            told.remove(1).expect("so many are kept for some reason")
        };
        let told = report(&state.osdmap, 1, [5000, 101]);
        assert!(told.contains("epochs 101 to 5100 are kept"), "{told}");
        assert!(
            told.contains("no OSD reports 2 of 2 groups of pool 'lost' (such as 2.0)"),
            "{told}"
        );
        assert!(!told.contains("'seen'") && told.contains("next: "), "{told}");
        let told = report(&state.osdmap, 2, [5000, 5000]);
        assert!(told.contains("pg 1.1 was clean last in epoch 101"), "{told}");
        assert!(!told.contains("pg 1.0"), "{told}");
    }

    #[test]
    fn maps_that_are_kept_by_choice_are_no_warning() {
        let mut state = State::default();
        let options = state.config.entry("mon".to_owned()).or_default();
        options.insert("mon_min_osdmap_epochs".to_owned(), "6000".to_owned());
        state.history.incrementals = (1..=6000).map(|e| (Epoch(e), Bytes::new())).collect();
        let (overview, stats) = (Overview::default(), Statistics::default());
        let live = overview.live(&stats);
        let health = health(&View { state: &state, live, checks: CHECKS, now: Time(1) });
        assert!(!health.checks.contains_key("OSDMAP_HISTORY"));
    }
}
