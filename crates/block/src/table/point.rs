//! Keys of a table's points, made to be compared.

use bytes::Bytes;
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::ops::Deref;

/// How many words of a key lie in the map itself: kind, id, pool and hash of an object's key, and kind,
/// id and number of others. Nearly always they decide.
const WORDS: usize = 3;

/// A key with its beginning beside it. A search compares it with many others, and what each of them
/// points to is seldom in the processor's cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointKey {
    /// In the order of the bytes; zeros behind their end.
    head: [u64; WORDS],
    bytes: Bytes,
}

fn head_of(key: &[u8]) -> [u64; WORDS] {
    let mut padded = [0; WORDS * 8];
    let length = key.len().min(padded.len());
    padded[..length].copy_from_slice(&key[..length]);
    let word = |at: usize| u64::from_be_bytes(padded[at..at + 8].try_into().expect("eight bytes"));
    std::array::from_fn(|number| word(number * 8))
}

impl<T: Into<Bytes>> From<T> for PointKey {
    fn from(key: T) -> Self {
        let bytes = key.into();
        PointKey { head: head_of(&bytes), bytes }
    }
}

impl Ord for PointKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.head.cmp(&other.head).then_with(|| self.bytes.cmp(&other.bytes))
    }
}

impl PartialOrd for PointKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The order is that of the bytes.
impl Borrow<[u8]> for PointKey {
    fn borrow(&self) -> &[u8] {
        &self.bytes
    }
}

impl Deref for PointKey {
    type Target = Bytes;

    fn deref(&self) -> &Bytes {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn points_sort_as_their_bytes_do(
            (same, a, b) in (0usize..30, 0usize..6, 0usize..6), bytes in prop::collection::vec(0u8..2, 12),
        ) {
            let key = |tail: &[u8]| [vec![1; same].as_slice(), tail].concat();
            let (a, b) = (key(&bytes[..a]), key(&bytes[6..6 + b]));
            let order = PointKey::from(a.clone()).cmp(&PointKey::from(b.clone()));
            prop_assert_eq!(order, a.cmp(&b));
        }
    }
}
