//! OSD maps compared with those of real clusters, and damaged ones.

use super::parts::checksum_around;
use super::*;
use crate::pool::PG_NUM_MAX;
use crate::{Pool, Release, SnapIntervals};
use bytes::Bytes;
use codec::{decode_all, encode_to_bytes};
use crush::CrushMap;
use proptest::prelude::*;
use std::sync::Arc;
use types::{
    AddrType, EntityAddr, EntityAddrVec, Epoch, OsdId, PgId, PoolId, SnapId, UTime, Uuid,
    features::SUPPORTED,
};

fn pg(seed: u32) -> PgId {
    PgId { pool: PoolId(1), seed }
}

fn addrs(port: u16) -> EntityAddrVec {
    EntityAddrVec::one(EntityAddr::msgr2(([127, 0, 0, 1], port).into(), 9))
}

fn time(seconds: u32) -> UTime {
    UTime { seconds, nanoseconds: 5 }
}

/// The first epoch of a cluster with three OSDs, two of which are up.
fn first() -> Incremental {
    let mut inc = Incremental::new(Uuid([1; 16]), Epoch(1), time(1));
    inc.new_flags = Some(OsdMapFlags::BASE);
    inc.new_max_osd = Some(3);
    inc.new_require_osd_release = Some(Release::REEF);
    inc.crush = Some(Arc::new(CrushMap::new()));
    for id in 0..3 {
        inc.new_weight.insert(OsdId(id), WEIGHT_IN);
        inc.new_uuid.insert(OsdId(id), Uuid([id as u8; 16]));
    }
    for id in 0..2 {
        inc.mark_up(OsdId(id), addrs(1), addrs(2), addrs(3), addrs(4));
    }
    inc.new_pools.insert(PoolId(1), Pool::new(crate::PoolType::Replicated, 3, 8, 0));
    inc.new_pool_names.insert(PoolId(1), "one".into());
    inc.new_pool_max = Some(PoolId(1));
    inc
}

/// Sets every field, to values that differ from the defaults.
fn rich() -> Incremental {
    let address = |kind| EntityAddr { kind, ..addrs(7).0[0] };
    let snaps: SnapIntervals = [SnapId(2), SnapId(3)].into_iter().collect();
    let mut inc = Incremental::new(Uuid([1; 16]), Epoch(2), time(2));
    inc.mark_up(OsdId(2), addrs(5), addrs(6), addrs(7), addrs(8));
    Incremental {
        new_flags: Some(OsdMapFlags::BASE | OsdMapFlags::NOOUT),
        crush: Some(Arc::new(CrushMap::new())),
        new_max_osd: Some(4),
        new_pool_max: Some(PoolId(2)),
        new_pools: [(PoolId(2), Pool::new(crate::PoolType::Erasure, 3, 4, 1))].into(),
        new_pool_names: [(PoolId(2), "two".into())].into(),
        old_pools: [PoolId(7)].into(),
        new_erasure_code_profiles: [("p".into(), [("k".into(), "2".into())].into())].into(),
        old_erasure_code_profiles: vec!["q".into()],
        new_state: [(OsdId(0), OsdState::UP), (OsdId(1), OsdState::EXISTS)].into(),
        new_weight: [(OsdId(0), 0)].into(),
        new_primary_affinity: [(OsdId(0), 7)].into(),
        new_pg_temp: [(pg(1), vec![OsdId(2)]), (pg(2), vec![])].into(),
        new_primary_temp: [(pg(1), OsdId(2)), (pg(2), OsdId(-1))].into(),
        new_up_thru: [(OsdId(2), Epoch(2))].into(),
        new_last_clean_interval: [(OsdId(2), (Epoch(1), Epoch(2)))].into(),
        new_lost: [(OsdId(2), Epoch(1))].into(),
        new_uuid: [(OsdId(3), Uuid([3; 16]))].into(),
        new_xinfo: [(OsdId(2), OsdXinfo { old_weight: 5, ..OsdXinfo::default() })].into(),
        new_blocklist: [(address(AddrType::Any), time(9))].into(),
        old_blocklist: vec![address(AddrType::Any)],
        new_range_blocklist: [(address(AddrType::Cidr), time(9))].into(),
        old_range_blocklist: vec![EntityAddr { nonce: 3, ..address(AddrType::Cidr) }],
        new_pg_upmap: [(pg(1), vec![OsdId(2), OsdId(0)])].into(),
        old_pg_upmap: [pg(3)].into(),
        new_pg_upmap_items: [(pg(1), vec![(OsdId(2), OsdId(0))])].into(),
        old_pg_upmap_items: [pg(4)].into(),
        new_pg_upmap_primaries: [(pg(1), OsdId(0))].into(),
        old_pg_upmap_primaries: [pg(5)].into(),
        new_removed_snaps: [(PoolId(1), snaps)].into(),
        new_purged_snaps: [(PoolId(1), [SnapId(2)].into_iter().collect())].into(),
        new_crush_node_flags: [(-1, OsdState::NOOUT)].into(),
        new_device_class_flags: [(0, OsdState::NOIN)].into(),
        cluster_snapshot: "snapshot".into(),
        new_nearfull_ratio: Some(0.8),
        new_backfillfull_ratio: Some(0.85),
        new_full_ratio: Some(0.9),
        new_require_min_compat_client: Some(Release::LUMINOUS),
        new_require_osd_release: Some(Release::TENTACLE),
        new_last_up_change: Some(time(3)),
        new_last_in_change: Some(time(4)),
        new_stretch: Some(StretchMode { enabled: true, bucket_count: 2, ..Default::default() }),
        new_allow_crimson: Some(true),
        ..inc
    }
}

/// The maps of epochs one and two with the incremental between them.
fn epochs() -> (OsdMap, Incremental, OsdMap) {
    let one = first().seal(&OsdMap::new(Uuid::default())).unwrap();
    let mut inc = rich();
    let two = inc.seal(&one).unwrap();
    (one, inc, two)
}

/// The encoding with one byte changed and the checksum corrected, so that decoders see the change.
fn mutated(raw: &[u8], at: usize, to: u8, checksum_at: usize) -> Vec<u8> {
    let mut bytes = raw.to_vec();
    bytes[at] = to;
    let checksum = checksum_around(&bytes, checksum_at);
    bytes[checksum_at..checksum_at + 4].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

#[test]
fn a_new_osd_exists_and_comes_up_where_it_says() {
    let (one, ..) = epochs();
    assert_eq!((one.epoch, one.osd_count(), one.up_count()), (Epoch(1), 3, 2));
    assert_eq!(one.osd(OsdId(0)).unwrap().info.up_from, Epoch(1));
    assert_eq!(one.client_addrs(OsdId(0)), Some(&addrs(1)));
    assert_eq!(one.client_addrs(OsdId(2)), None);
    assert_eq!(one.pool_id("one"), Some(PoolId(1)));
    assert_eq!(one.pool(PoolId(1)).unwrap().last_change, Epoch(1));
}

#[test]
fn flipped_states_take_osds_down_or_away() {
    let (_, _, two) = epochs();
    let down = two.osd(OsdId(0)).unwrap();
    assert!(!down.is_up() && !down.is_in());
    assert_eq!((down.info.down_at, down.xinfo.down_stamp), (Epoch(2), time(2)));
    assert_eq!(two.osds[1], Osd { weight: WEIGHT_IN, ..Osd::default() });
    assert!(two.is_up(OsdId(2)) && !two.exists(OsdId(3)));
    assert_eq!(two.osds[3].uuid, Uuid([3; 16]));
}

#[test]
fn increments_and_maps_round_trip_with_every_field_set() {
    let (_, inc, two) = epochs();
    let raw = encode_to_bytes(&inc);
    assert_eq!(decode_all::<Incremental>("incremental", &raw).unwrap(), inc);
    assert_eq!(decode_all::<OsdMap>("osdmap", &two.to_bytes(SUPPORTED)).unwrap(), two);
    assert_eq!(two.checksum(), inc.full_crc);
    assert!(inc.may_move_pgs());
    assert!(!Incremental::new(inc.fsid, Epoch(3), time(3)).may_move_pgs());
}

#[test]
fn an_increment_with_a_full_map_replaces_all() {
    let (one, _, two) = epochs();
    let mut inc = Incremental::new(two.fsid, Epoch(2), time(2));
    inc.fullmap = Some(two.to_bytes(SUPPORTED));
    let mut map = one.clone();
    map.apply(&inc).unwrap();
    assert_eq!(map, two);
    inc.fullmap = Some(Bytes::from_static(b"nonsense"));
    let mut map = one.clone();
    assert!(matches!(map.apply(&inc), Err(ApplyError::FullMap(_))));
    assert_eq!(map, one);
}

#[test]
fn an_increment_that_does_not_fit_changes_nothing() {
    let (one, ..) = epochs();
    let plain = || Incremental::new(one.fsid, Epoch(2), time(2));
    let mut unknown_osd = plain();
    unknown_osd.new_weight.insert(OsdId(3), 0);
    let mut deaf = plain();
    deaf.new_up_client.insert(OsdId(2), addrs(1));
    let mut purged = plain();
    purged.new_purged_snaps.insert(PoolId(1), SnapIntervals::default());
    let full = |map: &OsdMap| Some(codec::encode_to_bytes(map));
    let of_another_epoch = Incremental { fullmap: full(&one), ..plain() };
    let stranger = OsdMap { fsid: Uuid([9; 16]), epoch: Epoch(2), ..one.clone() };
    let of_another_cluster = Incremental { fullmap: full(&stranger), ..plain() };
    let cases = [
        (of_another_epoch, ApplyError::Epoch { found: Epoch(1), current: Epoch(1) }),
        (of_another_cluster, ApplyError::Fsid { found: Uuid([9; 16]), expected: one.fsid }),
        (Incremental { new_max_osd: Some(-1), ..plain() }, ApplyError::MaxOsd(-1)),
        (
            Incremental { fsid: Uuid([9; 16]), ..plain() },
            ApplyError::Fsid { found: Uuid([9; 16]), expected: one.fsid },
        ),
        (
            Incremental { epoch: Epoch(3), ..plain() },
            ApplyError::Epoch { found: Epoch(3), current: Epoch(1) },
        ),
        (Incremental { new_max_osd: Some(i32::MAX), ..plain() }, ApplyError::MaxOsd(i32::MAX)),
        (unknown_osd, ApplyError::NoSuchOsd(OsdId(3))),
        (deaf, ApplyError::NoHeartbeatAddrs(OsdId(2))),
        (purged, ApplyError::NotRemoved(PoolId(1))),
    ];
    for (inc, expected) in cases {
        let mut map = one.clone();
        assert_eq!(map.apply(&inc), Err(expected));
        assert_eq!(map, one);
    }
}

#[test]
fn a_pool_of_more_groups_than_a_table_may_hold_is_refused() {
    let decoded = |pg_num| {
        let pool = Pool::new(crate::PoolType::Replicated, 3, pg_num, 0);
        let mut w = Writer::new();
        pool.encode_for(&mut w, SUPPORTED);
        decode_all::<Pool>("pool", w.as_slice())
    };
    assert_eq!(decoded(PG_NUM_MAX).unwrap().pg_num, PG_NUM_MAX);
    for pg_num in [PG_NUM_MAX + 1, u32::MAX] {
        assert!(decoded(pg_num).unwrap_err().to_string().contains("pg_num"));
    }
}

proptest! {
    #[test]
    fn damaged_maps_with_right_checksums_do_no_harm(at in 6usize..4000, to: u8) {
        let (one, inc, two) = epochs();
        let raw = two.to_bytes(SUPPORTED);
        let checksum_at = raw.len() - 4;
        let bytes = mutated(&raw, at % checksum_at, to, checksum_at);
        if let Ok(map) = decode_all::<OsdMap>("osdmap", &bytes) {
            let again = encode_to_bytes(&map);
            let _ = decode_all::<OsdMap>("osdmap", &again);
        }
        let raw = encode_to_bytes(&inc);
        let checksum_at = raw.len() - 8;
        let bytes = mutated(&raw, at % checksum_at, to, checksum_at);
        if let Ok(inc) = decode_all::<Incremental>("incremental", &bytes) {
            let _ = one.clone().apply(&inc);
        }
    }
}
