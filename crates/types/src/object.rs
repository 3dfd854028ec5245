//! `hobject_t`: the full name of an object within the cluster, in listing order.

use crate::{PoolId, SnapId};
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

/// Names are bytes: Ceph does not demand UTF-8.
///
/// The order is the one in which a pool is listed: by the bit-reversed placement hash, so that a
/// placement group, and each part into which it may later split, is one contiguous range.
#[derive(Debug, Clone, Eq, Default)]
pub struct HObject {
    /// The pool of the object.
    pub pool: PoolId,
    /// The RADOS namespace within the pool; empty for the default one.
    pub namespace: Bytes,
    /// The locator key; empty if the name itself decides the placement.
    pub key: Bytes,
    /// The name of the object, any bytes.
    pub name: Bytes,
    /// The clone that is meant, or [`SnapId::HEAD`].
    pub snap: SnapId,
    /// The placement hash (rjenkins of namespace and key or name).
    pub hash: u32,
    /// Sorts behind all objects; used in cursors only.
    pub max: bool,
}

impl HObject {
    /// The writable object `name`.
    pub fn head(pool: PoolId, namespace: Bytes, key: Bytes, name: Bytes, hash: u32) -> Self {
        // Ceph stores no key that equals the name.
        let key = if key == name { Bytes::new() } else { key };
        HObject { pool, namespace, key, name, snap: SnapId::HEAD, hash, max: false }
    }

    /// A cursor behind everything.
    pub fn max() -> Self {
        HObject { max: true, pool: PoolId(i64::MIN), ..HObject::default() }
    }

    /// A cursor before all objects with the given bit-reversed hash or more.
    pub fn hash_start(pool: PoolId, hash: u32) -> Self {
        HObject { pool, hash, ..HObject::default() }
    }

    /// Another version of the same object: its head, a clone, or its snapshot directory.
    pub fn at(&self, snap: SnapId) -> Self {
        HObject { snap, ..self.clone() }
    }

    /// The head of an object, for itself and for all its clones.
    pub fn head_of(&self) -> Self {
        self.at(SnapId::HEAD)
    }

    /// True for a clone, false for the head.
    pub fn is_clone(&self) -> bool {
        self.snap < SnapId::HEAD && !self.max && !self.name.is_empty()
    }

    /// Start of the object in listing order: before its clones, which are before its head.
    pub fn family_start(&self) -> Self {
        if self.max || self.name.is_empty() { self.clone() } else { self.at(SnapId(0)) }
    }

    /// True if both are versions of one object.
    pub fn is_of_family(&self, other: &HObject) -> bool {
        self.place() == other.place()
            && is_same(&self.name, &other.name)
            && is_same(&self.namespace, &other.namespace)
            && is_same(&self.key, &other.key)
    }

    /// The hash with its bits reversed, by which objects are ordered.
    pub fn reversed_hash(&self) -> u32 {
        self.hash.reverse_bits()
    }

    fn effective_key(&self) -> &Bytes {
        if self.key.is_empty() { &self.name } else { &self.key }
    }

    /// The fields that decide the order in most cases.
    fn place(&self) -> (bool, PoolId, u32) {
        (self.max, self.pool, self.reversed_hash())
    }
}

impl PartialEq for HObject {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
            && self.snap == other.snap
            && self.pool == other.pool
            && self.max == other.max
            && is_same(&self.name, &other.name)
            && is_same(&self.namespace, &other.namespace)
            && is_same(&self.key, &other.key)
    }
}

/// The placement hash already hashes the names; objects seldom differ in anything else.
impl Hash for HObject {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.hash);
        state.write_u64(self.snap.0 ^ self.pool.0 as u64);
        state.write(&self.name);
    }
}

impl Ord for HObject {
    fn cmp(&self, other: &Self) -> Ordering {
        self.place()
            .cmp(&other.place())
            .then_with(|| compare(&self.namespace, &other.namespace))
            .then_with(|| compare(self.effective_key(), other.effective_key()))
            .then_with(|| compare(&self.name, &other.name))
            .then_with(|| self.snap.cmp(&other.snap))
    }
}

impl PartialOrd for HObject {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Namespaces and keys are mostly empty, and comparing empty slices is slow: their pointers are dangling, and
/// vectorised `memcmp` takes a microcode assist for the masked load.
fn is_same(a: &Bytes, b: &Bytes) -> bool {
    a.len() == b.len() && (a.is_empty() || a == b)
}

fn compare(a: &Bytes, b: &Bytes) -> Ordering {
    if a.is_empty() || b.is_empty() { a.len().cmp(&b.len()) } else { a.cmp(b) }
}

impl Encode for HObject {
    fn encode(&self, w: &mut Writer) {
        w.versioned(4, 3, |w| {
            w.blob(&self.key);
            w.blob(&self.name);
            w.value(&self.snap);
            w.u32(self.hash);
            w.bool(self.max);
            w.blob(&self.namespace);
            w.value(&self.pool);
        });
    }
}

impl Decode for HObject {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("object", 4, |r, _| {
            let key = r.value()?;
            let name = r.value()?;
            let snap = r.value()?;
            let hash = r.u32("hash")?;
            let max = r.bool("max")?;
            let namespace = r.value()?;
            let pool = r.value()?;
            Ok(HObject { pool, namespace, key, name, snap, hash, max })
        })
    }
}

impl fmt::Display for HObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.max {
            return f.write_str("MAX");
        }
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        let hash = self.reversed_hash();
        write!(f, "{}:{hash:08x}:{}:", self.pool, text(&self.namespace))?;
        write!(f, "{}:{}:", text(&self.key), text(&self.name))?;
        match self.snap {
            SnapId::HEAD => f.write_str("head"),
            snap => write!(f, "{:x}", snap.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::{decode_all, encode_to_bytes};

    fn object(name: &'static str, hash: u32) -> HObject {
        let name = Bytes::from_static(name.as_bytes());
        HObject::head(PoolId(1), Bytes::new(), Bytes::new(), name, hash)
    }

    #[test]
    fn objects_sort_by_reversed_hash_and_round_trip() {
        let (low, high) = (object("b", 0x0000_0002), object("a", 0x0000_0001));
        assert!(low < high && high < HObject::max());
        assert!(HObject::hash_start(PoolId(1), 2) < low);
        assert_eq!(decode_all::<HObject>("object", &encode_to_bytes(&low)).unwrap(), low);
    }

    #[test]
    fn clones_sort_before_their_head_and_behind_the_start_of_their_family() {
        let head = object("a", 3);
        let clone = head.at(SnapId(1));
        assert!(head.family_start() < clone && clone < head && head < head.at(SnapId::DIR));
        assert!(clone.is_clone() && !head.is_clone() && clone.is_of_family(&head));
        assert!(!head.is_of_family(&object("b", 3)));
        assert_eq!(HObject::max().family_start(), HObject::max());
    }

    #[test]
    fn a_key_equal_to_the_name_is_dropped() {
        let name = Bytes::from_static(b"x");
        let object = HObject::head(PoolId(1), Bytes::new(), name.clone(), name, 0);
        assert!(object.key.is_empty());
    }
}
