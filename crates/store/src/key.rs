//! Keys of metadata tables in ordered stores: byte strings in the order of the named objects.
//!
//! Numbers are big-endian, signed ones with their sign flipped. Names, which may hold any byte and have any
//! length, write `00` as `00 ff` and end with `00 01`, so that a name sorts before its extensions and the end
//! of a name is not mistaken for one of its bytes.
//!
//! The key of a collection is its pool and its seed. The first byte is below 0x80 for our own collections,
//! whose pools are negative, 0x80 for replicated groups, and 0x81 + s for shard s, whose collections are a
//! range of their own.

use crate::Collection;
use bytes::Bytes;
use codec::{Reader, Result};
use types::{HObject, PgId, PgShard, PoolId, ShardId, SnapId};

const ESCAPE: u8 = 0x00;
const ESCAPED_ZERO: u8 = 0xff;
const END: u8 = 0x01;
const SIGN: u64 = 1 << 63;
/// Bits above those of the pool in the number that begins the key of a collection.
const SHARD_SHIFT: u32 = 56;
const POOL_MASK: u64 = (1 << SHARD_SHIFT) - 1;
/// First byte of the keys of shard 0.
const SHARD_FIRST: u64 = 0x81;
/// Begins the key of a collection that no store holds, so that none is found under it.
const NEVER: u64 = u64::MAX;
const _: () = assert!(Collection::POOL_END as u64 == 1 << SHARD_SHIFT);
const _: () = assert!(SHARD_FIRST == (SIGN >> SHARD_SHIFT) + 1);
const _: () = assert!(SHARD_FIRST + (ShardId::MAX_COUNT as u64) < NEVER >> SHARD_SHIFT);

/// Key of a collection.
pub fn collection_key(collection: Collection) -> Vec<u8> {
    let mut key = Vec::with_capacity(12);
    push_collection(&mut key, collection);
    key
}

/// A key behind all objects of the collection.
pub fn collection_end(collection: Collection) -> Vec<u8> {
    let mut key = collection_key(collection);
    key.extend([0xff; 9]);
    key
}

/// Key of an object in its collection.
pub fn object_key(collection: Collection, object: &HObject) -> Vec<u8> {
    let names = object.namespace.len() + object.key.len() + object.name.len() * 2;
    let mut key = Vec::with_capacity(40 + names);
    push_collection(&mut key, collection);
    push_object(&mut key, object);
    key
}

/// Appends the part of a key that names an object within its collection.
pub fn push_object(key: &mut Vec<u8>, object: &HObject) {
    push_pool(key, object.pool);
    key.extend(object.reversed_hash().to_be_bytes());
    push_name(key, &object.namespace);
    push_name(key, if object.key.is_empty() { &object.name } else { &object.key });
    push_name(key, &object.name);
    key.extend(object.snap.0.to_be_bytes());
}

/// Appends the beginning of the object part of a key.
pub fn push_pool(key: &mut Vec<u8>, pool: PoolId) {
    push_signed(key, pool.0);
}

/// Decodes the beginning of a key.
pub fn read_collection(key: &[u8]) -> Result<Collection> {
    take_collection(&mut Reader::new(key))
}

/// The inverse of [`object_key`].
pub fn read_object(key: &[u8]) -> Result<(Collection, HObject)> {
    let mut r = Reader::new(key);
    let collection = take_collection(&mut r)?;
    let object = take_object(&mut r)?;
    r.finish("object key")?;
    Ok((collection, object))
}

/// Decodes the bytes of [`push_object`].
pub fn take_object(r: &mut Reader<'_>) -> Result<HObject> {
    let pool = PoolId(take_signed(r)?);
    let hash = u32::from_be_bytes(r.array("hash")?).reverse_bits();
    let namespace = take_name(r)?;
    let key = take_name(r)?;
    let name = take_name(r)?;
    let snap = SnapId(u64::from_be_bytes(r.array("snap")?));
    Ok(HObject { snap, ..HObject::head(pool, namespace, key, name, hash) })
}

/// A key below an object's id.
pub fn id_key(id: u64, rest: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(8 + rest.len());
    key.extend(id.to_be_bytes());
    key.extend_from_slice(rest);
    key
}

fn push_collection(key: &mut Vec<u8>, collection: Collection) {
    let PgShard { pg, shard } = collection.0;
    let shard = shard.position().map_or(0, |position| position as u64 + 1);
    let pool = match collection.is_valid() {
        true => (pg.pool.0 as u64 ^ SIGN) + (shard << SHARD_SHIFT),
        false => NEVER,
    };
    key.extend(pool.to_be_bytes());
    key.extend(pg.seed.to_be_bytes());
}

fn push_signed(key: &mut Vec<u8>, value: i64) {
    key.extend((value as u64 ^ SIGN).to_be_bytes());
}

fn push_name(key: &mut Vec<u8>, name: &[u8]) {
    // Few names have a byte to escape.
    for (number, part) in name.split(|byte| *byte == ESCAPE).enumerate() {
        if number > 0 {
            key.extend_from_slice(&[ESCAPE, ESCAPED_ZERO]);
        }
        key.extend_from_slice(part);
    }
    key.extend_from_slice(&[ESCAPE, END]);
}

fn take_collection(r: &mut Reader<'_>) -> Result<Collection> {
    let at = *r;
    let pool = u64::from_be_bytes(r.array("pool")?);
    let seed = u32::from_be_bytes(r.array("seed")?);
    let group = |pool| PgId { pool: PoolId(pool), seed };
    match (pool >> SHARD_SHIFT).checked_sub(SHARD_FIRST) {
        None => Ok(Collection::replicated(group((pool ^ SIGN) as i64))),
        Some(position) => {
            let shard = ShardId::at(position as usize);
            let shard = shard.ok_or_else(|| at.invalid("collection key", pool >> SHARD_SHIFT))?;
            let pg = group((pool & POOL_MASK) as i64);
            Ok(Collection(PgShard { pg, shard }))
        }
    }
}

fn take_signed(r: &mut Reader<'_>) -> Result<i64> {
    Ok((u64::from_be_bytes(r.array("pool")?) ^ SIGN) as i64)
}

fn take_name(r: &mut Reader<'_>) -> Result<Bytes> {
    let mut name = Vec::new();
    loop {
        let byte = r.u8("name")?;
        if byte != ESCAPE {
            name.push(byte);
            continue;
        }
        let at = *r;
        match r.u8("name escape")? {
            END => return Ok(name.into()),
            ESCAPED_ZERO => name.push(ESCAPE),
            other => return Err(at.invalid("name escape", other.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_name() -> impl Strategy<Value = Bytes> {
        prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xff), any::<u8>()], 0..4)
            .prop_map(Bytes::from)
    }

    fn any_object() -> impl Strategy<Value = HObject> {
        let numbers = (-2i64..3, prop_oneof![Just(0u32), Just(1), any::<u32>()], any::<u64>());
        (numbers, any_name(), any_name(), any_name()).prop_map(
            |((pool, hash, snap), n, k, name)| {
                let snap = SnapId(snap);
                HObject { snap, ..HObject::head(PoolId(pool), n, k, name, hash) }
            },
        )
    }

    fn collection(pool: i64, seed: u32) -> Collection {
        Collection::replicated(PgId { pool: PoolId(pool), seed })
    }

    fn any_pool() -> impl Strategy<Value = i64> {
        let end = Collection::POOL_END;
        prop_oneof![
            0i64..3,
            end - 3..end + 3,
            Just(i64::MIN),
            Just(-1),
            Just(i64::MAX),
            any::<i64>()
        ]
    }

    fn any_shard() -> impl Strategy<Value = ShardId> {
        let number = prop_oneof![Just(-1i8), Just(0), Just(31), -1i8..32];
        number.prop_map(|number| ShardId::from_number(number).unwrap())
    }

    fn any_collection() -> impl Strategy<Value = Collection> {
        let seed = prop_oneof![Just(0u32), Just(1), Just(u32::MAX), any::<u32>()];
        (any_pool(), seed, any_shard()).prop_map(|(pool, seed, shard)| {
            Collection(PgShard { pg: PgId { pool: PoolId(pool), seed }, shard })
        })
    }

    fn valid_collection() -> impl Strategy<Value = Collection> {
        any_collection().prop_filter("no store holds it", |collection| collection.is_valid())
    }

    proptest! {
        #[test]
        fn keys_sort_as_objects_do_and_read_back(a in any_object(), b in any_object()) {
            let pg = collection(1, 7);
            let (key_a, key_b) = (object_key(pg, &a), object_key(pg, &b));
            prop_assert_eq!(a.cmp(&b), key_a.cmp(&key_b));
            prop_assert_eq!(read_object(&key_a).unwrap(), (pg, a));
            prop_assert!(key_b > collection_key(pg) && key_b < collection_end(pg));
        }

        #[test]
        fn collections_sort_as_their_keys_do_and_read_back(
            a in valid_collection(),
            b in valid_collection(),
        ) {
            let (key_a, key_b) = (collection_key(a), collection_key(b));
            prop_assert_eq!(key_a.len(), 12);
            prop_assert_eq!(a.cmp(&b), key_a.cmp(&key_b));
            prop_assert_eq!(read_collection(&key_a).unwrap(), a);
            prop_assert!(a == b || !key_b.starts_with(&key_a));
        }

        #[test]
        fn objects_lie_in_the_range_of_their_collection_only(
            a in valid_collection(),
            b in valid_collection(),
            object in any_object(),
        ) {
            let key = object_key(a, &object);
            let range = collection_key(b)..collection_end(b);
            prop_assert_eq!(range.contains(&key), a == b);
            prop_assert_eq!(read_object(&key).unwrap(), (a, object));
        }

        #[test]
        fn shards_do_not_reach_into_each_other(a in valid_collection(), b in valid_collection()) {
            let (key_a, key_b) = (collection_key(a), collection_key(b));
            let is_before = a.0.shard < b.0.shard;
            prop_assert!(!is_before || key_a[0] < key_b[0]);
            prop_assert!(a.0.shard != b.0.shard || !a.is_shard() || key_a[0] == key_b[0]);
        }

        #[test]
        fn a_collection_that_no_store_holds_has_the_key_of_none(
            invalid in any_collection().prop_filter("a store holds it", |c| !c.is_valid()),
            valid in valid_collection(),
            object in any_object(),
        ) {
            prop_assert!(read_collection(&collection_key(invalid)).is_err());
            let key = object_key(invalid, &object);
            prop_assert!(!(collection_key(valid)..collection_end(valid)).contains(&key));
        }

        #[test]
        fn every_key_that_reads_as_a_collection_is_its_key(bytes: [u8; 12]) {
            match read_collection(&bytes) {
                Ok(collection) => {
                    prop_assert!(collection.is_valid());
                    prop_assert_eq!(collection_key(collection), bytes);
                }
                Err(_) => prop_assert!(bytes[0] > 0xa0),
            }
        }

        #[test]
        fn every_truncation_is_an_error(object in any_object()) {
            let key = object_key(collection(-1, 2), &object);
            for end in 0..key.len() {
                prop_assert!(read_object(&key[..end]).is_err());
            }
        }
    }

    /// The bytes of stores that were made before there were shards.
    #[test]
    fn the_keys_of_replicated_groups_are_those_of_the_format() {
        let golden: [(i64, u32, &[u8; 12]); 4] = [
            (-1, 0, b"\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\0"),
            (0, 5, b"\x80\0\0\0\0\0\0\0\0\0\0\x05"),
            (3, 0x0102, b"\x80\0\0\0\0\0\0\x03\0\0\x01\x02"),
            (Collection::POOL_END - 1, 0, b"\x80\xff\xff\xff\xff\xff\xff\xff\0\0\0\0"),
        ];
        for (pool, seed, key) in golden {
            assert_eq!(collection_key(collection(pool, seed)), key);
        }
        let pg = PgId { pool: PoolId(3), seed: 9 };
        for (position, first) in [(0, 0x81), (1, 0x82), (31, 0xa0)] {
            let shard = Collection(PgShard { pg, shard: ShardId::at(position).unwrap() });
            let key = [&[first][..], b"\0\0\0\0\0\0\x03\0\0\0\x09"].concat();
            assert_eq!(collection_key(shard), key);
        }
    }

    #[test]
    fn collections_sort_and_do_not_reach_into_each_other() {
        let sorted = [collection(-1, 0), collection(0, 5), collection(1, 0), collection(1, 1)];
        for pair in sorted.windows(2) {
            assert!(collection_end(pair[0]) < collection_key(pair[1]));
            assert_eq!(read_collection(&collection_key(pair[0])).unwrap(), pair[0]);
        }
    }
}
