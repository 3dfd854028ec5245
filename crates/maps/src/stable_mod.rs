//! Hash -> one of a number of placement groups, so that few values move when the number grows.

/// `ceph_stable_mod`: like `x % buckets`, but when `buckets` grows, values only move from the
/// bucket that is split.
pub fn stable_mod(x: u32, buckets: u32) -> u32 {
    let mask = match buckets {
        0 | 1 => 0,
        _ => u32::MAX >> (buckets - 1).leading_zeros(),
    };
    if x & mask < buckets { x & mask } else { x & mask >> 1 }
}

/// Number of lowest bits of `x` that decide that [`stable_mod`] selects this bucket: one less for buckets
/// that are not split yet on the way to a power of two.
pub fn stable_bits(bucket: u32, buckets: u32) -> u8 {
    if buckets <= 1 {
        return 0;
    }
    let bits = u32::BITS - (buckets - 1).leading_zeros();
    let half = 1 << (bits - 1);
    let is_split = bucket >= half || bucket + half < buckets;
    (if is_split { bits } else { bits - 1 }) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn stable_mod_splits_one_bucket_at_a_time(x: u32, buckets in 1u32..100_000) {
            let before = stable_mod(x, buckets);
            let after = stable_mod(x, buckets + 1);
            prop_assert!(before < buckets);
            prop_assert!(after == before || after == buckets);
        }
    }
}
