//! The clone index: the clones that show each snapshot, so that removing a snapshot takes time in proportion
//! to its clones (Ceph's `SnapMapper`).
//!
//! Keys without values in the omap of the group's meta object. A key is a letter, the snapshot, and the
//! clone's name in the encoding by which stores sort names, so that the keys of one snapshot are adjacent,
//! and among those the keys of a range of hashes.

use super::SnapSet;
use bytes::Bytes;
use codec::Reader;
use std::collections::BTreeMap;
use store::Hashes;
use types::{HObject, PoolId, SnapId};

/// Sorts after all other keys of the meta object, which are loaded when an OSD starts; the index is not.
pub(crate) const INDEX_PREFIX: u8 = b'x';
const SNAP_LEN: usize = 8;

/// Whether a key of the group's meta object belongs to the clone index.
pub fn is_index_key(key: &[u8]) -> bool {
    key.first() == Some(&INDEX_PREFIX)
}

/// The prefix of the keys of a snapshot.
pub fn index_keys_of(snap: SnapId) -> Bytes {
    let mut key = Vec::with_capacity(1 + SNAP_LEN);
    key.push(INDEX_PREFIX);
    key.extend(snap.0.to_be_bytes());
    key.into()
}

/// The key of one snapshot and clone.
pub fn index_key(snap: SnapId, clone: &HObject) -> Bytes {
    let mut key = Vec::with_capacity(48 + clone.name.len() * 2);
    key.push(INDEX_PREFIX);
    key.extend(snap.0.to_be_bytes());
    store::key::push_object(&mut key, clone);
    key.into()
}

/// First and last (exclusive) of the keys of a snapshot that name objects with these hashes.
pub(crate) fn index_range(snap: SnapId, pool: PoolId, hashes: Hashes) -> (Bytes, Bytes) {
    let key = |reversed_hash: u32| {
        let mut key = index_keys_of(snap).to_vec();
        store::key::push_pool(&mut key, pool);
        key.extend(reversed_hash.to_be_bytes());
        Bytes::from(key)
    };
    let (first, last) = hashes.reversed();
    let end = last.checked_add(1).map_or_else(|| index_keys_of(SnapId(snap.0 + 1)), key);
    assert!(first <= last, "hashes have an order");
    (key(first), end)
}

/// The snapshot and the clone of a key; `None` for other keys.
pub fn decode_index_key(key: &[u8]) -> Option<(SnapId, HObject)> {
    let mut r = Reader::new(key.strip_prefix(&[INDEX_PREFIX])?);
    let snap = SnapId(u64::from_be_bytes(r.array("snapshot").ok()?));
    let clone = store::key::take_object(&mut r).ok()?;
    r.is_empty().then_some((snap, clone))
}

/// All pairs that the index must have for an object.
pub fn index_pairs(head: &HObject, set: &SnapSet) -> BTreeMap<Bytes, Bytes> {
    let clones = set.clones.iter().flat_map(|clone| {
        let name = head.at(clone.id);
        clone.snaps.iter().map(move |snap| (index_key(*snap, &name), Bytes::new()))
    });
    clones.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_name_snapshot_and_clone_and_lie_behind_the_others() {
        let name = Bytes::from_static(b"a\0b");
        let head = HObject::head(PoolId(3), Bytes::new(), Bytes::new(), name, 77);
        let key = index_key(SnapId(9), &head.at(SnapId(12)));
        assert!(key.starts_with(&index_keys_of(SnapId(9))) && is_index_key(&key));
        assert!(key < index_keys_of(SnapId(10)) && key > crate::scrub::STAMPS_KEY);
        assert_eq!(decode_index_key(&key), Some((SnapId(9), head.at(SnapId(12)))));
        for end in 0..key.len() {
            assert_eq!(decode_index_key(&key[..end]), None);
        }
    }
}
