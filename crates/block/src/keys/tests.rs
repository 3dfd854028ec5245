//! Keys: order, and reading back.

use super::*;
use proptest::prelude::*;
use types::{PgId, PgShard, PoolId, ShardId, SnapId};

fn any_name() -> impl Strategy<Value = Bytes> {
    let byte = prop_oneof![Just(0u8), Just(0xff), any::<u8>()];
    prop::collection::vec(byte, 0..4).prop_map(Bytes::from)
}

fn any_object() -> impl Strategy<Value = HObject> {
    (any_name(), any_name(), any_name(), 0u32..4, 0u64..3).prop_map(|(n, k, name, hash, s)| {
        HObject { snap: SnapId(s), ..HObject::head(PoolId(1), n, k, name, hash) }
    })
}

fn any_key() -> impl Strategy<Value = Key> {
    let id = || prop_oneof![0u64..3, Just(0xff), Just(u64::MAX)];
    let number = || prop_oneof![0u32..3, Just(u32::MAX)];
    prop_oneof![
        (-1i64..2, number(), 29usize..34).prop_map(|(pool, seed, shard)| {
            let pg = PgId { pool: PoolId(pool), seed };
            let shard = ShardId::at(shard).filter(|_| pool >= 0).unwrap_or_default();
            Key::Collection(Collection(PgShard { pg, shard }))
        }),
        (id(), any_object()).prop_map(|(collection, object)| Key::Object { collection, object }),
        (id(), number()).prop_map(|(object, index)| Key::ExtentSegment { object, index }),
        id().prop_map(|object| Key::OmapHeader { object }),
        (id(), any_name()).prop_map(|(object, key)| Key::Omap { object, key }),
        id().prop_map(|id| Key::Shared { id }),
        number().prop_map(|chunk| Key::Bitmap { chunk }),
        (id(), number(), number()).prop_map(|(id, a, b)| {
            Key::Garbage { slice: Slice { id, first: a.min(b), last: a.max(b) } }
        }),
        (id(), number(), number(), id(), id()).prop_map(
            |(collection, hash, epoch, version, id)| {
                let held = HeldChange { version: EVersion::new(epoch, version), hash };
                Key::Held { collection, held, id }
            }
        ),
    ]
}

proptest! {
    #[test]
    fn keys_read_back_and_every_truncation_is_an_error_or_another_key(key in any_key()) {
        let bytes = key.write();
        prop_assert_eq!(&Key::read(&bytes).unwrap(), &key);
        let is_omap = matches!(key, Key::Omap { .. });
        for end in 0..bytes.len() {
            let cut = Key::read(&bytes.slice(..end));
            let is_garbage = matches!(key, Key::Garbage { .. });
        prop_assert!(cut.is_err() || is_omap && end >= OMAP_PREFIX_LEN || is_garbage && end == ID_LEN);
        }
    }

    #[test]
    fn no_bytes_make_reading_panic(raw: Vec<u8>, kind in prop::sample::select(&b"COSHMRBGPX"[..])) {
        let key = Bytes::from([&[kind][..], &raw].concat());
        if let Ok(read) = Key::read(&key) {
            prop_assert_eq!(read.write(), key);
        }
    }

    #[test]
    fn ranges_hold_exactly_what_they_name(key in any_key(), id in prop_oneof![0u64..3, Just(u64::MAX)]) {
        let bytes = key.write();
        let of_object = matches!(&key, Key::Object { collection, .. } if *collection == id);
        prop_assert_eq!(object_range(id).contains(&bytes), of_object);
        let of_segment = matches!(&key, Key::ExtentSegment { object, index } if *object == id && *index >= 1);
        prop_assert_eq!(segment_range(id, 1).contains(&bytes), of_segment);
        let of_omap = matches!(&key, Key::Omap { object, .. } if *object == id);
        prop_assert_eq!(omap_range(id).contains(&bytes), of_omap);
        let until_segment = matches!(&key, Key::ExtentSegment { object, index } if *object == id && *index <= 1);
        prop_assert_eq!((segment(id, 0)..segment_end(id, 1)).contains(&bytes), until_segment);
        let with_prefix = matches!(&key, Key::Omap { object, key } if *object == id && key.starts_with(b"\xff"));
        prop_assert_eq!((omap(id, b"\xff")..omap_prefix_end(id, b"\xff")).contains(&bytes), with_prefix);
        prop_assert_eq!(shared_range().contains(&bytes), matches!(key, Key::Shared { .. }));
        prop_assert_eq!(bitmap_range().contains(&bytes), matches!(key, Key::Bitmap { .. }));
        prop_assert_eq!(garbage_range().contains(&bytes), matches!(key, Key::Garbage { .. }));
        prop_assert_eq!(collections_range().contains(&bytes), matches!(key, Key::Collection(_)));
    }

    #[test]
    fn objects_sort_as_listings_do(a in any_object(), b in any_object()) {
        prop_assert_eq!(a.cmp(&b), object(7, &a).cmp(&object(7, &b)));
        let within = b.pool < a.pool || b.pool == a.pool && b.reversed_hash() <= a.reversed_hash();
        prop_assert_eq!(object(7, &b) < object_hash_end(7, a.pool, a.reversed_hash()), within);
        prop_assert_eq!(object(7, &b) < object_pool_end(7, a.pool), b.pool <= a.pool);
    }
}

#[test]
fn the_bytes_are_those_of_the_format() {
    let name = HObject::head(PoolId(1), Bytes::new(), Bytes::new(), "a".into(), 1);
    let name = HObject { snap: SnapId(2), ..name };
    let part = Slice { id: 1, first: 2, last: 3 };
    let golden: [(Bytes, &[u8]); 10] = [
        (
            collection(Collection::replicated(PgId { pool: PoolId(3), seed: 9 })),
            b"C\x80\0\0\0\0\0\0\x03\0\0\0\x09",
        ),
        (
            collection(Collection("3.9s2".parse().unwrap())),
            b"C\x83\0\0\0\0\0\0\x03\0\0\0\x09",
        ),
        (
            object(5, &name),
            b"O\0\0\0\0\0\0\0\x05\x80\0\0\0\0\0\0\x01\x80\0\0\0\0\x01a\0\x01a\0\x01\0\0\0\0\0\0\0\x02",
        ),
        (segment(5, 258), b"S\0\0\0\0\0\0\0\x05\0\0\x01\x02"),
        (omap_header(5), b"H\0\0\0\0\0\0\0\x05"),
        (omap(5, b"key"), b"M\0\0\0\0\0\0\0\x05key"),
        (shared(256), b"R\0\0\0\0\0\0\x01\0"),
        (bitmap(1), b"B\0\0\0\x01"),
        (garbage(Slice::whole(1)), b"G\0\0\0\0\0\0\0\x01"),
        (garbage(part), b"G\0\0\0\0\0\0\0\x01\0\0\0\x02\0\0\0\x03"),
    ];
    for (key, bytes) in golden {
        assert_eq!(&key[..], bytes);
    }
}

/// Stores of earlier versions have these keys.
#[test]
fn the_key_of_a_held_change_stays_what_it_is() {
    let name = HeldChange { version: EVersion::new(3, 9), hash: 0x1234_5678 };
    let key = held(0x0102, name, 0x0304);
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "5000000000000001021e6a2c480000000300000000000000090000000000000304");
}
