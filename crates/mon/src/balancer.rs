//! The balancer: upmap items (exchanges of single OSDs in placement groups) that even out how many groups
//! each OSD holds.
//!
//! CRUSH spreads groups pseudo-randomly, so an OSD holds more or fewer than its weight asks for. A pure
//! function of the map finds exchanges that take a group from an OSD that has too many and give it to one
//! that has too few. Each exchange brings a pool closer to even and keeps its rule; each step makes few of
//! them. Steps are taken only while few groups are misplaced ([`limits`]).
//!
//! CRUSH results come from a table that the caller keeps between steps, so a step maps no group again. It
//! looks at each group once, to count; after that only at groups of the OSDs that it tries.
//!
//! Invariants of a plan:
//! * Every set it leads to is allowed by the pool's rule: no two members are in one failure domain.
//! * The sum of squared deviations of a pool falls with every exchange.

use crate::change::Change;
use crate::state::{Overrides, State};
use crate::statistics::Statistics;
use crate::usage::rule_shares;
use maps::{Domains, OsdMap, Pool, RawTable, Release, exchange};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use types::{OsdId, PgId, PoolId};
use wire::internal::pg_state;

/// OSDs on either side that are tried before a pool is given up for this step.
const TRIES: usize = 64;

/// Exchanges of one group: (from, to).
pub type Items = Vec<(OsdId, OsdId)>;

/// Bounds of one step of the balancer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Groups by which an OSD may differ from its share.
    pub max_deviation: f64,
    /// Groups that one step may change.
    pub max_changes: usize,
}

/// Whether the balancer was switched on by `ceph balancer on`.
pub fn is_on(state: &State) -> bool {
    state.mgr_option("mgr/balancer/active").and_then(crate::state::parse_switch).unwrap_or(false)
        && mode(state) == "upmap"
}

/// The mode: `upmap` unless configured otherwise.
pub fn mode(state: &State) -> &str {
    state.mgr_option("mgr/balancer/mode").unwrap_or("upmap")
}

/// The bounds of one step, or the reason why none may be taken now.
pub fn limits(state: &State, running: &Overrides, stats: &Statistics) -> Result<Limits, String> {
    let map = &state.osdmap;
    if map.require_min_compat_client < Release::LUMINOUS {
        let allowed = map.require_min_compat_client;
        return Err(format!(
            "min_compat_client {allowed} < luminous, which is required for pg-upmap. Try 'ceph osd \
             set-require-min-compat-client luminous' before enabling this mode"
        ));
    }
    let number = |name: &str| {
        let set = state.mgr_option(&format!("mgr/balancer/{name}"));
        set.and_then(|text| text.parse().ok())
            .unwrap_or_else(|| state.options(running).number(name))
    };
    let allowed = state.options(running).real("target_max_misplaced_ratio");
    let (mut groups, mut moving) = (0u64, 0u64);
    for (_, pg) in stats.pg_states(map) {
        groups += 1;
        if pg & pg_state::ACTIVE == 0 || pg & pg_state::STALE != 0 {
            return Err("Some PGs are inactive or unknown; try again later".to_owned());
        }
        if pg & (pg_state::DEGRADED | pg_state::UNDERSIZED) != 0 {
            return Err("Some objects are degraded; try again later".to_owned());
        }
        moving += u64::from(pg & pg_state::CLEAN == 0);
    }
    let room = (allowed * groups as f64).max(1.0) as u64;
    if moving >= room {
        return Err(format!(
            "Too many PGs are misplaced ({moving} of {groups}, allowed are {:.1}%); try again later",
            allowed * 100.0
        ));
    }
    let max_changes = number("upmap_max_optimizations").min(room - moving);
    let max_changes = usize::try_from(max_changes).unwrap_or(usize::MAX);
    Ok(Limits { max_deviation: number("upmap_max_deviation").max(1) as f64, max_changes })
}

/// Writes a plan into the map's `pg_upmap_items`.
pub fn apply(state: &State, plan: impl IntoIterator<Item = (PgId, Items)>, change: &mut Change) {
    for (pg, items) in plan {
        let incremental = change.osdmap(state);
        match items.is_empty() {
            true => drop(incremental.old_pg_upmap_items.insert(pg)),
            false => drop(incremental.new_pg_upmap_items.insert(pg, items)),
        }
    }
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

/// New upmap items by group; an empty list removes the group's items. The table must be that of the map.
pub fn plan(map: &OsdMap, table: &RawTable, limits: Limits) -> BTreeMap<PgId, Items> {
    let mut totals = Totals::default();
    let mut pools: Vec<PoolState<'_>> = Vec::new();
    for (id, pool) in &map.pools {
        let state = PoolState::new(map, table, *id, pool);
        totals.add(&state);
        pools.push(state);
    }
    let mut domains = map.domains();
    let mut changed = BTreeMap::new();
    // Groups that are about to be merged stay together.
    for state in pools.iter_mut().filter(|state| state.pool.merging().is_none()) {
        let mut ranking = Ranking::new(state, &totals);
        while changed.len() < limits.max_changes {
            let found =
                ranking.pairs(map, limits.max_deviation).into_iter().find_map(|(from, to)| {
                    Some((from, to, state.exchange_between(&mut domains, from, to)?))
                });
            let Some((from, to, (pg, items))) = found else { break };
            assert_ne!(from, to, "a group moves");
            totals.exchange(from, to);
            [from, to].into_iter().for_each(|osd| ranking.update(state, &totals, osd));
            changed.insert(pg, items);
        }
    }
    assert!(changed.len() <= limits.max_changes, "a step is small");
    changed.retain(|pg, items| {
        map.pg_upmap_items.get(pg).map_or(!items.is_empty(), |known| known != items)
    });
    changed
}

/// The spread of each pool that has groups.
pub fn spreads(map: &OsdMap, table: &RawTable) -> Vec<Spread> {
    let pools = map.pools.iter().filter(|(_, pool)| pool.pg_num > 0);
    pools.map(|(id, pool)| PoolState::new(map, table, *id, pool).spread()).collect()
}

/// Mean of the pools' scores: zero is perfectly even.
pub fn score(spreads: &[Spread]) -> f64 {
    spreads.iter().map(|spread| spread.score).sum::<f64>() / spreads.len().max(1) as f64
}

/// Groups that OSDs hold beyond their shares in all pools together: the tie-breaker between OSDs that are
/// equal within a pool.
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
    map: &'a OsdMap,
    table: &'a RawTable,
    id: PoolId,
    pool: &'a Pool,
    targets: BTreeMap<OsdId, f64>,
    held: Held,
    /// The exchanges that this step has changed.
    changed: BTreeMap<PgId, Items>,
}

/// The groups of a pool by OSD: those of the map, and a copy-on-write set for each OSD that this step has
/// changed.
#[derive(Default)]
struct Held {
    /// Index of each OSD's first group in `seeds`.
    starts: Vec<u32>,
    seeds: Vec<u32>,
    changed: BTreeMap<OsdId, BTreeSet<u32>>,
}

struct Placement {
    /// The result of CRUSH, the upmap items, and the set that both lead to.
    chosen: Vec<OsdId>,
    items: Items,
    set: Vec<OsdId>,
}

impl Held {
    /// `groups`: members of the pool's groups as (seed, OSD), in the order of seeds.
    fn new(osds: usize, groups: &[(u32, OsdId)]) -> Self {
        let mut starts = vec![0; osds + 1];
        let place = |osd: OsdId| usize::try_from(osd.0).ok().filter(|place| *place < osds);
        let members = || groups.iter().filter_map(|(seed, osd)| Some((*seed, place(*osd)?)));
        members().for_each(|(_, osd)| starts[osd + 1] += 1);
        for osd in 0..osds {
            starts[osd + 1] += starts[osd];
        }
        let mut ends = starts.clone();
        let mut seeds = vec![0; groups.len()];
        for (seed, osd) in members() {
            seeds[ends[osd] as usize] = seed;
            ends[osd] += 1;
        }
        assert!(
            ends[..osds].iter().eq(&starts[1..]),
            "the groups of an OSD end where others begin"
        );
        Held { starts, seeds, changed: BTreeMap::new() }
    }

    fn unchanged(&self, osd: OsdId) -> &[u32] {
        let bounds = usize::try_from(osd.0).ok().and_then(|at| self.starts.get(at..at + 2));
        bounds.map_or(&[], |bounds| &self.seeds[bounds[0] as usize..bounds[1] as usize])
    }

    fn count(&self, osd: OsdId) -> usize {
        self.changed.get(&osd).map_or_else(|| self.unchanged(osd).len(), BTreeSet::len)
    }

    fn of(&self, osd: OsdId) -> Vec<u32> {
        let changed = self.changed.get(&osd).map(|seeds| seeds.iter().copied().collect());
        changed.unwrap_or_else(|| self.unchanged(osd).to_vec())
    }

    fn changed_of(&mut self, osd: OsdId) -> &mut BTreeSet<u32> {
        let now = self.of(osd);
        self.changed.entry(osd).or_insert_with(|| now.into_iter().collect())
    }
}

impl<'a> PoolState<'a> {
    fn new(map: &'a OsdMap, table: &'a RawTable, id: PoolId, pool: &'a Pool) -> Self {
        let mut members = Vec::with_capacity(pool.pg_num as usize * usize::from(pool.size));
        for pg in map.pgs(id) {
            let set = map.look_up_raw(table, pg);
            let present = set.into_iter().filter(|osd| *osd != OsdId::NONE);
            members.extend(present.map(|osd| (pg.seed, osd)));
        }
        let copies = members.len() as f64;
        let shares = rule_shares(map, pool);
        let targets = shares.into_iter().map(|(osd, share)| (osd, share * copies)).collect();
        let held = Held::new(map.osds.len(), &members);
        PoolState { map, table, id, pool, targets, held, changed: BTreeMap::new() }
    }

    fn deviation(&self, osd: OsdId) -> f64 {
        self.held.count(osd) as f64 - self.targets.get(&osd).copied().unwrap_or_default()
    }

    fn group(&self, pg: PgId) -> Placement {
        let chosen = self.map.look_up_crush(self.table, pg);
        let Some(items) = self.changed.get(&pg) else {
            let items = self.map.pg_upmap_items.get(&pg).cloned().unwrap_or_default();
            return Placement { chosen, items, set: self.map.look_up_raw(self.table, pg) };
        };
        let mut set = chosen.clone();
        exchange(self.map, items, &mut set);
        Placement { chosen, items: items.clone(), set }
    }

    fn spread(&self) -> Spread {
        let deviations: Vec<f64> = self.targets.keys().map(|osd| self.deviation(*osd)).collect();
        let count = deviations.len().max(1) as f64;
        let squares: f64 = deviations.iter().map(|deviation| deviation * deviation).sum();
        let mean = self.targets.values().sum::<f64>() / count;
        Spread {
            pool: self.id,
            deviation_max: deviations.iter().fold(0.0, |max, one| max.max(one.abs())),
            score: if mean > 0.0 { (squares / count).sqrt() / mean } else { 0.0 },
        }
    }

    /// Moves one group of `from` to `to`, if the rule allows it for any.
    fn exchange_between(
        &mut self,
        domains: &mut Domains<'_>,
        from: OsdId,
        to: OsdId,
    ) -> Option<(PgId, Items)> {
        let map = self.map;
        for seed in self.held.of(from) {
            let pg = PgId { pool: self.id, seed };
            if map.pg_upmap.contains_key(&pg) {
                continue;
            }
            let group = self.group(pg);
            if !domains.allow(self.pool, &group.set, from, to) {
                continue;
            }
            let Some(items) = group.with(map, self.pool, from, to) else { continue };
            let was_held = self.held.changed_of(from).remove(&seed);
            assert!(was_held, "{pg} moves from an OSD that holds it");
            self.held.changed_of(to).insert(seed);
            self.changed.insert(pg, items.clone());
            return Some((pg, items));
        }
        None
    }
}

/// The OSDs of a pool, sorted by the groups that they hold beyond their share, in the pool and in all pools.
struct Ranking(Vec<(f64, f64, OsdId)>);

impl Ranking {
    fn new(state: &PoolState<'_>, totals: &Totals) -> Self {
        let osds = state.targets.keys();
        let mut ranked: Vec<_> =
            osds.map(|osd| (state.deviation(*osd), totals.of(*osd), *osd)).collect();
        ranked.sort_unstable_by(Self::compare);
        Ranking(ranked)
    }

    fn compare(a: &(f64, f64, OsdId), b: &(f64, f64, OsdId)) -> Ordering {
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2))
    }

    fn update(&mut self, state: &PoolState<'_>, totals: &Totals, osd: OsdId) {
        self.0.retain(|(_, _, other)| *other != osd);
        let new = (state.deviation(osd), totals.of(osd), osd);
        let place = self.0.partition_point(|other| Self::compare(other, &new).is_lt());
        self.0.insert(place, new);
    }

    /// Candidates for an exchange as (from, to), the worst first: from overfull OSDs to the emptiest ones,
    /// then from the fullest ones to underfull OSDs.
    fn pairs(&self, map: &OsdMap, max_deviation: f64) -> Vec<(OsdId, OsdId)> {
        let poor = self.0.iter().filter(|(_, _, osd)| map.is_up(*osd)).take(TRIES);
        let rich = self.0.iter().rev().take(TRIES);
        let over = rich.clone().take_while(|from| from.0 > max_deviation);
        let under = poor.clone().take_while(|to| to.0 < -max_deviation);
        let from_over = over.flat_map(|from| poor.clone().map(move |to| (from, to)));
        let to_under = under.flat_map(|to| rich.clone().map(move |from| (from, to)));
        // A smaller difference would only swap the two.
        let helps = from_over.chain(to_under).filter(|(from, to)| from.0 - to.0 > 1.0);
        helps.map(|(from, to)| (from.2, to.2)).collect()
    }
}

impl Placement {
    /// The items with the exchange `from` -> `to` added, if the resulting set is the current one with `to` in
    /// place of `from`. Shards keep their positions.
    fn with(&self, map: &OsdMap, pool: &Pool, from: OsdId, to: OsdId) -> Option<Items> {
        let mut items = self.items.clone();
        match items.iter().position(|(_, known)| *known == from) {
            // CRUSH had chosen `to`: the exchange is undone.
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
        if pool.is_erasure() {
            return (set == wanted).then_some(items);
        }
        // Primary affinity may change the order.
        let is_same =
            |a: &[OsdId], b: &[OsdId]| a.len() == b.len() && a.iter().all(|osd| b.contains(osd));
        is_same(&set, &wanted).then_some(items)
    }
}

#[cfg(test)]
mod tests;
