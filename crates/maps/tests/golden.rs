//! Maps made by Ceph's own monitors.
//!
//! `golden/RELEASE.osdmaps` holds a full OSD map and the incrementals that followed it, each behind its
//! length. Pacific is 16.2.15, Reef 18.2.7 (with three OSDs that joined, left and moved data), Tentacle
//! 20.2.4. The monitor and manager maps are of the same clusters.

use bytes::Bytes;
use codec::{Decode, Encode, Writer, decode_all, encode_to_bytes};
use maps::{
    ElectionStrategy, Incremental, MgrMap, MonMap, OsdMap, OsdMapFlags, OsdState, OsdXinfo,
    PoolFlags, Release, reencode_full, reencode_incremental,
};
use types::features::{self, SUPPORTED};
use types::{OsdId, PoolId, SnapId};

const PACIFIC: &[u8] = include_bytes!("golden/pacific.osdmaps");
const REEF: &[u8] = include_bytes!("golden/reef.osdmaps");
const TENTACLE: &[u8] = include_bytes!("golden/tentacle.osdmaps");

/// The features of the Linux client that affect encodings: none after Nautilus.
const KERNEL: u64 = features::SERVER_NAUTILUS
    | features::SERVER_MIMIC
    | features::SERVER_LUMINOUS
    | features::OSDMAP_ENC
    | features::PGID64
    | features::PGPOOL3
    | features::OSDENC
    | features::MSG_ADDR2
    | features::NEW_OSDOP_ENCODING
    | features::CRUSH_TUNABLES5;

/// A full map and the incrementals that follow it, as bytes.
fn series(raw: &[u8]) -> (Bytes, Vec<Bytes>) {
    let mut maps = decode_all::<Vec<Bytes>>("series", raw).unwrap();
    let full = maps.remove(0);
    (full, maps)
}

fn full(raw: &[u8]) -> OsdMap {
    decode_all("osdmap", raw).unwrap()
}

fn increment(raw: &[u8]) -> Incremental {
    decode_all("incremental", raw).unwrap()
}

/// The last map of a series.
fn last(raw: &[u8]) -> OsdMap {
    let (base, increments) = series(raw);
    let mut map = full(&base);
    increments.iter().for_each(|inc| map.apply(&increment(inc)).unwrap());
    map
}

#[test]
fn osd_maps_encode_as_ceph_did() {
    for raw in [PACIFIC, REEF, TENTACLE] {
        let (base, increments) = series(raw);
        let map = full(&base);
        assert_eq!(encode_to_bytes(&map), base);
        assert_eq!(map.to_bytes(SUPPORTED), base);
        for raw in increments {
            let inc = increment(&raw);
            assert_eq!(increment(&encode_to_bytes(&inc)), inc);
            // With Tentacle's monitors the CRUSH map of an incremental has two tunables more than that of
            // the full map that results; the maps here have them in neither.
            if inc.crush.is_none() || map.require_osd_release < Release::TENTACLE {
                assert_eq!(encode_to_bytes(&inc), raw, "epoch {}", inc.epoch);
            }
        }
    }
}

#[test]
fn incrementals_lead_to_the_map_whose_checksum_they_carry() {
    for raw in [PACIFIC, REEF, TENTACLE] {
        let (base, increments) = series(raw);
        let mut map = full(&base);
        for raw in increments {
            let inc = increment(&raw);
            let mut again = inc.clone();
            let next = again.seal(&map).unwrap();
            assert_eq!((again.full_crc, next.epoch), (inc.full_crc, inc.epoch));
            map.apply(&inc).unwrap();
            map.check_invariants();
            assert_eq!(map, next);
            assert_eq!(full(&map.to_bytes(SUPPORTED)), map);
        }
    }
}

#[test]
fn decoded_osd_maps_match_the_settings_of_the_cluster() {
    let map = last(REEF);
    assert_eq!(map.require_osd_release, Release::REEF);
    assert_eq!(map.require_min_compat_client, Release::REEF);
    assert!(map.flags.contains(OsdMapFlags::BASE | OsdMapFlags::NOOUT));
    assert_eq!((map.osd_count(), map.up_count(), map.in_count()), (3, 2, 2));
    assert!(map.is_up(OsdId(0)) && !map.is_up(OsdId(1)) && !map.exists(OsdId(3)));
    assert!(map.client_addrs(OsdId(0)).unwrap().msgr2().is_some());
    assert_eq!(map.osd(OsdId(1)).unwrap().primary_affinity, 0x8000);
    assert_eq!(map.osd(OsdId(2)).unwrap().weight, 0xc000);
    assert!(map.is_blocklisted(&"v2:10.1.2.3:0/77".parse().unwrap()));
    assert!(map.is_blocklisted(&"v2:10.9.77.1:0/5".parse().unwrap()));
    assert!(!map.is_blocklisted(&"v2:10.8.77.1:0/5".parse().unwrap()));
    assert!(map.crush_node_flags.values().any(|flags| flags.contains(OsdState::NOOUT)));

    let bench = map.pool(map.pool_id("bench").unwrap()).unwrap();
    assert_eq!(bench.flags, PoolFlags::HASHPSPOOL | PoolFlags::POOL_SNAPS);
    assert_eq!(bench.snaps[&SnapId(1)].name, "snapone");
    let rbd = map.pool(PoolId(2)).unwrap();
    assert_eq!(rbd.quota_max_objects, 1000);
    assert_eq!(rbd.application_metadata.keys().collect::<Vec<_>>(), ["rbd"]);
    let erasure = map.pool(map.pool_id("ecp").unwrap()).unwrap();
    assert!(erasure.is_erasure());
    assert_eq!(map.erasure_code_profiles[&erasure.erasure_code_profile]["k"], "2");
}

#[test]
fn peers_that_know_less_get_a_map_they_can_read() {
    let mut map = last(REEF);
    let pg = map.pgs(PoolId(1)).next().unwrap();
    map.pg_upmap_primaries.insert(pg, OsdId(2));
    let raw = map.to_bytes(SUPPORTED);
    assert_eq!(full(&raw), map);

    let without_reef = SUPPORTED & !(1 << 31);
    let mut expected = map.clone();
    expected.pg_upmap_primaries.clear();
    assert_eq!(full(&reencode_full(&raw, without_reef).unwrap()), expected);

    // Before Octopus the extended info was shorter.
    expected.osds.iter_mut().for_each(|osd| {
        osd.xinfo = OsdXinfo {
            last_purged_snaps_scrub: Default::default(),
            dead_epoch: Default::default(),
            ..osd.xinfo
        }
    });
    assert_eq!(full(&reencode_full(&raw, KERNEL).unwrap()), expected);
    assert_eq!(map.features_for(KERNEL), map.features_for(KERNEL | features::SERVER_TENTACLE));
}

#[test]
fn increments_for_older_peers_lead_to_the_same_placement() {
    for raw in [PACIFIC, REEF, TENTACLE] {
        let (base, increments) = series(raw);
        let mut ours = full(&base);
        let mut theirs = full(&reencode_full(&base, KERNEL).unwrap());
        for raw in increments {
            ours.apply(&increment(&raw)).unwrap();
            theirs.apply(&increment(&reencode_incremental(&raw, KERNEL).unwrap())).unwrap();
        }
        for pg in ours.pools.keys().flat_map(|pool| ours.pgs(*pool)) {
            assert_eq!(ours.pg_to_osds(pg), theirs.pg_to_osds(pg));
        }
    }
}

#[test]
fn placement_of_an_object_as_ceph_printed_it() {
    // `ceph osd map bench foo`: 1.7fc1f406 (1.6)
    let map = last(REEF);
    let (pg, hash) = map.object_to_pg(PoolId(1), b"", b"", b"foo").unwrap();
    assert_eq!((pg.to_string().as_str(), hash), ("1.6", 0x7fc1_f406));
    let keyed = map.object_to_pg(PoolId(1), b"", b"foo", b"other").unwrap();
    assert_eq!(keyed, (pg, hash));
    let within = map.object_to_pg(PoolId(1), b"space", b"", b"foo");
    assert_eq!(within, map.object_to_pg(PoolId(1), b"", b"", b"space\x1ffoo"));
}

#[test]
fn monitor_maps_are_understood_and_written_anew() {
    let files: [&[u8]; 3] = [
        include_bytes!("golden/pacific.monmap"),
        include_bytes!("golden/reef.monmap"),
        include_bytes!("golden/tentacle.monmap"),
    ];
    for raw in files {
        let map: MonMap = decode_all("monmap", raw).unwrap();
        assert_eq!(map.rank("a"), Some(0));
        assert_eq!(map.strategy, ElectionStrategy::CLASSIC);
        assert!(map.mon(0).unwrap().public_addrs.msgr2().is_some());
        let again = encode_to_bytes(&map);
        assert_eq!(decode_all::<MonMap>("monmap", &again).unwrap(), map);
        check_truncations::<MonMap>(&again);
    }
    let newest: MonMap = decode_all("monmap", files[2]).unwrap();
    assert_eq!(encode_to_bytes(&newest), files[2]);
}

#[test]
fn manager_maps_are_understood_and_written_anew() {
    let files: [&[u8]; 3] = [
        include_bytes!("golden/pacific.mgrmap"),
        include_bytes!("golden/reef.mgrmap"),
        include_bytes!("golden/tentacle.mgrmap"),
    ];
    for raw in files {
        let map: MgrMap = decode_all("mgrmap", raw).unwrap();
        assert!(!map.always_on_modules.is_empty());
        let again = encode_to_bytes(&map);
        assert_eq!(decode_all::<MgrMap>("mgrmap", &again).unwrap(), map);
        check_truncations::<MgrMap>(&again);
    }
    let newest: MgrMap = decode_all("mgrmap", files[2]).unwrap();
    assert_eq!(encode_to_bytes(&newest), files[2]);
}

#[test]
fn every_truncation_and_every_flipped_byte_of_an_osd_map_is_an_error() {
    let (base, increments) = series(REEF);
    check_truncations::<OsdMap>(&base);
    check_truncations::<Incremental>(&increments[0]);
    for at in 0..base.len() {
        let mut damaged = base.to_vec();
        damaged[at] ^= 0x40;
        assert!(decode_all::<OsdMap>("osdmap", &damaged).is_err(), "byte {at}");
    }
}

/// Truncates the encoding at every byte, unchanged and with the outermost length adjusted, so that the
/// innermost reader detects the end.
fn check_truncations<T: Decode + Encode>(raw: &[u8]) {
    for end in 0..raw.len() {
        assert!(decode_all::<T>("cut", &raw[..end]).is_err());
        if end >= 6 {
            let mut w = Writer::append_to(raw[..end].to_vec());
            w.patch_u32(2, end as u32 - 6);
            // A cut at the end of an older version's fields yields that version's encoding.
            if let Ok(value) = decode_all::<T>("cut", w.as_slice()) {
                let _ = encode_to_bytes(&value);
            }
        }
    }
}
