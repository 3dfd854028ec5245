//! The balancer: exchanges of single OSDs in placement groups (upmaps) that even out how many groups
//! each OSD holds.
//!
//! CRUSH spreads groups by chance, so an OSD holds more or fewer than its weight asks for. A pure function of
//! the map finds exchanges that take a group from an OSD that has too many and give it to one that has
//! too few. Each exchange brings a pool closer to even and keeps its rule; each step makes few of them,
//! and only while the cluster has little else to move. Who decides when is in `monitor::balance`.
//!
//! Invariants of a plan:
//! * Every set it leads to is one that the pool's rule allows: no two members in one failure domain.
//! * The sum of squared deviations of a pool falls with every exchange.

use crate::dump::usage::rule_shares;
use maps::{Domains, OsdMap, Placement, Pool, exchange};
use std::collections::{BTreeMap, BTreeSet};
use types::{OsdId, PgId, PoolId};

/// OSDs on either side that are tried before a pool is given up for this step.
const TRIES: usize = 64;

/// Exchanges of one group: (from, to).
pub type Items = Vec<(OsdId, OsdId)>;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Groups by which an OSD may differ from its share.
    pub max_deviation: f64,
    /// Groups that one step may change.
    pub max_changes: usize,
}

/// How a pool's groups are spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub pool: PoolId,
    /// The largest difference between what an OSD holds and its share, in groups.
    pub deviation_max: f64,
    /// The standard deviation, relative to the mean share.
    pub score: f64,
}

/// New exchanges by group; none for a group that needs them no more.
pub fn plan(map: &OsdMap, limits: Limits) -> BTreeMap<PgId, Items> {
    let mut totals = Totals::default();
    let mut pools: Vec<PoolState<'_>> = Vec::new();
    let mut placement = map.placement();
    for (id, pool) in &map.pools {
        let state = PoolState::new(map, *id, pool, &mut placement);
        totals.add(&state);
        pools.push(state);
    }
    let mut domains = map.domains();
    let mut changed = BTreeMap::new();
    for state in &mut pools {
        while changed.len() < limits.max_changes {
            match state.improve(map, &mut domains, limits.max_deviation, &mut totals) {
                Some((pg, items)) => changed.insert(pg, items),
                None => break,
            };
        }
    }
    changed.retain(|pg, items| {
        map.pg_upmap_items.get(pg).map_or(!items.is_empty(), |known| known != items)
    });
    changed
}

/// The spread of each pool that has groups.
pub fn spreads(map: &OsdMap) -> Vec<Spread> {
    let mut placement = map.placement();
    let pools = map.pools.iter().filter(|(_, pool)| pool.pg_num > 0);
    pools.map(|(id, pool)| PoolState::new(map, *id, pool, &mut placement).spread(*id)).collect()
}

/// One number for all pools: zero is perfect.
pub fn score(map: &OsdMap) -> f64 {
    let spreads = spreads(map);
    spreads.iter().map(|spread| spread.score).sum::<f64>() / spreads.len().max(1) as f64
}

/// Groups that OSDs hold beyond their shares in all pools together: decides between equals.
#[derive(Debug, Default)]
struct Totals(BTreeMap<OsdId, f64>);

impl Totals {
    fn add(&mut self, pool: &PoolState<'_>) {
        for osd in pool.targets.keys() {
            *self.0.entry(*osd).or_default() += pool.deviation(*osd);
        }
    }

    fn of(&self, osd: OsdId) -> f64 {
        self.0.get(&osd).copied().unwrap_or_default()
    }

    fn exchange(&mut self, from: OsdId, to: OsdId) {
        *self.0.entry(from).or_default() -= 1.0;
        *self.0.entry(to).or_default() += 1.0;
    }
}

struct PoolState<'a> {
    pool: &'a Pool,
    targets: BTreeMap<OsdId, f64>,
    held: BTreeMap<OsdId, BTreeSet<PgId>>,
    groups: BTreeMap<PgId, Group>,
}

struct Group {
    /// What CRUSH chose, the exchanges, and what they lead to.
    chosen: Vec<OsdId>,
    items: Items,
    set: Vec<OsdId>,
}

impl<'a> PoolState<'a> {
    fn new(map: &OsdMap, id: PoolId, pool: &'a Pool, placement: &mut Placement<'_>) -> Self {
        let mut state = PoolState {
            pool,
            targets: BTreeMap::new(),
            held: BTreeMap::new(),
            groups: BTreeMap::new(),
        };
        let mut copies = 0;
        for pg in map.pgs(id) {
            let set = placement.pg_to_raw(pg);
            for osd in set.iter().filter(|osd| **osd != OsdId::NONE) {
                state.held.entry(*osd).or_default().insert(pg);
                copies += 1;
            }
            let chosen = placement.pg_to_crush(pg);
            let items = map.pg_upmap_items.get(&pg).cloned().unwrap_or_default();
            state.groups.insert(pg, Group { chosen, items, set });
        }
        let shares = rule_shares(map, pool);
        state.targets =
            shares.into_iter().map(|(osd, share)| (osd, share * f64::from(copies))).collect();
        state
    }

    fn count(&self, osd: OsdId) -> f64 {
        self.held.get(&osd).map_or(0, BTreeSet::len) as f64
    }

    fn deviation(&self, osd: OsdId) -> f64 {
        self.count(osd) - self.targets.get(&osd).copied().unwrap_or_default()
    }

    fn spread(&self, pool: PoolId) -> Spread {
        let deviations: Vec<f64> = self.targets.keys().map(|osd| self.deviation(*osd)).collect();
        let count = deviations.len().max(1) as f64;
        let squares: f64 = deviations.iter().map(|deviation| deviation * deviation).sum();
        let mean = self.targets.values().sum::<f64>() / count;
        Spread {
            pool,
            deviation_max: deviations.iter().fold(0.0, |max, one| max.max(one.abs())),
            score: if mean > 0.0 { (squares / count).sqrt() / mean } else { 0.0 },
        }
    }

    /// The exchange that takes most from the worst OSD, if one is worse than allowed.
    fn improve(
        &mut self,
        map: &OsdMap,
        domains: &mut Domains<'_>,
        max_deviation: f64,
        totals: &mut Totals,
    ) -> Option<(PgId, Items)> {
        let mut osds: Vec<(f64, OsdId)> =
            self.targets.keys().map(|osd| (self.deviation(*osd), *osd)).collect();
        osds.sort_by(|a, b| {
            (a.0, totals.of(a.1)).partial_cmp(&(b.0, totals.of(b.1))).unwrap_or(a.1.cmp(&b.1))
        });
        let poor: Vec<(f64, OsdId)> =
            osds.iter().copied().filter(|(_, osd)| map.is_up(*osd)).collect();
        let rich: Vec<(f64, OsdId)> = osds.iter().rev().copied().collect();
        let over = rich.iter().take_while(|(deviation, _)| *deviation > max_deviation);
        let from_over =
            over.take(TRIES).flat_map(|from| poor.iter().take(TRIES).map(move |to| (from, to)));
        let under = poor.iter().take_while(|(deviation, _)| *deviation < -max_deviation);
        let to_under =
            under.take(TRIES).flat_map(|to| rich.iter().take(TRIES).map(move |from| (from, to)));
        for (from, to) in from_over.chain(to_under) {
            // Less would only swap the two.
            if from.0 - to.0 <= 1.0 {
                continue;
            }
            if let Some(found) = self.exchange_between(map, domains, from.1, to.1) {
                totals.exchange(from.1, to.1);
                return Some(found);
            }
        }
        None
    }

    /// Gives one group of `from` to `to`, if the rule allows it for any.
    fn exchange_between(
        &mut self,
        map: &OsdMap,
        domains: &mut Domains<'_>,
        from: OsdId,
        to: OsdId,
    ) -> Option<(PgId, Items)> {
        let groups = self.held.get(&from)?.iter().copied();
        for pg in groups {
            let group = self.groups.get(&pg)?;
            if map.pg_upmap.contains_key(&pg) || !domains.allow(self.pool, &group.set, from, to) {
                continue;
            }
            let Some((items, set)) = group.with(map, from, to) else { continue };
            self.held.entry(from).or_default().remove(&pg);
            self.held.entry(to).or_default().insert(pg);
            let group = self.groups.get_mut(&pg)?;
            (group.items, group.set) = (items.clone(), set);
            return Some((pg, items));
        }
        None
    }
}

impl Group {
    /// The exchanges that also put `to` in the place of `from`, if that is what comes of them.
    fn with(&self, map: &OsdMap, from: OsdId, to: OsdId) -> Option<(Items, Vec<OsdId>)> {
        let mut items = self.items.clone();
        match items.iter().position(|(_, known)| *known == from) {
            // Back to where CRUSH had it.
            Some(at) if items[at].0 == to => {
                items.remove(at);
            }
            Some(at) => items[at].1 = to,
            None => items.push((from, to)),
        }
        let wanted: Vec<OsdId> =
            self.set.iter().map(|osd| if *osd == from { to } else { *osd }).collect();
        let mut set = self.chosen.clone();
        exchange(map, &items, &mut set);
        // A primary that was chosen by hand changes the order.
        let is_same =
            |a: &[OsdId], b: &[OsdId]| a.len() == b.len() && a.iter().all(|osd| b.contains(osd));
        is_same(&set, &wanted).then_some((items, wanted))
    }
}

#[cfg(test)]
mod tests;
