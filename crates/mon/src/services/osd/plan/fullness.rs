//! Fullness states of OSDs and pools.
//!
//! An OSD is marked when its usage reaches one of the three ratios of the map. A pool gets the mark of the
//! fullest OSD that its rule can choose: a full pool takes no more writes, as no group may lose a copy for
//! lack of space. A mark is removed only when the usage is [`SLACK`] below its ratio, so that it does not
//! flap.

use crate::change::Change;
use crate::state::State;
use crate::statistics::Statistics;
use maps::{Osd, OsdMap, OsdState, Pool, PoolFlags};
use std::collections::BTreeMap;
use types::{OsdId, PoolId};
use wire::internal::OsdUsage;

/// Hysteresis, as a share of the disk.
const SLACK: f64 = 0.005;
const MARKS: OsdState =
    OsdState(OsdState::FULL.0 | OsdState::BACKFILLFULL.0 | OsdState::NEARFULL.0);

/// Updates the marks of OSDs and pools from the reported usage.
pub(super) fn plan(state: &State, stats: &Statistics, change: &mut Change) {
    let map = &state.osdmap;
    let mut marked = BTreeMap::new();
    for (osd, known) in map.existing_osds() {
        let mark = match stats.osd(osd) {
            Some(report) => mark(map, known, &report.usage),
            // Without a report the former mark most likely still holds.
            None => OsdState(known.state.0 & MARKS.0),
        };
        if !mark.is_empty() && known.is_in() {
            marked.insert(osd, mark);
        }
        let flips = OsdState((known.state.0 & MARKS.0) ^ mark.0);
        if !flips.is_empty() && known.is_up() {
            let states = change.osdmap(state).new_state.entry(osd).or_default();
            *states = *states | flips;
        }
    }
    mark_pools(state, &marked, change);
}

fn mark_pools(state: &State, marked: &BTreeMap<OsdId, OsdState>, change: &mut Change) {
    let all = PoolFlags::FULL | PoolFlags::BACKFILLFULL | PoolFlags::NEARFULL;
    let map = &state.osdmap;
    // The FULL flag of a pool over its quota belongs to the quota.
    let pools = map.pools.iter().filter(|(_, pool)| !pool.flags.contains(PoolFlags::FULL_QUOTA));
    let changed: Vec<(PoolId, PoolFlags)> = pools
        .filter(|(_, pool)| !marked.is_empty() || pool.flags.intersects(all))
        .map(|(id, pool)| (*id, flags(map, pool, marked)))
        .filter(|(id, flags)| map.pools[id].flags.0 & all.0 != flags.0)
        .collect();
    for (id, flags) in changed {
        if let Some(pool) = change.pool(state, id) {
            pool.flags.set(all, false);
            pool.flags.set(flags, true);
        }
    }
}

/// The mark for an OSD's usage, if any.
fn mark(map: &OsdMap, known: &Osd, usage: &OsdUsage) -> OsdState {
    // The store has not reported its size yet.
    if usage.bytes_total == 0 {
        return OsdState(known.state.0 & MARKS.0);
    }
    let used = 1.0 - usage.bytes_available as f64 / usage.bytes_total as f64;
    // An OSD with this mark, or a worse one, must be clearly below the ratio to lose it.
    let reached = |ratio: f32, bearers: OsdState| {
        let slack = if known.state.intersects(bearers) { SLACK } else { 0.0 };
        used >= f64::from(ratio) - slack
    };
    match () {
        () if reached(map.full_ratio, OsdState::FULL) => OsdState::FULL,
        () if reached(map.backfillfull_ratio, OsdState::FULL | OsdState::BACKFILLFULL) => {
            OsdState::BACKFILLFULL
        }
        () if reached(map.nearfull_ratio, MARKS) => OsdState::NEARFULL,
        () => OsdState::default(),
    }
}

/// The fullness flag of a pool whose rule may choose each of its OSDs.
fn flags(map: &OsdMap, pool: &Pool, marked: &BTreeMap<OsdId, OsdState>) -> PoolFlags {
    let shares = crate::usage::rule_shares(map, pool);
    let worst = |mark: OsdState| {
        marked.iter().any(|(osd, known)| known.contains(mark) && shares.contains_key(osd))
    };
    match () {
        () if worst(OsdState::FULL) => PoolFlags::FULL,
        () if worst(OsdState::BACKFILLFULL) => PoolFlags::BACKFILLFULL,
        () if worst(OsdState::NEARFULL) => PoolFlags::NEARFULL,
        () => PoolFlags::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_comes_at_its_ratio_and_goes_clearly_below() {
        let mut map = OsdMap::new(types::Uuid::default());
        (map.nearfull_ratio, map.backfillfull_ratio, map.full_ratio) = (0.85, 0.90, 0.95);
        let mut osd = Osd::default();
        for (used, expected) in [
            (849, OsdState::default()),
            (851, OsdState::NEARFULL),
            (847, OsdState::NEARFULL),
            (844, OsdState::default()),
            (902, OsdState::BACKFILLFULL),
            (951, OsdState::FULL),
            (946, OsdState::FULL),
            (944, OsdState::BACKFILLFULL),
            (897, OsdState::BACKFILLFULL),
            (700, OsdState::default()),
        ] {
            let usage =
                OsdUsage { bytes_total: 1000, bytes_available: 1000 - used, ..OsdUsage::default() };
            osd.state = mark(&map, &osd, &usage);
            assert_eq!(osd.state, expected, "{used}");
        }
    }
}
