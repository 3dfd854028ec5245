//! `osd reweight-by-utilization` and `osd reweight-by-pg`: lowers the weights of OSDs that hold too much, and
//! raises those that were lowered and hold little now.

use crate::command::{Answer, Command, Context, Refusal, command, number};
use maps::{OsdMap, WEIGHT_IN};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use types::{Errno, OsdId, PoolId};

/// `mon_reweight_min_bytes_per_osd` and `mon_reweight_min_pgs_per_osd`: with less, nothing is moved.
const BYTES_PER_OSD_MIN: u64 = 100 << 20;
const GROUPS_PER_OSD_MIN: u64 = 10;
/// `mon_reweight_max_change` and `mon_reweight_max_osds`.
const CHANGE_DEFAULT: f64 = 0.05;
const OSDS_DEFAULT: i64 = 4;
const OVERLOAD_DEFAULT: i64 = 120;

macro_rules! by_utilization {
    ($prefix:literal) => {
        concat!(
            $prefix,
            " name=oload,type=CephInt,req=false name=max_change,type=CephFloat,req=false ",
            "name=max_osds,type=CephInt,req=false name=no_increasing,type=CephBool,req=false"
        )
    };
}

macro_rules! by_groups {
    ($prefix:literal) => {
        concat!(
            $prefix,
            " name=oload,type=CephInt,req=false name=max_change,type=CephFloat,req=false ",
            "name=max_osds,type=CephInt,req=false name=pools,type=CephPoolname,n=N,req=false"
        )
    };
}

pub const COMMANDS: &[Command] = &[
    command(
        by_utilization!("osd reweight-by-utilization"),
        "reweight OSDs by utilization [overload-percentage-for-consideration, default 120]",
        "osd",
        "rw",
        |context| run(context, false, true),
    )
    .of_manager(),
    command(
        by_utilization!("osd test-reweight-by-utilization"),
        "dry run of reweight OSDs by utilization",
        "osd",
        "r",
        |context| run(context, false, false),
    )
    .of_manager(),
    command(
        by_groups!("osd reweight-by-pg"),
        "reweight OSDs by PG distribution [overload-percentage-for-consideration, default 120]",
        "osd",
        "rw",
        |context| run(context, true, true),
    )
    .of_manager(),
    command(
        by_groups!("osd test-reweight-by-pg"),
        "dry run of reweight OSDs by PG distribution",
        "osd",
        "r",
        |context| run(context, true, false),
    )
    .of_manager(),
];

/// The bounds of a run.
struct Limits {
    /// Load from which on an OSD is overloaded, in percent of the average.
    overload: i64,
    change: f64,
    osds: usize,
    increases: bool,
}

/// The loads of OSDs, by bytes or by groups.
struct Loads {
    average: f64,
    by_osd: BTreeMap<OsdId, f64>,
}

fn limits(context: &Context<'_>) -> Result<Limits, Refusal> {
    let arguments = &context.arguments;
    let overload = arguments.int("oload").unwrap_or(OVERLOAD_DEFAULT);
    if overload <= 100 {
        return Err(Refusal::invalid(
            "You must give a percentage higher than 100. The reweighting threshold will be calculated \
             as <average-utilization> times <input-percentage>. For example, an argument of 200 would \
             reweight OSDs which are twice as utilized as the average OSD.",
        ));
    }
    let change = arguments.float("max_change").unwrap_or(CHANGE_DEFAULT);
    if change <= 0.0 {
        return Err(Refusal::invalid(format!("max_change {change} must be positive")));
    }
    let osds = arguments.int("max_osds").unwrap_or(OSDS_DEFAULT);
    let osds = usize::try_from(osds).ok().filter(|osds| *osds > 0);
    let osds = osds.ok_or_else(|| Refusal::invalid("max_osds must be positive"))?;
    Ok(Limits { overload, change, osds, increases: !arguments.flag("no_increasing") })
}

fn run(context: &mut Context<'_>, by_groups: bool, acts: bool) -> Result<Answer, Refusal> {
    let limits = limits(context)?;
    let loads = if by_groups { group_loads(context)? } else { byte_loads(context)? };
    let map = &context.state.osdmap;
    let weights = plan(map, &loads, &limits);
    let outcome = Outcome::new(map, &weights);
    let answer = context.show(
        || json_of(&limits, &loads, map, &weights, &outcome),
        || plain_of(&limits, &loads, map, &weights, &outcome),
    );
    if weights.is_empty() {
        return Ok(answer.saying("no change"));
    }
    if acts {
        context.change.osdmap(context.state).new_weight.extend(weights);
    }
    Ok(answer)
}

fn byte_loads(context: &Context<'_>) -> Result<Loads, Refusal> {
    let map = &context.state.osdmap;
    let members: Vec<OsdId> =
        map.existing_osds().filter(|(_, known)| known.is_in()).map(|(osd, _)| osd).collect();
    if !context.live.stats.knows_sizes(&members) {
        let text = "not all OSDs have reported how full they are; try again in some seconds";
        return Err(Refusal::new(Errno::AGAIN, text));
    }
    let reports = context.live.stats.osds().filter(|(osd, _)| map.is_in(*osd));
    let known: Vec<(OsdId, u64, u64)> = reports
        .map(|(osd, report)| (osd, report.usage.bytes_used, report.usage.bytes_total))
        .filter(|(_, _, total)| *total > 0)
        .collect();
    let used: u64 = known.iter().map(|(_, used, _)| used).sum();
    let total: u64 = known.iter().map(|(_, _, total)| total).sum();
    if known.is_empty() || used / (known.len() as u64) < BYTES_PER_OSD_MIN {
        let text =
            format!("Refusing to reweight: we only have {} kb used across all osds!", used >> 10);
        return Err(Refusal::new(Errno::DOM, text));
    }
    let by_osd = known.iter().map(|(osd, used, total)| (*osd, *used as f64 / *total as f64));
    Ok(Loads { average: used as f64 / total as f64, by_osd: by_osd.collect() })
}

fn group_loads(context: &Context<'_>) -> Result<Loads, Refusal> {
    let map = &context.state.osdmap;
    let mut pools = BTreeSet::new();
    for name in context.arguments.list("pools") {
        let missing = || Refusal::missing(format!("pool '{name}' does not exist"));
        pools.insert(map.pool_id(name).ok_or_else(missing)?);
    }
    let counts = counts(map, |pool| pools.is_empty() || pools.contains(&pool));
    let weights = map.crush.device_weights();
    let weight = |osd: OsdId| f64::from(weights.get(&osd.0).copied().unwrap_or(0));
    let osds = map.existing_osds().filter(|(osd, known)| known.is_in() && weight(*osd) > 0.0);
    let osds: Vec<OsdId> = osds.map(|(osd, _)| osd).collect();
    let copies: u64 = osds.iter().filter_map(|osd| counts.get(osd)).sum();
    if osds.is_empty() || copies / (osds.len() as u64) < GROUPS_PER_OSD_MIN {
        let count = osds.len();
        let text = format!("Refusing to reweight: we only have {copies} PGs across {count} osds!");
        return Err(Refusal::new(Errno::DOM, text));
    }
    let all: f64 = osds.iter().map(|osd| weight(*osd)).sum();
    let load = |osd: &OsdId| (*osd, counts.get(osd).copied().unwrap_or(0) as f64 / weight(*osd));
    Ok(Loads { average: copies as f64 / all, by_osd: osds.iter().map(load).collect() })
}

/// Number of copies of groups that the map puts on each OSD.
fn counts(map: &OsdMap, takes: impl Fn(PoolId) -> bool) -> BTreeMap<OsdId, u64> {
    let mut placement = map.placement();
    let mut counts = BTreeMap::new();
    for pool in map.pools.keys().filter(|pool| takes(**pool)) {
        for pg in map.pgs(*pool) {
            for osd in placement.pg_to_osds(pg).up.into_iter().filter(|osd| *osd != OsdId::NONE) {
                *counts.entry(osd).or_default() += 1;
            }
        }
    }
    counts
}

/// New weights, beginning with the OSDs that are furthest from the average.
fn plan(map: &OsdMap, loads: &Loads, limits: &Limits) -> BTreeMap<OsdId, u32> {
    let mut order: Vec<(OsdId, f64)> =
        loads.by_osd.iter().map(|(osd, load)| (*osd, *load)).collect();
    let distance = |load: f64| (load - loads.average).abs();
    order.sort_by(|(a, x), (b, y)| distance(*y).total_cmp(&distance(*x)).then(a.cmp(b)));
    let overload = loads.average * limits.overload as f64 / 100.0;
    let step = (limits.change * f64::from(WEIGHT_IN)).min(f64::from(WEIGHT_IN)) as u32;
    let mut weights = BTreeMap::new();
    for (osd, load) in order {
        if weights.len() >= limits.osds {
            break;
        }
        let weight = map.osd(osd).map_or(0, |known| known.weight);
        let fair = f64::from(weight) * loads.average / load.max(f64::MIN_POSITIVE);
        let fair = fair.min(f64::from(WEIGHT_IN)) as u32;
        let new = match () {
            () if load >= overload => fair.max(weight.saturating_sub(step)).min(weight),
            () if load <= loads.average && limits.increases => fair.min(weight + step).max(weight),
            () => weight,
        };
        // Weight zero would mark it out, which is the administrator's decision.
        assert!(new <= weight.max(WEIGHT_IN), "osd.{osd} has at most its whole weight");
        if new != weight && new > 0 {
            weights.insert(osd, new);
        }
    }
    weights
}

/// Number of groups on each OSD, before and after.
struct Outcome {
    before: Spread,
    after: Spread,
    moved: u64,
    total: u64,
}

struct Spread {
    counts: BTreeMap<OsdId, u64>,
    average: f64,
    deviation: f64,
}

impl Spread {
    fn new(map: &OsdMap) -> Self {
        let mut counts = counts(map, |_| true);
        for (osd, _) in map.existing_osds().filter(|(_, known)| known.is_in()) {
            counts.entry(osd).or_default();
        }
        let osds = counts.len().max(1) as f64;
        let average = counts.values().sum::<u64>() as f64 / osds;
        let squares: f64 = counts.values().map(|count| (*count as f64 - average).powi(2)).sum();
        Spread { counts, average, deviation: (squares / osds).sqrt() }
    }

    fn of(&self, osd: OsdId) -> u64 {
        self.counts.get(&osd).copied().unwrap_or(0)
    }

    /// The standard deviation of random placement.
    fn baseline(&self) -> f64 {
        let osds = self.counts.len().max(1) as f64;
        (self.average * (1.0 - 1.0 / osds)).sqrt()
    }

    fn extreme(&self, most: bool) -> OsdId {
        let found = match most {
            true => self.counts.iter().max_by_key(|(_, count)| **count),
            false => self.counts.iter().min_by_key(|(_, count)| **count),
        };
        found.map_or(OsdId::NONE, |(osd, _)| *osd)
    }
}

impl Outcome {
    fn new(map: &OsdMap, weights: &BTreeMap<OsdId, u32>) -> Self {
        let mut next = map.clone();
        for (osd, weight) in weights {
            if let Some(known) = next.osds.get_mut(osd.0 as usize) {
                known.weight = *weight;
            }
        }
        let (mut from, mut to) = (map.placement(), next.placement());
        let (mut moved, mut total) = (0, 0);
        for pg in map.pools.keys().flat_map(|pool| map.pgs(*pool)) {
            let (before, after) = (from.pg_to_osds(pg).up, to.pg_to_osds(pg).up);
            total += before.len() as u64;
            moved += before.iter().filter(|osd| !after.contains(osd)).count() as u64;
        }
        drop((from, to));
        assert!(moved <= total, "{moved} of {total} copies move");
        Outcome { before: Spread::new(map), after: Spread::new(&next), moved, total }
    }
}

fn weight(fixed: u32) -> f64 {
    f64::from(fixed) / f64::from(WEIGHT_IN)
}

fn old_weight(map: &OsdMap, osd: OsdId) -> f64 {
    weight(map.osd(osd).map_or(0, |known| known.weight))
}

fn json_of(
    limits: &Limits,
    loads: &Loads,
    map: &OsdMap,
    weights: &BTreeMap<OsdId, u32>,
    outcome: &Outcome,
) -> Value {
    let reweights = weights.iter().map(|(osd, new)| {
        json!({ "osd": osd.0, "weight": old_weight(map, *osd), "new_weight": weight(*new) })
    });
    let Outcome { before, after, moved, total } = outcome;
    let (min, max) = (before.extreme(false), before.extreme(true));
    json!({
        "overload_min": limits.overload,
        "max_change": number(limits.change),
        "max_change_osds": limits.osds,
        "average_utilization": number(loads.average),
        "overload_utilization": number(loads.average * limits.overload as f64 / 100.0),
        "reweights": reweights.collect::<Vec<_>>(),
        "utilization": {
            "moved_pgs": moved,
            "total_pgs": total,
            "avg_pgs": number(before.average),
            "std_dev": number(before.deviation),
            "expected_baseline_std_dev": number(before.baseline()),
            "new_std_dev": number(after.deviation),
            "min_osd": min.0,
            "min_osd_pgs": before.of(min),
            "new_min_osd_pgs": after.of(min),
            "max_osd": max.0,
            "max_osd_pgs": before.of(max),
            "new_max_osd_pgs": after.of(max),
        },
    })
}

fn plain_of(
    limits: &Limits,
    loads: &Loads,
    map: &OsdMap,
    weights: &BTreeMap<OsdId, u32>,
    outcome: &Outcome,
) -> String {
    let Outcome { before, after, moved, total } = outcome;
    let share = |some: f64, all: f64| some / all.max(f64::MIN_POSITIVE);
    let mut text = format!(
        "moved {moved} / {total} ({:.6}%)\navg {}\nstddev {:.6} -> {:.6} (expected baseline {:.6})\n",
        share(*moved as f64 * 100.0, *total as f64),
        before.average,
        before.deviation,
        after.deviation,
        before.baseline(),
    );
    for (word, osd) in [("min", before.extreme(false)), ("max", before.extreme(true))] {
        let (old, new) = (before.of(osd), after.of(osd));
        let (old_share, new_share) =
            (share(old as f64, before.average), share(new as f64, before.average));
        text += &format!(
            "{word} osd.{osd} with {old} -> {new} pgs ({old_share:.6} -> {new_share:.6} * mean)\n"
        );
    }
    let average = loads.average;
    text += &format!(
        "\noload {}\nmax_change {}\nmax_change_osds {}\naverage_utilization {average:.4}\n\
         overload_utilization {:.4}\n",
        limits.overload,
        limits.change,
        limits.osds,
        average * limits.overload as f64 / 100.0,
    );
    for (osd, new) in weights {
        let (old, new) = (old_weight(map, *osd), weight(*new));
        text += &format!("osd.{osd} weight {old:.4} -> {new:.4}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::{Osd, OsdState};

    fn map(weights: &[u32]) -> OsdMap {
        let mut map = OsdMap::new(types::Uuid::default());
        let osd = |weight: &u32| Osd {
            state: OsdState::EXISTS | OsdState::UP,
            weight: *weight,
            ..Osd::default()
        };
        map.osds = weights.iter().map(osd).collect();
        map
    }

    fn loads(loads: &[f64]) -> Loads {
        let by_osd = (0..).map(OsdId).zip(loads.iter().copied()).collect();
        Loads { average: loads.iter().sum::<f64>() / loads.len() as f64, by_osd }
    }

    fn limits(osds: usize) -> Limits {
        Limits { overload: 120, change: 0.05, osds, increases: true }
    }

    #[test]
    fn full_osds_get_less_in_small_steps_and_the_worst_comes_first() {
        let map = map(&[WEIGHT_IN; 4]);
        let full = loads(&[0.9, 0.8, 0.1, 0.2]);
        let step = (0.05 * f64::from(WEIGHT_IN)) as u32;
        let weights = plan(&map, &full, &limits(4));
        assert_eq!(weights, [(OsdId(0), WEIGHT_IN - step), (OsdId(1), WEIGHT_IN - step)].into());
        assert_eq!(plan(&map, &full, &limits(1)).keys().collect::<Vec<_>>(), [&OsdId(0)]);
        assert!(plan(&map, &loads(&[0.5; 4]), &limits(4)).is_empty());
    }

    #[test]
    fn lowered_osds_that_hold_little_get_more_up_to_one_unless_that_is_not_wanted() {
        let lowered = WEIGHT_IN - 100;
        let map = map(&[lowered, WEIGHT_IN, 0]);
        let empty = loads(&[0.0, 0.1, 0.0]);
        let weights = plan(&map, &empty, &Limits { overload: 1000, ..limits(4) });
        assert_eq!(weights, [(OsdId(0), WEIGHT_IN)].into(), "one that is out stays out");
        let not = Limits { increases: false, overload: 1000, ..limits(4) };
        assert!(plan(&map, &empty, &not).is_empty());
    }

    #[test]
    fn one_that_holds_all_does_not_go_out() {
        let map = map(&[1, WEIGHT_IN, WEIGHT_IN]);
        let change = Limits { change: 1.0, ..limits(4) };
        assert!(plan(&map, &loads(&[0.9, 0.0, 0.0]), &change).is_empty());
    }
}
