//! Damaged maps are refused or harmless.

use bytes::Bytes;
use codec::{Decode, Encode, Reader, decode_all};
use maps::{FsMap, Incremental, MgrMap, MonMap, OsdMap};
use proptest::prelude::*;
use types::PoolId;

const SERIES: &[u8] = include_bytes!("golden/reef.osdmaps");
const MONMAP: &[u8] = include_bytes!("golden/reef.monmap");
const MGRMAP: &[u8] = include_bytes!("golden/reef.mgrmap");
const FSMAPS: &[u8] = include_bytes!("golden/reef.fsmaps");

fn damaged(bytes: &[u8], damage: &[(prop::sample::Index, u8)]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (index, byte) in damage {
        let at = index.index(bytes.len());
        bytes[at] = *byte;
    }
    bytes
}

fn decode<T: Decode + Encode>(bytes: &[u8]) -> Option<T> {
    let value = T::decode(&mut Reader::new(bytes)).ok()?;
    let encoded = codec::encode_to_bytes(&value);
    assert!(T::decode(&mut Reader::new(&encoded)).is_ok(), "what was encoded decodes");
    Some(value)
}

fn place(map: &OsdMap) {
    let pools: Vec<PoolId> = map.pools.keys().copied().collect();
    pools.iter().flat_map(|pool| map.pgs(*pool).take(4)).for_each(|pg| {
        map.pg_to_osds(pg);
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_map_is_refused_or_harmless(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        which: prop::sample::Index,
    ) {
        decode::<MonMap>(&damaged(MONMAP, &damage));
        decode::<MgrMap>(&damaged(MGRMAP, &damage));
        let series: Vec<Bytes> = decode_all("series", SERIES).unwrap();
        if let Some(map) = decode::<OsdMap>(&damaged(&series[0], &damage)) {
            place(&map);
        }
        let increment = &series[1 + which.index(series.len() - 1)];
        if let Some(increment) = decode::<Incremental>(&damaged(increment, &damage)) {
            let mut map = OsdMap::new(increment.fsid);
            map.epoch.0 = increment.epoch.0.wrapping_sub(1);
            if map.apply(&increment).is_ok() {
                place(&map);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_file_system_map_is_refused_or_harmless(
        which: prop::sample::Index,
        damage in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 1..4),
    ) {
        let maps: Vec<Bytes> = decode_all("series", FSMAPS).unwrap();
        decode::<FsMap>(&damaged(&maps[which.index(maps.len())], &damage));
    }
}
