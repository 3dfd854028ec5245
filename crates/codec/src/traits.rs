//! `Encode` and `Decode`, and their meaning for primitives and containers.

use crate::error::Result;
use crate::reader::Reader;
use crate::writer::Writer;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// A value with one encoding. See [`EncodeFor`] for values that have several.
pub trait Encode {
    /// Appends the value.
    fn encode(&self, w: &mut Writer);
}

/// A value whose encoding depends on the features of the peer that will read it (`CEPH_FEATURE_*`).
pub trait EncodeFor {
    /// Appends the value as a peer with these features expects it.
    fn encode_for(&self, w: &mut Writer, features: u64);
}

/// A value that can be read from its encoding. Bytes come from peers and disks: a decoder panics on none,
/// and bounds what it allocates by the bytes that are there.
pub trait Decode: Sized {
    /// Reads the value; on an error the reader's place is unspecified.
    fn decode(r: &mut Reader<'_>) -> Result<Self>;
}

impl Reader<'_> {
    /// The next value, in the encoding of its type.
    pub fn value<T: Decode>(&mut self) -> Result<T> {
        T::decode(self)
    }
}

impl Writer {
    /// Appends a value in the encoding of its type.
    pub fn value<T: Encode + ?Sized>(&mut self, value: &T) {
        value.encode(self);
    }
}

/// Decodes a value that must fill `bytes` entirely.
pub fn decode_all<T: Decode>(what: &'static str, bytes: &[u8]) -> Result<T> {
    let mut reader = Reader::new(bytes);
    let value = T::decode(&mut reader)?;
    reader.finish(what)?;
    Ok(value)
}

/// The encoding as bytes of their own.
pub fn encode_to_bytes<T: Encode + ?Sized>(value: &T) -> Bytes {
    encode_with_capacity(value, 0)
}

/// Encodes into a buffer of the given capacity, for hot paths that know the usual length.
pub fn encode_with_capacity<T: Encode + ?Sized>(value: &T, capacity: usize) -> Bytes {
    let mut w = Writer::with_capacity(capacity);
    value.encode(&mut w);
    w.into_bytes()
}

macro_rules! primitive {
    ($($type:ident),*) => {$(
        impl Encode for $type {
            fn encode(&self, w: &mut Writer) {
                w.$type(*self);
            }
        }
        impl Decode for $type {
            fn decode(r: &mut Reader<'_>) -> Result<Self> {
                r.$type(stringify!($type))
            }
        }
    )*};
}
primitive!(u8, u16, u32, u64, i8, i16, i32, i64, bool, f64);

impl<T: Encode + ?Sized> Encode for &T {
    fn encode(&self, w: &mut Writer) {
        (**self).encode(w);
    }
}

impl Encode for str {
    fn encode(&self, w: &mut Writer) {
        w.string(self);
    }
}

impl Encode for String {
    fn encode(&self, w: &mut Writer) {
        w.string(self);
    }
}

impl Decode for String {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.string("string")
    }
}

impl Encode for Bytes {
    fn encode(&self, w: &mut Writer) {
        w.blob(self);
    }
}

impl Decode for Bytes {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.blob("bytes").map(Bytes::copy_from_slice)
    }
}

impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, w: &mut Writer) {
        w.list(self, |w, item| item.encode(w));
    }
}

impl<T: Decode> Decode for Vec<T> {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.list("list", T::decode)
    }
}

impl<T: Encode> Encode for BTreeSet<T> {
    fn encode(&self, w: &mut Writer) {
        w.count(self.len());
        self.iter().for_each(|item| item.encode(w));
    }
}

impl<T: Decode + Ord> Decode for BTreeSet<T> {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(r.list("set", T::decode)?.into_iter().collect())
    }
}

impl<K: Encode, V: Encode> Encode for BTreeMap<K, V> {
    fn encode(&self, w: &mut Writer) {
        w.count(self.len());
        for (key, value) in self {
            key.encode(w);
            value.encode(w);
        }
    }
}

impl<K: Decode + Ord, V: Decode> Decode for BTreeMap<K, V> {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(r.list("map", |r| Ok((K::decode(r)?, V::decode(r)?)))?.into_iter().collect())
    }
}

/// Ceph's `optional`: a flag, then the value if there is one.
impl<T: Encode> Encode for Option<T> {
    fn encode(&self, w: &mut Writer) {
        w.bool(self.is_some());
        self.iter().for_each(|value| value.encode(w));
    }
}

impl<T: Decode> Decode for Option<T> {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        if r.bool("presence")? { T::decode(r).map(Some) } else { Ok(None) }
    }
}

/// Encoded as no bytes.
impl Encode for () {
    fn encode(&self, _: &mut Writer) {}
}

impl Decode for () {
    fn decode(_: &mut Reader<'_>) -> Result<Self> {
        Ok(())
    }
}

macro_rules! tuple {
    ($($part:ident $index:tt),*) => {
        impl<$($part: Encode),*> Encode for ($($part,)*) {
            fn encode(&self, w: &mut Writer) {
                $(self.$index.encode(w);)*
            }
        }
        impl<$($part: Decode),*> Decode for ($($part,)*) {
            fn decode(r: &mut Reader<'_>) -> Result<Self> {
                Ok(($($part::decode(r)?,)*))
            }
        }
    };
}
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn containers_round_trip(map: BTreeMap<String, Vec<(u32, i64)>>) {
            prop_assert_eq!(decode_all::<BTreeMap<_, _>>("map", &encode_to_bytes(&map)).unwrap(), map);
        }

        #[test]
        fn every_truncation_is_an_error(
            map in prop::collection::btree_map(".{0,4}", prop::collection::vec(0u16.., 0..4), 0..4)
        ) {
            let bytes = encode_to_bytes(&map);
            for end in 0..bytes.len() {
                prop_assert!(decode_all::<BTreeMap<String, Vec<u16>>>("map", &bytes[..end]).is_err());
            }
        }
    }
}
