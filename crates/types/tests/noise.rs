//! Random bytes are refused, or decode to a value that encodes to itself.

use codec::{Decode, Encode, Reader};
use proptest::prelude::*;
use types::{EntityAddr, EntityAddrVec, EntityName, HObject, PgId, RequestId, Uuid};

fn round_trip<T: Decode + Encode + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let Ok(value) = T::decode(&mut Reader::new(bytes)) else { return };
    let again = codec::decode_all::<T>("value", &codec::encode_to_bytes(&value));
    assert_eq!(again.as_ref(), Ok(&value));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn noise_is_refused_or_a_value(bytes: Vec<u8>, marker in 0u8..3) {
        let marked = [&[marker][..], &bytes].concat();
        round_trip::<EntityAddr>(&marked);
        round_trip::<EntityAddrVec>(&marked);
        round_trip::<EntityName>(&bytes);
        round_trip::<HObject>(&bytes);
        round_trip::<PgId>(&bytes);
        round_trip::<RequestId>(&bytes);
    }

    #[test]
    fn text_is_refused_or_a_value(text: String) {
        text.parse::<EntityAddr>().ok();
        text.parse::<EntityName>().ok();
        text.parse::<PgId>().ok();
        text.parse::<Uuid>().ok();
    }
}
