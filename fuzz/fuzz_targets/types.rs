//! The vocabulary: whatever decodes, encodes to bytes that decode to the same.

#![no_main]

use codec::{Decode, Encode, Reader};
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;
use types::{
    EVersion, EntityAddr, EntityAddrVec, EntityName, HObject, ParticipantName, PgId, RequestId,
    UTime, Uuid,
};

fn round_trip<T: Decode + Encode + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let Ok(value) = T::decode(&mut Reader::new(bytes)) else { return };
    let again = codec::decode_all::<T>("value", &codec::encode_to_bytes(&value));
    assert_eq!(again.as_ref(), Ok(&value));
}

fuzz_target!(|input: &[u8]| {
    let Some((choice, bytes)) = input.split_first() else { return };
    match choice % 12 {
        0 => round_trip::<EntityAddr>(bytes),
        1 => round_trip::<EntityAddrVec>(bytes),
        2 => round_trip::<EntityName>(bytes),
        3 => round_trip::<HObject>(bytes),
        4 => round_trip::<PgId>(bytes),
        5 => round_trip::<RequestId>(bytes),
        6 => round_trip::<EVersion>(bytes),
        7 => round_trip::<UTime>(bytes),
        8 => round_trip::<Vec<String>>(bytes),
        9 => round_trip::<BTreeMap<String, Vec<u64>>>(bytes),
        10 => round_trip::<ParticipantName>(bytes),
        _ => texts(bytes),
    }
});

fn texts(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = text.parse::<EntityAddr>();
    let _ = text.parse::<EntityName>();
    let _ = text.parse::<PgId>();
    if let Ok(uuid) = text.parse::<Uuid>() {
        assert_eq!(uuid.to_string().parse(), Ok(uuid));
    }
}
