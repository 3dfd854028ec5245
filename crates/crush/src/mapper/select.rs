//! One choice within one bucket, by its algorithm (`crush_bucket_choose`).

use super::search::Search;
use crate::ITEM_NONE;
use crate::bucket::{Bucket, Weights};
use crate::hash::{hash3, hash3_each, hash4};
use crate::logarithm::crush_ln;

/// 2^44 * log2 of the largest draw plus one: no logarithm of a draw is larger.
const LOG_ONE: u64 = 1 << 48;

/// The item of `bucket`, which is not empty, for retry number `r`. `position` in the result
/// selects the weight set.
pub(super) fn select(search: &mut Search<'_>, bucket: &Bucket, r: u32, position: usize) -> i32 {
    assert!(!bucket.items.is_empty(), "an empty bucket has nothing to choose");
    let x = search.x;
    match &bucket.weights {
        Weights::Straw2 { items } => select_straw2(search, bucket, items, r, position),
        Weights::Uniform { .. } => search.permutations.choose(bucket, x, r),
        Weights::List { items, sums } => select_list(bucket, items, sums, x, r),
        Weights::Tree { nodes } => select_tree(bucket, nodes, x, r),
        Weights::Straw { straws, .. } => select_straw(bucket, straws, x, r),
    }
}

/// Each item draws from an exponential distribution with its weight as rate; the earliest
/// event wins, so a change of one weight moves data only from or to that item.
fn select_straw2(
    search: &Search<'_>,
    bucket: &Bucket,
    own: &[u32],
    r: u32,
    position: usize,
) -> i32 {
    let arg = search.choose_args.and_then(|args| args.arg(bucket.id));
    let weights = arg.and_then(|arg| arg.weights(position)).unwrap_or(own);
    let ids = match arg {
        Some(arg) if !arg.ids.is_empty() => &arg.ids,
        _ => &bucket.items,
    };
    // Ceph takes weights for signed numbers; `WEIGHT_MAX` keeps commands from making such.
    if weights.iter().any(|weight| *weight > i32::MAX as u32) {
        return bucket.items[straw2_by_definition(search.x, ids, weights, r)];
    }
    bucket.items[straw2(search.x, ids, weights, r)]
}

/// Index of the item that wins the draw.
fn straw2(x: u32, ids: &[i32], weights: &[u32], r: u32) -> usize {
    let mut best = Draw { index: 0, delay: u64::MAX };
    for (chunk, some) in ids.chunks(LANES).enumerate() {
        let mut lanes = [0; LANES];
        lanes.iter_mut().zip(some).for_each(|(lane, id)| *lane = *id as u32);
        let hashes = hash3_each(x, lanes, r);
        let first = chunk * LANES;
        let weights = weights.get(first..).unwrap_or_default();
        for (index, (hash, weight)) in (first..).zip(hashes[..some.len()].iter().zip(weights)) {
            best.compare(index, *hash as u16, *weight);
        }
    }
    best.index
}

/// The draw by its definition, also for negative weights.
fn straw2_by_definition(x: u32, ids: &[i32], weights: &[u32], r: u32) -> usize {
    let mut best = (0, i64::MIN);
    for (index, (&id, &weight)) in
        ids.iter().zip(weights).enumerate().filter(|(_, (_, w))| **w != 0)
    {
        let logarithm = crush_ln(hash3(x, id as u32, r) as u16) as i64 - LOG_ONE as i64;
        let draw = logarithm / i64::from(weight as i32);
        if draw > best.1 {
            best = (index, draw);
        }
    }
    best.0
}

/// Items whose hashes are computed together.
const LANES: usize = 8;

/// The earliest event so far.
struct Draw {
    index: usize,
    delay: u64,
}

impl Draw {
    /// An event's delay is the integer part of the negative logarithm divided by the weight; of equal ones
    /// the first wins. Only candidates that may win are divided.
    #[inline]
    fn compare(&mut self, index: usize, uniform: u16, weight: u32) {
        if weight == 0 {
            return;
        }
        let logarithm = LOG_ONE - crush_ln(uniform);
        if logarithm < self.delay.saturating_mul(u64::from(weight)) {
            *self = Draw { index, delay: logarithm / u64::from(weight) };
        }
    }
}

/// Each item, the newest first, takes its share of the weight that is left.
fn select_list(bucket: &Bucket, weights: &[u32], sums: &[u32], x: u32, r: u32) -> i32 {
    let shares = bucket.items.iter().zip(weights.iter().zip(sums)).rev();
    for (&item, (&weight, &sum)) in shares {
        let draw = u64::from(hash4(x, item as u32, r, bucket.id as u32) & 0xffff);
        if (draw * u64::from(sum)) >> 16 < u64::from(weight) {
            return item;
        }
    }
    bucket.items[0]
}

/// Descends a binary tree in order, to either side by weight. A subtree without weight may lead
/// to a leaf that holds nothing, which counts as no item.
fn select_tree(bucket: &Bucket, nodes: &[u32], x: u32, r: u32) -> i32 {
    let mut node = nodes.len() / 2;
    while node & 1 == 0 {
        let half = 1 << (node.trailing_zeros() - 1);
        let draw = u64::from(hash4(x, node as u32, r, bucket.id as u32));
        let point = (draw * u64::from(nodes[node])) >> 32;
        let left = node - half;
        node = if point < u64::from(nodes[left]) { left } else { node + half };
    }
    bucket.items.get(node >> 1).copied().unwrap_or(ITEM_NONE)
}

/// The longest straw wins, each drawn at random and scaled by a length made beforehand.
fn select_straw(bucket: &Bucket, straws: &[u32], x: u32, r: u32) -> i32 {
    let mut best = (bucket.items[0], 0);
    for (&item, &straw) in bucket.items.iter().zip(straws) {
        let draw = u64::from(hash3(x, item as u32, r) & 0xffff) * u64::from(straw);
        if draw > best.1 {
            best = (item, draw);
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]
        #[test]
        fn who_wins_is_who_wins_by_the_definition(
            x in any::<u32>(),
            r in 0u32..60,
            bits in 1u32..32,
            weights in prop::collection::vec(any::<u32>(), 1..60),
        ) {
            let weights: Vec<u32> = weights.iter().map(|weight| weight >> (32 - bits) & !1).collect();
            let ids: Vec<i32> = (0..weights.len() as i32).map(|id| id - 20).collect();
            prop_assert_eq!(straw2(x, &ids, &weights, r), straw2_by_definition(x, &ids, &weights, r));
        }
    }
}
