//! Random bytes are refused, or decode to a harmless transaction.

use bytes::Bytes;
use codec::Reader;
use proptest::prelude::*;
use store::Transaction;
use store::mem::MemStore;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn noise_is_refused_or_harmless(mut fields: Vec<u8>, data: Vec<u8>, count in 0u32..4, tag in 0u8..16) {
        // A plausible start, so that decoding gets beyond the count.
        let mut start = count.to_le_bytes().to_vec();
        start.extend(codec::encode_to_bytes(&store::Collection::default()));
        start.push(tag);
        fields.splice(0..0, start);
        if let Ok(transaction) = Transaction::join(&mut Reader::new(&fields), &Bytes::from(data)) {
            let mut store = MemStore::with_capacity(1 << 20);
            store.apply(&transaction).ok();
            store.check_invariants();
        }
    }
}
