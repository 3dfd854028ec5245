//! Tests of the balancer with clusters of many shapes.

use super::*;
use crate::balancer;
use crush::{CrushMap, Location, RuleKind, SimpleRule};
use maps::{Osd, OsdState, PoolType, WEIGHT_IN};
use proptest::prelude::*;
use std::sync::Arc;
use types::Uuid;

/// A cluster of hosts with OSDs of the given weights, and pools over hosts.
fn map(hosts: &[Vec<u32>], pools: &[(PoolType, u8, u32)], domain: &str) -> OsdMap {
    let mut crush = CrushMap::new();
    crush.add_bucket("default", crush.type_id("root").unwrap()).unwrap();
    let mut osds = Vec::new();
    for (host, weights) in hosts.iter().enumerate() {
        let host = format!("host=h{host}");
        let location = Location::parse(["root=default", host.as_str()]).unwrap();
        for weight in weights {
            let osd = osds.len() as i32;
            crush.insert_item(osd, *weight, &format!("osd.{osd}"), &location).unwrap();
            let state = OsdState::EXISTS | OsdState::UP;
            osds.push(Osd { state, weight: WEIGHT_IN, ..Osd::default() });
        }
    }
    let rules = [(RuleKind::Replicated, "replicated"), (RuleKind::Erasure, "erasure")].map(
        |(kind, name)| {
            let rule =
                SimpleRule { name, root: "default", failure_domain: domain, class: None, kind };
            crush.add_simple_rule(&rule).unwrap()
        },
    );
    let mut map = OsdMap::new(Uuid::default());
    map.crush = Arc::new(crush);
    map.osds = osds;
    for (id, (kind, size, pg_num)) in (1..).zip(pools) {
        let rule = rules[usize::from(*kind == PoolType::Erasure)] as u8;
        map.pools.insert(PoolId(id), Pool::new(*kind, *size, *pg_num, rule));
    }
    map
}

fn apply(map: &mut OsdMap, plan: &BTreeMap<PgId, Items>) {
    for (pg, items) in plan {
        match items.is_empty() {
            true => map.pg_upmap_items.remove(pg),
            false => map.pg_upmap_items.insert(*pg, items.clone()),
        };
    }
}

/// A new table each time, unlike the balancer's own.
fn table(map: &OsdMap) -> RawTable {
    let mut table = RawTable::default();
    table.update(map);
    table
}

fn plan(map: &OsdMap, limits: Limits) -> BTreeMap<PgId, Items> {
    balancer::plan(map, &table(map), limits)
}

fn spreads(map: &OsdMap) -> Vec<Spread> {
    balancer::spreads(map, &table(map))
}

fn squares(map: &OsdMap) -> f64 {
    let table = table(map);
    let of_pool = |(id, pool): (&PoolId, &Pool)| {
        let state = PoolState::new(map, &table, *id, pool);
        state.targets.keys().map(|osd| state.deviation(*osd).powi(2)).sum::<f64>()
    };
    map.pools.iter().map(of_pool).sum()
}

/// Every set has as many members as before, on different hosts.
fn check_sets(map: &OsdMap) {
    let mut placement = map.placement();
    let host = |osd: &OsdId| map.crush.parent(osd.0).unwrap();
    for (id, pool) in &map.pools {
        for pg in map.pgs(*id) {
            let set = placement.pg_to_raw(pg);
            let present: Vec<&OsdId> = set.iter().filter(|osd| **osd != OsdId::NONE).collect();
            let hosts: BTreeSet<i32> = present.iter().map(|osd| host(osd)).collect();
            assert_eq!(hosts.len(), present.len(), "{pg} {set:?}");
            let chosen = placement.pg_to_crush(pg);
            let members = chosen.iter().filter(|osd| **osd != OsdId::NONE).count();
            assert_eq!(present.len(), members, "{pg}");
            assert!(set.len() <= usize::from(pool.size));
        }
    }
}

fn sets_of_shards(map: &OsdMap) -> Vec<(PgId, Vec<OsdId>)> {
    let mut placement = map.placement();
    let erasure = map.pools.iter().filter(|(_, pool)| pool.is_erasure());
    let pgs = erasure.flat_map(|(id, _)| map.pgs(*id));
    pgs.map(|pg| (pg, placement.pg_to_raw(pg))).collect()
}

/// An OSD that keeps a shard before and after a step keeps the same one.
fn check_positions(map: &OsdMap, before: &[(PgId, Vec<OsdId>)]) {
    let mut placement = map.placement();
    for (pg, old) in before {
        let new = placement.pg_to_raw(*pg);
        assert_eq!(new.len(), old.len(), "{pg}");
        let moved = old.iter().zip(&new).filter(|(old, new)| old != new);
        moved.for_each(|(osd, _)| assert!(!new.contains(osd), "{pg} {old:?} {new:?}"));
    }
}

const LIMITS: Limits = Limits { max_deviation: 1.0, max_changes: 10 };

/// Takes steps until none helps, and checks each; returns their number.
fn balance(map: &mut OsdMap) -> usize {
    let mut steps = 0;
    loop {
        let before = squares(map);
        let plan = plan(map, LIMITS);
        assert!(plan.len() <= LIMITS.max_changes);
        if plan.is_empty() {
            return steps;
        }
        let sets = sets_of_shards(map);
        apply(map, &plan);
        assert!(squares(map) < before, "a step makes it better");
        check_sets(map);
        check_positions(map, &sets);
        steps += 1;
        assert!(steps < 1000, "it ends");
    }
}

fn worst(map: &OsdMap) -> f64 {
    spreads(map).iter().fold(0.0, |max, spread| spread.deviation_max.max(max))
}

#[test]
fn equal_osds_end_within_one_group_of_their_share() {
    let hosts = vec![vec![WEIGHT_IN; 4]; 6];
    let mut map =
        map(&hosts, &[(PoolType::Replicated, 3, 256), (PoolType::Erasure, 5, 64)], "host");
    let before = score(&spreads(&map));
    assert!(worst(&map) > 5.0);
    balance(&mut map);
    assert!(worst(&map) <= 1.0, "{}", worst(&map));
    assert!(score(&spreads(&map)) < before / 5.0);
}

#[test]
fn a_new_osd_gets_its_share() {
    let mut hosts = vec![vec![WEIGHT_IN; 3]; 4];
    hosts[3].push(WEIGHT_IN * 2);
    let mut map = map(&hosts, &[(PoolType::Replicated, 2, 128)], "host");
    balance(&mut map);
    assert!(worst(&map) <= 1.0, "{}", worst(&map));
}

#[test]
fn nothing_moves_to_osds_that_are_down_and_nothing_at_all_when_even() {
    let mut down = map(&vec![vec![WEIGHT_IN; 4]; 4], &[(PoolType::Replicated, 3, 128)], "host");
    down.osds[5].state.remove(OsdState::UP);
    let plan = plan(&down, Limits { max_deviation: 1.0, max_changes: 1000 });
    assert!(!plan.is_empty());
    assert!(plan.values().flatten().all(|(_, to)| *to != OsdId(5)));
    let even = map(&vec![vec![WEIGHT_IN]; 3], &[(PoolType::Replicated, 3, 128)], "host");
    assert!(balancer::plan(&even, &table(&even), LIMITS).is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_cluster_only_gets_better_and_keeps_its_rules(
        hosts in prop::collection::vec(prop::collection::vec(1u32..5, 1..5), 3..7),
        kind in prop::bool::ANY,
        size in 2u8..4,
        pg_bits in 3u32..7,
        out in prop::collection::vec(0usize..20, 0..3),
    ) {
        let hosts: Vec<Vec<u32>> = hosts
            .iter()
            .map(|weights| weights.iter().map(|weight| weight * WEIGHT_IN).collect())
            .collect();
        let kind = if kind { PoolType::Erasure } else { PoolType::Replicated };
        let mut map = map(&hosts, &[(kind, size, 1 << pg_bits)], "host");
        for osd in out {
            if let Some(osd) = map.osds.get_mut(osd) {
                osd.weight = 0;
            }
        }
        balance(&mut map);
    }
}
