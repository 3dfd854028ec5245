//! Maps and increments: decode, encode, decode; place, apply.

#![no_main]

use codec::{Decode, Encode, Reader};
use libfuzzer_sys::fuzz_target;
use maps::{Incremental, MgrMap, MonMap, OsdMap};
use types::PoolId;

fn round_trip<T: Decode + Encode>(bytes: &[u8]) -> Option<T> {
    let value = T::decode(&mut Reader::new(bytes)).ok()?;
    let encoded = codec::encode_to_bytes(&value);
    assert!(T::decode(&mut Reader::new(&encoded)).is_ok(), "what was encoded decodes");
    Some(value)
}

fuzz_target!(|input: &[u8]| {
    let Some((choice, bytes)) = input.split_first() else { return };
    match choice % 4 {
        0 => {
            round_trip::<MonMap>(bytes);
        }
        1 => {
            round_trip::<MgrMap>(bytes);
        }
        2 => {
            if let Some(map) = round_trip::<OsdMap>(bytes) {
                place(&map);
            }
        }
        _ => {
            if let Some(increment) = round_trip::<Incremental>(bytes) {
                let mut map = OsdMap::new(increment.fsid);
                map.epoch = types::Epoch(increment.epoch.0.wrapping_sub(1));
                if map.apply(&increment).is_ok() {
                    place(&map);
                }
            }
        }
    }
});

fn place(map: &OsdMap) {
    let pools: Vec<PoolId> = map.pools.keys().copied().collect();
    for pool in pools.into_iter().take(2) {
        for pg in map.pgs(pool).take(4) {
            map.pg_to_osds(pg);
        }
    }
}
