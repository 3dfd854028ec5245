//! Keys of a table's points, optimized for comparison.

use bytes::Bytes;
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;

/// Bytes of a key that are stored in the map itself: kind, id, pool and hash of an object's key,
/// and all of most others. They nearly always decide a comparison.
const HEAD_LEN: usize = 8 * WORDS;
const WORDS: usize = 3;

/// A key with memory of its own and its head in place: a search compares it with many others, whose
/// separate memory is seldom in the processor's cache. Most keys are no longer than the head.
#[derive(Clone, PartialEq, Eq)]
pub struct PointKey {
    /// Zeros after the key's end.
    head: [[u8; 8]; WORDS],
    /// Length of a key that is no longer than `head`.
    length: u8,
    /// All bytes of a longer key, otherwise empty.
    long: Box<[u8]>,
}

impl PointKey {
    /// A key that is the concatenation of two parts.
    pub fn joined(first: &[u8], second: &[u8]) -> Self {
        let length = first.len() + second.len();
        if length > HEAD_LEN {
            return PointKey::from([first, second].concat());
        }
        let mut head = [[0; 8]; WORDS];
        let bytes = head.as_flattened_mut();
        bytes[..first.len()].copy_from_slice(first);
        bytes[first.len()..length].copy_from_slice(second);
        PointKey { head, length: length as u8, long: Box::default() }
    }
}

impl From<&[u8]> for PointKey {
    fn from(key: &[u8]) -> Self {
        PointKey::joined(key, &[])
    }
}

/// Takes a long key without copying.
impl From<Vec<u8>> for PointKey {
    fn from(key: Vec<u8>) -> Self {
        if key.len() <= HEAD_LEN {
            return PointKey::joined(&key, &[]);
        }
        let mut head = [[0; 8]; WORDS];
        head.as_flattened_mut().copy_from_slice(&key[..HEAD_LEN]);
        PointKey { head, length: 0, long: key.into_boxed_slice() }
    }
}

impl From<Bytes> for PointKey {
    fn from(key: Bytes) -> Self {
        PointKey::from(&key[..])
    }
}

impl Ord for PointKey {
    fn cmp(&self, other: &Self) -> Ordering {
        for number in 0..WORDS {
            let (own, others) = (self.head[number], other.head[number]);
            if own != others {
                return u64::from_be_bytes(own).cmp(&u64::from_be_bytes(others));
            }
        }
        self[..].cmp(other)
    }
}

impl PartialOrd for PointKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Ordered like its bytes.
impl Borrow<[u8]> for PointKey {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl Deref for PointKey {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self.long.is_empty() {
            true => &self.head.as_flattened()[..self.length.into()],
            false => &self.long,
        }
    }
}

impl fmt::Debug for PointKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
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
