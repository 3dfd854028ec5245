//! A table updated from map to map equals CRUSH's results for each map.

use crush::{CrushMap, Location, RuleKind, SimpleRule};
use maps::{
    Incremental, Osd, OsdMap, OsdState, Pool, PoolFlags, PoolType, RawTable, Release, WEIGHT_IN,
};
use proptest::prelude::*;
use std::sync::Arc;
use types::{Epoch, OsdId, PgId, PoolId, UTime, Uuid};

const HOSTS: i32 = 5;
const OSDS: i32 = 15;

#[derive(Debug, Clone)]
enum Step {
    Reweight(i32, u32),
    CrushReweight(i32, u32),
    Flip(i32),
    Size(u8),
    PgNum(u32, u32),
    Upmap(u32, i32, i32),
    PgTemp(u32, Vec<i32>),
    AddOsd(u32),
    RemovePool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let osd = 0..OSDS;
    let weight = prop_oneof![Just(0), Just(WEIGHT_IN), 0..WEIGHT_IN];
    let step = prop_oneof![
        6 => (osd.clone(), weight.clone()).prop_map(|(osd, weight)| Step::Reweight(osd, weight)),
        2 => (osd.clone(), weight).prop_map(|(osd, weight)| Step::CrushReweight(osd, weight)),
        2 => osd.clone().prop_map(Step::Flip),
        1 => (1..5u8).prop_map(Step::Size),
        1 => (1..80u32, 1..80u32).prop_map(|(pgs, pgp)| Step::PgNum(pgs, pgp)),
        1 => (0..48u32, osd.clone(), osd.clone()).prop_map(|(pg, a, b)| Step::Upmap(pg, a, b)),
        1 => (0..48u32, prop::collection::vec(osd, 0..4)).prop_map(|(pg, s)| Step::PgTemp(pg, s)),
        1 => (0..3u32).prop_map(Step::AddOsd),
        1 => Just(Step::RemovePool),
    ];
    prop::collection::vec(step, 1..30)
}

fn location(host: i32) -> Location {
    Location::parse([format!("host=h{host}").as_str(), "root=default"]).unwrap()
}

fn first_map() -> OsdMap {
    let mut crush = CrushMap::new();
    for osd in 0..OSDS {
        crush.insert_item(osd, WEIGHT_IN, &format!("osd.{osd}"), &location(osd % HOSTS)).unwrap();
    }
    for (name, kind) in [("replicated", RuleKind::Replicated), ("erasure", RuleKind::Erasure)] {
        let (root, failure_domain, class) = ("default", "host", None);
        crush.add_simple_rule(&SimpleRule { name, root, failure_domain, class, kind }).unwrap();
    }
    let mut map = OsdMap::new(Uuid([1; 16]));
    map.epoch = Epoch(1);
    map.require_osd_release = Release::REEF;
    map.crush = Arc::new(crush);
    let state = OsdState::EXISTS | OsdState::UP;
    let osd = || Osd { state, weight: WEIGHT_IN, ..Osd::default() };
    map.osds = (0..OSDS).map(|_| osd()).collect();
    let mut legacy = Pool::new(PoolType::Replicated, 2, 37, 0);
    legacy.flags.remove(PoolFlags::HASHPSPOOL);
    let pools =
        [Pool::new(PoolType::Replicated, 3, 48, 0), Pool::new(PoolType::Erasure, 4, 24, 1), legacy];
    map.pools = (1..).map(PoolId).zip(pools).collect();
    map.pool_names = (1..4).map(|id| (PoolId(id), format!("pool.{id}"))).collect();
    map
}

fn increment(map: &OsdMap, step: &Step) -> Incremental {
    let mut inc =
        Incremental::new(map.fsid, map.epoch.next(), UTime { seconds: 1, nanoseconds: 0 });
    let edited = |edit: &dyn Fn(&mut CrushMap)| {
        let mut crush = (*map.crush).clone();
        edit(&mut crush);
        Some(Arc::new(crush))
    };
    let first = map.pool(PoolId(1)).cloned();
    match step {
        Step::Reweight(osd, weight) => {
            inc.new_weight.insert(OsdId(*osd), *weight);
        }
        Step::CrushReweight(osd, weight) => {
            inc.crush = edited(&|crush| {
                let (name, place) = (format!("osd.{osd}"), location(osd % HOSTS));
                crush.update_item(*osd, *weight, &name, &place).unwrap();
            });
        }
        Step::Flip(osd) => {
            inc.new_state.insert(OsdId(*osd), OsdState::UP);
        }
        Step::Size(size) => {
            inc.new_pools.extend(first.map(|p| (PoolId(1), Pool { size: *size, ..p })))
        }
        Step::PgNum(pg_num, pgp_num) => {
            let (pg_num, pgp_num) = (*pg_num, *pgp_num.min(pg_num));
            inc.new_pools.extend(first.map(|pool| (PoolId(1), Pool { pg_num, pgp_num, ..pool })));
        }
        Step::Upmap(seed, from, to) => {
            let pg = PgId { pool: PoolId(1), seed: *seed };
            inc.new_pg_upmap_items.insert(pg, vec![(OsdId(*from), OsdId(*to))]);
        }
        Step::PgTemp(seed, osds) => {
            let pg = PgId { pool: PoolId(1), seed: *seed };
            inc.new_pg_temp.insert(pg, osds.iter().copied().map(OsdId).collect());
        }
        Step::AddOsd(host) => {
            let id = map.max_osd();
            inc.new_max_osd = Some(id + 1);
            inc.new_weight.insert(OsdId(id), WEIGHT_IN);
            inc.crush = edited(&|crush| {
                let (name, place) = (format!("osd.{id}"), location(*host as i32));
                crush.insert_item(id, WEIGHT_IN, &name, &place).unwrap();
            });
        }
        Step::RemovePool => {
            inc.old_pools.insert(PoolId(3));
        }
    }
    inc
}

/// Compares the table with CRUSH.
fn check(map: &OsdMap, table: &RawTable) {
    let mut placement = map.placement();
    let groups: Vec<PgId> = map.pools.keys().flat_map(|pool| map.pgs(*pool)).collect();
    for pg in &groups {
        let (fresh, kept) = (placement.pg_to_osds(*pg), map.look_up(table, *pg));
        assert_eq!(kept, fresh, "{pg} at {}", map.epoch);
    }
    for (osd, _) in map.existing_osds() {
        let holds = |pg: &PgId| table.devices(*pg).contains(&osd.0);
        let expected: Vec<PgId> = groups.iter().copied().filter(holds).collect();
        assert_eq!(table.groups_of(osd), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn an_updated_table_equals_crush_after_every_step(steps in steps()) {
        let mut map = first_map();
        let mut table = RawTable::default();
        table.update(&map);
        check(&map, &table);
        for step in steps {
            map.apply(&increment(&map, &step)).unwrap();
            table.update(&map);
            check(&map, &table);
        }
    }
}

#[test]
fn an_osd_that_goes_down_costs_nothing_and_one_that_goes_out_only_its_groups() {
    let mut map = first_map();
    map.pools.remove(&PoolId(2));
    let mut table = RawTable::default();
    assert!(table.update(&map));
    let all = table.computed();
    map.apply(&increment(&map, &Step::Flip(3))).unwrap();
    assert!(!table.update(&map));
    assert_eq!(table.computed(), all);
    let own = table.groups_of(OsdId(3)).len() as u64;
    map.apply(&increment(&map, &Step::Reweight(3, 0))).unwrap();
    assert!(table.update(&map));
    assert_eq!(table.computed(), all + own);
}

#[test]
fn a_change_of_another_tree_costs_nothing() {
    let mut map = first_map();
    let mut table = RawTable::default();
    table.update(&map);
    let all = table.computed();
    let mut crush = (*map.crush).clone();
    crush.add_bucket("elsewhere", 11).unwrap();
    map.crush = Arc::new(crush);
    assert!(!table.update(&map));
    assert_eq!(table.computed(), all);
}
