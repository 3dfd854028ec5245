//! Keys of metadata tables in ordered stores: byte strings in the order of the named objects.
//!
//! Numbers are big-endian, signed ones with their sign flipped. Names, which may hold any byte and have any
//! length, write `00` as `00 ff` and end with `00 01`, so that a name sorts before its extensions and the end
//! of a name is not mistaken for one of its bytes.

use crate::Collection;
use bytes::Bytes;
use codec::{Reader, Result};
use types::{HObject, PgId, PoolId, SnapId};

const ESCAPE: u8 = 0x00;
const ESCAPED_ZERO: u8 = 0xff;
const END: u8 = 0x01;
const SIGN: u64 = 1 << 63;

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

pub fn read_collection(key: &[u8]) -> Result<Collection> {
    take_collection(&mut Reader::new(key))
}

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
    push_signed(key, collection.0.pool.0);
    key.extend(collection.0.seed.to_be_bytes());
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
    let pool = PoolId(take_signed(r)?);
    Ok(Collection(PgId { pool, seed: u32::from_be_bytes(r.array("seed")?) }))
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
        Collection(PgId { pool: PoolId(pool), seed })
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
        fn every_truncation_is_an_error(object in any_object()) {
            let key = object_key(collection(-1, 2), &object);
            for end in 0..key.len() {
                prop_assert!(read_object(&key[..end]).is_err());
            }
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
