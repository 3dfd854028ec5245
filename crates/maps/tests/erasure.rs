//! Placement of erasure-coded pools compared with Ceph's own.
//!
//! `golden/erasure.osdmap` is the map built by [`map`]: pools of 4+2 and 8+3 over hosts, and of both under
//! multi-step retry rules, over OSDs that are up, down, out and absent. `golden/erasure.pgs` is the output of
//! Ceph 20.2.4 for it (`osdmaptool --test-map-pgs-dump-all`).

use codec::decode_all;
use crush::{CrushMap, ErasureRule, Location};
use maps::{
    Mapping, Osd, OsdMap, OsdMapFlags, OsdState, Pool, PoolFlags, PoolType, Release, WEIGHT_IN,
};
use std::sync::Arc;
use types::{Epoch, OsdId, PgId, PoolId, UTime, Uuid};

const MAP: &[u8] = include_bytes!("golden/erasure.osdmap");
const PGS: &str = include_str!("golden/erasure.pgs");

const HOSTS: i32 = 12;
const OSDS: i32 = 36;
const PG_NUM: u32 = 32;

/// Name, shards, domains, devices in each.
const POOLS: [(&str, u8, u16, u16); 4] =
    [("e42", 6, 0, 0), ("e83", 11, 0, 0), ("msr42", 6, 3, 2), ("msr83", 11, 4, 3)];

fn crush() -> CrushMap {
    let mut crush = CrushMap::new();
    for osd in 0..OSDS {
        let host = format!("host=h{}", osd % HOSTS);
        let location = Location::parse([host.as_str(), "root=default"]).unwrap();
        let weight = 0x8000 + 0x3000 * (osd as u32 % 5);
        crush.insert_item(osd, weight, &format!("osd.{osd}"), &location).unwrap();
    }
    for (name, _, domains, devices_per_domain) in POOLS {
        let (root, failure_domain, class) = ("default", "host", None);
        let rule = ErasureRule { name, root, failure_domain, class, domains, devices_per_domain };
        crush.add_erasure_rule(&rule).unwrap();
    }
    crush
}

/// Host 1 is down, host 2 is out, and some single OSDs are either or absent.
fn osd(id: i32) -> Osd {
    let state = match id {
        35 => OsdState::default(),
        3 | 11 | 20 | 29 => OsdState::EXISTS,
        _ if id % HOSTS == 1 => OsdState::EXISTS,
        _ => OsdState::EXISTS | OsdState::UP,
    };
    let weight = match id {
        5 | 30 => 0,
        _ if id % HOSTS == 2 => 0,
        7 => WEIGHT_IN / 2,
        _ => WEIGHT_IN,
    };
    let primary_affinity = match id % 4 {
        0 => 0,
        1 => WEIGHT_IN / 2,
        _ => WEIGHT_IN,
    };
    Osd { state, weight, primary_affinity, ..Osd::default() }
}

fn pg(pool: i64, seed: u32) -> PgId {
    PgId { pool: PoolId(pool), seed }
}

fn set(ids: &[i32]) -> Vec<OsdId> {
    ids.iter().copied().map(OsdId).collect()
}

fn map() -> OsdMap {
    let mut map = OsdMap::new(Uuid([0x5e; 16]));
    map.epoch = Epoch(7);
    map.created = UTime { seconds: 1_700_000_000, nanoseconds: 1000 };
    map.flags = OsdMapFlags::BASE;
    map.require_osd_release = Release::REEF;
    map.require_min_compat_client = Release::SQUID;
    map.crush = Arc::new(crush());
    map.osds = (0..OSDS).map(osd).collect();
    for (rule, (name, size, ..)) in POOLS.into_iter().enumerate() {
        let mut pool = Pool::new(PoolType::Erasure, size, PG_NUM, rule as u8);
        pool.erasure_code_profile = name.to_owned();
        // With no shard that may not be primary, sets are stored as they are.
        pool.flags.set(PoolFlags::EC_OPTIMIZATIONS, rule % 2 == 0);
        let id = PoolId(rule as i64 + 1);
        map.pools.insert(id, pool);
        map.pool_names.insert(id, name.to_owned());
        map.pool_max = id;
    }
    overrides(&mut map);
    map
}

fn overrides(map: &mut OsdMap) {
    let none = OsdId::NONE.0;
    for pool in [1, 3] {
        for seed in 0..PG_NUM {
            let from = seed as i32 % OSDS;
            let items = [(from, from + HOSTS), (4, 28), (28, 16)];
            let items = items.map(|(from, to)| (OsdId(from), OsdId(to % OSDS)));
            map.pg_upmap_items.insert(pg(pool, seed), items.to_vec());
        }
        map.pg_upmap.insert(pg(pool, 3), set(&[0, 12, 3, 15, 6, 18]));
        map.pg_temp.insert(pg(pool, 5), set(&[none, 8, none, 3, 9, 10]));
        map.pg_temp.insert(pg(pool, 6), set(&[3, 1, 11, none, none, 20]));
        map.pg_temp.insert(pg(pool, 7), set(&[6, 7, 8, 9, 10, 16]));
        map.primary_temp.insert(pg(pool, 7), OsdId(9));
        map.primary_temp.insert(pg(pool, 8), OsdId(10));
    }
}

/// Parses `1.0 raw ([1,2], p1) up ([1,2], p1) acting ([1,2], p1)` without the raw set.
fn parse(line: &str) -> Option<(PgId, Mapping)> {
    let (pg, rest) = line.split_once(" raw ")?;
    let (_, rest) = rest.split_once(" up ")?;
    let (up, acting) = rest.split_once(" acting ")?;
    let ((up, up_primary), (acting, acting_primary)) = (parse_set(up)?, parse_set(acting)?);
    Some((pg.parse().ok()?, Mapping { up, up_primary, acting, acting_primary }))
}

fn parse_set(text: &str) -> Option<(Vec<OsdId>, Option<OsdId>)> {
    let (osds, primary) = text.strip_prefix("([")?.strip_suffix(')')?.split_once("], p")?;
    let osd = |id: &str| id.parse().ok().map(OsdId);
    let osds = osds.split(',').filter(|id| !id.is_empty()).map(osd).collect::<Option<_>>()?;
    Some((osds, osd(primary).filter(|id| id.0 >= 0)))
}

#[test]
fn the_map_encodes_as_it_was_given_to_ceph() {
    let map = map();
    assert!(map.to_bytes(types::features::SUPPORTED) == MAP);
    assert_eq!(decode_all::<OsdMap>("osdmap", MAP).unwrap(), map);
}

#[test]
fn every_shard_has_the_position_that_ceph_gives_it() {
    let map = map();
    let expected: Vec<_> = PGS.lines().filter_map(parse).collect();
    assert_eq!(expected.len(), POOLS.len() * PG_NUM as usize);
    let holes = expected.iter().filter(|(_, mapping)| mapping.up.contains(&OsdId::NONE)).count();
    assert!(holes > 0 && holes < expected.len(), "{holes} groups with holes");
    for (pg, mapping) in expected {
        assert_eq!(map.pg_to_osds(pg), mapping, "{pg}");
        assert_eq!(mapping.up.len(), usize::from(map.pool(pg.pool).unwrap().size), "{pg}");
    }
}

#[test]
fn shards_stay_in_place_when_osds_come_and_go() {
    let mut map = map();
    map.pg_temp.clear();
    map.primary_temp.clear();
    let pgs: Vec<PgId> = map.pools.keys().flat_map(|pool| map.pgs(*pool)).collect();
    for pg in pgs {
        let before = map.pg_to_osds(pg);
        let Some(position) = before.up.iter().position(|osd| *osd != OsdId::NONE) else { continue };
        let index = before.up[position].0 as usize;
        map.osds[index].state.remove(OsdState::UP);
        let mut expected = before.up.clone();
        expected[position] = OsdId::NONE;
        assert_eq!(map.pg_to_osds(pg).up, expected, "{pg}");
        map.osds[index].state.insert(OsdState::UP);
    }
}

#[test]
fn a_rule_says_how_many_shards_find_a_place() {
    let map = map();
    let mut domains = map.domains();
    let mut room = |pool: i64, hosts: i32| {
        let room = domains.room(&map.pools[&PoolId(pool)], |osd| osd.0 % HOSTS < hosts);
        assert_eq!(room.kind, "host");
        (room.places, room.domains, room.per_domain)
    };
    assert_eq!([room(1, 12), room(2, 12)], [(6, 12, 1), (11, 12, 1)]);
    assert_eq!([room(3, 12), room(4, 12)], [(6, 12, 2), (11, 12, 3)]);
    assert_eq!([room(1, 2), room(3, 2), room(4, 2)], [(2, 2, 1), (4, 2, 2), (6, 2, 3)]);
    assert_eq!([room(2, 10), room(4, 3)], [(10, 10, 1), (9, 3, 3)]);
    let mut weightless = map.clone();
    let mut crush = (*weightless.crush).clone();
    for osd in [0, 12, 24] {
        crush.set_item_weight(osd, 0).unwrap();
    }
    weightless.crush = Arc::new(crush);
    let room = weightless.domains().room(&map.pools[&PoolId(1)], |osd| osd.0 % HOSTS < 3).places;
    assert_eq!(room, 2, "CRUSH chooses no device without weight");
}

#[test]
fn shards_of_a_retrying_rule_may_move_within_their_host() {
    let map = map();
    let mut domains = map.domains();
    let pool = &map.pools[&PoolId(3)];
    let set = set(&[0, 12, 3, 15, 6, 18]);
    assert!(domains.fits(pool, &set));
    assert!(domains.allow(pool, &set, OsdId(0), OsdId(24)));
    assert!(!domains.allow(pool, &set, OsdId(0), OsdId(12)), "it holds another shard");
    assert!(!domains.allow(pool, &set, OsdId(0), OsdId(7)), "its host would have one shard");
    let crowded = [0, 12, 24, 3, 15, 6].map(OsdId);
    assert!(!domains.fits(pool, &crowded), "three shards on a host");
}
