//! Placement compared with Ceph's own.
//!
//! `golden/placement.osdmap` is the map built by [`crowded_map`]: replicated and erasure-coded pools over
//! OSDs that are up, down, out, half in and absent, with every kind of override. `golden/placement.pgs` is
//! the output of Ceph 20.2.4 for it (`osdmaptool --test-map-pgs-dump-all`), one line per placement group.
//! `golden/placement.objects` holds object names in unusual forms with the placement group that `osdmaptool
//! --test-map-object` gives in pool 1.

use codec::decode_all;
use crush::{CrushMap, Location, RuleKind, SimpleRule};
use maps::{
    Mapping, Osd, OsdMap, OsdMapFlags, OsdState, Pool, PoolFlags, PoolType, Release, WEIGHT_IN,
};
use std::sync::Arc;
use types::{Epoch, OsdId, PgId, PoolId, UTime, Uuid};

const MAP: &[u8] = include_bytes!("golden/placement.osdmap");
const PGS: &str = include_str!("golden/placement.pgs");
const OBJECTS: &str = include_str!("golden/placement.objects");

const HOSTS: i32 = 6;
const OSDS: i32 = 18;

fn crush() -> CrushMap {
    let mut crush = CrushMap::new();
    for osd in 0..OSDS {
        let host = format!("host=h{}", osd % HOSTS);
        let location = Location::parse([host.as_str(), "root=default"]).unwrap();
        let weight = 0x8000 + 0x3000 * (osd as u32 % 5);
        crush.insert_item(osd, weight, &format!("osd.{osd}"), &location).unwrap();
        crush.set_device_class(osd, if osd < 12 { "ssd" } else { "hdd" }).unwrap();
    }
    let rules = [
        ("replicated", "host", None, RuleKind::Replicated),
        ("erasure_osd", "osd", None, RuleKind::Erasure),
        ("replicated_ssd", "host", Some("ssd"), RuleKind::Replicated),
        ("erasure_host", "host", None, RuleKind::Erasure),
    ];
    for (name, failure_domain, class, kind) in rules {
        let rule = SimpleRule { name, root: "default", failure_domain, class, kind };
        crush.add_simple_rule(&rule).unwrap();
    }
    crush
}

fn osd(id: i32) -> Osd {
    let state = match id {
        16 => OsdState::default(),
        3 | 11 => OsdState::EXISTS,
        _ => OsdState::EXISTS | OsdState::UP,
    };
    let weight = match id {
        5 => 0,
        7 => WEIGHT_IN / 2,
        9 => WEIGHT_IN / 5,
        _ => WEIGHT_IN,
    };
    let primary_affinity = match id {
        0 | 1 => 0,
        2 | 8 => WEIGHT_IN / 2,
        _ => WEIGHT_IN,
    };
    Osd { state, weight, primary_affinity, ..Osd::default() }
}

fn pools() -> [(PoolId, &'static str, Pool); 4] {
    let mut uneven = Pool::new(PoolType::Replicated, 3, 48, 0);
    uneven.pgp_num = 32;
    let erasure_host = Pool::new(PoolType::Erasure, 5, 32, 3);
    let mut legacy = Pool::new(PoolType::Replicated, 2, 37, 2);
    legacy.flags.remove(PoolFlags::HASHPSPOOL);
    let erasure_osd = Pool::new(PoolType::Erasure, 6, 24, 1);
    [
        (PoolId(1), "uneven", uneven),
        (PoolId(2), "erasure_host", erasure_host),
        (PoolId(3), "legacy", legacy),
        (PoolId(4), "erasure_osd", erasure_osd),
    ]
}

fn pg(pool: i64, seed: u32) -> PgId {
    PgId { pool: PoolId(pool), seed }
}

fn set(ids: &[i32]) -> Vec<OsdId> {
    ids.iter().copied().map(OsdId).collect()
}

fn crowded_map() -> OsdMap {
    let mut map = OsdMap::new(Uuid([0x5e; 16]));
    map.epoch = Epoch(7);
    map.created = UTime { seconds: 1_700_000_000, nanoseconds: 1000 };
    map.flags = OsdMapFlags::BASE;
    map.require_osd_release = Release::REEF;
    map.require_min_compat_client = Release::REEF;
    map.crush = Arc::new(crush());
    map.osds = (0..OSDS).map(osd).collect();
    for (id, name, pool) in pools() {
        map.pools.insert(id, pool);
        map.pool_names.insert(id, name.into());
        map.pool_max = id;
    }
    override_by_hand(&mut map);
    override_for_a_time(&mut map);
    map
}

fn override_by_hand(map: &mut OsdMap) {
    map.pg_upmap.insert(pg(1, 3), set(&[4, 8, 12]));
    // Stale: osd.5 is out.
    map.pg_upmap.insert(pg(1, 4), set(&[5, 6, 7]));
    map.pg_upmap.insert(pg(2, 5), set(&[0, 1, 2, 3, 4]));
    for seed in 0..24 {
        let exchanges = [(seed as i32 % 18, (seed as i32 + 5) % 18), (2, 17), (17, 10)];
        let exchanges = exchanges.map(|(from, to)| (OsdId(from), OsdId(to)));
        map.pg_upmap_items.insert(pg(1, seed), exchanges.to_vec());
        map.pg_upmap_items.insert(pg(4, seed), exchanges.to_vec());
    }
    for seed in 8..48 {
        map.pg_upmap_primaries.insert(pg(1, seed), OsdId(12 + seed as i32 % 4));
    }
}

fn override_for_a_time(map: &mut OsdMap) {
    let none = OsdId::NONE.0;
    map.pg_temp.insert(pg(1, 10), set(&[3, 12, 13]));
    map.pg_temp.insert(pg(1, 11), set(&[3, 11]));
    map.pg_temp.insert(pg(2, 6), set(&[none, 3, 12, 13, 14]));
    map.pg_temp.insert(pg(2, 7), set(&[3, 11, none, 3, 11]));
    map.pg_temp.insert(pg(2, 8), set(&[12, 13, 14, 15, 17]));
    map.primary_temp.insert(pg(2, 8), OsdId(14));
    map.primary_temp.insert(pg(1, 12), OsdId(13));
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
    let map = crowded_map();
    assert!(map.to_bytes(types::features::SUPPORTED) == MAP);
    assert_eq!(decode_all::<OsdMap>("osdmap", MAP).unwrap(), map);
}

#[test]
fn every_placement_group_maps_as_in_ceph() {
    let map = crowded_map();
    let mut placement = map.placement();
    let expected: Vec<_> = PGS.lines().filter_map(parse).collect();
    assert_eq!(expected.len(), 48 + 32 + 37 + 24);
    for (pg, mapping) in expected {
        assert_eq!(placement.pg_to_osds(pg), mapping, "{pg}");
        assert_eq!(map.pg_to_osds(pg), mapping, "{pg}");
    }
}

#[test]
fn objects_map_to_placement_groups_as_in_ceph() {
    let map = crowded_map();
    assert!(!OBJECTS.is_empty());
    for line in OBJECTS.lines() {
        let (pg, name) = line.split_once(' ').unwrap();
        let (found, hash) = map.object_to_pg(PoolId(1), b"", b"", name.as_bytes()).unwrap();
        assert_eq!(found, pg.parse().unwrap(), "{name}");
        assert_eq!(map.raw_pg_to_pg(PgId { pool: PoolId(1), seed: hash }), Some(found));
    }
}

#[test]
fn raw_ids_map_like_the_groups_they_stand_for() {
    let map = crowded_map();
    for hash in (0..1000u32).map(|n| n.wrapping_mul(0x9e37_79b9)) {
        for pool in 1..=4 {
            let raw = pg(pool, hash);
            assert_eq!(map.pg_to_osds(raw), map.pg_to_osds(map.raw_pg_to_pg(raw).unwrap()));
        }
    }
    assert_eq!(map.pg_to_osds(pg(9, 0)), Mapping::default());
    assert!(map.object_to_pg(PoolId(9), b"", b"", b"x").is_none());
}
